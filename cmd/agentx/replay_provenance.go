package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
)

// runProvenance returns what the results say of a run besides its measurements: the program, what the dataset was made
// from, and every option with its origin. A dataset that was built of local files, and found when a hub was asked for the same ones
// now, has the names of the hub: sources are the files of the INPUT, if one was converted.
func runProvenance(o *replay.Options, r *resolution, sources []mmapcache.Source) (measure.Run, error) {
	dataset, err := datasetProvenance(o.Cache.Root, o.Cache.Manifest.Key)
	for k := range dataset.Inputs {
		if len(sources) == len(dataset.Inputs) && strings.HasPrefix(sources[k].Path, measure.HubPrefix) {
			dataset.Inputs[k].Name = sources[k].Path
		}
	}
	return measure.Run{Version: version, Commit: commit, Dataset: dataset, Options: r.options()}, err
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

// options lists the flags, and the switches and options by their names, each with its value and the origin of that.
func (r *resolution) options() (list []measure.Option) {
	r.flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "set" || f.Name != "config" && slices.Contains(notInFiles, f.Name) {
			return
		}
		o := measure.Option{Name: f.Name, Value: flagValue(f), From: originOf(f).kind}
		if a, ok := f.Value.(aliasValue); ok {
			v := r.values[a.setting.name]
			o.Value, o.From = aliasJSON(v.value), v.from.kind
		}
		list = append(list, o)
	})
	for _, s := range settings {
		v := r.values[s.name]
		list = append(list, measure.Option{Name: s.name, Value: jsonOf(v.value), From: v.from.kind})
	}
	return list
}

// aliasJSON returns the value of a flag that sets a setting: 0 is off.
func aliasJSON(v any) json.RawMessage {
	if v == nil {
		v = 0
	}
	return jsonOf(v)
}

// flagValue returns the value of a flag as JSON, without secrets: of header fields only the names.
func flagValue(f *pflag.Flag) json.RawMessage {
	value := f.Value
	if c, ok := value.(checkedValue); ok {
		value = c.Value
	}
	if l, ok := value.(lanes); ok && l.search.auto != nil {
		return jsonOf(l.String())
	} else if ok && len(*l.to) > 1 {
		return jsonOf(*l.to)
	}
	if d, ok := value.(duration); ok {
		return jsonOf(*d.to)
	}
	if list, ok := value.(pflag.SliceValue); ok {
		values := list.GetSlice()
		if len(values) > 0 && (f.Name == "url" || f.Name == "scrape") {
			return urlsJSON(values)
		}
		for k := range values {
			if f.Name == "header" {
				name, _, named := strings.Cut(values[k], ":")
				if !named {
					name = "" // all of it may be a secret
				}
				values[k] = name
			}
		}
		return jsonOf(values)
	}
	text := value.String()
	if _, ok := value.(*contextLength); ok && text != serverContext {
		return json.RawMessage(text)
	}
	switch value.Type() {
	case "bool", "int", "int64", "float64":
		return json.RawMessage(text)
	}
	return jsonOf(text)
}

// urlsJSON returns the values of --url or --scrape as JSON, without secrets: one as a text, several as a list.
func urlsJSON(values []string) json.RawMessage {
	values = strings.Split(strings.Join(values, ","), ",")
	for k := range values {
		values[k] = replay.RedactURL(values[k])
	}
	if len(values) == 1 {
		return jsonOf(values[0])
	}
	return jsonOf(values)
}
