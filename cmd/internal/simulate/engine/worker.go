// Package engine simulates an inference engine: one [Worker] computes prompts in chunks and emits tokens, in virtual time,
// by the rules of doc/spec/simulate.md 2, 4, 5 and 6. All times are integer nanoseconds.
//
// A worker lives in passes. [Worker.Start] evaluates a pass whole at its start, [Worker.End] says when it ends, and
// [Worker.Finish] ends it:
//
//	w := engine.New(engine.Options{Config: config, Timing: timing, Switches: switches})
//	w.Submit(0, &engine.Request{Prompt: 8844, Output: 173, Chain: chain}, false)
//	for now := int64(0); w.HasWork(); now = w.End() {
//		w.Start(now)
//		w.Finish()
//		for _, r := range w.Signals() { ... }
//	}
//
// # Skip-ahead
//
// While a batch cannot change, Start plans a stretch of passes of pure decode at once, and End is the end of the last. The
// caller must then say what it does in the middle of a stretch: [Worker.Submit] cuts the stretch to the pass in flight,
// [Worker.Settle] makes the passes that have ended visible.
//
// # Pool
//
// The blocks of a worker are held in extents: runs of blocks that are alike. What a request leases, publishes, releases or evicts is
// moved extent by extent, whatever the length of its prompt. [Options.Plain] plays pass by pass on a pool block by block with a Go map:
// the oracle of both in tests.
//
// # Identity of blocks
//
// Of a prompt the worker knows its length and the chain numbers of its first full blocks. Two requests share their first k
// blocks exactly when their first k chain numbers are the same (package simulate/workload makes them).
package engine

