package main

import (
	"encoding/json"
	"maps"
	"strings"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/internal/settings"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
)

// runProvenance returns what the results say of a run besides its measurements: the program, what the dataset was made
// from, and every option with its origin. A dataset that was built of local files, and found when a hub was asked for the same ones
// now, has the names of the hub: sources are the files of the INPUT, if one was converted.
func runProvenance(o *replay.Options, set *settings.Set, sources []mmapcache.Source) (measure.Run, error) {
	dataset, err := datasetProvenance(o.Cache.Root, o.Cache.Manifest.Key)
	for k := range dataset.Inputs {
		if len(sources) == len(dataset.Inputs) && strings.HasPrefix(sources[k].Path, measure.HubPrefix) {
			dataset.Inputs[k].Name = sources[k].Path
		}
	}
	r := measure.Run{Version: version, Commit: commit, Dataset: dataset}
	for _, option := range set.Options() {
		r.Options = append(r.Options, measure.Option{Name: option.Name, Value: option.Value, From: option.From.Kind})
	}
	return r, err
}

// datasetProvenance returns what a dataset was made from: by its manifests, with names from its provenance. Of a dataset of shards
// its own manifest says what those of structure and starts say of another.
func datasetProvenance(root, key string) (d measure.Dataset, err error) {
	info, err := cachestore.Describe(root, key)
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
		if image.Rules != nil {
			d.Profile, d.Changed = profileOf(image.Rules)
			d.Inputs = image.Inputs
			if p := part.Provenance; p != nil && len(p.Sources) == len(d.Inputs) {
				for k := range d.Inputs {
					d.Inputs[k].Name = p.Sources[k].Path
				}
			}
		}
		if image.Draws != nil {
			d.Draws = image.Draws
		}
		if p := part.Provenance; p != nil && part.Manifest.Kind == mmapcache.ArenasKind {
			d.Corpus, d.Tokenizer = p.Corpus, p.Tokenizer
		}
	}
	return d, nil
}

// profileOf returns the profile that differs least from some rules of the reconstruction, and the rules that differ.
func profileOf(recorded json.RawMessage) (profile string, changed json.RawMessage) {
	best := -1
	for _, name := range []string{"default", "aiperf"} {
		own := rules.Default()
		if name == "aiperf" {
			own = rules.AIPerf()
		}
		text, _ := json.Marshal(own) // names and numbers always marshal
		if others := changedFields(recorded, text); best < 0 || len(others) < best {
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
