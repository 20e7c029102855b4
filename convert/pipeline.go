package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/alitto/pond/v2"

	"github.com/agentx/agentx/convert/loads"
	"github.com/agentx/agentx/convert/reconstruct"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/lazyregexp"
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
		out := task()
		if p.options.each == nil {
			out.trace = nil
		}
		p.merger.add(number, out)
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
	return fmt.Errorf("no trace in %s: no line of it holds one: check the program that writes it", what)
}

// plannedTrace is the outcome of one row, or of one trace of a recording.
type plannedTrace struct {
	memory   *hfsource.Reservation // of the trace, until the plan is in the structure
	location string                // path and line, for messages
	position position
	trace    *trace.Trace // where Options.each takes it
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
		t, p.err = formatNamed(s.Files[row.FileIndex].Rows).read(row.Data, rules, p.memory.Grow)
	}
	row.Free()
	if p.err != nil {
		return p
	}
	return planTrace(t, p, rules)
}

// planTrace completes p with the plan of its trace.
func planTrace(t *trace.Trace, p plannedTrace, rules rules.Rules) plannedTrace {
	p.trace = t
	p.plan, p.notes, p.err = reconstruct.MakePlan(t, rules)
	return p
}

// maxSingleRow is the size of the largest file of one value that is looked at for a Mooncake row, in bytes: a trace is not read
// twice for that.
const maxSingleRow = 64 << 10

// shardName is the name of a file that is one of several with the rest of its name, and segmentName that of one which Dynamo's sink rolled.
var (
	shardName   = lazyregexp.New(`^(.*)-\d{5}(-of-\d{5}(?:\.[^/\\]*)?)$`)
	segmentName = lazyregexp.New(`^(.*)\.\d{6}(\.jsonl(?:\.[^/\\]*)?)$`)
)

// wholeOf names that of which a file is a shard: the split of a dataset of the hub, or what its name says. Others are whole.
func wholeOf(f hfsource.File) string {
	name := shardName()
	switch {
	case f.Split != "":
		return f.Split
	case f.Rows == loads.DynamoName:
		name = segmentName()
	}
	if m := name.FindStringSubmatch(f.Path); m != nil {
		return m[1] + m[2]
	}
	return ""
}

// recordingsOf notes the formats of the files of a snapshot, which the first row of each decides. It returns by file the number, from 1, of the
// recording to which its rows belong; 0 where each is a trace. A recording is a file, or, unless the namespace is "file", all shards of one.
func recordingsOf(ctx context.Context, s *hfsource.Snapshot, namespace string) ([]int, error) {
	numbers, last, known := make([]int, len(s.Files)), 0, map[string]int{}
	for k, f := range s.Files {
		if f.Format.Parquet || !f.Format.Lines && f.Size > maxSingleRow {
			continue
		}
		format := formatNamed(f.Rows)
		if f.Rows == "" {
			first, err := s.FirstRow(ctx, k)
			if err != nil {
				return nil, err
			}
			format = formatOf(first)
		}
		s.Files[k].Lenient = format.lenient
		if s.Files[k].Rows = format.name; format.open == nil {
			continue
		}
		whole := wholeOf(s.Files[k])
		if numbers[k] = known[whole]; numbers[k] > 0 && whole != "" && namespace != "file" {
			continue
		}
		last++
		numbers[k], known[whole] = last, last
	}
	return numbers, nil
}

// recording is what a file has whose rows make traces together, such as Mooncake's, or all shards of one. What rows mean and which traces they
// make is known when all have been read. So their traces stand behind those of other files.
type recording struct {
	fileReader
	rows     []rowPlace
	lenient  bool
	odd      trace.Oddities        // of its files
	memory   *hfsource.Reservation // of the row that is added
	retained int64                 // bytes of it
}

// rowPlace is where a row stands.
type rowPlace struct{ file, line int32 }

