package convert

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/agentx/agentx/convert/reconstruct"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/trace"
)

// merger appends plans to the structure in the order of the input. Workers add them in any order.
type merger struct {
	mu           sync.Mutex
	next         int                  // number of the plan to append next
	early        map[int]plannedTrace // plans that came before their turn, by number
	stopped      bool
	cancel       context.CancelCauseFunc // ends the conversion
	memory       *hfsource.MemoryBudget
	rules        rules.Rules
	skipInvalid  bool
	firstSkipped plannedTrace
	refused      *InvalidTraceError // the first, while no valid trace is known
	refusals     int
	bounds       bounds
	each         func(plannedTrace) // of Options
	told         func(bytes int64)  // Options.Memory; may be nil
	retained     atomic.Int64       // bytes of the structure; recordings add to it, too

	sessions     map[string]position // by id; the root session has the id of its trace
	first        *format             // of the first trace
	structure    *mmapcache.Structure
	facts        mmapcache.StructureFacts
	prefixCaches prefixCaches
}

func newMerger(memory *hfsource.MemoryBudget, o Options, b bounds, cancel context.CancelCauseFunc) *merger {
	return &merger{
		early: map[int]plannedTrace{}, cancel: cancel, bounds: b, each: o.each, told: o.Memory, memory: memory, rules: o.Rules, skipInvalid: o.SkipInvalid,
		sessions: map[string]position{}, prefixCaches: prefixCaches{}, structure: mmapcache.NewStructure(), facts: emptyFacts(o.Rules.TimeRules()),
	}
}

// emptyFacts returns the facts of no traces.
func emptyFacts(rules mmapcache.TimeRules) mmapcache.StructureFacts {
	return mmapcache.StructureFacts{
		Skipped: []mmapcache.Skipped{}, Unknown: map[string]int{}, UnknownIn: map[string]string{}, Generations: map[string]int{}, Rules: rules,
	}
}

// add adds the plan with a number, and appends all plans whose turn it is.
func (m *merger) add(number int, p plannedTrace) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.early[number] = p
	for !m.stopped {
		p, ok := m.early[m.next]
		if !ok {
			return
		}
		delete(m.early, m.next)
		m.next++
		err := m.bounds.check(m, p)
		if err == nil {
			err = m.append(p)
		}
		if err != nil {
			m.stopped = true
			m.cancel(err)
		}
		p.memory.Release()
	}
}

// bounds say which traces a structure may have. The zero value allows any.
type bounds struct {
	rows  int  // whose traces share no block with those of others; 0: any number
	shard bool // none shares blocks with others
}

// errSeveralShards says that a structure would have more rows than a shard.
var errSeveralShards = errors.New("more rows than a shard has")

// errCoupled says that traces of different shards depend on each other, so that the input is one shard.
var errCoupled = errors.New("traces of different shards depend on each other")

// check returns errCoupled or errSeveralShards where the plan that is appended next exceeds the bounds.
func (b bounds) check(m *merger, p plannedTrace) error {
	switch {
	case b.shard && p.notes.Queries != nil:
		return errCoupled
	case b.rows > 0 && m.next > b.rows && len(m.prefixCaches) == 0:
		return errSeveralShards
	}
	return nil
}

// append appends a plan to the structure, or skips an invalid trace. Its errors end the conversion.
func (m *merger) append(p plannedTrace) error {
	if p.fatal != nil {
		if err := m.invalid(); err != nil {
			return err // it came before
		}
		return p.fatal
	}
	if p.err == nil {
		p.err = m.registerSessions(p)
	}
	if p.err != nil {
		return m.skip(p)
	}
	if m.facts.Traces > 0 && p.notes.Live != m.facts.Rules.LiveAnswers {
		return fmt.Errorf("%s: session_rows=live: a replay puts answers into the prompts of Mooncake rows, and not into those of the other traces of this input: want inputs of their own", p.location)
	}
	m.addFacts(p)
	if p.notes.Queries != nil {
		m.prefixCaches.add(p.plan, p.notes, m.structure.Turns.Len())
	}
	if err := m.retain(retainedBytes(p)); err != nil {
		return err
	}
	if err := m.structure.Append(p.plan); err != nil {
		return err
	}
	if !math.IsNaN(p.notes.Start) {
		m.structure.SetRecordedStart(m.structure.Traces.Len()-1, p.notes.Start)
		m.facts.Starts++
	}
	if m.each != nil {
		m.each(p)
	}
	return m.invalid()
}

