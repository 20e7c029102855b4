package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/preset"
)

// notInFiles are the flags that a configuration file cannot set.
var notInFiles = []string{"config", "config-schema", "print-config", "help"}

// anyCount is a number of things.
var anyCount = whole(0, math.MaxInt)

// presetKind is the name of a preset, also one of those that it had before.
var presetKind = func() kind {
	k := word(preset.Names...)
	k.parse = func(text string) (any, bool) {
		_, ok := preset.Named(text)
		return text, ok
	}
	return k
}()

// flagKinds are the kinds of the flags whose values have a range or are words.
var flagKinds = map[string]kind{
	"preset":      presetKind,
	"concurrency": lanesKind(replay.MaxConcurrency),
	"drain":       span,
	"part":        partKind, "meet-timeout": longer,
	"duration": span, "wait": span, "slice-duration": span,
	"repeat":   whole(1, replay.MaxRepeat),
	"requests": anyCount, "trees": anyCount, "limit-traces": anyCount, "max-context": contextKind,
	"workers":          whole(0, convert.MaxWorkers),
	"payload":          word("chat", "anthropic", "ids", "text"),
	"max-tokens-field": word("max_tokens", "max_completion_tokens", "none"),
	"profile":          word(convert.Profiles()...),
}

// kindOfFlag returns the kind of a flag.
func kindOfFlag(f *pflag.Flag) kind {
	if a, ok := f.Value.(aliasValue); ok {
		return a.setting.kind
	}
	if k, ok := flagKinds[f.Name]; ok {
		return k
	}
	switch f.Value.Type() {
	case "bool":
		return yesOrNo
	case "int":
		return kind{want: "a whole number", tags: []string{yamlInt}, schema: map[string]any{"type": "integer"}}
	case "duration":
		return span
	}
	return anyText
}

// readConfig gives settings and flags what the configuration file says.
func (r *resolution) readConfig() {
	f := r.flags.Lookup("config")
	if f == nil || f.Value.String() == "" {
		return
	}
	file := f.Value.String()
	text, err := readConfigFile(file)
	if err != nil {
		r.add("%s: %w", named(f), err)
		return
	}
	entries, err := configEntries(text)
	if err != nil {
		r.add("%s", yamlError(file, err))
		return
	}
	lines := map[string]int{}
	for k := 0; k+1 < len(entries); k += 2 {
		key, value := entries[k], entries[k+1]
		at := file + ":" + strconv.Itoa(key.Line)
		if key.Kind != yaml.ScalarNode {
			r.add("%s: want NAME: VALUE on each line", at)
			continue
		}
		if before, twice := lines[keyOf(key.Value)]; twice {
			r.add("%s: %s: line %d has this key already", at, key.Value, before)
			continue
		}
		lines[keyOf(key.Value)] = key.Line
		r.readEntry(file, at, key, value)
	}
}

// maxConfigFile bounds a configuration file, in bytes: what is longer is another file, such as a trace.
const maxConfigFile = 1 << 20

func readConfigFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfigFile+1))
	if len(text) > maxConfigFile {
		err = fmt.Errorf("%s has more than %d bytes: want a configuration file", name, maxConfigFile)
	}
	return text, err
}

// keyOf returns what a key of a file sets: a flag that is an alias sets the setting.
func keyOf(key string) string {
	if s := aliased(key); s != nil {
		return s.name
	}
	return key
}

// configEntries returns the keys and values of a YAML mapping, one after the other.
func configEntries(text []byte) ([]*yaml.Node, error) {
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
	case root.Kind == yaml.ScalarNode && root.Tag == yamlNull:
		return nil, nil // comments alone
	case root.Kind != yaml.MappingNode:
		return nil, fmt.Errorf("yaml: line %d: want NAME: VALUE on each line", root.Line)
	}
	return root.Content, nil
}

// readEntry gives a setting or a flag the value of a key.
func (r *resolution) readEntry(file, at string, key, value *yaml.Node) {
	if value.Kind == yaml.AliasNode {
		value = value.Alias
	}
	from := origin{fromFile, at}
	setting, f := settingNamed(key.Value), r.flags.Lookup(key.Value)
	if s := aliased(key.Value); s != nil {
		setting = s
	}
	switch {
	case setting != nil:
		text, err := settingYAML(setting, value)
		if err != nil {
			r.add("%s: %s: %w", at, shownYAML(key, value), err)
			return
		}
		r.give(given{setting, text, fmt.Sprintf("%s: %s: %s", at, key.Value, text), from})
	case f == nil || slices.Contains(notInFiles, key.Value):
		r.add("%s: %s: no switch, option or flag of a file has this name: %s", at, key.Value, nearest(key.Value, r.fileKeys()))
	default:
		texts, err := flagYAML(f, value)
		if err != nil {
			r.add("%s: %s: %w", at, shownYAML(key, value), err)
			return
		}
		if f.Name == "set" {
			for _, text := range texts {
				r.giveSet(text, fmt.Sprintf("%s: set: %s", at, text), from)
			}
			return
		}
		r.setFlag(f, texts, fmt.Sprintf("%s: %s: %s", at, key.Value, strings.Join(texts, " ")), from)
	}
}

// fileKeys lists the keys that a file may have.
func (r *resolution) fileKeys() (names []string) {
	for _, s := range settings {
		names = append(names, s.name)
	}
	r.flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(notInFiles, f.Name) {
			names = append(names, f.Name)
		}
	})
	return names
}
