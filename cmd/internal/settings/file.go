package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxFile bounds a configuration file, in bytes: what is longer is another file, such as a trace.
const maxFile = 1 << 20

// readConfig gives rows what the configuration file says.
func (s *Set) readConfig() {
	file := s.text("config")
	if file == "" {
		return
	}
	text, err := readFile(file)
	if err != nil {
		s.Refuse("config")
		config := s.winner(s.named("config"))
		s.wrong(fmt.Errorf("%s: %w", config.from.At, err), "")
		return
	}
	entries, err := entriesOf(text)
	if err != nil {
		s.Refuse("config")
		s.wrong(errors.New(yamlError(file, text, err)), "")
		return
	}
	keys := map[string]*yaml.Node{}
	for k := 0; k+1 < len(entries); k += 2 {
		key, value := entries[k], entries[k+1]
		at := file + ":" + strconv.Itoa(key.Line)
		if key.Kind != yaml.ScalarNode {
			s.wrong(fmt.Errorf("%s: want NAME: VALUE on each line", at), "")
			continue
		}
		row, opposite := s.lookup(key.Value)
		name := key.Value
		if row != nil {
			name = row.Name
		}
		if before := keys[name]; before != nil {
			as := ""
			if before.Value != key.Value {
				as = ", as " + before.Value
			}
			s.wrong(fmt.Errorf("%s: %s: line %d has this key already%s", at, key.Value, before.Line, as), "")
			continue
		}
		keys[name] = key
		if row == nil || slices.Contains(commandLine, name) {
			s.wrong(fmt.Errorf("%s: %s: unknown key, neither a switch nor an option nor a flag: %s", at, key.Value, s.nearest(key.Value, s.names())), "")
			continue
		}
		s.readEntry(row, at, key, value, opposite)
	}
}

// readFile reads a file of at most maxFile bytes.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if len(text) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes, too many for a configuration file: is it the right file?", name, maxFile)
	}
	return text, err
}

// entriesOf returns the keys and values of a YAML mapping, one after the other.
func entriesOf(text []byte) ([]*yaml.Node, error) {
	var doc, more yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&doc); errors.Is(err, io.EOF) || err == nil && doc.Kind == 0 {
		return nil, nil // empty
	} else if err != nil {
		return nil, err
	}
	root := doc.Content[0]
	switch {
	case !errors.Is(d.Decode(&more), io.EOF):
		return nil, fmt.Errorf("yaml: line %d: want one document", max(more.Line, 1))
	case root.Kind == yaml.ScalarNode && root.Tag == null:
		return nil, nil // comments alone
	case root.Kind != yaml.MappingNode:
		return nil, fmt.Errorf("yaml: line %d: want NAME: VALUE on each line", root.Line)
	}
	return root.Content, nil
}

// readEntry gives a row the value of a key of the file. at is FILE:LINE; opposite: the key is an old name that says the opposite.
func (s *Set) readEntry(row *Setting, at string, key, value *yaml.Node, opposite bool) {
	if value.Kind == yaml.AliasNode {
		value = value.Alias
	}
	texts, err := textsOf(row.Kind, value)
	if err != nil {
		s.Refuse(row.Name)
		s.wrong(fmt.Errorf("%s: %w", at+": "+row.shown(shownYAML(key, value), key.Value), err), "")
		return
	}
	for _, text := range texts {
		if opposite {
			text = inverted(text)
		}
		if shown := at + ": " + key.Value + ": " + text; row.Name == "set" {
			s.setText(text, shown, Origin{FromFile, at})
		} else {
			s.give(row, text, row.shown(shown, at+": "+key.Value), Origin{FromFile, at})
		}
	}
}

// textsOf returns a YAML value as texts that a flag takes: several for a flag that is repeated. Scalars must have a type of the kind.
func textsOf(k Kind, n *yaml.Node) (texts []string, err error) {
	switch {
	case n.Kind == yaml.MappingNode && k.Object != nil:
		text, err := k.Object(n)
		return []string{text}, err
	case n.Kind != yaml.SequenceNode || !k.Many && !k.Commas:
		text, err := k.scalar(n)
		return []string{text}, err
	}
	if k.Commas {
		k.Tags = slices.DeleteFunc(slices.Clone(k.Tags), func(tag string) bool { return tag == Text && len(k.Tags) > 1 })
	}
	for _, item := range n.Content {
		text := ""
		if item.Kind == yaml.MappingNode && k.Object != nil {
			text, err = k.Object(item)
		} else {
			text, err = k.scalar(item)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", item.Line, err)
		}
		texts = append(texts, text)
	}
	if k.Commas {
		texts = []string{strings.Join(texts, ",")}
	}
	return texts, nil
}