// toldStep is how many retained bytes change what Options.Memory is told.
const toldStep = 8 << 20

// retain keeps bytes reserved as long as the structure is needed, and tells how many there are: a limit of memory below what is retained only
// makes the collector run without end. A million traces of one request took 62 s of CPU in 524 MB, and take 20 s in 649 MB.
func (m *merger) retain(n int64) error {
	m.retained.Add(n)
	now, err := m.memory.Retain(n)
	if err == nil && m.told != nil && now/toldStep != (now-n)/toldStep {
		m.told(now)
	}
	return err
}

// maxRefused is how many invalid traces are read in search of a valid one.
const maxRefused = 1000

// refuse keeps the first invalid trace, which ends the conversion. It does so when the input turns out to have a valid one, or
// none among the next: only then it is known whether leaving out helps.
func (m *merger) refuse(p plannedTrace) error {
	if m.refused == nil {
		m.refused = &InvalidTraceError{Where: p.location, Err: p.err}
	}
	if m.refusals++; m.refusals < maxRefused && m.structure.Traces.Len() == 0 {
		return nil
	}
	return m.invalid()
}

// invalid returns the error about the first invalid trace, where there is one that is not skipped.
func (m *merger) invalid() error {
	if m.refused == nil {
		return nil
	}
	m.refused.Others = m.refused.Others || m.structure.Traces.Len() > 0
	return m.refused
}

// skip lists an invalid trace, or counts it where the list is full. Unless invalid traces are to be skipped, it fails.
func (m *merger) skip(p plannedTrace) error {
	if !m.skipInvalid {
		return m.refuse(p)
	}
	if m.firstSkipped.err == nil {
		m.firstSkipped = p
	}
	if len(m.facts.Skipped) == mmapcache.MaxListed {
		m.facts.SkippedMore++
		return nil
	}
	m.facts.Skipped = append(m.facts.Skipped, mmapcache.Skipped{File: p.position.file + 1, Line: p.position.line, Reason: manifest.Clip(p.err.Error())})
	return nil
}

// addFacts adds a trace to the facts.
func (m *merger) addFacts(p plannedTrace) {
	n, id := &p.notes, manifest.Clip(p.plan.Trace.ID)
	f := mmapcache.StructureFacts{
		Traces: 1, Sessions: len(p.plan.Sessions), Turns: len(p.plan.Turns), Blocks: int(p.plan.Trace.Blocks),
		Dropped: len(n.Dropped), Ambiguous: n.Ambiguous, Seams: n.Seams, Unclassified: n.Unclassified,
		MaxBlockSize: int(p.plan.Trace.BlockSize), MaxBlockTrace: id,
		Generations: map[string]int{n.Format: 1}, Unknown: map[string]int{}, UnknownIn: map[string]string{},
	}
	for _, t := range p.plan.Turns {
		f.PromptTokens += int64(t.In)
		f.OutputTokens += int64(t.Out)
	}
	if n.Queries == nil { // those of global scope are counted over all traces, by finish
		f.ChainBreaks = n.ChainBreaks
	}
	for key, times := range n.Unknown {
		key = manifest.Clip(key)
		f.Unknown[key] += times
		f.UnknownIn[key] = id
	}
	for _, o := range n.Oddities {
		addOddity(&f, oddityIn(o, id))
	}
	addFacts(&m.facts, f, 0)
	m.facts.Rules.LiveAnswers = n.Live
	m.checkFormat(p)
}

// countUnknown counts an unknown key that occurs n times, in a trace first.
func countUnknown(f *mmapcache.StructureFacts, name, trace string, n int) {
	if _, listed := f.Unknown[name]; !listed && len(f.Unknown) == mmapcache.MaxListed {
		f.UnknownMore += n
		return
	}
	f.Unknown[name] += n
	if f.UnknownIn[name] == "" {
		f.UnknownIn[name] = trace
	}
}

// retainedBytes estimates the memory of a plan in the structure and in a prefix cache that several traces share.
func retainedBytes(p plannedTrace) int64 {
	n := 32*len(p.plan.Segments) + 48*len(p.plan.Runs) + 128*len(p.plan.Turns) + 256*len(p.plan.Sessions)
	if p.notes.Queries != nil {
		return int64(n) + p.memory.Size()
	}
	return int64(n)
}