// take adds a row to its recording. It returns false for a row of another file.
func (p *pipeline) take(row hfsource.Row) bool {
	number := p.numbers[row.FileIndex]
	if number == 0 || row.Err != nil {
		return false
	}
	r := p.recordings[number]
	if r == nil {
		format := formatNamed(p.snapshot.Files[row.FileIndex].Rows)
		r = &recording{lenient: format.lenient}
		r.fileReader = format.open(number-1, p.namespace(number-1), p.options.Rules, func(n int64) error {
			r.retained += n
			return r.memory.Grow(n)
		})
		p.recordings[number] = r
	}
	if out := p.add(r, row); out.err != nil || out.fatal != nil {
		p.submit(func() plannedTrace { return out })
	}
	return true
}

// namespace returns the number of the namespace of the k-th recording. The first has that of a lone one, unless there are traces of other
// files, which may share blocks by themselves.
func (p *pipeline) namespace(k int) int {
	switch _, alone := haveRecordings(p.numbers); {
	case p.options.Rules.Namespace == "input":
		return 0
	case alone:
		return k
	}
	return k + 1
}

// add adds a row to a recording. Memory that is retained stays reserved until the end of the conversion.
func (p *pipeline) add(r *recording, row hfsource.Row) plannedTrace {
	r.retained, r.memory = 0, row.TakeReservation()
	r.rows = append(r.rows, rowPlace{int32(row.FileIndex), int32(row.Line)})
	if row.Marked {
		r.odd.Add(trace.OddityMark, "%s", row.Location())
	}
	err := r.Add(row.Data)
	if err != nil && r.lenient && row.Unended {
		r.odd.Add(trace.OddityTruncated, "%s", row.Location())
		err = nil
	}
	out := p.at(r, len(r.rows), err)
	if out.err == nil && out.fatal == nil {
		out.fatal = p.merger.retain(r.retained)
	}
	row.Free()
	r.memory.Release()
	return out
}

// at returns the place of a row of a recording, with an error of the row, or of all of the recording.
func (p *pipeline) at(r *recording, row int, err error) plannedTrace {
	place := r.rows[row-1]
	at := hfsource.Row{File: p.snapshot.Files[place.file].Path, Line: int(place.line)}
	out := plannedTrace{location: at.Location(), position: position{file: int(place.file), line: int(place.line)}, err: err}
	var e *trace.Error
	if errors.As(err, &e) && (e.Kind == trace.Unclear || e.Kind == trace.Contradiction) {
		out.err, out.fatal = nil, fmt.Errorf("%s: %w", out.location, err)
	}
	return out
}

// end submits the traces of all recordings, and which of their rows turned out invalid.
func (p *pipeline) end() {
	for _, number := range slices.Sorted(maps.Keys(p.recordings)) {
		r := p.recordings[number]
		traces, err := r.Traces()
		var whole *trace.Error
		if errors.As(err, &whole) {
			out := p.at(r, max(whole.Row, 1), whole)
			p.submit(func() plannedTrace { return out })
			return
		}
		for _, e := range r.Invalid() {
			out := p.at(r, e.Row, e)
			p.submit(func() plannedTrace { return out })
		}
		for t := range traces {
			t.Oddities, r.odd = append(t.Oddities, r.odd...), nil // at the first
			if len(t.Rows) == 0 {
				t.Rows = []int{1}
			}
			out := p.at(r, t.Rows[0], nil)
			t.Format = cmp.Or(t.Format, formatNamed(p.snapshot.Files[r.rows[0].file].Rows).name)
			out.memory = p.snapshot.Memory.Reserve()
			t.Budget = trace.NewBudget(out.memory.Grow)
			p.submit(func() plannedTrace { return planTrace(t, out, p.options.Rules) })
		}
	}
	p.recordings = nil
}

// haveRecordings reports whether some file is of a recording, and whether all are.
func haveRecordings(numbers []int) (some, all bool) {
	return slices.ContainsFunc(numbers, func(n int) bool { return n > 0 }), !slices.Contains(numbers, 0)
}

// haveRows reports whether some file has rows of a format, and whether all have.
func haveRows(s *hfsource.Snapshot, format string) (some, all bool) {
	all = true
	for _, f := range s.Files {
		some, all = some || f.Rows == format, all && f.Rows == format
	}
	return some, all
}
