package convert

import (
	"context"
	"fmt"
	"sync"

	"github.com/alitto/pond/v2"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/mmapcache"
)

// plan scans and plans every trace of a snapshot, several at a time, and returns the structure of them all in the
// order of the input.
func plan(ctx context.Context, snapshot *hfsource.Snapshot, o Options) (*mmapcache.Structure, mmapcache.StructureFacts, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m := &merger{
		structure: mmapcache.NewStructure(), waiting: map[int]planned{}, seen: map[string]place{},
		skip: o.SkipInvalid, failed: cancel,
		facts: mmapcache.StructureFacts{Skipped: []mmapcache.Skipped{}, Unknown: map[string]int{}},
	}
	pool := pond.NewPool(o.Workers, pond.WithQueueSize(2*o.Workers))
	defer pool.StopAndWait()
	group := pool.NewGroupContext(ctx)
	n := 0
	err := snapshot.Rows(ctx, o.progress("plan", snapshot.Bytes()), func(row hfsource.Row) error {
		k := n
		n++
		group.SubmitErr(func() error {
			m.add(k, planRow(row, o.Rules))
			return nil
		})
		return ctx.Err()
	})
	if waitErr := group.Wait(); err == nil {
		err = waitErr
	}
	if cause := context.Cause(ctx); cause != nil {
		return nil, m.facts, cause // what ended it, before what followed from that
	}
	if err == nil && m.structure.Traces.Len() == 0 {
		err = fmt.Errorf("no trace in %d files (%d skipped as invalid)", len(snapshot.Files), len(m.facts.Skipped))
	}
	return m.structure, m.facts, err
}

// place is where a row stands in the input, whatever the files are called.
type place struct {
	file int // from 0
	line int // 0 where the file is one value
}

func (p place) String() string {
	if p.line == 0 {
		return fmt.Sprintf("file %d of the input", p.file+1)
	}
	return fmt.Sprintf("line %d of file %d of the input", p.line, p.file+1)
}

// planned is the outcome of one row.
type planned struct {
	where string
	place place
	plan  *mmapcache.Plan
	notes weka.Notes
	err   error
}

func planRow(row hfsource.Row, rules weka.Rules) planned {
	defer row.Free()
	p := planned{where: row.Where(), place: place{row.Number, row.Line}, err: row.Err}
	if p.err != nil {
		return p
	}
	tr, err := weka.Scan(row.Data, rules)
	if err == nil {
		p.plan, p.notes, err = weka.MakePlan(tr, rules)
	}
	p.err = err
	return p
}

// merger puts plans, which come in any order, into the structure in the order of the input.
type merger struct {
	mu        sync.Mutex
	next      int
	waiting   map[int]planned
	seen      map[string]place // by trace id
	skip      bool
	failed    context.CancelCauseFunc
	done      bool
	structure *mmapcache.Structure
	facts     mmapcache.StructureFacts
}

func (m *merger) add(k int, p planned) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting[k] = p
	for !m.done {
		p, ok := m.waiting[m.next]
		if !ok {
			return
		}
		delete(m.waiting, m.next)
		m.next++
		if err := m.take(p); err != nil {
			m.done = true
			m.failed(err)
		}
	}
}

// take adds one plan, which is the next in order.
func (m *merger) take(p planned) error {
	if p.err == nil {
		id := p.plan.Trace.ID
		if first, again := m.seen[id]; again {
			p.err = fmt.Errorf("trace %q: a second trace of this id: the first is %s", id, first)
		} else {
			m.seen[id] = p.place
		}
	}
	if p.err != nil {
		if !m.skip {
			return &InvalidError{p.where, p.err}
		}
		m.facts.Skipped = append(m.facts.Skipped, mmapcache.Skipped{File: p.place.file + 1, Line: p.place.line, Why: p.err.Error()})
		return nil
	}
	f := &m.facts
	f.Traces++
	f.Sessions += len(p.plan.Sessions)
	f.Turns += len(p.plan.Turns)
	f.Blocks += int(p.plan.Trace.Blocks)
	for _, t := range p.plan.Turns {
		f.PromptTokens += int64(t.In)
		f.OutputTokens += int64(t.Out)
	}
	for name, n := range p.notes.Unknown {
		f.Unknown[name] += n
	}
	f.Dropped += len(p.notes.Dropped)
	f.Ambiguous += p.notes.Ambiguous
	f.MaxBlockSize = max(f.MaxBlockSize, int(p.plan.Trace.BlockSize))
	return m.structure.Append(p.plan)
}

// InvalidError is a trace that cannot be converted, with the file and line where it stands.
type InvalidError struct {
	Where string
	Err   error
}

func (e *InvalidError) Error() string { return e.Where + ": " + e.Err.Error() }

func (e *InvalidError) Unwrap() error { return e.Err }

// fill computes the start of every block and filler of an open structure, several traces at a time.
func fill(ctx context.Context, c *mmapcache.Cache, starts *mmapcache.Starts, corpusTokens int, o Options) error {
	s := c.Structure
	pool := pond.NewPool(o.Workers, pond.WithQueueSize(2*o.Workers))
	defer pool.StopAndWait()
	group := pool.NewGroupContext(ctx)
	done := o.progress("fill", int64(s.Blocks()))
	drawers := sync.Pool{New: func() any { return weka.NewDrawer(o.Draws, corpusTokens) }}
	for i := range s.Traces.Len() {
		if ctx.Err() != nil {
			break
		}
		group.SubmitErr(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			d := drawers.Get().(*weka.Drawer)
			defer drawers.Put(d)
			return c.Guard(func() error { // in the goroutine that reads: a page fault is its own
				p := s.Plan(i)
				done(int64(p.Trace.Blocks))
				return fillTrace(p, s.Blocks(), starts, d)
			})
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// fillTrace computes the starts of one trace. Those of fillers stand behind those of all blocks.
func fillTrace(p *mmapcache.Plan, allBlocks int, starts *mmapcache.Starts, d *weka.Drawer) error {
	size := p.Trace.BlockSize
	blocks := make([]uint32, p.Trace.Blocks)
	for _, r := range p.Runs {
		d.Starts(blocks[r.First:r.First+r.Count], r.Scope, r.ID, int(size))
	}
	fillers := make([]uint32, len(p.Turns))
	for _, s := range p.Sessions {
		for k := range s.Turns {
			if n := p.Turns[s.FirstTurn+k].FillerTokens(size); n > 0 {
				fillers[s.FirstTurn+k] = d.Filler(s.ID, int(k), int(n))
			}
		}
	}
	if err := starts.Put(int(p.Trace.FirstBlock), blocks); err != nil {
		return err
	}
	return starts.Put(allBlocks+int(p.Trace.FirstTurn), fillers)
}