import (
	"slices"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

// Role says which parts of a pass take time.
type Role uint8

// The roles.
const (
	Aggregated Role = iota
	Prefill         // of a disaggregated fleet: decode steps take no time, and blocks stay leased until Release
	Decode          // of a disaggregated fleet: prompts are there already, and take no time where they are computed again
)

// Options are what a worker is made of. Config must be valid.
type Options struct {
	Config   Config
	Timing   Timing
	Switches preset.Switches
	Role     Role
	Gaps     *Gaps       // counts the gaps between tokens; nil: the caller does not ask
	Events   bool        // TakeEvents is called
	Observe  func(*Pass) // called for every pass that ends, in order; the pass is valid during the call; nil: the caller does not ask
	Plain    bool        // play pass by pass, on a pool block by block: the oracle
}

// Counts are totals of a worker.
type Counts struct {
	Passes      int64 `json:"passes"`
	Preemptions int64 `json:"preemptions"`
	Evictions   int64 `json:"evictions"`
	Output      int64 `json:"output_tokens"`
	Outside     int64 `json:"-"` // passes outside of what was measured
	Prompt      int64 `json:"-"` // prompt tokens computed, again ones too

	Tiers []TierCounts `json:"tiers,omitempty"` // below the pool, the fastest first
}

// Worker is one simulated engine. It belongs to one goroutine.
type Worker struct {
	rules   rules
	timing  Timing
	gaps    *Gaps
	observe func(*Pass)
	plain   bool

	pool     pool
	sglang   *sglang // nil: another scheduler, whose blocks are in pool
	used     *usage  // of the pool
	waiting  queue
	expected queue      // prompts that are handed over, and have no blocks yet
	reserved queue      // those that have blocks, and whose prompt has not come
	orders   int        // of Expect
	tried    bool       // Reserve found no room, and no blocks were given back since
	loads    []*Request // that wait for blocks of tiers, in the order in which their loads end
	landed   int        // requests in front of those that wait: their loads have ended
	running  []*Request
	pass     passState
	record   Pass
	stretch  stretch

	busy       bool
	start, end int64
	ended      int64 // when the last pass ended that is visible
	signals    []*Request
	refused    []*Request // in this pass
	counts     Counts
	stuck      *Request
	blocked    bool      // blocks of requests that are handed over keep all that wait from the batch
	idle       int       // passes without progress
	hits       leases    // that the waiting head would get
	lists      [][]piece // of leases, of requests that ended
}

// rules are a configuration and its switches, resolved to what the passes ask.
type rules struct {
	blockSize, blocks, maxSeqs, maxTokens, maxLength int
	caching, chunked, fifo                           bool
	noEvict                                          bool // trtllm: a request enters when the pool has room for all that the batch may generate
	gate, freeHit, partial, visibleAllocated, merge  bool
	blockAtEmission, firstAtPrefill, uniqueKV        bool
	atPrefill                                        bool // a record counts a request that computes its prompt for that alone
	deadEnd                                          bool
	freeOnly                                         bool // a stretch evicts nothing
	role                                             Role
}

// New returns an idle worker.
func New(o Options) *Worker {
	c, s := o.Config, o.Switches
	w := &Worker{
		timing: o.Timing, gaps: o.Gaps, observe: o.Observe, plain: o.Plain,
		rules: rules{
			blockSize: c.BlockSize, blocks: c.Blocks, maxSeqs: c.MaxSeqs, maxTokens: c.MaxBatchedTokens, maxLength: c.MaxModelLen,
			caching: c.PrefixCaching, chunked: c.ChunkedPrefill, fifo: c.PreemptionMode == fifo,
			gate: s.Admission == preset.AdmitGate, freeHit: s.FullHit == preset.FullHitFree, partial: s.Alloc == preset.AllocPartial,
			visibleAllocated: s.BlockVisible == preset.VisibleAllocated, merge: s.Duplicates == preset.DuplicatesMerge,
			blockAtEmission: s.SampledBlock == preset.SampledAtEmission, firstAtPrefill: s.FirstToken == preset.FirstAtPrefill && o.Role == Aggregated, atPrefill: s.FirstToken == preset.FirstAtPrefill,
			uniqueKV: s.DecodeKV == preset.KVUniqueBlocks, deadEnd: s.Impossible == preset.ImpossibleDeadEnd, role: o.Role,
		},
	}
	if w.gaps == nil {
		w.gaps = &Gaps{}
	}
	if w.pool = newExtents(c.Blocks); o.Plain {
		w.pool = newPlainPool(c.Blocks)
	}
	if c.Type == TRTLLM { // it never preempts
		w.rules.noEvict, w.rules.gate, w.rules.partial, w.rules.blockAtEmission, w.rules.freeHit = true, true, false, false, true
		if capacity := c.Blocks * c.BlockSize; c.MaxModelLen == 0 || capacity < c.MaxModelLen {
			w.rules.maxLength = capacity
		}
	}
	if c.Type == SGLang { // it has an admission and a retraction of its own
		w.sglang = &sglang{tree: newRadix(c.Blocks), ratio: firstRatio}
		w.pool, w.rules.blockAtEmission = nil, false
	}
	if w.used = w.state(); o.Events {
		w.used.log = &eventLog{}
	}
	if o.Role != Decode {
		w.used.below = newBelow(&o.Config, o.Plain)
	}
	w.rules.freeOnly = w.rules.blockAtEmission // where requests end, their blocks are unused before later tokens take theirs
	return w
}

// state returns the counts of the pool, which are kept up to date.
func (w *Worker) state() *usage {
	if w.sglang != nil {
		return &w.sglang.tree.usage
	}
	return w.pool.state()
}

// Submit hands a worker a request, which waits for a pass that starts at now or later; later, where begun says that passes that could
// start at now have started. It cuts a stretch to the pass in flight.
func (w *Worker) Submit(now int64, r *Request, begun bool) {
	w.prepare(r)
	w.blocked = false
	if w.inStretch() {
		w.Settle(now)
		if w.waiting.len() == 0 && len(w.running) < w.rules.maxSeqs {
			w.cut(now, begun)
		} else {
			w.requeue(now, begun)
		}
	}
	w.waiting.push(r)
}

// HasWork reports whether a request waits or runs.
func (w *Worker) HasWork() bool { return w.waiting.len()+len(w.running)+len(w.loads) > 0 }

// Ready reports whether a pass could do something now: a request waits or runs, and not all wait for blocks of requests that are handed
// over, or loaded.
func (w *Worker) Ready(now int64) bool {
	return !w.blocked && w.waiting.len()+len(w.running) > 0 || w.nextLoad() <= now
}

// Busy reports whether a pass is in flight.
func (w *Worker) Busy() bool { return w.busy }

// End returns when the pass in flight ends, or the last pass of a stretch.
func (w *Worker) End() int64 { return w.end }

// Start begins a pass of an idle worker that has work, or a stretch of them.
func (w *Worker) Start(now int64) {
	w.signals, w.refused = w.signals[:0], w.refused[:0]
	w.busy, w.start = true, now
	w.land(now)
	if w.plain || !w.planStretch(now) {
		w.play(now)
	}
}

// Finish ends the pass in flight, or the stretch, at End.
func (w *Worker) Finish() {
	if w.inStretch() {
		w.commit(len(w.stretch.ends))
		w.endStretch()
	} else {
		w.counts.Passes++
		w.counts.Prompt += int64(w.pass.chunk + w.pass.again)
		if w.pass.outside {
			w.counts.Outside++
		}
		w.counts.Evictions = w.used.evictions
		if w.observe != nil {
			w.observe(&w.record)
		}
	}
	w.busy, w.ended = false, w.end
}

// Signals returns the requests that ended in the pass that Finish ended, or emitted their first token, in the order of the batch; then those
// that it refused. It is valid until Start.
func (w *Worker) Signals() []*Request { return w.signals }

// LastEnd returns when the last pass ended that Finish or Settle made visible; 0 before the first.
func (w *Worker) LastEnd() int64 { return w.ended }

// Progressed reports whether the pass that Start began computes a token for the first time, emits one, or ends a request.
func (w *Worker) Progressed() bool { return w.inStretch() || w.pass.progress }

// TakeEvents returns the KV events since the last call, in their order. They are valid until Start. Those of a pass are there from
// its Start on.
func (w *Worker) TakeEvents() []KVEvent {
	list := w.used.log.list
	w.used.log.list = list[:0]
	return list
}

// SettleEvents is TakeEvents for the passes of a stretch that have ended at now. Without a stretch there are none.
func (w *Worker) SettleEvents(now int64) []KVEvent {
	if !w.inStretch() {
		return nil
	}
	w.Settle(now)
	return w.TakeEvents()
}

// Stuck returns a request that can never end: the engine can never hold it, under rules that do not reject it, or requests preempt
// one another in turn. It is nil without one.
func (w *Worker) Stuck() *Request { return w.stuck }

// Queued returns the requests that wait, those that are loaded first, and Batch those that run, in their order. Both are valid until the
// next call of a method.
func (w *Worker) Queued() []*Request {
	if len(w.loads) == 0 {
		return w.waiting.all()
	}
	return slices.Concat(w.loads, w.waiting.all())
}

// Batch returns the requests that run, in their order.
func (w *Worker) Batch() []*Request { return w.running }

// ActiveBlocks returns how many blocks of the pool are leased.
func (w *Worker) ActiveBlocks() int { return w.used.active }

// Counts returns the totals of the passes that have ended, or were settled.
func (w *Worker) Counts() Counts {
	c := w.counts
	if w.used.below != nil {
		c.Tiers = slices.Clone(w.used.below.counts)
	}
	return c
}

// Run is a range of chain numbers: First, First+1, ... A chain is a list of them.
type Run struct {
	First, Count uint32
}

// Status says how far a request has come.
type Status uint8

// The statuses.
const (
	Waiting     Status = iota // no pass has taken it yet
	Running                   // a pass has; it has not ended
	Preempted                 // it lost its blocks and waits
	Done                      // it emitted all its tokens
	Rejected                  // the engine can never hold its prompt
	KVExhausted               // it outgrew the pool, and ended with the tokens that it had
)

// String returns the word of a status that files have.
func (s Status) String() string {
	return [...]string{"waiting", "running", "preempted", "done", "rejected", "kv_exhausted"}[s]
}

// Ended reports whether nothing more can happen to a request.
func (s Status) Ended() bool { return s >= Done }

// Request is a request, what a worker knows of it, and what came of it. The caller fills the first fields; a worker owns a
// request from Submit until it is in Signals with a status that has Ended.
type Request struct {
	ID     int // the caller's
	Prompt int // tokens, more than 0
	Output int // tokens to emit, more than 0
	Chain  []Run

	Admitted, First, Second, Last int64 // start of its first pass; ends of the passes with its first, second, last token
	Tokens                        int   // emitted
	Reused                        int   // prompt tokens found at the first admission
	ReusedMax                     int   // the most found at any admission
	Resident                      int   // prompt tokens that a decode worker had when Reserve took blocks for the others
	Recomputed                    int   // tokens computed again after preemptions
	Loaded                        int   // tokens loaded from tiers, and for how long it waited for them
	LoadWait                      int64
	Preemptions, Admissions       int
	Status                        Status

	limit    int // tokens that it may emit
	reached  int // known tokens that were computed at some time
	farthest int // the same, those included whose pass was undone
	shared   int // blocks that its chain numbers
	order    int // among those that were expected
	computed int // known tokens whose KV is in its blocks
	leases   leases
	branch   *branch // of SGLang
	held     int     // blocks that it had when its load began
	loading  int     // blocks of its load
	lands    int64   // when its load ends
	private  []saved // blocks of its own that it lost in a preemption
	used     taken   // by this pass
}

// taken is what a request took of a pass; a preemption gives it back.
type taken struct {
	pass                int64
	tokens              int // budget
	chunk, prefix       int // of the prompt
	again               int // generated tokens, of a preempted request
	reached, recomputed int // of the request before
}

// length returns how many tokens are known: the prompt, and what was emitted.
func (r *Request) length() int { return r.Prompt + r.Tokens }

// blocksOf returns how many blocks so many tokens fill or begin.
func blocksOf(tokens, size int) int { return (tokens + size - 1) / size }

// prepare computes how many tokens a request may emit, and how many of its blocks have chain numbers.
func (w *Worker) prepare(r *Request) {
	r.limit = r.Output
	if w.rules.maxLength > r.Prompt {
		r.limit = min(r.limit, w.rules.maxLength-r.Prompt)
	}
	r.shared = 0
	for _, run := range r.Chain {
		r.shared += int(run.Count)
	}
	if w.sglang != nil {
		w.sglang.requests++
		r.branch = newBranch(r, w.sglang.requests, (r.Prompt+r.limit)/w.rules.blockSize)
	}
}

// chainOf returns the chain number of block i, which is below shared.
func (r *Request) chainOf(i int) uint32 {
	for _, run := range r.Chain {
		if i < int(run.Count) {
			return run.First + uint32(i)
		}
		i -= int(run.Count)
	}
	panic("engine: a block that no chain number names")
}

// queue is the requests that wait, first come first, with those that were preempted in front.
type queue struct {
	list []*Request
	head int
}

func (q *queue) len() int        { return len(q.list) - q.head }
func (q *queue) first() *Request { return q.list[q.head] }
func (q *queue) all() []*Request { return q.list[q.head:] }
func (q *queue) push(r *Request) { q.list = append(q.list, r) }

// pop takes the first request out.
func (q *queue) pop() *Request {
	r := q.list[q.head]
	q.list[q.head] = nil
	if q.head++; q.head == len(q.list) {
		q.list, q.head = q.list[:0], 0
	} else if q.head > 64 && q.head > len(q.list)/2 { // the memory follows those that wait, not those that came
		q.list, q.head = append(q.list[:0], q.list[q.head:]...), 0
	}
	return r
}

// remove takes request i out.
func (q *queue) remove(i int) *Request {
	if i == 0 {
		return q.pop()
	}
	r := q.all()[i]
	q.list = slices.Delete(q.list, q.head+i, q.head+i+1)
	return r
}

// insert puts a request before the first that was expected after it.
func (q *queue) insert(r *Request) {
	i := slices.IndexFunc(q.all(), func(other *Request) bool { return other.order > r.order })
	if i < 0 {
		i = q.len()
	}
	q.list = slices.Insert(q.list, q.head+i, r)
}

// pushFront puts a request before all others, in room that it makes there.
func (q *queue) pushFront(r *Request) {
	if q.head == 0 {
		room := 8 + len(q.list)
		list := make([]*Request, room+len(q.list), 2*room+len(q.list))
		copy(list[room:], q.list)
		q.list, q.head = list, room
	}
	q.head--
	q.list[q.head] = r
}
