// Package profile translates command lines of `aiperf profile`, as AIPerf 0.13.0 has them, into settings of agentx replay.
package profile

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/agentx/agentx/internal/lazyregexp"
	"github.com/agentx/agentx/internal/scenario"
	"github.com/agentx/agentx/internal/suggest"
	"github.com/agentx/agentx/internal/terminal"
	"github.com/agentx/agentx/replay/preset"
)

// Source is a command line, and what its translation depends on.
type Source struct {
	Args    []string          // of `profile`
	Environ map[string]string // variables
	Random  io.Reader         // of a seed
	Harness bool              // it is a command line of the AgentX harness

	// Check returns what agentx replay refuses of a CACHE or INPUT and its settings, before anything runs.
	Check func(data string, settings []Setting) []Problem
}

// Problem is an error of a command line, with what to try, or "".
type Problem struct {
	Err error
	Try string
}

func (p Problem) Error() string { return p.Err.Error() }

func (p Problem) Unwrap() error { return p.Err }

// Translation is a replay.
type Translation struct {
	DryRun, Help bool      // as the command line asks for
	Problems     []Problem // everything that is wrong: nothing may run
	Notes        []string  // for the log: what is not passed on, and why nothing is lost

	Data     string // CACHE or INPUT
	Settings []Setting

	typed []string // the arguments as they were given
}

// translation is the state of translating a command line.
type translation struct {
	Translation
	Source
	as     string              // the preset; "": none is chosen yet
	locked []scenario.Conflict // what findLocked took out

	given                  map[string]given // by the first name of the flag
	extra                  []pair           // of --extra-inputs
	sessionHeaders         []string         // further headers with the id of a session
	resets, starts, silent bool             // the settings have reset-cache, start sampled, quiet
	kind                   datasetType      // of the input; the zero value is a recording of agents
	lengths                bool             // the rows are Mooncake's, and have lengths
	byRows                 bool             // AIPerf chooses a fixed schedule, because the first row has a timestamp
	readRows               *rowTimes        // of the input; nil: not read yet
	from                   string           // the flag that is being translated, as it was written; "": none
}

// Setting is a setting of agentx replay.
type Setting struct {
	Name  string // of its flag, without --
	Value any    // true, false, or a text

	variable string // that stands for a secret in the printed command; "": none
	before   string // what precedes the secret in the text
	from     string // the flag of AIPerf that it stands for; "": none
}

// Translate translates a command line of `aiperf profile`.
func Translate(source Source) *Translation {
	t := &translation{Source: source, given: map[string]given{}}
	t.typed = t.cutOwn(source.Args)
	t.parse(t.typed)
	if t.Help {
		return &t.Translation
	}
	if t.Harness {
		t.takeScenario()
		if !t.readConfig() {
			return &t.Translation
		}
		t.dropOverride()
		t.findLocked()
	}
	t.checkConflicts()
	t.chooseSource()
	t.choosePreset()
	for k := range allFlags {
		f := &allFlags[k]
		if g, ok := t.given[f.names[0]]; ok {
			t.translate(f, g)
		}
	}
	t.readEnvironment()
	t.addDefaults()
	t.check()
	t.oneTry()
	return &t.Translation
}

// cutOwn reads the flags that only agentx has, and returns the other arguments.
func (t *translation) cutOwn(args []string) (rest []string) {
	for k := 0; k < len(args); k++ {
		name, value, joined := strings.Cut(args[k], "=")
		switch {
		case args[k] == "--dry-run":
			t.DryRun = true
		case args[k] == "--help" || args[k] == "-h":
			t.Help = true
		case name == "--as" && !t.Harness:
			if !joined && k+1 < len(args) {
				k++
				value = args[k]
			}
			t.as, _ = preset.Canonical(value)
			if words := []string{preset.AIPerf, preset.AgentX}; !slices.Contains(words, t.as) {
				t.add("--as %s: %w", value, suggest.Wrong(value, suggest.Either(words), words))
			}
		default:
			rest = append(rest, args[k])
		}
	}
	return rest
}

