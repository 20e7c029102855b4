// Package settings makes the settings of a command from one table. A [Setting] is a row of it, and everything else follows from the row:
// the flag, its variable in the environment, a key of a configuration file and its schema, --set, --print-config, help, completions, and
// the options among the results.
//
// A command makes its rows, each with a pointer to what the value is written to, and registers them:
//
//	s := settings.New(cmd.Flags(), wrong, rows...)
//	...
//	s.Resolve(nil) // from here on what the rows point to has its values
//
// [Set.give] alone gives a row a text: it reads the text as a value of the row's kind, or says what is wrong with it. [Set.Settle]
// chooses between values of several origins.
package settings

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/agentx/agentx/replay/preset"
)

// The libraries' errors, hints and remarks name a setting as a flag.
func init() { preset.Prefix = "--" }

// Setting is a row: one setting of a command.
type Setting struct {
	Name    string // of the flag, in kebab case; AGENTX_NAME is its variable
	Group   string // heading in the help, one of groups
	Help    string // a sentence
	Brief   bool   // the help has it in a line at the end
	Hint    string // what to try instead of a wrong value; "": nothing
	Kind    Kind
	Default any            // nil: off, or none
	Under   map[string]any // defaults that differ, by preset
	Auto    bool           // the default is not applied: the run finds out what it means
	Plain   bool           // of one run alone: --print-config leaves it out, and the variable is not read, unless nothing else sets it
	Secret  bool           // errors do not show its value

	To    any         // points to what the value is written to
	None  any         // what is written there if the value is off, or 0; nil: the zero value
	Apply func(v any) // writes the value, instead of To

	Shown  func(v any) any // removes secrets from the value, for results and --print-config; nil: it has none
	Masked string          // why --print-config has it only in a comment, with ", " in front; "": it is no comment

	Opposite string                                        // old name that said the opposite; "": none
	Environ  func(give func(text, shown, at string)) error // reads more variables than its own, which it gives as well
}

// The headings of the help, in its order. The first are those of flags that every run needs.
const (
	Server      = "Server"
	Fleet       = "Fleet"
	Load        = "Load and its bounds"
	Lanes       = "Lanes"
	Levels      = "Service levels"
	Curve       = "Hit-rate curve"
	Results     = "Results"
	Played      = "What is played, and when"
	Arrivals    = "When trees open"
	Presets     = "Presets and configuration"
	bodies      = "Bodies and connections"
	Switches    = "Switches"
	otherFlags  = "Flags"
	Conversions = "Flags for the conversion of an INPUT"
)

var groups = []string{Server, Fleet, Load, Lanes, Levels, Curve, Results, Played, Arrivals, Presets, bodies, Switches, otherFlags, Conversions}

// Set are the settings of a command.
type Set struct {
	Flags   *pflag.FlagSet
	Rules   []string                 // other names that --set takes: those of the conversion
	Missing func(name string) string // says why --set does not have a name; nil: nothing does
	Things  string                   // what --set can set, for errors

	Presets   []string                         // the default first; nil: there are none
	Canonical func(name string) (string, bool) // name of a preset by another of its names; nil: they have none

	Ruled    []string // NAME=VALUE for the rules, from the first origin to the last
	RuledBy  Origin   // of the last
	OldNames []string // that were given, each with the new one
	Preset   string   // that was chosen

	wrong   func(err error, hint string)
	rows    []*Setting
	given   []given
	refused map[string]bool // names of settings with a wrong value, which an error has told
	values  map[string]value
}

// New registers rows as flags. The set calls wrong with every error of a value, and with what to try or "".
func New(flags *pflag.FlagSet, wrong func(err error, hint string), rows ...Setting) *Set {
	s := &Set{Flags: flags, wrong: wrong, values: map[string]value{}, refused: map[string]bool{}}
	s.Add(rows...)
	return s
}

// Add registers further rows.
func (s *Set) Add(rows ...Setting) {
	for k := range rows {
		s.add(&rows[k], nil)
	}
}

// Describe gives a setting another heading and another sentence in the help.
func (s *Set) Describe(name, group, help string) {
	row, f := s.named(name), s.Flags.Lookup(name)
	row.Group, row.Help, f.Usage = group, help, help
	f.Annotations = map[string][]string{groupNote: {group}}
}

// add registers a row, with the flag that it has already, or a new one.
func (s *Set) add(row *Setting, f *pflag.Flag) {
	s.rows = append(s.rows, row)
	v := flagValue{s, row}
	if f == nil {
		f = s.Flags.VarPF(v, row.Name, "", row.Help)
	}
	f.Value = v
	if f.DefValue == "[]" {
		f.DefValue = "" // usage prints no default
	}
	if row.Group != "" {
		f.Annotations = map[string][]string{groupNote: {row.Group}}
	}
	if row.Kind.Type == Yes.Type {
		f.NoOptDefVal = "true"
	}
}

// Adopt makes a row of every flag that has none yet, so that files, --set and the rest know it. The flag keeps its own value.
func (s *Set) Adopt(group string) {
	s.Flags.VisitAll(func(f *pflag.Flag) {
		if _, is := f.Value.(flagValue); is {
			return
		}
		v := f.Value
		row := &Setting{Name: f.Name, Group: group, Help: f.Usage, Kind: kindOf(v), Plain: true}
		list, many := v.(pflag.SliceValue)
		row.Default, _ = row.Kind.Read(v.String())
		row.Apply = func(to any) { _ = v.Set(row.Kind.Text(to)) } // Read has read it
		if many {
			row.Default = list.GetSlice()
			row.Apply = func(to any) { _ = list.Replace(to.([]string)) }
		}
		if f.Changed {
			now, _ := row.Kind.Read(v.String())
			s.given = append(s.given, given{row, now, "", Shown(f, v.String()), OriginOf(f)})
		}
		s.add(row, f)
	})
}

