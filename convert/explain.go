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
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/durable"
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

// explain explains a dataset of one shard or of several, whichever Convert would make.
func (c *conversion) explain(ctx context.Context) (*Explanation, error) {
	units, err := c.shardedUnits(ctx)
	if err != nil {
		return nil, err
	}
	kinds := append(mmapcache.PartKinds(), mmapcache.DatasetKind)
	if c.logs {
		kinds = []string{mmapcache.StructureKind, mmapcache.TextsKind, mmapcache.ArenasKind, mmapcache.DatasetKind}
	}
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

// explainPart says whether the part of a kind exists, and otherwise which existing parts are most like it.
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
		p.Why = "it exists, and a forced conversion builds it again"
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

// ShardsExplanation says which shards of an input exist. How many shards a file has is known once they exist.
type ShardsExplanation struct {
	Files    int           `json:"files"`    // of the input
	Complete int           `json:"complete"` // of these, how many have all their shards
	Total    int           `json:"shards"`   // shards of the input; 0 where files lack some and no dataset names them
	Found    int           `json:"found"`    // of these, how many exist
	Missing  []MissingUnit `json:"missing"`  // the other files, in the order of the input: the first mmapcache.MaxListed
	Nearest  []SimilarPart `json:"nearest"`  // to the first structure that is missing
}

// MissingUnit is a file, or a run of files of one row, of which shards are missing.
type MissingUnit struct {
	File  string `json:"file"`
	Files int    `json:"files"` // how many they are
	Found int    `json:"found"` // shards that exist before the first that is missing
	Why   string `json:"why"`
}

// shardedUnits returns the units of the input where Convert would make several shards of it, else nil. It takes an input of which
// only rows behind the first of a shard share blocks for one of several shards.
func (c *conversion) shardedUnits(ctx context.Context) ([]unit, error) {
	if c.sharded == nil {
		return nil, nil
	}
	known, err := c.known()
	if err != nil || known != nil && known.Key != c.sharded.Key {
		return nil, err
	}
	units, err := unitsOf(ctx, c.snapshot, c.options.shardRows)
	if err != nil || known != nil {
		return units, err
	}
	if len(units) == 1 && !units[0].several {
		return nil, nil
	}
	if shares, err := c.firstRowShares(ctx, units); err != nil || shares {
		return nil, err
	}
	if len(units) > 1 {
		return units, nil
	}
	rows := 0
	err = c.snapshot.Rows(ctx, weka.ColumnPaths(), nil, func(row hfsource.Row) error {
		row.Free()
		if rows++; rows > c.options.shardRows {
			return errStop
		}
		return nil
	})
	if errors.Is(err, errStop) {
		return units, nil
	}
	return nil, err
}

// firstRowShares reports whether the first row of a unit shares blocks with others, so that the input is one shard.
func (c *conversion) firstRowShares(ctx context.Context, units []unit) (bool, error) {
	for _, u := range units {
		data, err := c.snapshot.FirstRow(ctx, u.from)
		if err != nil {
			return false, err
		}
		t, err := formatNamed(c.snapshot.Files[u.from].Rows).read(data, c.options.Rules, nil)
		if err != nil {
			continue // no row, or an invalid one
		}
		if p := planTrace(t, plannedTrace{}, c.options.Rules); p.err == nil && p.notes.Queries != nil {
			return true, nil
		}
	}
	return false, nil
}

// explainShards says which shards exist, and why flags refuse those that do.
func (c *conversion) explainShards(ctx context.Context, units []unit) (*ShardsExplanation, string, error) {
	s := newSharding(c, units)
	defer s.close()
	s.explains = true
	e := &ShardsExplanation{Files: len(c.snapshot.Files), Missing: []MissingUnit{}, Nearest: []SimilarPart{}}
	holders, err := durable.Holders(c.options.Root)
	if err != nil {
		return nil, "", err
	}
	for k, u := range units {
		list, whole, err := s.find(u)
		if err != nil {
			return nil, "", err
		}
		e.Found += len(list)
		switch {
		case whole:
			s.shards[k] = list
			e.Complete += u.to - u.from
			continue
		case len(e.Missing) == mmapcache.MaxListed:
			continue
		}
		m, err := s.explainMissing(u, len(list))
		if err != nil {
			return nil, "", err
		}
		if holder, held := holders[cachestore.ShardsKind+"-"+m.first]; held {
			m.why = holder.Who + " builds it"
			if holder.Dead {
				m.why = holder.Who + " began to build it, and has ended"
			}
		}
		if len(e.Missing) == 0 && m.structure != nil {
			c.wanted[mmapcache.StructureKind] = m.structure
			if e.Nearest, err = c.similarParts(mmapcache.StructureKind, u.files(c.snapshot)); err != nil {
				return nil, "", err
			}
		}
		e.Missing = append(e.Missing, MissingUnit{u.describe(c.snapshot), u.to - u.from, len(list), m.why})
	}
	if e.Complete < e.Files {
		return e, "", errors.Join(s.countNamed(e), ctx.Err())
	}
	e.Total = e.Found
	if err := s.mergeFacts(); err != nil {
		return nil, "", err
	}
	s.locateSkipped(&s.facts)
	if err := s.enforceFlags(s.facts); err != nil {
		return e, err.Error(), nil
	}
	return e, "", ctx.Err()
}

// countNamed counts the shards that the dataset names, if it exists: then those behind a missing one are known, too.
func (s *sharding) countNamed(e *ShardsExplanation) error {
	dataset, err := s.known()
	if err != nil || dataset == nil {
		return err
	}
	facts, err := mmapcache.DatasetFactsOf(dataset)
	if err != nil {
		return err
	}
	e.Total, e.Found = len(facts.Shards), 0
	for _, sh := range facts.Shards {
		structure, err := s.lookupPart(mmapcache.StructureKind, sh.Structure.Key)
		if err != nil {
			return err
		}
		starts, err := s.lookupPart(mmapcache.PlacementKind, sh.Starts.Key)
		if err != nil {
			return err
		}
		if structure != nil && starts != nil {
			e.Found++
		}
	}
	return nil
}

// missing is why a shard does not exist.
type missing struct {
	structure *manifest.Manifest // key and pre-image, where the structure is missing
	first     string             // key of the first structure of the unit
	why       string
}

// explainMissing says why shard k of a unit does not exist.
func (s *sharding) explainMissing(u unit, k int) (m missing, err error) {
	first, err := s.structureOf(u, 0)
	if err != nil {
		return m, err
	}
	structure, err := s.structureOf(u, k)
	if err != nil {
		return m, err
	}
	m.first = first.Key
	starts, err := s.startsOf(structure.Key)
	if err != nil {
		return m, err
	}
	m.why = "its structure exists, and there are no starts of this key"
	for _, part := range []*manifest.Manifest{starts, structure} {
		have, err := mmapcache.Lookup(s.options.Root, part.Kind, part.Key)
		switch {
		case errors.Is(err, manifest.ErrDamaged):
			m.why = err.Error()
		case err != nil:
			return m, err
		case have == nil && part == structure:
			m.structure, m.why = structure, "there is no structure of this key"
		}
	}
	return m, nil
}
