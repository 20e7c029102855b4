package settings

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/agentx/agentx/internal/suggest"
	"github.com/agentx/agentx/replay/preset"
)

// Origin is where a value comes from: one of the kinds below, and the place in words, such as run.yaml:3 or --speed.
type Origin struct{ Kind, At string }

// The kinds of origins.
const (
	FromDefault     = "default"
	fromPreset      = "preset"
	FromScenario    = "scenario"
	FromFile        = "file"
	FromEnvironment = "environment"
	FromFlag        = "flag"
)

// precedence lists the kinds of origins from lowest to highest priority.
var precedence = []string{FromDefault, fromPreset, FromScenario, FromFile, FromEnvironment, FromFlag}

// value is the value of a setting, and its origin.
type value struct {
	Value any
	From  Origin
	shown string // as the user wrote it; "": the user did not
}

// given is a value that something gives a row, or a rule of the conversion.
type given struct {
	row   *Setting // nil: a rule, NAME=VALUE
	value any
	text  string
	shown string // as the user wrote it, such as --speed 2
	from  Origin
}

// Forget drops all values that were given, because the command line is parsed once more.
func (s *Set) Forget() { s.given = nil }

// Resolve reads the environment and the configuration file, lets scenario give its values, and settles all rows.
func (s *Set) Resolve(scenario func()) {
	s.Adopt(otherFlags)
	s.readEnvironment() // first: it may name the configuration file
	s.readConfig()
	if scenario != nil {
		scenario()
	}
	s.Settle()
}

// Give gives a setting a value from an origin, or a word that stands for a value. Origins of higher priority override it.
func (s *Set) Give(name string, value any, from Origin) {
	row := s.named(name)
	if word, ok := value.(string); ok {
		value, _ = row.Kind.value(word)
	}
	s.given = append(s.given, given{row, value, "", fmt.Sprintf("%s=%s (%s)", name, row.Kind.Text(value), from.At), from})
}

// give reads a text as a value of a row and adds it. A wrong text is an error, which quotes it as shown.
func (s *Set) give(row *Setting, text, shown string, from Origin) {
	k := slices.IndexFunc(s.given, func(g given) bool { return g.row == row && g.from == from })
	if k >= 0 && row.Kind.Joins && s.given[k].text != "" {
		text = s.given[k].text + "," + text
	}
	v, err := row.Default, error(nil)
	if text != "" || !row.empty() {
		v, err = row.Kind.value(text)
	}
	if err != nil {
		s.wrong(fmt.Errorf("%s: %w", shown, err), row.Hint)
		s.Refuse(row.Name)
		return
	}
	switch {
	case k >= 0 && row.Kind.Many && v != nil:
		s.given[k].value = reflect.AppendSlice(reflect.ValueOf(s.given[k].value), reflect.ValueOf(v)).Interface()
		return
	case k >= 0 && from.At != "--set":
		s.given[k].value, s.given[k].text, s.given[k].shown = v, text, shown
		return
	}
	for _, o := range s.given {
		if o.row == row && o.from.Kind == from.Kind && (o.from.At != from.At || spelled(o.shown) != spelled(shown)) && !reflect.DeepEqual(o.value, v) {
			s.wrong(fmt.Errorf("%s and %s both set %s: leave one of them out", o.shown, shown, row.Name), "")
		}
	}
	s.given = append(s.given, given{row, v, text, shown, from})
}

// spelled returns the name in NAME=VALUE, as the user wrote it.
func spelled(shown string) string {
	name, _, _ := strings.Cut(shown, "=")
	return name
}

// lookup returns the row with a name or an old name, and notes an old one for a warning. opposite: the old name said the opposite.
func (s *Set) lookup(name string) (row *Setting, opposite bool) {
	if row = s.named(name); row != nil {
		return row, false
	}
	k := slices.IndexFunc(s.rows, func(row *Setting) bool { return row.Opposite == name })
	if row, opposite = s.named(preset.Renamed(name)), k >= 0; opposite {
		row = s.rows[k]
	} else if other := s.named(strings.ReplaceAll(name, "_", "-")); other != nil {
		row = other
	}
	if about := ""; row != nil {
		if about = name + " is " + row.Name; opposite {
			about = name + "=true is " + row.Name + "=false"
		}
		if !slices.Contains(s.OldNames, about) {
			s.OldNames = append(s.OldNames, about)
		}
	}
	return row, opposite
}

// inverted returns false for the text of true, and the reverse; another text as it is.
func inverted(text string) string {
	if v, ok := Yes.Read(text); ok {
		return strconv.FormatBool(v != true)
	}
	return text
}

