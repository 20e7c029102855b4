package settings

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Option is the value of a setting, as results and --print-config show it.
type Option struct {
	Name  string
	Group string
	Value json.RawMessage
	From  Origin
	row   *Setting // nil: --set, for the rules
}

// Options lists every setting with its value, by name; those of the command line alone are left out.
func (s *Set) Options() (list []Option) {
	for _, row := range s.sorted() {
		if row.Name == "set" || row.Name != "config" && slices.Contains(commandLine, row.Name) {
			continue
		}
		v := s.values[row.Name]
		shown := v.Value
		if row.Shown != nil && shown != nil {
			shown = row.Shown(shown)
		}
		list = append(list, Option{row.Name, row.Group, row.Kind.JSON(shown), v.From, row})
	}
	return list
}

// printed lists what --print-config prints, by groups.
func (s *Set) printed() []Option {
	list := slices.DeleteFunc(s.Options(), func(o Option) bool {
		return slices.Contains(commandLine, o.Name) || o.Name == "json" || o.row.Plain && o.From.Kind == FromDefault
	})
	if len(s.Ruled) > 0 {
		list = append(list, Option{"set", Presets, JSON(s.Ruled), s.RuledBy, nil})
	}
	slices.SortStableFunc(list, func(a, b Option) int { return slices.Index(groups, a.Group) - slices.Index(groups, b.Group) })
	return list
}

// maxColumn is the last column in which comments begin that are aligned.
const maxColumn = 48

// Print prints every value with its origin: YAML that --config takes, or one JSON object.
func (s *Set) Print(w io.Writer, asJSON bool) error {
	list := s.printed()
	if asJSON {
		object := map[string]any{}
		for _, o := range list {
			object[o.Name] = map[string]any{"value": o.Value, "from": o.From.At}
		}
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		return e.Encode(object)
	}
	texts, width := make([]string, len(list)), 0
	for k, o := range list {
		text, err := s.yaml(o)
		if err != nil {
			return err
		}
		if o.row != nil && o.row.Auto && o.From.Kind == FromDefault { // without the mark --config would take it for a choice
			text, list[k].From.At = "# "+text, o.From.At+"; the run may choose another"
		}
		texts[k] = text
		if n := utf8.RuneCountInString(text); n <= maxColumn { // a long line moves only its own comment
			width = max(width, n)
		}
	}
	group := ""
	for k, o := range list {
		if o.Group != group {
			group = o.Group
			fmt.Fprintf(w, "\n# %s\n", group)
		}
		if _, err := fmt.Fprintf(w, "%-*s  # %s\n", width, texts[k], list[k].From.At); err != nil {
			return err
		}
	}
	return nil
}

// yaml returns an option as one line of a configuration file.
func (s *Set) yaml(o Option) (string, error) {
	if o.row == nil || o.row.Kind.Many {
		if line := o.Name + ": " + string(o.Value); o.row == nil || o.row.Masked == "" {
			return line, nil // JSON is YAML
		}
		return "# " + o.Name + ": " + string(o.Value) + o.row.Masked, nil
	}
	value := s.Value(o.Name)
	if w, ok := o.row.Kind.word(value); ok {
		value = w
	}
	switch value.(type) {
	case nil, bool, int, uint64, float64, string:
	case json.Marshaler:
		if o.Value[0] != '"' { // such as a seed, which has more digits than a float64
			return o.Name + ": " + string(o.Value), nil
		}
		value = o.row.Kind.Text(value)
	default:
		value = o.row.Kind.Text(value)
	}
	text, err := yaml.Marshal(value)
	line := strings.TrimSpace(string(text))
	if strings.Contains(line, "\n") { // a comment would become part of a block
		line = string(o.Value)
	}
	return o.Name + ": " + line, err
}
