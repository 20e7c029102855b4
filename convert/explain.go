package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/cachestore"
)

// Explanation says why a conversion would find or build a dataset.
type Explanation struct {
	Key     string            `json:"key"` // of the dataset
	Path    string            `json:"path"`
	Hit     bool              `json:"hit"`     // nothing would be built
	Refused string            `json:"refused"` // why the conversion would fail although the structure exists; else ""
	Parts   []PartExplanation `json:"parts"`   // in the order of mmapcache.Kinds, the dataset last

	Shards *ShardsExplanation `json:"shards,omitempty"` // of a dataset of shards, whose Parts are the arenas and the dataset
}

// PartExplanation explains one part.
type PartExplanation struct {
	Kind    string        `json:"kind"`
	Key     string        `json:"key"`
	Hit     bool          `json:"hit"`
	Why     string        `json:"why"`
	Nearest []SimilarPart `json:"nearest"` // of a miss: the most similar parts, nearest first
}

// SimilarPart is an existing part of the same kind with another key.
type SimilarPart struct {
	Path        string                `json:"path"`
	Key         string                `json:"key"`
	Source      string                `json:"source"` // the first input file, and how many more
	Differences []manifest.Difference `json:"differences"`
}

// maxNearest is how many similar parts Explain lists for a miss.
const maxNearest = 3

// Explain says whether Convert with these options would find each part, and otherwise in which fields the key differs from
// those of the most similar parts. It changes nothing.
func Explain(ctx context.Context, o Options) (*Explanation, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	c := newConversion(o.withDefaults())
	var e *Explanation
	err := c.withInput(ctx, func(ctx context.Context) (err error) {
		e, err = c.explain(ctx)
		return err
	})
	return e, err
}

func (c *conversion) explain(ctx context.Context) (*Explanation, error) {
	units, err := c.shardedUnits(ctx)
	if err != nil {
		return nil, err
	}
	kinds := mmapcache.Kinds()
	if units != nil {
		c.wanted[mmapcache.DatasetKind] = c.sharded
		kinds = []string{mmapcache.ArenasKind, mmapcache.DatasetKind}
	}
	root, key := c.options.Root, c.wanted[mmapcache.DatasetKind].Key
	if m, err := c.lookup(mmapcache.ArenasKind); err == nil && m != nil {
		if facts, err := mmapcache.ArenaFactsOf(m); err == nil {
			c.prompts.tokens = facts.Tokens
		}
	}
	e := &Explanation{Key: key, Path: mmapcache.DatasetPath(root, key), Hit: true}
	if units != nil {
		if e.Shards, e.Refused, err = c.explainShards(ctx, units); err != nil {
			return nil, err
		}
		e.Hit = e.Shards.Complete == e.Shards.Files
	}
	for _, kind := range kinds {
		p, err := c.explainPart(kind)
		if err != nil {
			return nil, err
		}
		e.Hit = e.Hit && p.Hit
		e.Parts = append(e.Parts, p)
	}
	if units == nil {
		e.Refused, err = c.explainRefusal()
	}
	return e, err
}

// explainRefusal says why the flags refuse the existing structure, "" where they do not.
func (c *conversion) explainRefusal() (string, error) {
	m, err := c.lookup(mmapcache.StructureKind)
	if err != nil || m == nil {
		return "", nil // a damaged part is built and checked again
	}
	facts, err := mmapcache.StructureFactsOf(m)
	if err != nil {
		return "", err
	}
	c.locateSkipped(&facts)
	if err := c.enforceFlags(facts); err != nil {
		return err.Error(), nil
	}
	return "", nil
}

func (c *conversion) explainPart(kind string) (PartExplanation, error) {
	p := PartExplanation{Kind: kind, Key: c.wanted[kind].Key, Nearest: []SimilarPart{}}
	found, err := c.lookup(kind)
	if found != nil {
		c.parts[kind] = found
	}
	switch {
	case errors.Is(err, manifest.ErrDamaged):
		p.Why, err = err.Error(), nil
	case err != nil:
		return p, err
	case found != nil && c.options.Force:
		p.Why = "it exists, and --force builds it again"
	case found != nil:
		p.Why, p.Hit = "it exists", true
	default:
		p.Why = "there is no " + kind + " of this key"
		if strings.HasSuffix(kind, "s") { // starts, arenas
			p.Why = "there are no " + kind + " of this key"
		}
		if kind != mmapcache.DatasetKind { // its key derives from the keys of the parts, which are explained
			p.Nearest, err = c.similarParts(kind, c.snapshot)
		}
	}
	return p, err
}

