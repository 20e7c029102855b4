// Package profile translates command lines of `aiperf profile`, as AIPerf 0.13.0 has them, into those of agentx replay.
package profile

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/agentx/agentx/internal/suggest"
	"github.com/agentx/agentx/internal/terminal"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/scenario"
)

// Source is what is translated, and what the translation is made with.
type Source struct {
	Args    []string          // of `profile`
	Environ map[string]string // variables
	Random  io.Reader         // of a seed
	Harness bool              // it is a command line of the AgentX harness

	// Check returns what agentx replay refuses of its arguments, before anything runs.
	Check func(args []string) []Problem
}

// Problem is an error of a command line, with what to try, or "".
type Problem struct {
	Err error
	Try string
}

func (p Problem) Error() string { return p.Err.Error() }

func (p Problem) Unwrap() error { return p.Err }

// Translation is a command line of agentx replay.
type Translation struct {
	DryRun, Help bool      // as the command line asks for
	Problems     []Problem // everything that is wrong: nothing may run
	Notes        []string  // for the log: what is not passed on, and why nothing is lost

	typed []string // what was given
	args  []argument
	data  string // CACHE or INPUT
}

// translation is a command line of AIPerf as it becomes one of agentx replay.
type translation struct {
	Translation
	Source
	as     string              // the preset; "": none is chosen yet
	locked []scenario.Conflict // what findLocked took out

	given                  map[string]given // by the first name of the flag
	extra                  []pair           // of --extra-inputs
	sessionHeaders         []string         // further headers with the id of a session
	resets, starts, silent bool             // --reset-cache, --start sampled, --quiet are among the arguments
	mooncake               bool             // the rows are Mooncake's
	byRows                 bool             // AIPerf chooses a fixed schedule, because the first row has a timestamp
	readRows               *rowTimes        // of the input; nil: not read yet
	from                   string           // the flag that is being translated, as it was written; "": none
}

// argument is an argument of agentx replay.
type argument struct {
	text     string
	variable string // that stands for a secret in the printed command; "": none
	before   string // what precedes the secret in the argument
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
	for _, name := range t.choosePreset() {
		t.arg(name)
	}
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

// cutOwn reads what agentx adds to the flags of a command line, and returns the others.
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
				t.add("%s and %s: want one of the two", g.name, other.name)
			}
		}
	}
}

// choosePreset returns the arguments that choose the tool to be like: AIPerf 0.13.0, or with --as, or a flag that only the line
// of InferenceX has, that line.
func (t *translation) choosePreset() []string {
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
	return []string{"--profile", "aiperf", "--preset", t.as}
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

// arg adds arguments.
func (t *translation) arg(texts ...string) {
	for _, text := range texts {
		t.args = append(t.args, argument{text: text, from: t.from})
	}
}

// set adds a flag with a value, which may be true or false.
func (t *translation) set(name, value string) {
	switch value {
	case "true":
		t.arg("--" + name)
	case "false":
		t.arg("--" + name + "=false")
	default:
		t.arg("--"+name, value)
	}
}

// secret adds an argument whose end is not printed: a shell variable stands for it.
func (t *translation) secret(before, secret, variable string) {
	t.args = append(t.args, argument{before + secret, variable, before, t.from})
}

// note adds a line to the log.
func (t *translation) note(format string, args ...any) {
	t.Notes = append(t.Notes, fmt.Sprintf(format, args...))
}

// Command returns the arguments of agentx.
func (t *Translation) Command() []string {
	list := []string{"replay", t.data}
	for _, a := range t.args {
		list = append(list, a.text)
	}
	return list
}

// Line returns the command as one line for a shell. Variables stand for secrets.
func (t *Translation) Line() string {
	var b strings.Builder
	b.WriteString("agentx replay " + terminal.Word(t.data))
	for _, a := range t.args {
		b.WriteByte(' ')
		if a.variable == "" {
			b.WriteString(terminal.Word(a.text))
		} else {
			if a.before != "" {
				b.WriteString(terminal.Word(a.before))
			}
			fmt.Fprintf(&b, `"$%s"`, a.variable)
		}
	}
	return b.String()
}

// Variables lists the shell variables that the line has.
func (t *Translation) Variables() (list []string) {
	for _, a := range t.args {
		if a.variable != "" && !slices.Contains(list, a.variable) {
			list = append(list, a.variable)
		}
	}
	return list
}