// translate adds what a flag means.
func (t *translation) translate(f *flag, g given) {
	shown := g.shown()
	if f.takes == noValue {
		shown = g.name
	}
	quiet := f.unless != nil && f.unless(t, g)
	switch {
	case quiet:
	case f.class == classRefused:
		t.add("not supported: %s: %s", shown, f.about)
	case f.class == classMeaningless:
		t.note("%s: %s", shown, f.about)
	default:
		t.from = shown
		f.apply(t, g)
		t.from = ""
	}
}

// checkConflicts refuses flags that exclude each other.
func (t *translation) checkConflicts() {
	for k := range allFlags {
		f := &allFlags[k]
		g, ok := t.given[f.names[0]]
		if !ok || f.takes == noValue && !g.on() {
			continue
		}
		for _, name := range f.against {
			if other, ok := t.given[name]; ok && other.value() != "false" {
				t.add("%s and %s contradict each other: leave one of them out", g.name, other.name)
			}
		}
	}
}

// choosePreset chooses the tool to be like: AIPerf 0.13.0, or with --as, or a flag that only the line of InferenceX has, that line.
func (t *translation) choosePreset() {
	asked := t.as
	if t.Harness {
		t.as = preset.AgentX
	}
	for k := range allFlags {
		f := &allFlags[k]
		g, ok := t.given[f.names[0]]
		switch {
		case !ok || !f.pinned || t.Harness:
		case asked == preset.AIPerf:
			t.add("%s and --as %s: that release does not have this flag", g.name, asked)
		case t.as == "":
			t.as = preset.AgentX
			t.note("%s: only agentx-harness has it: --preset %s", g.name, preset.AgentX)
		}
	}
	t.as = cmp.Or(t.as, preset.AIPerf)
	reading := "aiperf"
	if strings.HasPrefix(t.Data, "synth:") { // there is nothing of AIPerf's to read in its way
		reading = "default"
	}
	t.set("profile", reading)
	t.set("preset", t.as)
}

// add adds an error, once.
func (t *translation) add(format string, args ...any) {
	t.addProblem(Problem{fmt.Errorf(format, args...), ""})
}

// addProblem adds an error with what to try, once.
func (t *translation) addProblem(p Problem) {
	if !slices.ContainsFunc(t.Problems, func(other Problem) bool { return other.Error() == p.Error() }) {
		t.Problems = append(t.Problems, p)
	}
}

// has reports whether a flag was given, a switch as true.
func (t *translation) has(name string) bool {
	g, ok := t.given[name]
	return ok && g.value() != "false"
}

// value returns the value of a flag, "" where it was not given.
func (t *translation) value(name string) string {
	if g, ok := t.given[name]; ok {
		return g.value()
	}
	return ""
}

// set gives a setting a value: true, false, or a text.
func (t *translation) set(name string, value any) {
	t.Settings = append(t.Settings, Setting{Name: name, Value: value, from: t.from})
}

// secret gives a setting a text whose end is not printed: a shell variable stands for it.
func (t *translation) secret(name, before, secret, variable string) {
	t.Settings = append(t.Settings, Setting{name, before + secret, variable, before, t.from})
}

// note adds a line to the log.
func (t *translation) note(format string, args ...any) {
	t.Notes = append(t.Notes, fmt.Sprintf(format, args...))
}

// Line returns the command as one line for a shell. Variables stand for secrets.
func (t *Translation) Line() string {
	words := []string{"agentx", "replay", terminal.Word(t.Data)}
	for _, s := range t.Settings {
		switch {
		case s.Value == true:
			words = append(words, "--"+s.Name)
		case s.Value == false:
			words = append(words, "--"+s.Name+"=false")
		case s.variable == "":
			words = append(words, "--"+s.Name, terminal.Word(s.Value.(string)))
		case s.before == "":
			words = append(words, "--"+s.Name, `"$`+s.variable+`"`)
		default:
			words = append(words, "--"+s.Name, terminal.Word(s.before)+`"$`+s.variable+`"`)
		}
	}
	return strings.Join(words, " ")
}

// Variables lists the shell variables that the line has.
func (t *Translation) Variables() (list []string) {
	for _, s := range t.Settings {
		if s.variable != "" && !slices.Contains(list, s.variable) {
			list = append(list, s.variable)
		}
	}
	return list
}

