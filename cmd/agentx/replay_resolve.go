package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/internal/suggest"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/resume"
)

// resolution finds the value of every setting and flag of a replay. Preset, scenario, configuration file, environment and
// command line give values, a later one in this list before an earlier one. Everything that is wrong is collected.
type resolution struct {
	flags  *pflag.FlagSet
	given  []given
	rules  []string           // of the reconstruction, from --set
	ruled  origin             // of the last of the rules
	preset string             // by the name that was given
	values map[string]settled // by setting
	*problems
}

// settled is the value of a setting, and its origin.
type settled struct {
	value any
	from  origin
	shown string // as the user wrote it; "": the user did not
}

// defaults returns the resolution of a replay that nothing sets.
func defaults(flags *pflag.FlagSet, p *problems) *resolution {
	r := &resolution{flags: flags, problems: p, values: map[string]settled{}}
	r.settle()
	return r
}

// resolve finds the value of every setting and flag: from the environment, the configuration file, the command line and the
// scenario. Set are the values of --set.
func resolve(flags *pflag.FlagSet, set []string, p *problems, s *scenarioFlags) *resolution {
	r := &resolution{flags: flags, problems: p, values: map[string]settled{}}
	r.readEnvironment() // first: it may name the configuration file
	r.readConfig()
	r.readFlags(set)
	r.readScenario(s) // last: it sets only flags that nothing else sets
	r.settle()
	r.check()
	return r
}

// readEnvironment gives settings and flags what the environment says. A flag that the command line sets stays as it is.
func (r *resolution) readEnvironment() {
	r.flags.VisitAll(func(f *pflag.Flag) {
		name := twin(f.Name)
		text, ok := os.LookupEnv(name)
		shown, from := name+"="+text, origin{fromEnvironment, name}
		alias, isAlias := f.Value.(aliasValue)
		switch {
		case isAlias && alias.setting.name == "SessionHeaders":
			r.readSessionVariables(alias.setting)
		case !ok || text == "" && (isAlias || f.Name == "set"): // which is no value
		case isAlias:
			r.give(given{alias.setting, text, shown, from})
		case f.Name == "set":
			r.giveSet(text, shown, from)
		case !f.Changed:
			r.setFlag(f, []string{text}, shown, from)
		}
	})
}

// readFlags gives settings what the command line says. Set are the values of --set.
func (r *resolution) readFlags(set []string) {
	r.flags.Visit(func(f *pflag.Flag) {
		a, ok := f.Value.(aliasValue)
		if ok && !(a.setting.auto && *a.text == "") { // which is no value
			r.give(given{a.setting, *a.text, flagText(f.Name, *a.text), origin{fromFlag, "--" + f.Name}})
		}
	})
	for _, text := range set {
		r.giveSet(text, flagText("set", text), origin{fromFlag, "--set"})
	}
}

// given is a text that something gives a setting, or a rule of the reconstruction.
type given struct {
	setting *setting // nil: a rule, NAME=VALUE
	text    string
	shown   string // as the user wrote it, such as --speed 2
	from    origin
}

// give adds a value of a setting, if it is one.
func (r *resolution) give(g given) {
	if _, err := g.setting.kind.read(g.text); err != nil {
		r.add("%s: %w", g.shown, err)
		if hint, last := g.setting.hint, len(r.errs)-1; hint != "" {
			r.errs[last] = hintError{r.errs[last], hint}
		}
		return
	}
	for _, o := range r.given {
		same := o.setting == g.setting && o.from.kind == g.from.kind && o.from.at != g.from.at
		if same && !sameValue(g.setting, o.text, g.text) {
			r.add("%s and %s: both set %s: want one of the two", o.shown, g.shown, g.setting.name)
		}
	}
	r.given = append(r.given, g)
}

func sameValue(s *setting, a, b string) bool {
	x, _ := s.kind.read(a)
	y, _ := s.kind.read(b)
	return x == y
}

// giveSet adds a value of --set: of a setting, or a rule of the reconstruction.
func (r *resolution) giveSet(text, shown string, from origin) {
	name, value, ok := strings.Cut(text, "=")
	setting := settingNamed(name)
	switch {
	case !ok:
		r.add("%s: want NAME=VALUE", shown)
	case setting != nil:
		r.give(given{setting, value, shown, from})
	case name == "backend" || slices.Contains(weka.RuleNames(), name):
		r.given = append(r.given, given{text: text, from: from})
	default:
		names := append(weka.RuleNames(), "backend")
		for _, s := range settings {
			names = append(names, s.name)
		}
		r.add("%s: no switch, option or rule of the reconstruction has this name: %s", shown, nearest(name, names))
	}
}

// nearest names the three names that are most like a word.
func nearest(word string, names []string) string {
	near := suggest.Nearest(word, names)
	return "the nearest are " + strings.Join(near[:min(3, len(near))], ", ")
}

