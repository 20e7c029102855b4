package convert

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/alitto/pond/v2"

	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// planInputs scans and plans every trace of a snapshot, several at a time, and returns the structure of them all in the
// order of the input.
func planInputs(ctx context.Context, snapshot *hfsource.Snapshot, o Options) (*mmapcache.Structure, mmapcache.StructureFacts, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	memory := hfsource.NewMemoryBudget(ctx, snapshot.Bytes())
	snapshot.Memory = memory
	m := &merger{
		memory: memory, structure: mmapcache.NewStructure(), waiting: map[int]planned{}, seen: map[string]place{},
		skip: o.SkipInvalid, failed: cancel,
		facts: mmapcache.StructureFacts{Skipped: []mmapcache.Skipped{}, Unknown: map[string]int{}, UnknownIn: map[string]string{}, Generations: map[string]int{}, Rules: o.Rules.TimeRules()},
	}
	pool := pond.NewPool(o.Workers, pond.WithQueueSize(2*o.Workers))
	defer pool.StopAndWait()
	group := pool.NewGroupContext(ctx)
	n := 0
	submit := func(task func() planned) {
		k := n
		n++
		group.SubmitErr(func() error {
			m.add(k, task())
			return nil
		})
	}
	files := &mooncakeFiles{rules: o.Rules, memory: memory, submit: submit}
	err := snapshot.Rows(ctx, weka.ColumnPaths(), o.progress("plan", snapshot.Bytes()), func(row hfsource.Row) error {
		if !files.take(row) {
			submit(func() planned { return planRow(row, o.Rules) })
		}
		return ctx.Err()
	})
	files.end()
	if waitErr := group.Wait(); err == nil {
		err = waitErr
	}
	m.name(snapshot.Files)
	if cause := context.Cause(ctx); cause != nil {
		return nil, m.facts, cause // what ended it, before what followed from that
	}
	if err == nil && m.structure.Traces.Len() == 0 {
		what := fmt.Sprintf("%d files", len(snapshot.Files))
		if len(snapshot.Files) == 1 {
			what = snapshot.Files[0].Path
		}
		err = fmt.Errorf("no trace in %s: nothing but blank lines", what)
		if snapshot.Bytes() == 0 {
			err = fmt.Errorf("no trace in %s: empty: fetch or copy it again, or look at what was to write it", what)
		}
		if m.first.err != nil {
			err = fmt.Errorf("no trace in %s (%d skipped as invalid, the first %s: %w)", what, m.facts.AllSkipped(), m.first.where, m.first.err)
		}
	}
	m.finish(o.Rules)
	return m.structure, m.facts, err
}

// place is where a row stands in the input, whatever the files are called.
type place struct {
	file int // from 0
	line int // or row; 0 where the file is one value
	row  bool
}

func (p place) String() string {
	if p.line == 0 {
		return fmt.Sprintf("file %d of the input", p.file+1)
	}
	unit := "line"
	if p.row {
		unit = "row"
	}
	return fmt.Sprintf("%s %d of file %d of the input", unit, p.line, p.file+1)
}

// planned is the outcome of one row.
type planned struct {
	share *hfsource.Reservation // of the memory, until it is in the structure
	where string
	place place
	plan  *mmapcache.Plan
	notes weka.Notes
	err   error
	end   error // of the whole conversion: nobody knows which traces a file has that cannot be read
}

func planRow(row hfsource.Row, rules weka.Rules) planned {
	p := planned{share: row.TakeReservation(), where: row.Location(), place: place{row.Number, row.Line, row.Columns != nil}, end: row.Err}
	if p.end != nil {
		return p
	}
	tr, err := scan(row, rules, p.share)
	row.Free()
	if err != nil {
		p.err = err
		return p
	}
	return planTrace(tr, p, rules)
}

// scan reads the trace of a row, in whichever form it comes.
func scan(row hfsource.Row, rules weka.Rules, share *hfsource.Reservation) (*weka.Trace, error) {
	if row.Columns != nil {
		return weka.ScanColumnsWithin(row.Columns, rules, share.Grow)
	}
	return weka.ScanWithin(row.Data, rules, share.Grow)
}

// planTrace plans the trace that stands where p says.
func planTrace(tr *weka.Trace, p planned, rules weka.Rules) planned {
	p.plan, p.notes, p.err = weka.MakePlan(tr, rules)
	return p
}

// mooncakeFiles takes the rows of Mooncake files, which become traces only together.
type mooncakeFiles struct {
	rules  weka.Rules
	memory *hfsource.MemoryBudget
	submit func(func() planned)
	number int     // of Mooncake files begun
	file   planned // where the file stands whose rows come
	open   *weka.Mooncake
}