// redacted replaces a secret in the arguments that the results have.
const redacted = "<redacted>"

// Launch returns the arguments of the command as they were given, profile first, without values that may be secrets.
func (t *Translation) Launch() []string {
	words, flag := []string{"profile"}, ""
	for _, word := range t.typed {
		if !isFlag(word) {
			words = append(words, withoutSecret(flag, word))
			continue
		}
		name, value, joined := cut(word)
		if f := flagNamed(name); f != nil {
			flag = f.names[0]
		}
		if joined {
			word = strings.TrimSuffix(word, value) + withoutSecret(flag, value)
		}
		words = append(words, word)
	}
	return words
}

// withoutSecret returns a value of a flag with its secrets redacted: a key, the values of headers, a URL with a user or a query.
func withoutSecret(flag, value string) string {
	switch flag {
	case "--api-key":
		return redacted
	case "--header":
		if strings.HasPrefix(value, "{") {
			members, _ := membersOf(value) // else the command is refused
			return "{" + joinParts(members, func(p pair) string { return fmt.Sprintf(`%s: "%s"`, quoted(p.name), redacted) }) + "}"
		}
		return joinParts(strings.Split(value, ","), func(item string) string {
			name, secret, _ := strings.Cut(item, ":")
			return name + ":" + secret[:len(secret)-len(strings.TrimLeft(secret, " "))] + redacted
		})
	case "--url", "--server-metrics":
		return joinParts(strings.Split(value, ","), func(text string) string {
			if u, err := url.Parse(withScheme(text)); err == nil && u.User == nil && u.RawQuery == "" {
				return text
			}
			return redacted
		})
	}
	return value
}

// joinParts joins texts with commas.
func joinParts[T any](list []T, text func(T) string) string {
	var texts []string
	for _, one := range list {
		texts = append(texts, text(one))
	}
	return strings.Join(texts, ",")
}

// check adds the errors of agentx replay about the settings, so that no command is printed that does not run. Errors name the flags of AIPerf. If
// the command line has errors already, it adds only errors that name such flags.
func (t *translation) check() {
	complete := len(t.Problems) == 0
	t.addLocked()
	for _, p := range t.Check(t.Data, t.Settings) {
		text, translated := t.inOriginalNames(p.Error())
		what, _, _ := strings.Cut(text, ": ")
		told := slices.ContainsFunc(t.Problems, func(other Problem) bool {
			return strings.HasPrefix(other.Error(), "not supported: "+what) || strings.HasPrefix(other.Error(), what+": want")
		})
		if !told && (complete || translated) {
			t.addProblem(Problem{errors.New(text), p.Try})
		}
	}
}

// oneTry removes a hint from all problems but the last that has it.
func (t *translation) oneTry() {
	seen := map[string]bool{}
	for k := len(t.Problems) - 1; k >= 0; k-- {
		p := &t.Problems[k]
		if seen[p.Try] {
			p.Try = ""
		}
		seen[p.Try] = true
	}
}

var replayFlag = lazyregexp.New(`--[a-z][a-z-]*`)

// inOriginalNames replaces settings in an error of agentx replay by the flags of AIPerf that they come from, and reports whether there were any.
func (t *translation) inOriginalNames(text string) (_ string, translated bool) {
	flags := map[string]string{}
	var values [][2]string
	for _, s := range t.Settings {
		if s.from == "" {
			continue
		}
		flags["--"+s.Name], _, _ = strings.Cut(s.from, " ")
		if text, ok := s.Value.(string); ok && s.variable == "" {
			values = append(values, [2]string{"--" + s.Name + " " + text, s.from})
		}
	}
	slices.SortStableFunc(values, func(a, b [2]string) int { return len(b[0]) - len(a[0]) }) // --trees 10 before --trees 1
	var pairs []string
	for _, p := range values {
		translated = translated || strings.Contains(text, p[0])
		pairs = append(pairs, p[0], p[1])
	}
	text = replayFlag().ReplaceAllStringFunc(strings.NewReplacer(pairs...).Replace(text), func(name string) string {
		if original := flags[name]; original != "" && name != "--set" {
			translated, name = true, original
		}
		return name
	})
	return text, translated
}