// kindOf returns the kind of the values of a flag that is no row.
func kindOf(v pflag.Value) Kind {
	k := AnyText
	k.Type = v.Type()
	if _, many := v.(pflag.SliceValue); many {
		list := List(func(text string) ([]string, error) {
			if v.Type() == "stringSlice" {
				return strings.Split(text, ","), nil
			}
			return []string{text}, nil
		})
		list.Type = v.Type()
		return list
	}
	set := func(text string) error {
		before := v.String()
		defer func() { _ = v.Set(before) }() // a value of the flag
		return Explain(v.Set(text))
	}
	switch v.Type() {
	case "bool":
		return Yes
	case "duration":
		k.Tags, k.Schema, k.Want, k.Read = Span.Tags, Span.Schema, Span.Want, Span.Read
	case "int":
		k.Tags, k.Schema, k.Want = []string{Int}, map[string]any{"type": "integer"}, "a whole number"
		k.Read = func(text string) (any, bool) { return number(text), set(text) == nil }
	default:
		k.Read = func(text string) (any, bool) { return text, set(text) == nil }
	}
	k.Why = set
	return k
}

// number is a whole number of any size as text. Its JSON is a number, not a string.
type number string

func (n number) MarshalJSON() ([]byte, error) { return []byte(n), nil }

// flagValue is the value of the flag of a row.
type flagValue struct {
	set *Set
	row *Setting
}

// Set gives the row a text. It returns no error: the set collects all errors of a command line, where pflag would stop at the first.
func (v flagValue) Set(text string) error {
	if v.row.Auto && text == "" || v.row.Name == "set" && v.set.setText(text, FlagText("set", text), Origin{FromFlag, "--set"}) {
		return nil
	}
	v.set.give(v.row, text, v.row.shown(FlagText(v.row.Name, text), "--"+v.row.Name), Origin{FromFlag, "--" + v.row.Name})
	if g := v.set.winner(v.row); g != nil {
		v.row.write(g.value) // the check of arguments reads it before Resolve
	}
	return nil
}

// shown returns how errors show a value: in full, or without it.
func (row *Setting) shown(full, without string) string {
	if row.Secret {
		return without
	}
	return full
}

func (v flagValue) Type() string { return v.row.Kind.Type }

// String returns the value as a text, or the default, which the help shows.
func (v flagValue) String() string {
	switch row := v.row; {
	case row == nil: // pflag makes zero values
		return ""
	case v.set.winner(row) != nil:
		return row.Kind.Text(v.set.winner(row).value)
	case row.Auto, row.Kind.Commas && row.Kind.Joins:
		return ""
	case row.Default == nil && !row.Kind.Many, row.Default == false, row.Default == time.Duration(0):
		return "0"
	case row.Default == nil:
		return ""
	default:
		if d, ok := row.Default.(time.Duration); ok {
			return d.String()
		}
		return row.Kind.Text(row.Default)
	}
}

// empty reports whether the default is the empty text, which is then a value, too.
func (row *Setting) empty() bool {
	return row.Default != nil && !row.Kind.Many && row.Kind.Text(row.Default) == ""
}

// write writes a value to where To points, or hands it to Apply.
func (row *Setting) write(v any) {
	if row.Apply != nil {
		row.Apply(v)
		return
	}
	if row.To == nil {
		return
	}
	to := reflect.ValueOf(row.To).Elem()
	if row.None != nil && (v == nil || reflect.ValueOf(v).IsZero()) {
		v = row.None
	}
	if v == nil {
		to.SetZero()
		return
	}
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	to.Set(reflect.ValueOf(v).Convert(to.Type()))
}

// named returns the row with a name, nil if there is none.
func (s *Set) named(name string) *Setting {
	k := slices.IndexFunc(s.rows, func(row *Setting) bool { return row.Name == name })
	if k < 0 {
		return nil
	}
	return s.rows[k]
}

// names lists the names of the rows that files and --set may have.
func (s *Set) names() (list []string) {
	for _, row := range s.rows {
		if !slices.Contains(commandLine, row.Name) {
			list = append(list, row.Name)
		}
	}
	return list
}

// commandLine are the names of flags that neither files nor --set may have.
var commandLine = []string{"config", "config-schema", "print-config", "help"}

// Variable returns the name of the variable that sets a flag.
func Variable(flag string) string {
	return "AGENTX_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// readEnvironment gives rows what the environment says.
func (s *Set) readEnvironment() {
	for _, row := range s.sorted() {
		name := Variable(row.Name)
		text, ok := os.LookupEnv(name)
		from := Origin{FromEnvironment, name}
		switch {
		case row.Environ != nil:
			if err := row.Environ(func(text, shown, at string) { s.give(row, text, shown, Origin{FromEnvironment, at}) }); err != nil {
				s.wrong(err, "")
			}
		case !ok || text == "" || row.Name == "version" || row.Name == "help", row.Plain && row.Name != "set" && s.winner(row) != nil:
		case row.Name == "set":
			s.setText(text, name+"="+text, from)
		default:
			s.give(row, text, row.shown(name+"="+text, name), from)
		}
	}
}

// sorted returns the rows by name.
func (s *Set) sorted() []*Setting {
	return slices.SortedFunc(slices.Values(s.rows), func(a, b *Setting) int { return strings.Compare(a.Name, b.Name) })
}