// noteFilesWithoutChecksum notes the files without checksums from which traces were taken.
func (m *merger) noteFilesWithoutChecksum(files []hfsource.File) {
	m.mu.Lock() // after an error, workers may still add
	defer m.mu.Unlock()
	used := map[int]bool{}
	for _, p := range m.sessions {
		used[p.file] = true
	}
	for k := range files {
		if files[k].LacksChecksums() && used[k] {
			m.facts.FilesWithoutChecksum = append(m.facts.FilesWithoutChecksum, k+1)
		}
	}
}

// secondSession says that a trace has a session of a name that exists. first says where.
func secondSession(trace, session, first string) error {
	if session == trace {
		return fmt.Errorf("trace %q: a second trace of this id: the first is %s", trace, first)
	}
	return fmt.Errorf("trace %q: session %q: a second session of this name: the first is of %s", trace, session, first)
}

// text names a row: of a shard without the number of its file in the input, which the shard does not depend on.
func (b bounds) text(p position) string {
	switch {
	case !b.shard:
		return p.String()
	case p.line > 0 && p.file == 0:
		return fmt.Sprintf("%s %d of its file", p.unit(), p.line)
	}
	return fmt.Sprintf("in file %d of its shard", p.file+1)
}

// registerSessions notes the ids of the sessions of a trace. No two sessions of a dataset may have the same id.
func (m *merger) registerSessions(p plannedTrace) error {
	for _, s := range p.plan.Sessions {
		if first, taken := m.sessions[s.ID]; taken {
			return secondSession(p.plan.Trace.ID, s.ID, m.bounds.text(first))
		}
	}
	for _, s := range p.plan.Sessions {
		m.sessions[s.ID] = p.position
	}
	return nil
}

// oddityIn returns an oddity of a trace as the facts list it.
func oddityIn(o trace.Oddity, id string) mmapcache.Oddity {
	return mmapcache.Oddity{Kind: o.Kind, Count: o.Count, Trace: manifest.Clip(id), First: manifest.Clip(o.First)}
}

// addOddity adds oddities of one kind to the sorted list of all.
func addOddity(f *mmapcache.StructureFacts, o mmapcache.Oddity) {
	at, listed := slices.BinarySearchFunc(f.Oddities, o.Kind, func(a mmapcache.Oddity, kind string) int { return strings.Compare(a.Kind, kind) })
	if listed {
		f.Oddities[at].Count += o.Count
		return
	}
	f.Oddities = slices.Insert(f.Oddities, at, o)
}

// checkFormat counts a trace as an oddity if its format differs from that of the first trace.
func (m *merger) checkFormat(p plannedTrace) {
	f := formatNamed(p.notes.Format)
	if m.facts.Traces == 1 {
		m.first = f
	}
	if f != m.first {
		addOddity(&m.facts, oddityIn(trace.Oddity{Kind: trace.OddityMixedFormats, Count: 1, First: f.what + ": " + p.position.String()}, p.plan.Trace.ID))
	}
}

// prefixCaches are the caches that traces of global scope share.
type prefixCaches map[sharedBlocks]*reconstruct.GlobalPrefixCache

// sharedBlocks is what traces have in common that share blocks.
type sharedBlocks struct {
	size      uint32
	namespace int
}

// add adds the queries of a trace of global scope. firstTurn is the row of its first turn.
func (c prefixCaches) add(plan *mmapcache.Plan, notes reconstruct.Notes, firstTurn int) {
	shared := sharedBlocks{plan.Trace.BlockSize, notes.Namespace}
	if c[shared] == nil {
		c[shared] = &reconstruct.GlobalPrefixCache{}
	}
	c[shared].Add(notes.Queries, firstTurn)
}

// sorted returns the caches by block size.
func (c prefixCaches) sorted() (list []*reconstruct.GlobalPrefixCache) {
	for _, shared := range slices.SortedFunc(maps.Keys(c), func(a, b sharedBlocks) int {
		return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.namespace, b.namespace))
	}) {
		list = append(list, c[shared])
	}
	return list
}

// finish computes the facts that depend on all traces: the hits of prompts in shared prefix caches.
func (m *merger) finish() {
	for _, cache := range m.prefixCaches {
		cache.Count(m.rules, m.structure.SetHits)
		m.facts.ChainBreaks += cache.ChainBreaks
	}
}