// setFlag sets a flag that nothing sets yet. If something does, it only finds out whether the values are good.
func (r *resolution) setFlag(f *pflag.Flag, values []string, shown string, from origin) {
	before, changed := f.Value.String(), f.Changed
	r.shown = shown
	defer func() { r.shown = "" }()
	if _, list := f.Value.(pflag.SliceValue); list && changed {
		return // lists take any text
	}
	for _, text := range values {
		if err := r.flags.Set(f.Name, text); err != nil {
			r.add("%s: %w", shown, explainValue(err))
		}
	}
	if !changed {
		_ = r.flags.SetAnnotation(f.Name, originNote, []string{from.kind, from.at}) // the flag exists
		return
	}
	r.shown = ""
	_ = f.Value.Set(before) // a value of the flag
}

// settle chooses the value of every setting.
func (r *resolution) settle() {
	r.preset = preset.Default
	from := origin{fromPreset, fromPreset + " " + r.preset}
	if f := r.flags.Lookup("preset"); f != nil {
		r.preset = f.Value.String()
		from.at = fromPreset + " " + r.preset
	}
	canonical, _ := preset.Canonical(r.preset)
	switches := presetValues(canonical)
	for k := range settings {
		s := &settings[k]
		v := settled{value: s.value, from: origin{fromDefault, fromDefault}}
		if own, ok := s.under[canonical]; ok {
			v = settled{value: own, from: from}
		}
		if s.apply == nil {
			v = settled{value: switches[s.name], from: from}
		}
		r.values[s.name] = v
	}
	rank := func(g given) int { return slices.Index(precedence, g.from.kind) }
	slices.SortStableFunc(r.given, func(a, b given) int { return cmp.Compare(rank(a), rank(b)) })
	for _, g := range r.given {
		if g.setting == nil {
			r.rules, r.ruled = append(r.rules, g.text), g.from
			continue
		}
		v, _ := g.setting.kind.read(g.text) // which give has done
		r.values[g.setting.name] = settled{v, g.from, g.shown}
	}
	if lead := r.values["PrimerLeadMax"]; lead.from.kind == fromDefault && r.values["SystemIdleCap"].value != nil {
		r.values["PrimerLeadMax"] = settled{nil, lead.from, ""}
	}
}

// checkStart adds that the part of a trace in which lanes begin ends before it begins.
func (r *resolution) checkStart() {
	least, most := r.values["StartMinRatio"], r.values["StartMaxRatio"]
	if least.value.(float64) > most.value.(float64) {
		r.add("%s: more than %s: want at most that", r.show("StartMinRatio"), r.show("StartMaxRatio"))
	}
}

// check adds what is wrong with values that are good one by one.
func (r *resolution) check() {
	r.checkStart()
	w, _ := parseWarmup(r.values["Warmup"].value.(string))
	if w.Requests > 0 && r.values["WarmupStage"].value == string(preset.StageDuration) {
		r.add("%s: under %s the pressure stage has a duration: want duration=D", r.show("Warmup"), r.show("WarmupStage"))
	}
	recorded := presetValues(r.preset)["NegativeDuration"]
	if r.values["NegativeDuration"].value != recorded {
		r.add("%s: fixed when the cache is built, so a replay cannot change it: want %v, or nothing (--profile of agentx convert chooses it)", r.show("NegativeDuration"), recorded)
	}
	if f := r.flags.Lookup("no-stream-options"); f != nil && r.values["PerChunkUsage"].value == true && f.Value.String() == "true" {
		r.add("%s and %s: stream_options asks for usage in every message: want one of the two", r.show("PerChunkUsage"), named(f))
	}
	if canonical, _ := preset.Canonical(r.preset); canonical != preset.Default && r.values["RetryAfter"].value != "off" {
		r.add("%s: the tool that preset %s imitates does not look at Retry-After: leave it out, or choose --preset default", r.show("RetryAfter"), r.preset)
	}
	r.checkPayload()
}

// checkPayload adds what a payload does not have.
func (r *resolution) checkPayload() {
	f, length := r.flags.Lookup("payload"), r.flags.Lookup("max-tokens-field")
	if f == nil {
		return
	}
	payload := f.Value.String()
	if payload == "anthropic" && length.Value.String() != "" && length.Value.String() != "max_tokens" {
		r.add("%s %s: %s anthropic wants max_tokens", named(length), length.Value, named(f))
	}
	if (payload == "ids" || payload == "text") && r.values["ContentParts"].value == true {
		r.add("%s: %s %s sends no messages: want chat or anthropic", r.show("ContentParts"), named(f), payload)
	}
}

// show names a setting with its value and who gave it.
func (r *resolution) show(name string) string {
	v := r.values[name]
	if v.shown != "" {
		return v.shown
	}
	return fmt.Sprintf("%s=%s (%s)", name, textOf(v.value), v.from.at)
}

// apply sets the options of a run.
func (r *resolution) apply(o *replay.Options) {
	o.Preset = r.preset
	o.Start.Ratios = new(resume.Ratios)
	switches := map[string]any{}
	for k := range settings {
		s := &settings[k]
		v := r.values[s.name]
		switch {
		case s.apply == nil:
			switches[s.name] = v.value
		case !s.auto || v.from.kind != fromDefault:
			s.apply(o, v.value)
		}
	}
	o.Switches = switchesOf(switches)
}
