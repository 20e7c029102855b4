package convert

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/mmapcache"
)

// shardPlace is a shard of a unit.
type shardPlace struct{ unit, shard int }

// checkSessions refuses two sessions of one name in different shards, as merger.registerSessions does within one. Of each name it
// keeps a hash and the number of its shard; where two are equal, it reads the rows again to compare and to name them.
func (s *sharding) checkSessions(ctx context.Context) error {
	first, seed := map[uint64]uint32{}, maphash.MakeSeed()
	var places []shardPlace
	for u, list := range s.shards {
		for k, sh := range list {
			ids, err := mmapcache.SessionIDs(s.options.Root, sh.structure)
			if err != nil {
				return err
			}
			here := uint32(len(places))
			places = append(places, shardPlace{u, k})
			for _, id := range ids {
				hash := maphash.String(seed, id)
				if at, taken := first[hash]; taken && at != here {
					if err := s.refuseSame(ctx, id, places[at], places[here]); err != nil {
						return err
					}
				}
				first[hash] = here
			}
		}
	}
	return nil
}

// refuseSame returns an error where the first of two shards has a session of a name that the second has too.
func (s *sharding) refuseSame(ctx context.Context, id string, first, second shardPlace) error {
	ids, err := mmapcache.SessionIDs(s.options.Root, s.shards[first.unit][first.shard].structure)
	if err != nil || !slices.Contains(ids, id) {
		return err
	}
	if s.options.SkipInvalid {
		return errCoupled // which of them is left out, only one structure of all rows knows
	}
	there, err := s.locate(ctx, id, first)
	if err != nil {
		return err
	}
	here, err := s.locate(ctx, id, second)
	if err != nil {
		return err
	}
	return &InvalidTraceError{here.location, secondSession(here.plan.Trace.ID, id, there.position.String()), true}
}

// locate reads the file of a shard again, and returns the row that has a session of a name. The file of its position is that of the
// whole input.
func (s *sharding) locate(ctx context.Context, id string, at shardPlace) (found plannedTrace, err error) {
	u, most, rows := s.units[at.unit], s.options.shardRows, 0
	files := u.files(s.snapshot)
	err = files.Rows(ctx, weka.ColumnPaths(), nil, func(row hfsource.Row) error {
		rows++
		if (rows-1)/most != at.shard {
			row.Free()
			return ctx.Err()
		}
		p := planRow(row, files, s.options.Rules)
		p.memory.Release()
		if p.plan != nil && slices.ContainsFunc(p.plan.Sessions, func(s mmapcache.Session) bool { return s.ID == id }) {
			p.position.file += u.from
			found = p
			return errStop
		}
		return ctx.Err()
	})
	if errors.Is(err, errStop) {
		err = nil
	}
	return found, err
}

// errStop ends the reading of a file.
var errStop = errors.New("the row is known")
