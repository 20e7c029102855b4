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
	"cmp"
	"math"
	"math/bits"
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
	Role     engine.Role // of the workers
	Tie      Tie         // nil: the switch router-tie decides
}

// Tie chooses one of the workers of the lowest cost, given by their ids, for a request.
type Tie func(r *fleet.Request, ids []int) (id int)

// Validate returns an error about the first option that cannot be used.
func (o Options) Validate() error {
	return cmp.Or(o.Switches.Validate(), o.Engine.Validate(), o.Config.Validate())
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
	tie        Tie
	timing     engine.Timing
	maxTokens  int // of a pass
	workers    []*worker
	byID       map[int]*worker
	flights    map[*fleet.Request]*flight
	candidates []candidate
	found      []int     // of overlaps
	queue      []waiting // a heap
	look       bool      // something happened since the queue was looked at
	kept       int       // requests so far
}

var _ fleet.Router = (*KV)(nil)

// New returns a router that knows no worker.
func New(o Options) (*KV, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	stream := uint64(streamRouter)
	if o.Role == engine.Decode {
		stream = streamDecodeRouter
	}
	return &KV{
		config: o.Config, costs: costs{
			Config: o.Config, kind: o.Switches.RouterCost, role: o.Role, full: o.Switches.RouterLoad == preset.LoadFull, blockSize: o.Engine.BlockSize,
		},
		picker: picker{
			temperature: o.Config.Temperature, randomTies: o.Switches.RouterTie == preset.TieRandom,
			stream: pyrand.NewPCG64(o.Seed + stream<<48),
		},
		tie: o.Tie, timing: o.Timing, maxTokens: o.Engine.MaxBatchedTokens, byID: map[int]*worker{}, flights: map[*fleet.Request]*flight{},
	}, nil
}

// Workers notes which workers are active. What was known of others is forgotten.
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

// Route chooses the worker of a request, or keeps it while others wait, or all workers have too much to prefill.
func (k *KV) Route(now int64, r *fleet.Request) (id int, ok bool) {
	overlaps := k.overlaps(r)
	if len(k.queue) > 0 || k.busy(now) {
		k.kept++
		overlaps = slices.Clone(overlaps)
		heap.Push(&k.queue, waiting{r, overlaps, keyOf(k.config.QueuePolicy, now, k.newTokens(r, overlaps)), k.kept}, waiting.before)
		return 0, false
	}
	return k.dispatch(now, r, overlaps), true
}

// overlaps returns how many leading blocks of a request each worker has, by id. It is valid until the next call.
func (k *KV) overlaps(r *fleet.Request) []int {
	clear(k.found)
	for _, w := range k.workers {
		for len(k.found) <= w.id {
			k.found = append(k.found, 0)
		}
		k.found[w.id] = w.index.Leading(r.Chain)
	}
	return k.found
}

// Next returns a request that was kept and can leave now, with its worker; nil: none can.
func (k *KV) Next(now int64) (r *fleet.Request, id int) {
	if len(k.queue) == 0 || !k.look {
		return nil, 0
	}
	if k.busy(now) {
		k.look = false
		return nil, 0
	}
	one := heap.Pop(&k.queue, waiting.before)
	return one.request, k.dispatch(now, one.request, one.overlaps)
}

// Events notes which blocks a worker has stored or evicted.
func (k *KV) Events(id int, list []engine.KVEvent) {
	w := k.byID[id]
	if w == nil {
		return
	}
	for _, e := range list {
		w.index.Apply(e)
	}
}

// FirstToken notes that the prompt of a request is computed.
func (k *KV) FirstToken(now int64, r *fleet.Request) {
	if f := k.flights[r]; f != nil {
		f.worker.firstToken(now, f)
	}
	k.look = true
}

// Completed notes that a request has ended, however it did.
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
func (k *KV) newTokens(r *fleet.Request, overlaps []int) int {
	best := 0
	for _, blocks := range overlaps {
		best = max(best, blocks)
	}
	return max(r.Prompt-best*k.costs.blockSize, 0)
}

