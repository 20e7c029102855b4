package convert

import (
	"context"
	"fmt"
	"slices"

	"github.com/alitto/pond/v2"

	"github.com/agentx/agentx/convert/reconstruct"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/trace"
)

// pipeline turns the rows of a snapshot into one structure. Several goroutines scan and plan rows; the merger puts the plans
// into the order of the input.
type pipeline struct {
	snapshot  *hfsource.Snapshot
	options   Options
	merger    *merger
	tasks     pond.TaskGroup
	submitted int // number of submitted tasks, and the number of the next one

	numbers    []int              // by file, see recordingsOf; of a shard, which has none, nil
	recordings map[int]*recording // by number
}

// planInputs returns the structure of all traces of a snapshot, in the order of the input, and the facts about them. numbers
// says which files are of recordings.
func planInputs(ctx context.Context, snapshot *hfsource.Snapshot, numbers []int, o Options, b bounds) (*mmapcache.Structure, mmapcache.StructureFacts, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	snapshot.Memory = hfsource.NewMemoryBudget(ctx, snapshot.Bytes())
	pool := pond.NewPool(o.Workers, pond.WithQueueSize(2*o.Workers))
	defer pool.StopAndWait()
	p := &pipeline{snapshot: snapshot, options: o, merger: newMerger(snapshot.Memory, o, b, cancel), tasks: pool.NewGroupContext(ctx),
		numbers: numbers, recordings: map[int]*recording{}}
	err := p.run(ctx)
	m := p.merger
	m.noteFilesWithoutChecksum(snapshot.Files)
	if cause := context.Cause(ctx); cause != nil {
		return nil, m.facts, cause // the first error, not those that it caused
	}
	if err == nil {
		err = m.invalid()
	}
	if err == nil && m.structure.Traces.Len() == 0 {
		err = errNoTrace(snapshot, m.facts.AllSkipped(), m.firstSkipped.location, m.firstSkipped.err)
	}
	m.finish()
	return m.structure, m.facts, err
}

// run reads all rows and waits until they are merged.
func (p *pipeline) run(ctx context.Context) error {
	progress := p.options.stageProgress("plan", p.snapshot.Bytes())
	err := p.snapshot.Rows(ctx, weka.ColumnPaths(), progress, func(row hfsource.Row) error {
		if !p.take(row) {
			p.submit(func() plannedTrace { return planRow(row, p.snapshot, p.options.Rules) })
		}
		return ctx.Err()
	})
	p.end()
	if waitErr := p.tasks.Wait(); err == nil {
		err = waitErr
	}
	return err
}

// submit runs a task and merges its outcome in the order of the calls of submit. It waits while the queue is full.
func (p *pipeline) submit(task func() plannedTrace) {
	number := p.submitted
	p.submitted++
	p.tasks.SubmitErr(func() error {
		p.merger.add(number, task())
		return nil
	})
}

// errNoTrace says why an input has no trace. first is why its first row was skipped, and where that row is; nil where none was.
func errNoTrace(s *hfsource.Snapshot, skipped int, where string, first error) error {
	what := fmt.Sprintf("%d files", len(s.Files))
	if len(s.Files) == 1 {
		what = s.Files[0].Path
	}
	switch {
	case first != nil:
		return fmt.Errorf("no trace in %s (%d skipped as invalid, the first %s: %w)", what, skipped, where, first)
	case !slices.ContainsFunc(s.Files, func(f hfsource.File) bool { return !f.Format.Parquet }):
		return fmt.Errorf("no trace in %s: Parquet without rows: check the program that writes it", what)
	case s.Bytes() == 0:
		return fmt.Errorf("no trace in %s: empty: fetch or copy it again, or check the program that writes it", what)
	}
	return fmt.Errorf("no trace in %s: nothing but blank lines", what)
}

// plannedTrace is the outcome of one row, or of one trace of a recording.
type plannedTrace struct {
	memory   *hfsource.Reservation // of the trace, until the plan is in the structure
	location string                // path and line, for messages
	position position
	plan     *mmapcache.Plan
	notes    reconstruct.Notes
	err      error // why the trace is invalid
	fatal    error // ends the conversion: how many traces an unreadable file has is unknown
}

// position locates a row in the input, independently of the names of files.
type position struct {
	file  int // from 0
	line  int // from 1; 0 where the file is one value
	isRow bool
}

func (p position) String() string {
	if p.line == 0 {
		return fmt.Sprintf("file %d of the input", p.file+1)
	}
	return fmt.Sprintf("%s %d of file %d of the input", p.unit(), p.line, p.file+1)
}

func (p position) unit() string {
	if p.isRow {
		return "row"
	}
	return "line"
}

// planRow scans and plans the trace of a row of a snapshot.
func planRow(row hfsource.Row, s *hfsource.Snapshot, rules rules.Rules) plannedTrace {
	p := plannedTrace{
		memory: row.TakeReservation(), location: row.Location(),
		position: position{row.FileIndex, row.Line, row.Columns != nil}, fatal: row.Err,
	}
	if p.fatal != nil {
		return p
	}
	var t *trace.Trace
	if row.Columns != nil {
		t, p.err = weka.ScanColumnsWithin(row.Columns, rules, p.memory.Grow)
	} else {
		t, p.err = formatNamed(s.Files[row.FileIndex].Rows).scan(row.Data, rules, p.memory.Grow)
	}
	row.Free()
	if p.err != nil {
		return p
	}
	return planTrace(t, p, rules)
}

// planTrace completes p with the plan of its trace.
func planTrace(t *trace.Trace, p plannedTrace, rules rules.Rules) plannedTrace {
	p.plan, p.notes, p.err = reconstruct.MakePlan(t, rules)
	return p
}