// similarParts compares the key of a part, which is made of files, with those of the existing parts of its kind.
func (c *conversion) similarParts(kind string, files *hfsource.Snapshot) ([]SimilarPart, error) {
	existing, err := cachestore.Manifests(c.options.Root, kind)
	if err != nil {
		return nil, err
	}
	nearest, err := manifest.Nearest(c.wanted[kind], existing)
	if err != nil {
		return nil, err
	}
	similar := []SimilarPart{}
	for _, n := range nearest[:min(maxNearest, len(nearest))] {
		path := filepath.Join(c.options.Root, kind, n.Manifest.Key)
		p, _ := mmapcache.ReadProvenance(path) // without it, the files have no names
		s := SimilarPart{Path: path, Key: n.Manifest.Key, Source: p.FirstSource(), Differences: n.Differences}
		s.dropDerived(c.options.Root, n.Manifest)
		s.nameFiles(files, p.Sources)
		similar = append(similar, s)
	}
	return similar, nil
}

// dropDerived removes differences of probes that merely follow from differences of rules, placement or inputs.
func (s *SimilarPart) dropDerived(root string, m *manifest.Manifest) {
	probes := probesOf(root, m)
	if probes == nil {
		return
	}
	s.Differences = slices.DeleteFunc(s.Differences, func(d manifest.Difference) bool {
		if (strings.HasPrefix(d.Field, "rules.") || strings.HasPrefix(d.Field, "recordings")) && (d.Have == "absent" || d.Want == "absent") {
			return true // it is of Mooncake rows alone
		}
		probe, ok := probes[d.Field]
		return ok && (d.Have == strconv.Quote(probe) || d.Have == "absent")
	})
}

// probesOf returns, by the field of its key, the probes of this program under the rules and placement of another part; nil
// where these cannot be read.
func probesOf(root string, m *manifest.Manifest) map[string]string {
	var tables structureImage
	var starts placementImage
	switch m.Kind {
	case mmapcache.StructureKind:
		if json.Unmarshal(m.PreImage, &tables) != nil {
			return nil
		}
		r := tables.Rules
		return map[string]string{"probe": Probe(r, rules.Placement{}).Structure, "probe_columns": probeColumns(r), "probe_starts": ProbeStarts(r), "probe_mooncake": ProbeMooncake(r)}
	case mmapcache.PlacementKind:
		if json.Unmarshal(m.PreImage, &starts) != nil {
			return nil
		}
		structure, err := mmapcache.Lookup(root, mmapcache.StructureKind, starts.Structure)
		if err != nil || structure == nil || json.Unmarshal(structure.PreImage, &tables) != nil {
			return nil
		}
		return map[string]string{"probe": Probe(tables.Rules, starts.Placement).Placement}
	}
	return nil
}

// nameFiles adds the names of input files to differences about them. files are those of the part that is missing, sources those of the
// other part.
func (s *SimilarPart) nameFiles(files *hfsource.Snapshot, sources []mmapcache.Source) {
	var ours, theirs []string
	for _, f := range files.Files {
		ours = append(ours, f.Path)
	}
	for _, source := range sources {
		theirs = append(theirs, source.Path)
	}
	for k := range s.Differences {
		d := &s.Differences[k]
		d.Want, d.Have = withFile(d.Want, d.Field, ours), withFile(d.Have, d.Field, theirs)
	}
}

// withFile appends a path to the value of a field that is about an input file.
func withFile(value, field string, paths []string) string {
	var k int
	if n, err := fmt.Sscanf(field, "inputs[%d]", &k); n != 1 || err != nil || k >= len(paths) || value == "absent" {
		return value
	}
	return value + " (" + paths[k] + ")"
}
