package profile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/suggest"
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
	names   []string // all of them; errors and notes use the first
	takes   arity
	class   class
	about   string                             // of a meaningless flag why nothing is lost; of a refused one why, and what to do
	against []string                           // flags that it cannot be given with
	apply   func(t *translation, g given)      // translates a mapped flag
	unless  func(t *translation, g given) bool // reports whether a value of a refused or meaningless flag is silently accepted
	pinned  bool                               // only agentx-harness has it
}

// given is a flag of a command line with its values: --no-X of a switch is the value false.
type given struct {
	name   string // as it was written
	values []string
}

// value returns the last value.
func (g given) value() string { return g.values[len(g.values)-1] }

// on reports whether a switch is on.
func (g given) on() bool { return g.value() == "true" }

// shown returns the flag as it was written with its values, but without values that may be secrets.
func (g given) shown() string {
	if slices.Contains([]string{"--api-key", "--header", "-H", "--url", "-u"}, g.name) {
		return g.name
	}
	if g.value() == "" {
		return g.name + ` ""`
	}
	return strings.Join(append([]string{g.name}, g.values...), " ")
}

// allFlags are all flags, in the order in which they are translated.
var allFlags = slices.Concat(serverFlags, inputFlags, loadFlags, resultFlags, otherFlags, syntheticFlags, searchFlags)

// Flags returns all names of all flags.
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

// whenOn returns a function that gives a setting a value if a switch is on.
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

// conflict returns a mapped flag as one that cannot be given with some others.
func (f flag) conflict(with ...string) flag {
	f.class, f.against = classConflict, with
	return f
}

// meaningless returns a flag with one value that changes nothing here.
func meaningless(list string, takes arity, about string) flag {
	return flag{names: strings.Fields(list), takes: takes, class: classMeaningless, about: about}
}

// refused returns flags that agentx does not have. Each list has the names of one flag.
func refused(takes arity, about string, lists ...string) (flags []flag) {
	for _, list := range lists {
		flags = append(flags, flag{names: strings.Fields(list), takes: takes, class: classRefused, about: about})
	}
	return flags
}

// parse reads a command line in AIPerf's form into t.given: --flag value, --flag=value, several values after one flag, and --no-X for a switch
// that is off.
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

// cut splits an argument into a flag and the value that is joined to it: --flag=value, or -fvalue.
func cut(arg string) (name, value string, joined bool) {
	name, value, joined = strings.Cut(arg, "=")
	if len(name) > 2 && name[1] != '-' && flagNamed(name) == nil {
		if f := flagNamed(name[:2]); f != nil && f.takes != noValue {
			return name[:2], strings.TrimPrefix(arg[2:], "="), true
		}
	}
	return name, value, joined
}

// isFlag reports whether an argument is a flag. A negative number is a value.
func isFlag(text string) bool {
	return len(text) > 1 && text[0] == '-' && (text[1] < '0' || text[1] > '9') && text[1] != '.'
}

// upToFlag returns the values up to the next flag, and the rest of the arguments.
func upToFlag(args []string) (values, rest []string) {
	k := slices.IndexFunc(args, isFlag)
	if k < 0 {
		k = len(args)
	}
	return args[:k], args[k:]
}

// switchValue returns true or false for a switch, which may also have the form --switch=true. --no-X is false if X is a name of the same flag.
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

// word returns the value of a flag, which must be one of some words. As in AIPerf, - counts as _, and letter case does not count.
func (t *translation) word(g given, words ...string) string {
	text := oneSpelling(g.value())
	if !slices.Contains(words, text) {
		t.add("not supported: %s: %w", g.shown(), suggest.Wrong(text, suggest.Either(words), words))
	}
	return text
}

// positive reports whether the value is a number above 0, and adds an error if it is not.
func (t *translation) positive(g given) bool {
	x, err := number(g.value())
	if err != nil || x == 0 || math.IsInf(x, 1) {
		t.add("%s: want a number above 0", g.shown())
		return false
	}
	return true
}

// positiveSeconds gives a setting a number of seconds above 0. To agentx replay 0 would mean no limit.
func (t *translation) positiveSeconds(g given, setting string) {
	if x, err := number(g.value()); err == nil && x == 0 {
		t.add("%s: want a number of seconds above 0", g.shown())
		return
	}
	t.seconds(g, setting)
}

// seconds gives a setting a number of seconds.
func (t *translation) seconds(g given, setting string) {
	v, err := secondsOf(g.value())
	if err != nil {
		t.add("%s: %w", g.shown(), err)
		return
	}
	t.set(setting, v)
}

