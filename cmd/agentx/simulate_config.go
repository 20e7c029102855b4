package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/internal/suggest"
	"github.com/agentx/agentx/simulate/preset"
)

// resolve reads the configuration file and the environment, and finds what sets each switch. The command line has the last word,
// then the environment, then the file, then the preset.
func (f *simulateFlags) resolve() {
	f.switches = map[string]given{}
	f.lanes = &resolution{flags: pflag.NewFlagSet("", pflag.ContinueOnError), problems: &f.problems, values: map[string]settled{}}
	f.readEnvironment() // first: it may name the file
	typed := f.set
	setBy := origin{fromFlag, "--set"}
	if set := f.flags.Lookup("set"); originOf(set).kind == fromEnvironment {
		setBy = originOf(set)
	}
	f.readConfig()
	for _, text := range typed {
		f.giveSet(text, flagText("set", text), setBy)
	}
	f.settleLanes()
	if !slices.Contains(preset.Names, f.preset) {
		f.add("--preset %s: %w", f.preset, wrongWord(f.preset, either(preset.Names), preset.Names))
		f.preset = preset.Default
	}
}

// readEnvironment sets flags that the command line does not set.
func (f *simulateFlags) readEnvironment() {
	f.flags.VisitAll(func(one *pflag.Flag) {
		name := twin(one.Name)
		text, ok := os.LookupEnv(name)
		if !ok || one.Changed || text == "" && (one.Name == "set" || isAlias(one)) { // which is no value
			return
		}
		f.setFlag(one, []string{text}, name+"="+text, origin{fromEnvironment, name})
	})
}

// setFlag sets a flag that nothing sets yet.
func (f *simulateFlags) setFlag(one *pflag.Flag, values []string, shown string, from origin) {
	if one.Changed {
		return
	}
	f.shown = shown
	defer func() { f.shown = "" }()
	for _, text := range values {
		if err := f.flags.Set(one.Name, text); err != nil {
			f.add("%s: %w", shown, explainValue(err))
		}
	}
	_ = f.flags.SetAnnotation(one.Name, originNote, []string{from.kind, from.at}) // the flag exists
}

// giveSet takes a value of --set: of a switch, or of a rule of the reconstruction.
func (f *simulateFlags) giveSet(text, shown string, from origin) {
	name, value, ok := strings.Cut(text, "=")
	switch {
	case !ok:
		f.add("%s: want NAME=VALUE", shown)
	case slices.Contains(preset.List(), name):
		if err := (&preset.Switches{}).Set(name, value); err != nil {
			f.add("%s: %w", shown, err)
			return
		}
		f.switches[name] = given{text: value, from: from}
	case isLaneSetting(settingNamed(name)):
		f.giveLane(settingNamed(name), value, shown, from)
	case slices.Contains(weka.RuleNames(), name):
		f.rules = append(f.rules, text)
	case settingNamed(name) != nil:
		f.add("%s: a setting of a replay that a simulation does not have: it has %s", shown, strings.Join(laneSettings, ", "))
	default:
		f.add("%s: no switch, no setting of lanes and no rule of the reconstruction has this name: %s", shown, nearest(name, setNames()))
	}
}

// readConfig gives switches and flags what the configuration file says.
func (f *simulateFlags) readConfig() {
	if f.config == "" {
		return
	}
	text, err := readConfigFile(f.config)
	if err != nil {
		f.add("%s: %w", named(f.flags.Lookup("config")), err)
		return
	}
	entries, err := configEntries(text)
	if err != nil {
		f.add("%s", yamlError(f.config, err))
		return
	}
	lines := map[string]int{}
	for k := 0; k+1 < len(entries); k += 2 {
		key, value := entries[k], entries[k+1]
		at := f.config + ":" + strconv.Itoa(key.Line)
		if before, twice := lines[key.Value]; twice {
			f.add("%s: %s: line %d has this key already", at, key.Value, before)
			continue
		}
		lines[key.Value] = key.Line
		f.readEntry(at, key.Value, value)
	}
}

