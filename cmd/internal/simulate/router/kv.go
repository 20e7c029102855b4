// Package router chooses the workers of requests by what they hold: doc/spec/simulate.md 8.
//
// A KV router knows which blocks are visible on each worker, and which prompts are at work there. It gives a request to the
// worker of the lowest cost.
//
//	r, err := router.New(router.Options{Config: router.Default(switches.RouterCost), Switches: switches, Engine: config, Timing: timing, Seed: 42})
//	result, err := fleet.Run(ctx, fleet.Options{Workers: 8, Router: r, ...})
//
// A router belongs to one run. Round robin is the router of package fleet.
package router

import (
	"math"
	"slices"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/internal/heap"
	"github.com/agentx/agentx/internal/pyrand"
)

// Options are what a KV router is made of.
type Options struct {
	Config   Config
	Switches preset.Switches
	Engine   engine.Config // of the workers
	Timing   engine.Timing // of the workers; asked only by loadEngine
	Seed     uint64
	Decode   bool // the workers are those of a decode pool
}

// Validate returns an error about the first option that cannot be used.
func (o Options) Validate() error {
	if err := o.Switches.Validate(); err != nil {
		return err
	}
	if err := o.Engine.Validate(); err != nil {
		return err
	}
	return o.Config.Validate()
}

// The streams of draws of the routers of a run, behind those of package workload.
const (
	streamRouter = iota + 3
	streamDecodeRouter
)

// KV is a router that follows prefixes and loads. It is a fleet.Router.
type KV struct {
	config     Config
	costs      costs
	picker     picker
	timing     engine.Timing
	maxTokens  int // of a pass
	workers    []*worker
	byID       map[int]*worker
	flights    map[*fleet.Request]*flight
	candidates []candidate
	queue      []waiting // a heap
	look       bool      // something happened since the queue was looked at
	arrivals   int
}

var _ fleet.Router = (*KV)(nil)

// New returns a router that knows no worker.
func New(o Options) (*KV, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	stream := uint64(streamRouter)
	if o.Decode {
		stream = streamDecodeRouter
	}
	return &KV{
		config: o.Config, costs: costs{Config: o.Config, kind: o.Switches.RouterCost, decode: o.Decode, blockSize: o.Engine.BlockSize},
		picker: picker{
			temperature: o.Config.Temperature, randomTies: o.Switches.RouterTie == preset.TieRandom,
			stream: pyrand.NewPCG64(o.Seed + stream<<48),
		},
		timing: o.Timing, maxTokens: o.Engine.MaxBatchedTokens, byID: map[int]*worker{}, flights: map[*fleet.Request]*flight{},
	}, nil
}

// Workers takes the workers that are active. What was known of others is forgotten.
func (k *KV) Workers(_ int64, active []int) {
	known := k.byID
	k.workers, k.byID = k.workers[:0], make(map[int]*worker, len(active))
	for _, id := range active {
		w := known[id]
		if w == nil {
			w = &worker{id: id}
		}
		k.workers = append(k.workers, w)
		k.byID[id] = w
	}
	k.look = true
}

// Route chooses the worker of a request, or keeps it while all workers have too much to prefill.
func (k *KV) Route(now int64, r *fleet.Request) (id int, ok bool) {
	k.arrivals++
	if k.busy(now) {
		heap.Push(&k.queue, waiting{r, keyOf(k.config.QueuePolicy, k.arrivals, k.newTokens(r)), k.arrivals}, waiting.before)
		return 0, false
	}
	return k.dispatch(now, r), true
}

// Next returns a request that was kept, and its worker.
func (k *KV) Next(now int64) (r *fleet.Request, id int) {
	if len(k.queue) == 0 || !k.look {
		return nil, 0
	}
	if k.busy(now) {
		k.look = false
		return nil, 0
	}
	r = heap.Pop(&k.queue, waiting.before).request
	return r, k.dispatch(now, r)
}

// Events takes what a worker says of its blocks.
func (k *KV) Events(id int, list []engine.KVEvent) {
	w := k.byID[id]
	if w == nil {
		return
	}
	for _, e := range list {
		w.index.Apply(e)
	}
}

// FirstToken takes that the prompt of a request is computed.
func (k *KV) FirstToken(now int64, r *fleet.Request) {
	if f := k.flights[r]; f != nil {
		f.worker.firstToken(now, f)
	}
	k.look = true
}

// Completed takes that a request has ended, however it did.
func (k *KV) Completed(now int64, r *fleet.Request) {
	if f := k.flights[r]; f != nil {
		delete(k.flights, r)
		f.worker.end(now, f)
	}
	k.look = true
}

// busy reports whether every worker has more to prefill than the threshold of the queue.
func (k *KV) busy(now int64) bool {
	if k.config.QueueThreshold == nil {
		return false
	}
	limit := *k.config.QueueThreshold * float64(k.maxTokens)
	return !slices.ContainsFunc(k.workers, func(w *worker) bool { return float64(w.prefillTokens(now)) <= limit })
}

// newTokens returns how many tokens of a request no worker has, the best one taken.
func (k *KV) newTokens(r *fleet.Request) int {
	best := 0
	for _, w := range k.workers {
		best = max(best, w.index.Leading(r.Chain))
	}
	return max(r.Prompt-best*k.costs.blockSize, 0)
}

