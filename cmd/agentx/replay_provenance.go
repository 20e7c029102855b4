package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
)

// runProvenance returns what the results say of a run besides its measurements: the program, what the dataset was made
// from, and every option with its origin. Set are the values of --set.
func runProvenance(cmd *cobra.Command, o *replay.Options, set []string) (measure.Run, error) {
	dataset, err := datasetProvenance(o.Cache)
	return measure.Run{Version: version, Commit: commit, Dataset: dataset, Options: optionsOf(cmd.Flags(), o, set)}, err
}

// datasetProvenance returns what a dataset was made from: by its manifests, with names from its provenance.
func datasetProvenance(c *mmapcache.Cache) (d measure.Dataset, err error) {
	info, err := cachestore.Describe(c.Root, c.Manifest.Key)
	if err != nil {
		return d, err
	}
	for _, part := range info.Directories {
		var image struct {
			Rules  json.RawMessage
			Inputs []measure.Input
			Draws  json.RawMessage
		}
		if err := json.Unmarshal(part.Manifest.PreImage, &image); err != nil {
			return d, err
		}
		switch part.Manifest.Kind {
		case mmapcache.StructureKind:
			d.Profile, d.Changed = profileOf(image.Rules)
			d.Inputs = image.Inputs
			if p := part.Provenance; p != nil && len(p.Sources) == len(d.Inputs) {
				for k := range d.Inputs {
					d.Inputs[k].Name = p.Sources[k].Path
				}
			}
		case mmapcache.PlacementKind:
			d.Draws = image.Draws
		case mmapcache.ArenasKind:
			if p := part.Provenance; p != nil {
				d.Corpus, d.Tokenizer = p.Corpus, p.Tokenizer
			}
		}
	}
	return d, nil
}

// profileOf returns the profile that differs least from some rules of the reconstruction, and the rules that differ.
func profileOf(rules json.RawMessage) (profile string, changed json.RawMessage) {
	best := -1
	for _, name := range []string{"default", "aiperf"} {
		own := weka.Default()
		if name == "aiperf" {
			own = weka.AIPerf()
		}
		text, _ := json.Marshal(own) // names and numbers always marshal
		if others := changedFields(rules, text); best < 0 || len(others) < best {
			best, profile, changed = len(others), name, nil
			if best > 0 {
				changed, _ = json.Marshal(others)
			}
		}
	}
	return profile, changed
}

// changedFields returns the fields of a JSON object that another object lacks or has with another value.
func changedFields(object, other json.RawMessage) map[string]any {
	var a, b map[string]any
	_, _ = json.Unmarshal(object, &a), json.Unmarshal(other, &b) // other JSON has no fields
	maps.DeleteFunc(a, func(name string, v any) bool { w, ok := b[name]; return ok && v == w })
	return a
}

// optionsOf lists the flags of a command and the options of --set, each with its value and the origin of that.
func optionsOf(flags *pflag.FlagSet, o *replay.Options, set []string) (list []measure.Option) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && f.Name != "set" {
			list = append(list, measure.Option{Name: f.Name, Value: flagValue(f), From: source(f)})
		}
	})
	given := map[string]bool{}
	for _, s := range set {
		name, _, _ := strings.Cut(s, "=")
		given[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		from := "default"
		if given[name] {
			from = source(flags.Lookup("set"))
		}
		list = append(list, measure.Option{Name: name, Value: valueOf(settings[name].at(o)), From: from})
	}
	return list
}

// source returns the origin of the value of a flag: default, environment or flag.
func source(f *pflag.Flag) string {
	if f == nil || !f.Changed {
		return "default"
	}
	if _, ok := f.Annotations[inEnvironment]; ok {
		return "environment"
	}
	return "flag"
}

// flagValue returns the value of a flag as JSON, without secrets: of header fields only the names.
func flagValue(f *pflag.Flag) json.RawMessage {
	if d, ok := f.Value.(duration); ok {
		return valueOf(d.to)
	}
	if list, ok := f.Value.(pflag.SliceValue); ok {
		values := list.GetSlice()
		if f.Name == "url" {
			return urlsValue(values)
		}
		for k := range values {
			if f.Name == "header" {
				values[k], _, _ = strings.Cut(values[k], ":")
			}
		}
		return valueOf(values)
	}
	text := f.Value.String()
	switch f.Value.Type() {
	case "bool", "int", "int64", "float64":
		return json.RawMessage(text)
	}
	return valueOf(text)
}

// urlsValue returns the values of --url as JSON, without secrets: one as a text, several as a list.
func urlsValue(values []string) json.RawMessage {
	values = strings.Split(strings.Join(values, ","), ",")
	for k := range values {
		values[k] = replay.RedactURL(values[k])
	}
	if len(values) == 1 {
		return valueOf(values[0])
	}
	return valueOf(values)
}

// valueOf returns a value as JSON: durations in seconds, orders by name.
func valueOf(v any) json.RawMessage {
	switch at := v.(type) {
	case *time.Duration:
		v = at.Seconds()
	case **preset.Seconds:
		v = (*at).Duration().Seconds()
	case *replay.Backoff:
		v = at.Max.Seconds()
	case *replay.Order, *replay.ReadyMode:
		v = settingText(at)
	}
	text, err := json.Marshal(v)
	if err != nil { // NaN or infinity
		return json.RawMessage("null")
	}
	return text
}