// dispatch gives a request to the worker that wins. The overlaps are those of its arrival, which a worker does not have that came later.
func (k *KV) dispatch(now int64, r *fleet.Request, overlaps []int) (id int) {
	k.gather(now, r, overlaps)
	c := &k.candidates[k.pick(r)]
	f := &flight{request: r, worker: c.worker, expect: -1}
	if blocks := k.costs.blocks(r.Prompt); k.costs.shares() {
		f.chain, f.private = r.Chain, max(blocks-chained(r.Chain), 0)
	} else {
		f.private = blocks
	}
	if k.costs.role != engine.Decode { // whose prompts take no time
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

// pick returns the number of the candidate that gets a request.
func (k *KV) pick(r *fleet.Request) int {
	best := k.picker.pick(k.candidates)
	if k.tie == nil || k.config.Temperature > 0 {
		return best
	}
	var ids []int
	for _, n := range k.picker.ties {
		ids = append(ids, k.candidates[n].worker.id)
	}
	id := k.tie(r, ids)
	return slices.IndexFunc(k.candidates, func(c candidate) bool { return c.worker.id == id })
}

// gather computes the candidates of a request: what each worker has of its prompt and is busy with, and what the request costs there.
func (k *KV) gather(now int64, r *fleet.Request, overlaps []int) {
	k.candidates = k.candidates[:0]
	least := 0
	for n, w := range k.workers {
		c := candidate{
			worker: w, prefillTokens: w.prefillTokens(now), active: w.active, requests: len(w.flights), index: w.index.size, dispatched: w.dispatched,
		}
		if w.id < len(overlaps) {
			c.overlap = overlaps[w.id]
		}
		if k.costs.shares() {
			c.lead = w.lead(r.Chain)
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
	request  *fleet.Request
	overlaps []int // blocks that each worker had when it arrived, by id
	key      float64
	order    int // of arrival
}

// before says which of two requests leaves first: that of the higher key (doc/spec/simulate.md 8.4).
func (w waiting) before(other waiting) bool {
	return w.key > other.key || w.key == other.key && w.order < other.order
}

// keyOf returns the key of a request that arrives now and needs so many new tokens. No trace has priorities, so that all are 0.
func keyOf(policy string, now int64, tokens int) float64 {
	switch policy {
	case lcfs:
		return float64(now)
	case wspt:
		return 1 / float64(max(tokens, 1))
	}
	return -float64(now)
}

// flight is a request from its dispatch to its end.
type flight struct {
	request *fleet.Request
	worker  *worker
	chain   []engine.Run // of prompt blocks that it may share with others
	private int          // the other prompt blocks
	prefill int          // tokens to compute, until the first token
	expect  int64        // nanoseconds that they take; negative: not known
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
func (w *worker) lead(chain []engine.Run) (blocks int) {
	for _, f := range w.flights {
		blocks = max(blocks, shared(f.chain, chain))
	}
	return blocks
}

// dispatch adds a request that is sent to the worker.
func (w *worker) dispatch(now int64, f *flight) {
	w.active += f.private + chained(f.chain) - w.lead(f.chain)
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

// end removes a request that has ended.
func (w *worker) end(now int64, f *flight) {
	w.firstToken(now, f)
	k := slices.Index(w.flights, f)
	w.flights = slices.Delete(w.flights, k, k+1)
	w.active -= f.private + chained(f.chain) - w.lead(f.chain)
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

// chained returns how many blocks a chain numbers.
func chained(chain []engine.Run) (blocks int) {
	for _, run := range chain {
		blocks += int(run.Count)
	}
	return blocks
}

// candidate is a worker as a request sees it.
type candidate struct {
	worker        *worker
	prefillTokens int     // of the prefills in flight
	excess        float64 // blocks of them above those of the worker that has the fewest
	overlap       int     // blocks of the request that are visible there
	active        int     // prompt blocks in flight
	lead          int     // blocks of the request that are among them
	requests      int     // in flight
	index         int     // visible blocks
	dispatched    int     // requests so far
	cost          float64
}

// costs is a cost function: doc/spec/simulate.md 8.2. Every product is converted, so that no machine fuses it with a sum.
type costs struct {
	Config
	kind      preset.Choice
	role      engine.Role // of the pool
	full      bool        // only full blocks are load, and pools of a disaggregated fleet count less
	blockSize int
}

// blocks returns how many blocks of a prompt are load while it is at work.
func (k *costs) blocks(prompt int) int {
	switch {
	case k.full && k.role == engine.Prefill:
		return 0
	case k.full:
		return prompt / k.blockSize
	default:
		return blocksOf(prompt, k.blockSize)
	}
}

// shares reports whether requests that are at work on a worker share their blocks.
func (k *costs) shares() bool { return !k.full || k.role == engine.Aggregated }

// of returns the cost of a prompt on a worker, in blocks.
func (k *costs) of(c *candidate, prompt int) float64 {
	size := float64(k.blockSize)
	decode := float64(c.active + k.blocks(prompt) - c.lead)
	switch {
	case k.role == engine.Decode:
		requests := 0.0
		if k.kind == preset.CostCredit {
			requests = float64(k.ActiveRequestWeight * float64(c.requests))
		}
		return max(decode-float64(k.DecodeOverlapCredit*float64(c.overlap)), 0) + requests
	case k.kind == preset.CostWeight:
		return float64(k.OverlapWeight*(float64(c.prefillTokens+max(prompt-c.overlap*k.blockSize, 0))/size)) + decode
	}
	decay := 1 / (1 + float64(k.OverlapCreditDecay*(c.excess/float64(blocksOf(prompt, k.blockSize)))))
	load := float64(c.prefillTokens+prompt)/size - float64(float64(k.OverlapCredit*decay)*float64(c.overlap))
	return float64(k.PrefillLoadScale*max(load, 0)) + decode + float64(k.ActiveRequestWeight*float64(c.requests))
}

// blocksOf returns how many blocks so many tokens fill or begin.
func blocksOf(tokens, size int) int { return (tokens + size - 1) / size }

// picker chooses among candidates that have a cost.
type picker struct {
	temperature float64
	randomTies  bool
	stream      *pyrand.PCG64
	weights     []float64
	ties        []int
}

// pick returns the number of the candidate that gets the request.
func (p *picker) pick(list []candidate) int {
	if p.temperature > 0 {
		return p.draw(list)
	}
	best := 0
	p.ties = append(p.ties[:0], 0)
	for k := 1; k < len(list); k++ {
		switch a, b := &list[k], &list[best]; {
		case a.cost < b.cost:
			best, p.ties = k, append(p.ties[:0], k)
		case a.cost == b.cost:
			p.ties = append(p.ties, k)
			if a.before(b) {
				best = k
			}
		}
	}
	if p.randomTies {
		return p.ties[p.stream.Bounded(uint32(len(p.ties)))]
	}
	return best
}

// before reports whether a candidate goes before one of the same cost with a lower id.
func (c *candidate) before(other *candidate) bool {
	if c.index != other.index {
		return c.index < other.index
	}
	return c.dispatched < other.dispatched
}

// draw returns a candidate at random, a cheap one more often than others.
func (p *picker) draw(list []candidate) int {
	p.weigh(list)
	u := p.stream.Float64()
	for k, w := range p.weights {
		if u -= w; u < 0 {
			return k
		}
	}
	return len(list) - 1
}

// weigh computes with which probability each candidate is drawn, from its cost and the temperature.
func (p *picker) weigh(list []candidate) {
	low, high := list[0].cost, list[0].cost
	for k := range list {
		low, high = min(low, list[k].cost), max(high, list[k].cost)
	}
	p.weights = p.weights[:0]
	sum := 0.0
	for k := range list {
		w := 1.0
		if high > low {
			w = math.Exp((low - list[k].cost) / float64((high-low)*p.temperature))
		}
		p.weights = append(p.weights, w)
		sum += w
	}
	for k := range p.weights {
		p.weights[k] /= sum
	}
}

// Index is the set of chain numbers of which a worker has a visible block, one bit a number.
type Index struct {
	words []uint64
	size  int // numbers in the set, and private blocks
}

// Apply adds the numbers of an event, or removes them.
func (x *Index) Apply(e engine.KVEvent) {
	if e.Private {
		if x.size += int(e.Count); e.Removed {
			x.size -= 2 * int(e.Count)
		}
		return
	}
	first, end := int(e.First), int(e.First)+int(e.Count)
	if n := (end + 63) / 64; n > len(x.words) && !e.Removed {
		x.words = append(x.words, make([]uint64, n-len(x.words))...)
	}
	end = min(end, 64*len(x.words))
	for at := first; at < end; {
		w, n := at/64, min(64-at%64, end-at)
		mask := ^uint64(0) >> (64 - n) << (at % 64)
		before := x.words[w]
		if e.Removed {
			x.words[w] &^= mask
		} else {
			x.words[w] |= mask
		}
		x.size += bits.OnesCount64(x.words[w]) - bits.OnesCount64(before)
		at += n
	}
}

// Leading returns how many blocks at the beginning of a chain are in the set.
func (x *Index) Leading(chain []engine.Run) (blocks int) {
	for _, run := range chain {
		n := x.leadingOf(int(run.First), int(run.Count))
		if blocks += n; n < int(run.Count) {
			break
		}
	}
	return blocks
}

// leadingOf returns how many of the numbers first, first+1, ... are in the set, at most count, until the first that is not.
func (x *Index) leadingOf(first, count int) int {
	for n := 0; n < count; {
		at := first + n
		if at/64 >= len(x.words) {
			return n
		}
		there := bits.TrailingZeros64(^(x.words[at/64] >> (at % 64))) // the bits shifted in are zeros, which end the row
		if there = min(there, 64-at%64); there < 64-at%64 {
			return min(n+there, count)
		}
		n += there
	}
	return count
}

// shared returns how many blocks at their beginnings two chains have in common.
func shared(a, b []engine.Run) (blocks int) {
	i, j, usedA, usedB := 0, 0, uint32(0), uint32(0)
	for i < len(a) && j < len(b) && a[i].First+usedA == b[j].First+usedB {
		n := min(a[i].Count-usedA, b[j].Count-usedB)
		blocks += int(n)
		if usedA += n; usedA == a[i].Count {
			i, usedA = i+1, 0
		}
		if usedB += n; usedB == b[j].Count {
			j, usedB = j+1, 0
		}
	}
	return blocks
}