// dispatch gives a request to the worker that wins.
func (k *KV) dispatch(now int64, r *fleet.Request) (id int) {
	k.gather(now, r)
	c := &k.candidates[k.picker.pick(k.candidates)]
	f := &flight{request: r, worker: c.worker, private: blocksOf(r.Prompt, k.costs.blockSize) - chained(r), expect: -1}
	if !k.costs.decode { // whose prompts take no time
		f.prefill = max(r.Prompt-c.overlap*k.costs.blockSize, 0)
	}
	if k.config.PrefillLoadModel == loadEngine {
		f.expect = k.expect(f.prefill)
	}
	r.Overlap = c.overlap
	k.flights[r] = f
	c.worker.dispatch(now, f)
	return c.worker.id
}

// gather computes what the workers look like to a request, and its costs there.
func (k *KV) gather(now int64, r *fleet.Request) {
	k.candidates = k.candidates[:0]
	least := 0
	for n, w := range k.workers {
		c := candidate{
			worker: w, prefillTokens: w.prefillTokens(now), overlap: w.index.Leading(r.Chain), active: w.active, lead: w.lead(r),
			requests: len(w.flights), index: w.index.size, dispatched: w.dispatched,
		}
		if n == 0 || c.prefillTokens < least {
			least = c.prefillTokens
		}
		k.candidates = append(k.candidates, c)
	}
	for n := range k.candidates {
		c := &k.candidates[n]
		c.excess = float64(c.prefillTokens-least) / float64(k.costs.blockSize)
		c.cost = k.costs.of(c, r.Prompt)
	}
}

// expect returns how long an engine computes so many tokens of one prompt.
func (k *KV) expect(tokens int) (duration int64) {
	for ; tokens > 0; tokens -= k.maxTokens {
		duration += k.timing.Prefill(min(tokens, k.maxTokens))
	}
	return duration
}

// waiting is a request that the router keeps.
type waiting struct {
	request *fleet.Request
	key     float64
	order   int // of arrival
}

// before says which of two requests leaves first: that of the higher key (doc/spec/simulate.md 8.4).
func (w waiting) before(other waiting) bool {
	return w.key > other.key || w.key == other.key && w.order < other.order
}

// keyOf returns the key of a request that arrives as number order and needs so many new tokens. No trace has priorities, so that
// all are 0.
func keyOf(policy string, order, tokens int) float64 {
	switch policy {
	case lcfs:
		return float64(order)
	case wspt:
		return 1 / float64(max(tokens, 1))
	}
	return -float64(order)
}

// flight is a request from its dispatch to its end.
type flight struct {
	request *fleet.Request
	worker  *worker
	private int   // prompt blocks without a chain number
	prefill int   // tokens to compute, until the first token
	expect  int64 // nanoseconds that they take; negative: not known
}

// worker is what the router knows of a worker.
type worker struct {
	id         int
	index      Index
	flights    []*flight // in the order of dispatch
	prefills   []*flight // those without a first token
	prefillSum int       // their tokens
	oldest     int64     // when the first of them became the first
	active     int       // prompt blocks of flights, those with the same chain number once
	dispatched int
}

// lead returns how many blocks at the beginning of a request's chain belong to flights. All flights with a chain number have all
// numbers before it, so that one flight has the whole lead.
func (w *worker) lead(r *fleet.Request) (blocks int) {
	for _, f := range w.flights {
		blocks = max(blocks, shared(f.request.Chain, r.Chain))
	}
	return blocks
}

// dispatch adds a flight.
func (w *worker) dispatch(now int64, f *flight) {
	w.active += f.private + chained(f.request) - w.lead(f.request)
	w.flights = append(w.flights, f)
	if len(w.prefills) == 0 {
		w.oldest = now
	}
	w.prefills = append(w.prefills, f)
	w.prefillSum += f.prefill
	w.dispatched++
}

// firstToken ends the prefill of a flight, if it has not ended.
func (w *worker) firstToken(now int64, f *flight) {
	k := slices.Index(w.prefills, f)
	if k < 0 {
		return
	}
	w.prefills = slices.Delete(w.prefills, k, k+1)
	w.prefillSum -= f.prefill
	if k == 0 {
		w.oldest = now
	}
}

// end removes a flight.
func (w *worker) end(now int64, f *flight) {
	w.firstToken(now, f)
	k := slices.Index(w.flights, f)
	w.flights = slices.Delete(w.flights, k, k+1)
	w.active -= f.private + chained(f.request) - w.lead(f.request)
}

// prefillTokens returns the tokens of the prefills in flight: doc/spec/simulate.md 8.3.
func (w *worker) prefillTokens(now int64) int {
	if len(w.prefills) == 0 {
		return 0
	}
	f := w.prefills[0]
	return w.prefillSum - f.prefill + remaining(f.prefill, now-w.oldest, f.expect)
}

// remaining returns what is left of the tokens of a prefill. A negative duration is unknown.
func remaining(tokens int, elapsed, expect int64) int {
	switch {
	case expect < 0:
		return tokens
	case elapsed >= expect:
		return 0
	}
	return int(math.Ceil(float64(tokens) * (1 - float64(elapsed)/float64(expect))))
}

// chained returns how many blocks of a prompt have a chain number.
func chained(r *fleet.Request) (blocks int) {
	for _, run := range r.Chain {
		blocks += int(run.Count)
	}
	return blocks
}
