package main

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/agentx/agentx/replay/preset"
)

// translation is a command line of AIPerf as one of agentx replay.
type translation struct {
	environ map[string]string // variables
	random  io.Reader         // of a seed
	as      string            // the preset, with --as; "": none was chosen

	given                  map[string]aiperfGiven // by the first name of the flag
	extra                  []aiperfPair           // of --extra-inputs
	sessionHeaders         []string               // further headers with the id of a session
	resets, starts, silent bool                   // --reset-cache, --start sampled, --quiet are among the arguments
	mooncake               bool                   // the rows are Mooncake's
	byRows                 bool                   // AIPerf chooses a fixed schedule, because the first row has a timestamp
	readRows               *aiperfRows            // of the input; nil: not read yet
	data                   string                 // CACHE or INPUT
	args                   []aiperfArgument       // of agentx replay
	from                   string                 // the flag that is being translated, as it was written; "": none
	notes                  []string               // for the log: what is not passed on, and why nothing is lost
	problems
}

// aiperfArgument is an argument of agentx replay.
type aiperfArgument struct {
	text     string
	variable string // that stands for a secret in the printed command; "": none
	before   string // what precedes the secret in the argument
	from     string // the flag of AIPerf that it stands for; "": none
}

// translateAIPerf translates the arguments of `aiperf profile`. Everything that is wrong is in the problems.
func translateAIPerf(args []string, t *translation) {
	t.given = map[string]aiperfGiven{}
	t.parse(args)
	t.checkConflicts()
	t.chooseSource()
	for _, name := range t.choosePreset() {
		t.arg(name)
	}
	for k := range aiperfFlags {
		f := &aiperfFlags[k]
		if g, ok := t.given[f.names[0]]; ok {
			t.translate(f, g)
		}
	}
	t.readEnvironment()
	t.addDefaults()
}

// translate adds what a flag means.
func (t *translation) translate(f *aiperfFlag, g aiperfGiven) {
	shown := g.shown()
	if f.takes == noValue {
		shown = g.name
	}
	quiet := f.unless != nil && f.unless(t, g)
	switch {
	case quiet:
	case f.class == aiperfRefused:
		t.add("not supported: %s: %s", shown, f.about)
	case f.class == aiperfMeaningless:
		t.note("%s: %s", shown, f.about)
	default:
		t.from = shown
		f.apply(t, g)
		t.from = ""
	}
}

// checkConflicts refuses flags that exclude each other.
func (t *translation) checkConflicts() {
	for k := range aiperfFlags {
		f := &aiperfFlags[k]
		g, ok := t.given[f.names[0]]
		if !ok || f.takes == noValue && !g.on() {
			continue
		}
		for _, name := range f.against {
			if other, ok := t.given[name]; ok && other.value() != "false" {
				t.add("%s and %s: want one of the two", g.name, other.name)
			}
		}
	}
}

// choosePreset returns the arguments that choose the tool to be like: AIPerf 0.13.0, or with --as, or a flag that only the line
// of InferenceX has, that line.
func (t *translation) choosePreset() []string {
	chosen := t.as
	for k := range aiperfFlags {
		f := &aiperfFlags[k]
		g, ok := t.given[f.names[0]]
		switch {
		case !ok || !f.pinned:
		case t.as == preset.AIPerf:
			t.add("%s and --as %s: that release does not have this flag", g.name, t.as)
		case chosen == "":
			chosen = preset.AgentX
			t.note("%s: only the line of InferenceX has it: --preset %s", g.name, preset.AgentX)
		}
	}
	if chosen == "" {
		chosen = preset.AIPerf
	}
	return []string{"--profile", "aiperf", "--preset", chosen}
}

// add adds an error, once.
func (t *translation) add(format string, args ...any) {
	err := usageError{fmt.Errorf(format, args...)}
	if !slices.ContainsFunc(t.errs, func(e error) bool { return e.Error() == err.Error() }) {
		t.errs = append(t.errs, err)
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

// arg adds arguments.
func (t *translation) arg(texts ...string) {
	for _, text := range texts {
		t.args = append(t.args, aiperfArgument{text: text, from: t.from})
	}
}

// set adds the value of a switch or an option.
func (t *translation) set(name, value string) { t.arg("--set", name+"="+value) }

// secret adds an argument whose end is not printed: a shell variable stands for it.
func (t *translation) secret(before, secret, variable string) {
	t.args = append(t.args, aiperfArgument{before + secret, variable, before, t.from})
}

// note adds a line to the log.
func (t *translation) note(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// command returns the arguments of agentx.
func (t *translation) command() []string {
	list := []string{"replay", t.data}
	for _, a := range t.args {
		list = append(list, a.text)
	}
	return list
}

// line returns the command as one line for a shell. Variables stand for secrets; the line names them.
func (t *translation) line() string {
	var b strings.Builder
	b.WriteString("agentx replay " + shellQuoted(t.data))
	for _, a := range t.args {
		b.WriteByte(' ')
		if a.variable == "" {
			b.WriteString(shellQuoted(a.text))
		} else {
			if a.before != "" {
				b.WriteString(shellQuoted(a.before))
			}
			fmt.Fprintf(&b, `"$%s"`, a.variable)
		}
	}
	return b.String()
}

// variables lists the shell variables that the line has.
func (t *translation) variables() (list []string) {
	for _, a := range t.args {
		if a.variable != "" && !slices.Contains(list, a.variable) {
			list = append(list, a.variable)
		}
	}
	return list
}

var shellPlain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellQuoted returns a text as a shell reads it as one word.
func shellQuoted(text string) string {
	if shellPlain.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