// take takes a row if its file is a Mooncake file, which the first row decides.
func (f *mooncakeFiles) take(row hfsource.Row) bool {
	if row.File != f.file.where || row.Number != f.file.place.file {
		f.end()
		f.file = planned{where: row.File, place: place{file: row.Number}}
		if row.Err == nil && row.Line > 0 && weka.IsMooncake(row.Data) {
			f.open = weka.NewMooncake(f.number, f.rules)
			f.number++
		}
	}
	if f.open == nil || row.Err != nil {
		return false
	}
	kept, share := int64(0), row.TakeReservation()
	f.open.Reserve = func(n int64) error {
		kept += n
		return share.Grow(n)
	}
	p := planned{where: row.Location(), place: place{file: row.Number, line: row.Line}}
	if p.err = f.open.Add(row.Data); p.err == nil {
		p.end = f.memory.Retain(kept)
	}
	row.Free()
	share.Release()
	if p.err != nil || p.end != nil {
		f.submit(func() planned { return p })
	}
	return true
}

// end plans the traces of the file that is open.
func (f *mooncakeFiles) end() {
	if f.open == nil {
		return
	}
	for _, t := range f.open.Traces() {
		where := f.file
		where.share = f.memory.Reserve()
		t.SetReserve(where.share.Grow)
		f.submit(func() planned { return planTrace(t, where, f.rules) })
	}
	f.open = nil
}

// merger puts plans, which come in any order, into the structure in the order of the input.
type merger struct {
	memory    *hfsource.MemoryBudget
	mu        sync.Mutex
	next      int
	waiting   map[int]planned
	seen      map[string]place // by session, of which the root is called like its trace
	rows      bool             // the first trace is of Mooncake rows
	skip      bool
	first     planned // of those that are skipped
	failed    context.CancelCauseFunc
	done      bool
	structure *mmapcache.Structure
	facts     mmapcache.StructureFacts
	global    map[uint32]*weka.GlobalPrefixCache // by block size
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
		p.share.Release()
	}
}

