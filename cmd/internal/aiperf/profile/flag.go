package profile

import (
	"slices"
	"strings"
)

// class says what agentx aiperf does with a flag of AIPerf.
type class string

// The classes.
const (
	classMapped      class = "mapped"      // agentx replay has something that does the same
	classMeaningless class = "meaningless" // accepted: a note says why nothing is lost
	classRefused     class = "refused"     // the error says why, and what to do instead
	classConflict    class = "conflict"    // mapped, and refused beside some other flags
)

// arity is how many values follow a flag.
type arity int

const (
	noValue       arity = iota // a switch, which may have a form --no-X
	oneValue                   // one
	repeatedValue              // one each time the flag is given
	severalValues              // all up to the next flag, each time
)

// flag is a flag of `aiperf profile`, as release 0.13.0 has it, or one of the line that InferenceX pins.
type flag struct {
	names   []string // all of them; the first is that of errors and notes
	takes   arity
	class   class
	about   string                             // of a meaningless flag why nothing is lost; of a refused one why, and what to do
	against []string                           // flags that it cannot be given with
	apply   func(t *translation, g given)      // of a mapped flag
	unless  func(t *translation, g given) bool // of a refused or meaningless flag: the value is none that needs words
	pinned  bool                               // only agentx-harness has it
}

// given is a flag of a command line with its values. The form --no-X of a switch has the value false.
type given struct {
	name   string // as it was written
	values []string
}

// value returns the last value.
func (g given) value() string { return g.values[len(g.values)-1] }

// on reports whether a switch is on.
func (g given) on() bool { return g.value() == "true" }

// shown returns the flag as it was written, with its values. Values that may be secrets stay out.
func (g given) shown() string {
	if slices.Contains([]string{"--api-key", "--header", "-H", "--url", "-u"}, g.name) {
		return g.name
	}
	if g.value() == "" {
		return g.name + ` ""`
	}
	return strings.Join(append([]string{g.name}, g.values...), " ")
}

// allFlags are all flags, in the order in which agentx replay gets what they mean.
var allFlags = slices.Concat(serverFlags, inputFlags, loadFlags, resultFlags, otherFlags, syntheticFlags, searchFlags)

// Flags returns the names of all flags, those of one beside each other.
func Flags() (names []string) {
	for _, f := range allFlags {
		names = append(names, f.names...)
	}
	return names
}

// flagNamed returns the flag with a name, nil if there is none.
func flagNamed(name string) *flag {
	for k := range allFlags {
		if slices.Contains(allFlags[k].names, name) {
			return &allFlags[k]
		}
	}
	return nil
}

// mapped returns a flag with one value that agentx replay takes.
func mapped(list string, apply func(*translation, given)) flag {
	return flag{names: strings.Fields(list), takes: oneValue, class: classMapped, apply: apply}
}

// mappedSwitch returns a switch that agentx replay has.
func mappedSwitch(list string, apply func(*translation, given)) flag {
	return flag{names: strings.Fields(list), takes: noValue, class: classMapped, apply: apply}
}

// whenOn gives a setting a value where a switch is on.
func whenOn(setting string, value any) func(*translation, given) {
	return func(t *translation, g given) {
		if g.on() {
			t.set(setting, value)
		}
	}
}

// mappedList returns a flag with several values that agentx replay takes.
func mappedList(list string, apply func(*translation, given)) flag {
	return flag{names: strings.Fields(list), takes: severalValues, class: classMapped, apply: apply}
}

// conflict makes a mapped flag one that cannot be given with some others.
func (f flag) conflict(with ...string) flag {
	f.class, f.against = classConflict, with
	return f
}

// meaningless returns a flag with one value that changes nothing here.
func meaningless(list string, takes arity, about string) flag {
	return flag{names: strings.Fields(list), takes: takes, class: classMeaningless, about: about}
}

// refused returns flags that agentx does not have. Each of the lists has the names of one.
func refused(takes arity, about string, lists ...string) (flags []flag) {
	for _, list := range lists {
		flags = append(flags, flag{names: strings.Fields(list), takes: takes, class: classRefused, about: about})
	}
	return flags
}