// readEntry gives a switch or a flag the value of a key of the file.
func (f *simulateFlags) readEntry(at, key string, value *yaml.Node) {
	from := origin{fromFile, at}
	texts, err := textsOf(value)
	shown := fmt.Sprintf("%s: %s: %s", at, key, strings.Join(texts, " "))
	one := f.flags.Lookup(key)
	switch {
	case err != nil:
		f.add("%s: %s: %w", at, key, err)
	case (slices.Contains(preset.List(), key) || isLaneSetting(settingNamed(key))) && len(texts) == 1:
		f.giveSet(key+"="+texts[0], shown, from)
	case one == nil || slices.Contains(notInFiles, key):
		f.add("%s: %s: no switch and no flag of a file has this name: %s", at, key, nearest(key, f.fileKeys()))
	case key == "set":
		for _, text := range texts {
			f.giveSet(text, fmt.Sprintf("%s: set: %s", at, text), from)
		}
	default:
		if _, list := one.Value.(pflag.SliceValue); !list && len(texts) != 1 {
			texts = []string{strings.Join(texts, ",")}
		}
		f.setFlag(one, texts, shown, from)
	}
}

// textsOf returns a value of a file as the command line takes it: a mapping as JSON, a list as several texts.
func textsOf(n *yaml.Node) (texts []string, err error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch n.Kind {
	case yaml.ScalarNode:
		return []string{n.Value}, nil
	case yaml.SequenceNode:
		for _, item := range n.Content {
			one, err := textsOf(item)
			if err != nil {
				return nil, err
			}
			texts = append(texts, one...)
		}
		return texts, nil
	}
	var object map[string]any
	if err := n.Decode(&object); err != nil {
		return nil, err
	}
	data, err := json.Marshal(object)
	return []string{string(data)}, err
}

// setNames lists the names that --set takes.
func setNames() []string {
	return slices.Concat(weka.RuleNames(), preset.List(), laneSettings)
}

// fileKeys lists the keys that a file may have.
func (f *simulateFlags) fileKeys() []string {
	names := append(preset.List(), laneSettings...)
	f.flags.VisitAll(func(one *pflag.Flag) {
		if !slices.Contains(notInFiles, one.Name) {
			names = append(names, one.Name)
		}
	})
	return names
}

// switchesOf returns the values of all switches.
func (f *simulateFlags) switchesOf() preset.Switches {
	s, _ := preset.Named(f.preset) // resolve has checked it
	for name, g := range f.switches {
		_ = s.Set(name, g.text) // giveSet has checked it
	}
	return s
}

// printConfiguration prints every switch, and every flag that something sets, with its origin: YAML that --config takes, or one
// JSON object.
func (f *simulateFlags) printConfiguration(w io.Writer) error {
	lines := f.configLines()
	if f.asJSON {
		object := map[string]any{}
		for _, l := range lines {
			object[l.name] = map[string]any{"value": l.value, "from": l.from.at}
		}
		return printJSON(w, object)
	}
	for _, l := range lines {
		text, err := configYAML(l)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(w, "%-40s  # %s\n", text, l.from.at); err != nil {
			return err
		}
	}
	return nil
}

func (f *simulateFlags) configLines() (list []configLine) {
	list = append(list, configLine{name: "preset", value: f.preset, from: originOf(f.flags.Lookup("preset"))})
	s := f.switchesOf()
	for _, name := range preset.List() {
		from := origin{fromPreset, fromPreset + " " + f.preset}
		if g, ok := f.switches[name]; ok {
			from = g.from
		}
		list = append(list, configLine{name: name, value: s.Get(name), from: from})
	}
	f.flags.VisitAll(func(one *pflag.Flag) {
		hidden := slices.Contains([]string{"set", "preset", "json"}, one.Name) || isAlias(one) || slices.Contains(notInFiles, one.Name)
		if !hidden && one.Changed {
			list = append(list, configLine{name: one.Name, value: shownFlag(one), from: originOf(one)})
		}
	})
	list = append(list, f.laneLines()...)
	if len(f.rules) > 0 {
		list = append(list, configLine{name: "set", value: f.rules, from: origin{fromFlag, "--set"}})
	}
	return list
}

// wrongKey names the nearest of several keys in an error about one that does not exist.
func wrongKey(name string, known []string) error {
	if near := suggest.Closest(name, known); near != "" {
		return fmt.Errorf("unknown key %q; did you mean %q?", name, near)
	}
	return fmt.Errorf("unknown key %q; the keys are %s", name, strings.Join(known, ", "))
}
