package main

import (
	"slices"
	"strings"
)

// aiperfClass says what agentx aiperf does with a flag of AIPerf.
type aiperfClass string

// The classes.
const (
	aiperfMapped      aiperfClass = "mapped"      // agentx replay has something that does the same
	aiperfMeaningless aiperfClass = "meaningless" // accepted: a note says why nothing is lost
	aiperfRefused     aiperfClass = "refused"     // the error says why, and what to do instead
	aiperfConflict    aiperfClass = "conflict"    // mapped, and refused beside some other flags
)

// aiperfTakes is how many values follow a flag.
type aiperfTakes int

const (
	noValue       aiperfTakes = iota // a switch, which may have a form --no-X
	oneValue                         // one
	repeatedValue                    // one each time the flag is given
	severalValues                    // all up to the next flag, each time
)

// aiperfFlag is a flag of `aiperf profile`, as release 0.13.0 has it, or one of the line that InferenceX pins.
type aiperfFlag struct {
	names   []string // all of them; the first is that of errors and notes
	takes   aiperfTakes
	class   aiperfClass
	about   string                                   // of a meaningless flag why nothing is lost; of a refused one why, and what to do
	against []string                                 // flags that it cannot be given with
	apply   func(t *translation, g aiperfGiven)      // of a mapped flag
	unless  func(t *translation, g aiperfGiven) bool // of a refused or meaningless flag: the value is none that needs words
	pinned  bool                                     // only the pinned line has it
}

// aiperfGiven is a flag of a command line with its values. The form --no-X of a switch has the value false.
type aiperfGiven struct {
	name   string // as it was written
	values []string
}

// value returns the last value.
func (g aiperfGiven) value() string { return g.values[len(g.values)-1] }

// on reports whether a switch is on.
func (g aiperfGiven) on() bool { return g.value() == "true" }

// shown returns the flag as it was written, with its values. Values that may be secrets stay out.
func (g aiperfGiven) shown() string {
	if slices.Contains([]string{"--api-key", "--header", "-H", "--url", "-u"}, g.name) {
		return g.name
	}
	if g.value() == "" {
		return g.name + ` ""`
	}
	return strings.Join(append([]string{g.name}, g.values...), " ")
}

// aiperfFlags are all flags, in the order in which agentx replay gets what they mean.
var aiperfFlags = slices.Concat(aiperfServerFlags, aiperfInputFlags, aiperfLoadFlags, aiperfResultFlags, aiperfOtherFlags, aiperfSyntheticFlags, aiperfSearchFlags)

// aiperfFlagNamed returns the flag with a name, nil if there is none.
func aiperfFlagNamed(name string) *aiperfFlag {
	for k := range aiperfFlags {
		if slices.Contains(aiperfFlags[k].names, name) {
			return &aiperfFlags[k]
		}
	}
	return nil
}

// mapped returns a flag with one value that agentx replay takes.
func mapped(list string, apply func(*translation, aiperfGiven)) aiperfFlag {
	return aiperfFlag{names: strings.Fields(list), takes: oneValue, class: aiperfMapped, apply: apply}
}

// mappedSwitch returns a switch that agentx replay has.
func mappedSwitch(list string, apply func(*translation, aiperfGiven)) aiperfFlag {
	return aiperfFlag{names: strings.Fields(list), takes: noValue, class: aiperfMapped, apply: apply}
}

// mappedList returns a flag with several values that agentx replay takes.
func mappedList(list string, apply func(*translation, aiperfGiven)) aiperfFlag {
	return aiperfFlag{names: strings.Fields(list), takes: severalValues, class: aiperfMapped, apply: apply}
}

// conflict makes a mapped flag one that cannot be given with some others.
func (f aiperfFlag) conflict(with ...string) aiperfFlag {
	f.class, f.against = aiperfConflict, with
	return f
}

// meaningless returns a flag with one value that changes nothing here.
func meaningless(list string, takes aiperfTakes, about string) aiperfFlag {
	return aiperfFlag{names: strings.Fields(list), takes: takes, class: aiperfMeaningless, about: about}
}

// refused returns flags that agentx does not have. Each of the lists has the names of one.
func refused(takes aiperfTakes, about string, lists ...string) (flags []aiperfFlag) {
	for _, list := range lists {
		flags = append(flags, aiperfFlag{names: strings.Fields(list), takes: takes, class: aiperfRefused, about: about})
	}
	return flags
}
