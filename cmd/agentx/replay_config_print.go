package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// configLine is a switch, an option or a flag, as --print-config shows it.
type configLine struct {
	name  string
	group string
	value any
	from  origin
	auto  bool // the run finds out what its default means
}

// configLines lists the preset, all switches and options, and the flags that something sets.
func (r *resolution) configLines() (list []configLine) {
	if f := r.flags.Lookup("preset"); f != nil {
		list = append(list, configLine{name: "preset", value: r.preset, from: originOf(f)})
	}
	for k := range settings {
		s := &settings[k]
		v := r.values[s.name]
		list = append(list, configLine{s.name, s.group, v.value, v.from, s.auto && v.from.kind == fromDefault})
	}
	r.flags.VisitAll(func(f *pflag.Flag) {
		hidden := isAlias(f) || f.Name == "set" || f.Name == "preset" || f.Name == "json" || slices.Contains(notInFiles, f.Name)
		if !hidden && f.Changed {
			list = append(list, configLine{name: f.Name, group: "Flags", value: shownFlag(f), from: originOf(f)})
		}
	})
	if len(r.rules) > 0 {
		list = append(list, configLine{name: "set", group: "Flags", value: r.rules, from: r.ruled})
	}
	return list
}

// shownFlag returns what flagValue returns as a value: a duration as such, because a number of seconds in a file has a limit.
func shownFlag(f *pflag.Flag) (v any) {
	if c, ok := f.Value.(checkedValue); ok {
		if d, ok := c.Value.(duration); ok {
			return *d.to
		}
	}
	d := json.NewDecoder(bytes.NewReader(flagValue(f)))
	d.UseNumber() // a seed has more digits than a float64
	_ = d.Decode(&v)
	return v
}

// maxConfigColumn is the last column in which comments begin that are aligned.
const maxConfigColumn = 48

// printConfig prints every value with its origin: YAML that --config takes, or one JSON object.
func (r *resolution) printConfig(w io.Writer, asJSON bool) error {
	if asJSON {
		return printJSON(w, r.configJSON())
	}
	lines := r.configLines()
	texts, width := make([]string, len(lines)), 0
	for k, l := range lines {
		text, err := configYAML(l)
		if err != nil {
			return err
		}
		if l.auto { // without the mark --config would take it for a choice
			text, lines[k].from.at = "# "+text, l.from.at+"; the run may choose another"
		}
		texts[k] = text
		if n := utf8.RuneCountInString(text); n <= maxConfigColumn { // a long line moves only its own comment
			width = max(width, n)
		}
	}
	group := ""
	for k, l := range lines {
		if l.group != group {
			group = l.group
			fmt.Fprintf(w, "\n# %s\n", group)
		}
		if _, err := fmt.Fprintf(w, "%-*s  # %s\n", width, texts[k], l.from.at); err != nil {
			return err
		}
	}
	return nil
}

// configJSON returns every value with its origin, by name.
func (r *resolution) configJSON() map[string]any {
	object := map[string]any{}
	for _, l := range r.configLines() {
		object[l.name] = map[string]any{"value": jsonOf(l.value), "from": l.from.at}
	}
	return object
}

// configYAML returns a value as one line of a configuration file. The values of header fields are secret: their names stand in
// a comment.
func configYAML(l configLine) (string, error) {
	if l.name == "header" {
		return fmt.Sprintf("# header: %s, without their values", jsonOf(l.value)), nil
	}
	value := l.value
	switch value.(type) {
	case []any, []string, json.Number:
		return fmt.Sprintf("%s: %s", l.name, jsonOf(l.value)), nil // JSON is YAML
	case nil, bool, int, float64, string:
	default:
		value = textOf(value)
	}
	text, err := yaml.Marshal(value)
	line := strings.TrimSpace(string(text))
	if strings.Contains(line, "\n") { // a comment would become part of a block
		line = string(jsonOf(l.value))
	}
	return l.name + ": " + line, err
}