// take adds one plan, which is the next in order.
func (m *merger) take(p planned) error {
	if p.end != nil {
		return p.end
	}
	if p.err == nil {
		p.err = m.claim(p)
	}
	if p.err != nil {
		if !m.skip {
			return &InvalidTraceError{p.where, p.err}
		}
		if m.first.err == nil {
			m.first = p
		}
		m.leaveOut(p)
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
	m.unknown(p)
	for _, o := range p.notes.Oddities {
		m.odd(o, p.plan.Trace.ID)
	}
	f.Dropped += len(p.notes.Dropped)
	f.Ambiguous += p.notes.Ambiguous
	f.Seams += p.notes.Seams
	f.Unclassified += p.notes.Unclassified
	if p.notes.Queries == nil {
		f.ChainBreaks += p.notes.ChainBreaks // of a global scope they are counted over all traces
	}
	f.Generations[p.notes.Format]++
	m.form(p)
	if p.notes.Queries != nil {
		m.share(p.plan.Trace.BlockSize, p.notes.Queries)
	}
	if size := int(p.plan.Trace.BlockSize); size > f.MaxBlockSize {
		f.MaxBlockSize, f.MaxBlockTrace = size, manifest.Clip(p.plan.Trace.ID)
	}
	if err := m.memory.Retain(planBytes(p)); err != nil {
		return err
	}
	return m.structure.Append(p.plan)
}

// leaveOut lists a trace that is skipped, or counts it.
func (m *merger) leaveOut(p planned) {
	if len(m.facts.Skipped) == mmapcache.MaxListed {
		m.facts.SkippedMore++
		return
	}
	m.facts.Skipped = append(m.facts.Skipped, mmapcache.Skipped{File: p.place.file + 1, Line: p.place.line, Reason: manifest.Clip(p.err.Error())})
}

// unknown counts the keys of a trace that are not in the schema, in an order that is always the same.
func (m *merger) unknown(p planned) {
	f := &m.facts
	for _, whole := range slices.Sorted(maps.Keys(p.notes.Unknown)) {
		name, n := manifest.Clip(whole), p.notes.Unknown[whole]
		if _, listed := f.Unknown[name]; !listed && len(f.Unknown) == mmapcache.MaxListed {
			f.UnknownMore += n
			continue
		}
		f.Unknown[name] += n
		if f.UnknownIn[name] == "" {
			f.UnknownIn[name] = manifest.Clip(p.plan.Trace.ID)
		}
	}
}

// planBytes is about the memory that a plan takes in the structure of all, and with its part of a cache that is shared.
func planBytes(p planned) int64 {
	n := 32*len(p.plan.Segments) + 48*len(p.plan.Runs) + 128*len(p.plan.Turns) + 256*len(p.plan.Sessions)
	if p.notes.Queries != nil {
		return int64(n) + p.share.Size()
	}
	return int64(n)
}

// name notes the files that gave traces and carry no checksums.
func (m *merger) name(files []hfsource.File) {
	m.mu.Lock() // after an error some may still be at it
	defer m.mu.Unlock()
	kept := map[int]bool{}
	for _, p := range m.seen {
		kept[p.file] = true
	}
	for k, f := range files {
		if f.LacksChecksums && kept[k] {
			m.facts.FilesWithoutChecksum = append(m.facts.FilesWithoutChecksum, k+1)
		}
	}
}

// claim takes down the names of a trace and its sessions, which no other of the dataset may have.
func (m *merger) claim(p planned) error {
	for _, s := range p.plan.Sessions {
		first, again := m.seen[s.ID]
		switch {
		case again && s.ID == p.plan.Trace.ID:
			return fmt.Errorf("trace %q: a second trace of this id: the first is %s", s.ID, first)
		case again:
			return fmt.Errorf("trace %q: session %q: a second session of this name: the first is of %s", p.plan.Trace.ID, s.ID, first)
		}
	}
	for _, s := range p.plan.Sessions {
		m.seen[s.ID] = p.place
	}
	return nil
}

// odd adds oddities of one kind to those of the traces before.
func (m *merger) odd(o mmapcache.Oddity, trace string) {
	list := m.facts.Oddities
	at, found := slices.BinarySearchFunc(list, o.Kind, func(a mmapcache.Oddity, kind string) int { return strings.Compare(a.Kind, kind) })
	if found {
		list[at].Count += o.Count
		return
	}
	o.Trace, o.First = manifest.Clip(trace), manifest.Clip(o.First)
	m.facts.Oddities = slices.Insert(list, at, o)
}

// form counts the traces of another form than the first is of.
func (m *merger) form(p planned) {
	rows := p.notes.Format == weka.FormatMooncake
	switch {
	case m.facts.Traces == 1:
		m.rows = rows
	case rows && !m.rows:
		m.odd(mmapcache.Oddity{Kind: weka.OddityMixedFormats, Count: 1, First: "Mooncake rows: " + p.place.String()}, p.plan.Trace.ID)
	case !rows && m.rows:
		m.odd(mmapcache.Oddity{Kind: weka.OddityMixedFormats, Count: 1, First: "a Weka trace: " + p.place.String()}, p.plan.Trace.ID)
	}
}

// share adds a trace of global scope, about to be appended, to the cache that it shares with others.
func (m *merger) share(blockSize uint32, queries []weka.CacheQuery) {
	if m.global == nil {
		m.global = map[uint32]*weka.GlobalPrefixCache{}
	}
	g := m.global[blockSize]
	if g == nil {
		g = &weka.GlobalPrefixCache{}
		m.global[blockSize] = g
	}
	g.Add(queries, m.structure.Turns.Len())
}

// finish fills in what depends on all traces.
func (m *merger) finish(r weka.Rules) {
	for _, g := range m.global {
		g.Count(r, m.structure.SetHits)
		m.facts.ChainBreaks += g.ChainBreaks
	}
}

// InvalidTraceError is a trace that cannot be converted, with the file and line where it stands.
type InvalidTraceError struct {
	Where string
	Err   error
}

func (e *InvalidTraceError) Error() string { return e.Where + ": " + e.Err.Error() }

func (e *InvalidTraceError) Unwrap() error { return e.Err }

// fill computes the start of every block and filler of an open structure, several traces at a time.
func fill(ctx context.Context, c *mmapcache.Cache, starts *mmapcache.Placement, corpusTokens int, o Options) error {
	s := c.Structure
	pool := pond.NewPool(o.Workers, pond.WithQueueSize(2*o.Workers))
	defer pool.StopAndWait()
	group := pool.NewGroupContext(ctx)
	done := o.progress("fill", int64(s.Blocks()))
	placers := sync.Pool{New: func() any { return weka.NewPlacer(o.Placement, corpusTokens) }}
	for i := range s.Traces.Len() {
		if ctx.Err() != nil {
			break
		}
		group.SubmitErr(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			d := placers.Get().(*weka.Placer)
			defer placers.Put(d)
			p := s.Plan(i)
			done(int64(p.Trace.Blocks))
			return fillTrace(p, s.Blocks(), starts, d)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// fillTrace computes the starts of one trace. Those of fillers stand behind those of all blocks.
func fillTrace(p *mmapcache.Plan, allBlocks int, starts *mmapcache.Placement, d *weka.Placer) error {
	blocks, fillers := drawTrace(p, d)
	if err := starts.Put(int(p.Trace.FirstBlock), blocks); err != nil {
		return err
	}
	return starts.Put(allBlocks+int(p.Trace.FirstTurn), fillers)
}

// drawTrace returns the starts of the blocks of a trace, and of the fillers of its turns.
func drawTrace(p *mmapcache.Plan, d *weka.Placer) (blocks, fillers []uint32) {
	size := p.Trace.BlockSize
	blocks = make([]uint32, p.Trace.Blocks)
	for _, r := range p.Runs {
		d.Blocks(blocks[r.First:r.First+r.Count], r.Scope, r.ID, int(size))
	}
	fillers = make([]uint32, len(p.Turns))
	for _, s := range p.Sessions {
		for k := range s.Turns {
			if n := p.Turns[s.FirstTurn+k].FillerTokens(size); n > 0 {
				fillers[s.FirstTurn+k] = d.Filler(s.ID, int(k), int(n))
			}
		}
	}
	return blocks, fillers
}