// setText adds NAME=VALUE of --set: a setting, or a rule of the conversion. It returns true, so that an expression can call it.
func (s *Set) setText(text, shown string, from Origin) bool {
	name, value, ok := strings.Cut(text, "=")
	switch {
	case !ok:
		s.wrong(fmt.Errorf("%s: want NAME=VALUE", shown), "")
		return true
	case slices.Contains(s.Rules, name):
		s.given = append(s.given, given{text: text, from: from})
		return true
	}
	row, opposite := s.lookup(name)
	if opposite {
		value = inverted(value)
	}
	switch {
	case row != nil && row.Name != "set" && !slices.Contains(commandLine, row.Name):
		s.give(row, value, row.shown(shown, strings.TrimSuffix(shown, "="+value)), from)
	case slices.Contains(commandLine, name):
		s.wrong(fmt.Errorf("%s: --set accepts only keys of a file: use --%s", shown, name), "")
	case s.Missing != nil && s.Missing(name) != "":
		s.wrong(fmt.Errorf("%s: %s", shown, s.Missing(name)), "")
	default:
		s.wrong(fmt.Errorf("%s: no %s has this name: %s", shown, s.Things, s.nearest(name, slices.Concat(s.Rules, s.names()))), "")
	}
	return true
}

// nearest names the three names that are most like a word, and notes the first as refused: it was probably meant. A word that is an old
// name in another spelling gets the present name first.
func (s *Set) nearest(word string, names []string) string {
	near := suggest.Nearest(word, names)
	s.Refuse(near[0])
	if k := slices.Index(near, preset.Meant(word)); k >= 0 {
		near = slices.Concat(near[k:k+1], near[:k], near[k+1:])
	}
	return "the nearest are " + strings.Join(near[:min(3, len(near))], ", ")
}

// rank returns how late in precedence an origin is.
func rank(from Origin) int { return slices.Index(precedence, from.Kind) }

// winner returns the value with the highest priority that was given to a row so far, nil if none was.
func (s *Set) winner(row *Setting) (last *given) {
	for k := range s.given {
		if g := &s.given[k]; g.row == row && (last == nil || rank(g.from) >= rank(last.from)) {
			last = g
		}
	}
	return last
}

// text returns the value that a row has so far as a text: what was given, else the default; "" if there is no such row.
func (s *Set) text(name string) string { return flagValue{s, s.named(name)}.String() }

// Settle chooses the value of every row by precedence and writes it. It reads neither files nor the environment.
func (s *Set) Settle() {
	canonical := ""
	if len(s.Presets) > 0 {
		s.Preset = cmp.Or(s.text("preset"), s.Presets[0])
		if canonical = s.Preset; s.Canonical != nil {
			canonical, _ = s.Canonical(s.Preset)
		}
	}
	for _, row := range s.rows {
		v := value{row.Default, Origin{FromDefault, FromDefault}, ""}
		if own, ok := row.Under[canonical]; ok {
			v = value{own, Origin{fromPreset, fromPreset + " " + s.Preset}, ""}
		}
		if g := s.winner(row); g != nil {
			v = value{g.value, g.from, g.shown}
			s.Flags.Lookup(row.Name).Changed = true
		}
		s.values[row.Name] = v
		if v.From.Kind != FromDefault || !row.Auto && (row.To != nil || v.Value != nil) {
			row.write(v.Value)
		}
	}
	rules := slices.DeleteFunc(slices.Clone(s.given), func(g given) bool { return g.row != nil })
	slices.SortStableFunc(rules, func(a, b given) int { return cmp.Compare(rank(a.from), rank(b.from)) })
	for _, g := range rules {
		s.Ruled, s.RuledBy = append(s.Ruled, g.text), g.from
	}
}

// Misspelled notes that a word is a wrong name of a setting: nothing then says that the setting meant is missing.
func (s *Set) Misspelled(word string) { s.nearest(word, s.names()) }

// Refuse notes that an error has told of a wrong value of a setting, so that no further error says that the value is missing.
func (s *Set) Refuse(name string) { s.refused[name] = true }

// Refused reports whether an error has told of a wrong value of a setting.
func (s *Set) Refused(name string) bool { return s.refused[name] }

// Value returns the value of a setting.
func (s *Set) Value(name string) any { return s.values[name].Value }

// Text returns the value of a setting as --set takes it.
func (s *Set) Text(name string) string { return s.named(name).Kind.Text(s.Value(name)) }

// From returns where the value of a setting comes from.
func (s *Set) From(name string) Origin { return s.values[name].From }

// Given reports whether something has given a setting a value so far. It may be called before Settle.
func (s *Set) Given(name string) bool { return s.winner(s.named(name)) != nil }

// IsSet reports whether a setting has a value that is neither its default nor that of a preset.
func (s *Set) IsSet(name string) bool { return rank(s.From(name)) >= rank(Origin{Kind: FromScenario}) }

// Choose replaces the value of a setting that the results show, with one that the run has found out.
func (s *Set) Choose(name string, v any) {
	chosen := s.values[name]
	chosen.Value = v
	s.values[name] = chosen
}

