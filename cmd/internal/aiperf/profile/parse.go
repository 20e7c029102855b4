package profile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agentx/agentx/internal/suggest"
)

// parse reads a command line as AIPerf spells it: --flag value, --flag=value, several values after one flag, and --no-X for a
// switch that is off. The flags of the table go to t.given, in the order in which they first occur.
func (t *translation) parse(args []string) {
	after := "profile"
	for len(args) > 0 {
		name, value, joined := cut(args[0])
		args = args[1:]
		if !isFlag(name) { // it may be a secret
			t.add("unexpected argument after %s: every value follows a flag that takes one", after)
			continue
		}
		after = name
		f := t.flagNamed(name)
		if f == nil {
			t.unknown(name)
			_, args = upToFlag(args) // which may be those of the unknown flag
			continue
		}
		g := given{name: name}
		switch {
		case f.takes == noValue:
			g.values = []string{t.switchValue(f, name, value, joined)}
		case joined:
			g.values = []string{value}
		case f.takes == severalValues:
			g.values, args = upToFlag(args)
		case len(args) > 0 && !isFlag(args[0]):
			g.values, args = args[:1], args[1:]
		}
		if len(g.values) == 0 || slices.Contains(g.values, "") && f.names[0] != "--api-key" {
			t.add("%s: want a value after it", name)
			continue
		}
		t.give(f, g)
	}
}

// cut returns the flag of an argument and the value that is joined to it: --flag=value, or -fvalue.
func cut(arg string) (name, value string, joined bool) {
	name, value, joined = strings.Cut(arg, "=")
	if len(name) > 2 && name[1] != '-' && flagNamed(name) == nil {
		if f := flagNamed(name[:2]); f != nil && f.takes != noValue {
			return name[:2], strings.TrimPrefix(arg[2:], "="), true
		}
	}
	return name, value, joined
}

// isFlag reports whether an argument is a flag and no value, such as a negative number.
func isFlag(text string) bool {
	return len(text) > 1 && text[0] == '-' && (text[1] < '0' || text[1] > '9') && text[1] != '.'
}

// upToFlag returns the values up to the next flag, and what follows.
func upToFlag(args []string) (values, rest []string) {
	k := slices.IndexFunc(args, isFlag)
	if k < 0 {
		k = len(args)
	}
	return args[:k], args[k:]
}

// switchValue returns true or false for a switch, which may also be given as --switch=true. --no-X turns X off where X is a
// name of the same flag.
func (t *translation) switchValue(f *flag, name, value string, joined bool) string {
	off := len(f.names) > 1 && name != f.names[0] && strings.Contains(name, "no-")
	if joined && value != "true" && value != "false" {
		t.add("%s=%s: want true or false", name, value)
	}
	return fmt.Sprint(off == (joined && value == "false"))
}

// give adds a flag with its values. One that takes one value is given once.
func (t *translation) give(f *flag, g given) {
	before, twice := t.given[f.names[0]]
	switch {
	case twice && f.takes == oneValue:
		t.add("%s: given twice: want one value", g.name)
	case twice:
		g.values = slices.Concat(before.values, g.values)
	}
	t.given[f.names[0]] = g
}

// unknown adds the error of a flag that AIPerf does not have.
func (t *translation) unknown(name string) {
	tool, known := "neither AIPerf 0.13.0 nor agentx-harness has", Flags()
	if t.Harness {
		tool, known = "agentx-harness 1.0.12 does not have", HarnessFlags()
	}
	t.addProblem(Problem{fmt.Errorf("%s: %s this flag", name, tool), suggest.Nearest(name, known)[0]})
}
