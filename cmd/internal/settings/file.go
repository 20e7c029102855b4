package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

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

// readEntry gives a row the value of a key.
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

// textsOf returns a value of a file as a flag takes it: several texts for one that is repeated. Its types must be those of the kind.
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

// scalar returns a scalar as a flag takes it. Its type must be one of the kind.
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

// decimal returns a number as a flag takes it: decimal, without an exponent.
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