// Show names a setting with its value as the user wrote them; of a value that no user wrote it adds the origin.
func (s *Set) Show(name string) string {
	v := s.values[name]
	if v.shown != "" {
		return v.shown
	}
	return fmt.Sprintf("%s=%s (%s)", name, s.named(name).Kind.Text(v.Value), v.From.At)
}

// Imply notes a value that follows from another setting, by, which errors then show instead.
func (s *Set) Imply(name string, v any, by string) {
	s.values[name] = value{v, s.values[name].From, s.Show(by)}
}

// told returns the text of a contradiction with its settings as the user wrote them. It is "" if one of them has a wrong value, or that of a
// scenario: another error tells of those.
func (s *Set) told(c preset.Text) string {
	other := false
	text := c.Told(func(name string, valued bool) string {
		other = other || s.refused[name] || s.From(name).Kind == FromScenario
		if valued {
			return s.Show(name)
		}
		return s.Named(name)
	})
	if other {
		return ""
	}
	return text
}

// Named returns a setting as the user wrote it: --url, AGENTX_URL, or run.yaml:3: url.
func (s *Set) Named(name string) string { return Named(s.Flags.Lookup(name)) }

// OriginOf returns the origin of the value of a flag, of a setting or another.
func OriginOf(f *pflag.Flag) Origin {
	if v, ok := f.Value.(flagValue); ok {
		if from := v.set.From(f.Name); from.Kind != "" {
			return from
		}
	}
	switch note := f.Annotations[originNote]; {
	case !f.Changed:
		return Origin{FromDefault, FromDefault}
	case len(note) == 2:
		return Origin{note[0], note[1]}
	}
	return Origin{FromFlag, "--" + f.Name}
}

// originNote is the annotation of a flag that the environment set: the two parts of the origin.
const originNote = "origin"

// Named returns a flag as the user wrote it.
func Named(f *pflag.Flag) string {
	switch from := OriginOf(f); from.Kind {
	case FromEnvironment:
		return from.At
	case FromFile:
		return from.At + ": " + f.Name
	}
	return "--" + f.Name
}

// Shown returns a flag with a value as the user wrote them: --gate x, AGENTX_GATE=x, or run.yaml:3: gate: x.
func Shown(f *pflag.Flag, text string) string {
	switch from := OriginOf(f); {
	case from.Kind == FromEnvironment:
		return from.At + "=" + text
	case from.Kind == FromFile:
		return from.At + ": " + f.Name + ": " + text
	case from.At == "--set":
		return FlagText("set", f.Name+"="+text)
	}
	return FlagText(f.Name, text)
}

// FlagText returns a flag with its value as a user writes it.
func FlagText(name, text string) string {
	if text == "" {
		text = `""`
	}
	return "--" + name + " " + text
}

// Explain turns the error of a value into one that says what the flag takes.
func Explain(err error) error {
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		err = value.Unwrap()
	}
	var number *strconv.NumError
	switch {
	case !errors.As(err, &number):
		return err
	case number.Func == "ParseBool":
		return errors.New("want true or false")
	case errors.Is(number, strconv.ErrRange):
		return errors.New("this number is too large")
	case strings.Contains(number.Num, ","):
		return errors.New("want one number")
	case number.Func == "ParseFloat":
		return errors.New("want a number")
	}
	return errors.New("want a whole number")
}

// ReadEnvironment sets flags that have no row from AGENTX_FLAG in the environment, unless the command line sets them. It returns all
// errors of values.
func ReadEnvironment(flags *pflag.FlagSet) (errs []error) {
	flags.VisitAll(func(f *pflag.Flag) {
		_, row := f.Value.(flagValue) // whose Set reads the environment itself
		name := Variable(f.Name)
		if v, ok := os.LookupEnv(name); ok && !row && !f.Changed && f.Name != "version" {
			if err := flags.Set(f.Name, v); err != nil {
				errs = append(errs, fmt.Errorf("%s=%s: %w", name, v, Explain(err)))
				return
			}
			_ = flags.SetAnnotation(f.Name, originNote, []string{FromEnvironment, name}) // the flag exists
		}
	})
	return errs
}

// Mistyped lists the variables of an environment that begin with AGENTX_ and are not among those that are read, each with the closest
// that is.
func Mistyped(environ, read []string) (list []string) {
	const front = "AGENTX_"
	for _, v := range switching {
		read = append(read, v.variable)
	}
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, front) || slices.Contains(read, name) {
			continue
		}
		near := suggest.Nearest(name, read)[0]
		if now := preset.Meant(strings.TrimPrefix(name, front)); now != "" {
			near = Variable(now)
		}
		list = append(list, fmt.Sprintf("%s (the nearest that is: %s)", name, near))
	}
	slices.Sort(list)
	return list
}
