package convert

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// Explanation says why a conversion would hit or miss.
type Explanation struct {
	Key     string            `json:"key"` // of the dataset
	Path    string            `json:"path"`
	Hit     bool              `json:"hit"`     // nothing would be built
	Refused string            `json:"refused"` // why the conversion would fail though the structure is there
	Parts   []PartExplanation `json:"parts"`   // structure, starts, arenas, dataset
}

// PartExplanation says it of one directory.
type PartExplanation struct {
	Kind    string        `json:"kind"`
	Key     string        `json:"key"`
	Hit     bool          `json:"hit"`
	Why     string        `json:"why"`
	Nearest []SimilarPart `json:"nearest"` // of a miss: what is most like it, nearest first
}

// SimilarPart is a directory of another key.
type SimilarPart struct {
	Path        string                `json:"path"`
	Key         string                `json:"key"`
	Source      string                `json:"source"` // first input file, and how many more
	Differences []manifest.Difference `json:"differences"`
}

// shown is how many near directories an explanation has, at most.
const shown = 3

// Explain says why Convert with these options would hit or miss, field by field against what is most like it. It builds
// and changes nothing.
func Explain(ctx context.Context, o Options) (*Explanation, error) {
	c := newConversion(o)
	e := &Explanation{Hit: true}
	err := c.resolved(ctx, func() error {
		list, err := cachestore.List(o.Root)
		if err != nil {
			return err
		}
		for _, kind := range mmapcache.Kinds() {
			p, err := c.explain(kind, list)
			if err != nil {
				return err
			}
			e.Hit = e.Hit && p.Hit
			e.Parts = append(e.Parts, p)
		}
		e.Key = c.wanted[mmapcache.DatasetKind].Key
		e.Path = mmapcache.DatasetPath(o.Root, e.Key)
		e.Refused, err = c.refused()
		return err
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// refused says why the flags refuse a structure that is there, "" where they do not.
func (c *conversion) refused() (string, error) {
	m, err := mmapcache.Lookup(c.o.Root, mmapcache.StructureKind, c.wanted[mmapcache.StructureKind].Key)
	if err != nil || m == nil || c.checkPart(m) != nil {
		return "", nil // what is damaged is built and judged again
	}
	facts, err := mmapcache.StructureFactsOf(m)
	if err != nil {
		return "", err
	}
	c.locate(&facts)
	if err := c.enforceFlags(facts); err != nil {
		return err.Error(), nil
	}
	return "", nil
}

func (c *conversion) explain(kind string, list []cachestore.Entry) (PartExplanation, error) {
	want := c.wanted[kind]
	p := PartExplanation{Kind: kind, Key: want.Key, Why: "it is there", Nearest: []SimilarPart{}}
	there, err := mmapcache.Lookup(c.o.Root, kind, want.Key)
	if err == nil && there != nil {
		err = c.checkPart(there)
		c.parts[kind] = there
	}
	switch {
	case errors.Is(err, manifest.ErrDamaged):
		p.Why = err.Error()
		return p, nil
	case err != nil:
		return p, err
	case there != nil && c.o.Force:
		p.Why = "it is there, and --force builds it again"
		return p, nil
	case there != nil:
		p.Hit = true
		return p, nil
	}
	p.Why = "there is no " + kind + " of this key"
	if kind == mmapcache.DatasetKind {
		return p, nil // it is made of the keys of the others, which say why
	}
	var others []*manifest.Manifest
	entries := map[string]cachestore.Entry{}
	for _, e := range list {
		if e.Kind != kind {
			continue
		}
		if m, err := manifest.Read(e.Path); err == nil { // what is damaged explains nothing
			others = append(others, m)
			entries[m.Key] = e
		}
	}
	nearest, err := manifest.Nearest(want, others)
	if err != nil {
		return p, err
	}
	for _, n := range nearest[:min(shown, len(nearest))] {
		e := entries[n.Manifest.Key]
		near := SimilarPart{Path: e.Path, Key: e.Key, Source: e.Source, Differences: n.Differences}
		if probes := probesOf(c.o.Root, n.Manifest); probes != nil {
			near.Differences = slices.DeleteFunc(near.Differences, func(d manifest.Difference) bool {
				probe, ok := probes[d.Field]
				return ok && (d.Have == strconv.Quote(probe) || d.Have == "absent") // it follows from the rules, draws and inputs
			})
		}
		c.nameFiles(near)
		p.Nearest = append(p.Nearest, near)
	}
	return p, nil
}

// probesOf returns what this program makes of the probe under the rules and draws of another structure or starts, by the
// field of its key, nil where they cannot be read.
func probesOf(root string, m *manifest.Manifest) map[string]string {
	var structure structureImage
	var starts startsImage
	switch m.Kind {
	case mmapcache.StructureKind:
		if json.Unmarshal(m.PreImage, &structure) == nil {
			return map[string]string{"probe": Probe(structure.Rules, weka.Placement{Backend: weka.XXH3}).Structure, "probe_columns": ProbeColumns(structure.Rules)}
		}
	case mmapcache.PlacementKind:
		if json.Unmarshal(m.PreImage, &starts) != nil {
			return nil
		}
		of, err := mmapcache.Lookup(root, mmapcache.StructureKind, starts.Structure)
		if err == nil && of != nil && json.Unmarshal(of.PreImage, &structure) == nil {
			return map[string]string{"probe": Probe(structure.Rules, starts.Draws).Starts}
		}
	}
	return nil
}

// nameFiles adds the names of input files to differences about them.
func (c *conversion) nameFiles(n SimilarPart) {
	theirs := []hfsource.File{}
	if p, err := mmapcache.ReadProvenance(n.Path); err == nil {
		for _, s := range p.Sources {
			theirs = append(theirs, hfsource.File{Path: s.Path})
		}
	}
	for k, d := range n.Differences {
		if name := fileOf(d.Field, c.snapshot.Files); name != "" && d.Want != "absent" {
			n.Differences[k].Want += " (" + name + ")"
		}
		if name := fileOf(d.Field, theirs); name != "" && d.Have != "absent" {
			n.Differences[k].Have += " (" + name + ")"
		}
	}
}
