package mmapcache

import (
	"fmt"
	"io/fs"
	"math"
)

// Traces returns how many traces the cache has, in all shards. They are numbered from 0, through the shards.
func (c *Cache) Traces() int {
	if len(c.shards) == 0 {
		return 0
	}
	last := c.shards[len(c.shards)-1]
	return last.firstTrace + last.Traces
}

// Trace returns the row of trace i. What it says of other rows counts in the tables of its shard.
func (c *Cache) Trace(i int) (t Trace, err error) {
	_, tables, k, err := c.tablesOf(i)
	if err == nil {
		t = tables.Traces.At(k)
	}
	return t, err
}

// Plan returns the plan of trace i.
func (c *Cache) Plan(i int) (*Plan, error) {
	_, tables, k, err := c.tablesOf(i)
	if err != nil {
		return nil, err
	}
	return tables.Plan(k), nil
}

// FirstSession returns the number of the first session of trace i among those of all traces.
func (c *Cache) FirstSession(i int) (int, error) {
	s, tables, k, err := c.tablesOf(i)
	if err != nil {
		return 0, err
	}
	return s.firstSession + int(tables.Traces.At(k).FirstSession), nil
}

// RecordedStart is Structure.RecordedStart of trace i.
func (c *Cache) RecordedStart(i int) (ms float64, ok bool, err error) {
	_, tables, k, err := c.tablesOf(i)
	if err == nil {
		ms, ok = tables.RecordedStart(k)
	}
	return ms, ok, err
}

// RecordedStarts returns how many traces have a recorded start.
func (c *Cache) RecordedStarts() int { return c.Facts.Starts }

// RenderedBytes returns about how many bytes of memory trace i takes once it is rendered. It opens no shard: of one that is not
// open, each trace is taken to be like the mean.
func (c *Cache) RenderedBytes(i int) int64 {
	s, k, err := c.locate(i)
	if err != nil {
		return 0
	}
	if tables := s.tables.Load(); tables != nil {
		t := tables.Traces.At(k)
		return 2048 + 400*int64(t.Turns) + 300*int64(t.Sessions) + 16*int64(t.Blocks) + 80*int64(t.Segments) + 40*int64(t.Runs)
	}
	return 2048 + (800*int64(s.Turns)+300*int64(s.Sessions)+16*int64(s.Blocks))/int64(s.Traces)
}

// EachShard calls visit for the tables of each shard in turn; first is the number of their first trace. It is the way to read
// all traces: it opens one shard at a time, and gives back the memory of those that it has opened. It stops at the first error,
// of which it does not return fs.SkipAll.
func (c *Cache) EachShard(visit func(first int, s *Structure) error) error {
	for _, s := range c.shards {
		open := s.tables.Load() != nil
		tables, err := c.take(s)
		if err == nil {
			err = visit(s.firstTrace, tables)
		}
		if !open {
			s.drop()
		}
		if err == fs.SkipAll {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// MaxRecordedStart bounds recorded starts, in milliseconds: 292 years, so that an int64 of nanoseconds holds each.
const MaxRecordedStart = 9.2e12

// RecordedStart returns when the first turn of a trace began, in milliseconds from 0 of its recording, as the recording has
// it: from 0 to MaxRecordedStart. It returns false where the format of the trace has no such time, and for caches made before the column.
//
// It is no field of Trace because a plan begins with its trace: times of turns count from another 0, that of the trace's
// own file, and do not depend on it.
func (s *Structure) RecordedStart(trace int) (ms float64, ok bool) {
	ms = s.Traces.late.at(trace)
	return ms, !math.IsNaN(ms)
}

// SetRecordedStart stores the recorded start of a trace that has been appended.
func (s *Structure) SetRecordedStart(trace int, ms float64) {
	s.Traces.late.set(trace, ms)
}

// RecordedStarts returns how many traces have a recorded start.
func (s *Structure) RecordedStarts() (n int) {
	for i := range s.Traces.Len() {
		if _, ok := s.RecordedStart(i); ok {
			n++
		}
	}
	return n
}

// checkRecordedStart refuses a start beyond the bounds.
func (s *Structure) checkRecordedStart(trace int) error {
	if ms, ok := s.RecordedStart(trace); ok && !(ms >= 0 && ms <= MaxRecordedStart) {
		return fmt.Errorf("recorded start %g ms out of range [0,%g]", ms, float64(MaxRecordedStart))
	}
	return nil
}