// count gives a setting a whole number above 0.
func (t *translation) count(g given, setting string) {
	if n, err := strconv.Atoi(g.value()); err != nil || n < 1 {
		t.add("%s: want a whole number above 0", g.shown())
		return
	}
	t.set(setting, g.value())
}

// whole reports whether AIPerf plays all of the file, whatever --num-dataset-entries says.
func (t *translation) whole() bool { return t.kind.name != "" && t.kind.name != "weka_trace" }

// limitTraces limits the traces, except for a file that AIPerf plays whole.
func (t *translation) limitTraces(g given) {
	if !t.whole() {
		t.count(g, "limit-traces")
	}
}

// numbered returns the name of variable k, from 0: NAME, NAME_2.
func numbered(name string, k int) string {
	if k == 0 {
		return name
	}
	return name + "_" + strconv.Itoa(k+1)
}

// variableName turns a text into a part of the name of a shell variable.
func variableName(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToUpper(text))
}

// oneSpelling returns a word of AIPerf's in one spelling: it takes round-robin and ROUND_ROBIN for round_robin.
func oneSpelling(text string) string { return strings.ReplaceAll(strings.ToLower(text), "-", "_") }

// parts returns the parts of values with commas between.
func parts(values []string) (list []string) {
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			if part = strings.TrimSpace(part); part != "" {
				list = append(list, part)
			}
		}
	}
	return list
}

// number returns a number that is not negative, as AIPerf takes one.
func number(text string) (float64, error) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || !(x >= 0) {
		return 0, errors.New("want a number of 0 or more")
	}
	return x, nil
}

// secondsOf returns a number of seconds as agentx takes one.
func secondsOf(text string) (string, error) {
	x, err := number(text)
	if err != nil || math.IsInf(x, 1) {
		return "", errors.New("want a number of seconds, 0 or more")
	}
	return strconv.FormatFloat(x, 'f', -1, 64) + "s", nil
}

// pair is one of the pairs of --extra-inputs and --header.
type pair struct {
	name  string
	value json.RawMessage
}

// pairsOf reads key:value with commas between, or a JSON object, from each value. Errors have no part of a value.
func pairsOf(values []string) (pairs []pair, err error) {
	for _, text := range values {
		if strings.HasPrefix(text, "{") {
			members, err := membersOf(text)
			if err != nil {
				return nil, err
			}
			pairs = append(pairs, members...)
			continue
		}
		for item := range strings.SplitSeq(text, ",") {
			name, value, ok := strings.Cut(item, ":")
			if !ok {
				return nil, errors.New("want KEY:VALUE, with commas between, or a JSON object")
			}
			pairs = append(pairs, pair{strings.TrimSpace(name), scalar(strings.TrimSpace(value))})
		}
	}
	return pairs, nil
}

// membersOf returns the members of a JSON object, in their order.
func membersOf(text string) (members []pair, err error) {
	wrong := errors.New("want a JSON object")
	d := json.NewDecoder(strings.NewReader(text))
	if _, err := d.Token(); err != nil {
		return nil, wrong
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, wrong
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, wrong
		}
		members = append(members, pair{fmt.Sprint(name), value})
	}
	if _, err := d.Token(); err != nil || d.More() {
		return nil, wrong
	}
	return members, nil
}

// scalar returns what AIPerf takes a value of KEY:VALUE for: true, false, null, a number, or a text.
func scalar(text string) json.RawMessage {
	switch strings.ToLower(text) {
	case "true", "false":
		return json.RawMessage(strings.ToLower(text))
	case "none", "null":
		return json.RawMessage("null")
	}
	if strings.Trim(text, "-0123456789.") != "" {
		return quoted(text)
	}
	if x, err := strconv.ParseFloat(text, 64); err == nil && strings.Count(text, ".") == 1 {
		return json.RawMessage(strconv.FormatFloat(x, 'f', -1, 64))
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	return quoted(text) // such as 007
}

// joinPairs returns the pairs as a JSON object. A later pair replaces one of the same name.
func joinPairs(pairs []pair) string {
	var b bytes.Buffer
	last := map[string]json.RawMessage{}
	for _, p := range pairs {
		last[p.name] = p.value
	}
	for _, p := range pairs {
		if value, ok := last[p.name]; ok {
			fmt.Fprintf(&b, ",%s:%s", quoted(p.name), value)
			delete(last, p.name)
		}
	}
	return "{" + strings.TrimPrefix(b.String(), ",") + "}"
}

// quoted returns a value as JSON.
func quoted(v any) json.RawMessage {
	text, _ := json.Marshal(v) // a text always marshals, and what YAML has
	return text
}
