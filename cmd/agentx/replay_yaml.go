package main

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// The YAML tags of scalars.
const (
	yamlInt, yamlFloat, yamlText, yamlBool, yamlNull = "!!int", "!!float", "!!str", "!!bool", "!!null"
)

// settingYAML returns the value of a setting in a file as --set takes it.
func settingYAML(s *setting, n *yaml.Node) (string, error) {
	if s.name == "Warmup" && n.Kind == yaml.MappingNode {
		return warmupYAML(n)
	}
	if !s.kind.list || n.Kind != yaml.SequenceNode {
		return scalarYAML(s.kind, n)
	}
	var texts []string
	for _, item := range n.Content {
		text, err := scalarYAML(s.kind, item)
		if err != nil {
			return "", fmt.Errorf("line %d: %w", item.Line, err)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ","), nil
}

// warmupYAML returns the bounds of a pressure stage as --set takes them.
func warmupYAML(n *yaml.Node) (string, error) {
	var bounds []string
	for k := 0; k+1 < len(n.Content); k += 2 {
		of := kind{want: "requests or duration"}
		switch n.Content[k].Value {
		case "requests":
			of = whole(1, math.MaxInt)
		case "duration":
			of = longer
		}
		text, err := scalarYAML(of, n.Content[k+1])
		if err != nil {
			return "", fmt.Errorf("%s: %w", n.Content[k].Value, err)
		}
		bounds = append(bounds, n.Content[k].Value+"="+text)
	}
	return strings.Join(bounds, ","), nil
}

// scalarYAML returns a scalar as a flag takes it. Its type must be one of the kind.
func scalarYAML(k kind, n *yaml.Node) (string, error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	wrong := k.wrong(n.Value)
	tag := n.ShortTag()
	switch {
	case n.Kind != yaml.ScalarNode:
		return "", wrong
	case tag == yamlNull && (k.off || slices.Contains(k.words, "off")):
		return "off", nil
	case tag == yamlFloat && slices.Contains(k.tags, yamlInt): // 1e6 is a whole number, too
	case !slices.Contains(k.tags, tag) && !(k.off && n.Value == "off"):
		return "", wrong
	}
	switch {
	case slices.Contains(k.words, n.Value):
		return n.Value, nil
	case tag == yamlInt || tag == yamlFloat:
		if text, ok := numberYAML(n); ok {
			return text, nil
		}
		return "", wrong
	case k.flag == yesOrNo.flag && tag == yamlText && n.Value != "on" && n.Value != "off":
		return "", wrong
	case k.flag == yesOrNo.flag:
		v, err := k.read(n.Value)
		return fmt.Sprint(v), err
	}
	return n.Value, nil
}

// numberYAML returns a number as a flag takes it: decimal, without an exponent.
func numberYAML(n *yaml.Node) (text string, ok bool) {
	var i int64
	var u uint64
	var x float64
	switch {
	case n.ShortTag() == yamlFloat:
		ok = n.Decode(&x) == nil
		return strconv.FormatFloat(x, 'f', -1, 64), ok
	case n.Decode(&i) == nil:
		return strconv.FormatInt(i, 10), true
	}
	ok = n.Decode(&u) == nil
	return strconv.FormatUint(u, 10), ok
}

// flagYAML returns the value of a flag in a file as the command line takes it: several texts for a flag that is repeated.
func flagYAML(f *pflag.Flag, n *yaml.Node) (texts []string, err error) {
	_, list := f.Value.(pflag.SliceValue)
	kind := kindOfFlag(f)
	if !list && !kind.list || n.Kind != yaml.SequenceNode {
		text, err := scalarYAML(kind, n)
		return []string{text}, err
	}
	for _, item := range n.Content {
		of := anyText
		if kind.list {
			of = kind
			of.tags = []string{yamlInt}
		}
		text, err := scalarYAML(of, item)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", item.Line, err)
		}
		texts = append(texts, text)
	}
	if kind.list {
		texts = []string{strings.Join(texts, ",")}
	}
	return texts, nil
}

// shownYAML returns a key of a file and its value, if that is short. A text that does not stand there as it is has quotes.
// Servers may have passwords in them.
func shownYAML(key, value *yaml.Node) string {
	switch {
	case value.Kind != yaml.ScalarNode || key.Value == "url":
		return key.Value
	case value.ShortTag() == yamlText && value.Style != 0:
		return key.Value + ": " + strconv.Quote(value.Value)
	}
	return key.Value + ": " + value.Value
}

// yamlError returns the text of a YAML error with the place as FILE:LINE.
func yamlError(file string, err error) string {
	if m := regexp.MustCompile(`(?s)^yaml: line ([0-9]+): (.*)$`).FindStringSubmatch(err.Error()); m != nil {
		return file + ":" + m[1] + ": " + m[2]
	}
	return file + ": " + strings.TrimPrefix(err.Error(), "yaml: ")
}