// scalar returns a YAML scalar as the text that a flag takes. Its type must be one that the kind has in Tags.
func (k Kind) scalar(n *yaml.Node) (string, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	wrong := k.wrong(n.Value)
	if k.Many {
		wrong = errors.New("want " + k.Want)
	}
	tag := n.ShortTag()
	switch {
	case n.Kind != yaml.ScalarNode:
		return "", wrong
	case tag == null && (k.off || slices.Contains(k.Words, "off")):
		return "off", nil
	case tag == Float && slices.Contains(k.Tags, Int): // 1e6 is a whole number, too
	case !slices.Contains(k.Tags, tag) && !(k.off && n.Value == "off"):
		return "", wrong
	}
	switch {
	case slices.Contains(k.Words, n.Value):
		return n.Value, nil
	case tag == Int || tag == Float:
		if text, ok := decimal(n); ok {
			return text, nil
		}
		return "", wrong
	case k.Type == Yes.Type && tag == Text && n.Value != "on" && n.Value != "off":
		return "", wrong
	}
	return n.Value, nil
}

// decimal returns a YAML number in decimal digits without an exponent, as flags take it.
func decimal(n *yaml.Node) (text string, ok bool) {
	var i int64
	var u uint64
	var x float64
	switch {
	case n.ShortTag() == Float:
		ok = n.Decode(&x) == nil
		return strconv.FormatFloat(x, 'f', -1, 64), ok
	case n.Decode(&i) == nil:
		return strconv.FormatInt(i, 10), true
	}
	ok = n.Decode(&u) == nil
	return strconv.FormatUint(u, 10), ok
}

// shownYAML returns a key of a file and its value, if that is short. A text that does not stand there as it is has quotes.
func shownYAML(key, value *yaml.Node) string {
	switch {
	case value.Kind != yaml.ScalarNode:
		return key.Value
	case value.ShortTag() == Text && value.Style != 0:
		return key.Value + ": " + strconv.Quote(value.Value)
	}
	return key.Value + ": " + value.Value
}

// yamlError returns the text of a YAML error with the place as FILE:LINE. The library leaves out the first line, and those of aliases.
func yamlError(file string, text []byte, err error) string {
	line, why := "1", strings.TrimPrefix(err.Error(), "yaml: ")
	if m := regexp.MustCompile(`(?s)^line ([0-9]+): (.*)$`).FindStringSubmatch(why); m != nil {
		line, why = m[1], m[2]
	} else if m := regexp.MustCompile(`^unknown anchor '(.*)' referenced$`).FindStringSubmatch(why); m != nil {
		before, _, _ := bytes.Cut(text, []byte("*"+m[1]))
		line = strconv.Itoa(bytes.Count(before, []byte("\n")) + 1)
	}
	return file + ":" + line + ": " + why
}

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

// maxColumn bounds the column at which --print-config aligns comments.
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

// Schema prints the JSON schema of configuration files: doc/replay-config.schema.json.
func (s *Set) Schema(w io.Writer) error {
	s.Adopt(otherFlags)
	properties := map[string]any{}
	for _, row := range s.rows {
		if slices.Contains(commandLine, row.Name) {
			continue
		}
		schema := row.Kind.Schema
		if row.empty() && len(row.Kind.Words) > 0 { // the default is a value, too
			schema = map[string]any{"anyOf": []any{schema, map[string]any{"const": ""}}}
		}
		if row.Kind.Many {
			schema = map[string]any{"anyOf": []any{schema, map[string]any{"type": "array", "items": schema}}}
		}
		described := maps.Clone(schema)
		described["description"] = row.Help
		properties[row.Name] = described
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(map[string]any{
		"$schema":              "https://json-schema.org/draft/2020-12/schema",
		"title":                "agentx replay --config",
		"description":          "Settings of a replay by their names, which are those of flags.",
		"type":                 []any{"object", "null"},
		"additionalProperties": false,
		"properties":           properties,
	})
}
