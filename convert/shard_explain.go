package convert

import (
	"context"
	"errors"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/cachestore"
)

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
		t, err := formatNamed(c.snapshot.Files[u.from].Rows).scan(data, c.options.Rules, nil)
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
