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
)

// aboutRun is what the results say of a run besides what the player knows: the program, what the dataset was made of, and
// every option with where it came from. set are the values of --set.
func aboutRun(cmd *cobra.Command, o *replay.Options, set []string) (measure.Run, error) {
	dataset, err := aboutDataset(o.Cache)
	return measure.Run{Version: version, Commit: commit, Dataset: dataset, Options: optionsOf(cmd.Flags(), o, set)}, err
}

// aboutDataset reads what a dataset was made of: from its manifests, and names from its provenance.
func aboutDataset(c *mmapcache.Cache) (d measure.Dataset, err error) {
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

// profileOf names the profile that rules of a reconstruction are nearest to, and those that are not its own.
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

// changedFields returns the fields of a JSON object that another does not have so.
func changedFields(object, other json.RawMessage) map[string]any {
	var a, b map[string]any
	_, _ = json.Unmarshal(object, &a), json.Unmarshal(other, &b) // what is no object has no fields
	maps.DeleteFunc(a, func(name string, v any) bool { w, ok := b[name]; return ok && v == w })
	return a
}

// optionsOf lists the flags of a command and the options of --set, with their values and where these came from.
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

// source says where the value of a flag came from.
func source(f *pflag.Flag) string {
	if f == nil || !f.Changed {
		return "default"
	}
	if _, ok := f.Annotations[inEnvironment]; ok {
		return "environment"
	}
	return "flag"
}

// flagValue is the value of a flag as JSON, without what may be a secret: of header fields the names alone.
func flagValue(f *pflag.Flag) json.RawMessage {
	if d, ok := f.Value.(duration); ok {
		return valueOf(d.to)
	}
	if list, ok := f.Value.(pflag.SliceValue); ok {
		values := list.GetSlice()
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
	if f.Name == "url" {
		text = replay.RedactURL(text)
	}
	return valueOf(text)
}

// valueOf is a value as JSON: durations in seconds, limits of 0 are off.
func valueOf(v any) json.RawMessage {
	switch at := v.(type) {
	case *time.Duration:
		v = at.Seconds()
	case *replay.Backoff:
		v = at.Max.Seconds()
	case *replay.Order:
		for name, order := range orders {
			if order == *at {
				v = name
			}
		}
	}
	text, err := json.Marshal(v)
	if err != nil { // a number that is none
		return json.RawMessage("null")
	}
	return text
}
