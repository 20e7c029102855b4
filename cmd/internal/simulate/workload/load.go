// Package workload says which requests a simulated fleet gets, and when: doc/spec/simulate.md 3. No prompt is text here. What counts
// are lengths, times and which blocks of two prompts are the same.
//
// [Chains] numbers the blocks of prompts. [Sessions] are the turns of an input, from the structure of a cache ([Mooncake]) or from
// numbers ([Synthetic]). A [Load] plays them: it says when the next turn is ready and is told when a turn has completed.
// [Sessions.Trace] is the open loop, [Sessions.Concurrency] the closed one. [Lanes] plays trees of sessions with the player that
// drives servers, package replay.
package workload

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/internal/heap"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/conductor"
)

// Turn is a request as a load releases it.
type Turn struct {
	ID      int // names this turn to Completed
	Session int // in file order, from 0
	Number  int // within the session, from 0
	Prompt  int // tokens
	Output  int // tokens, at least 1
	Chain   []engine.Run
	Delay   int64 // nanoseconds from its arrival to its release
}

// Load releases turns. Its times are nanoseconds of virtual time, which never runs backward.
type Load interface {
	// Next returns when the next turn is ready that no completion has to make ready; ok is false without one.
	Next() (at int64, ok bool)
	// Release takes the next turn that is ready at now, in the order in which turns leave; ok is false without one. Its arrival is now.
	Release(now int64) (t Turn, ok bool)
	// Completed says that a turn has ended at now, rejected or not, which may make others ready.
	Completed(id int, now int64)
	// Left returns how many turns have not been released, those that wait for a completion included.
	Left() int
}

// Refuser is a load whose sessions do not go on after a turn that no worker can hold. It is told by Refused instead of Completed.
type Refuser interface {
	Refused(id int, now int64)
}

// Delay returns a load whose turns are released so many nanoseconds after they arrive.
func Delay(l Load, by int64) Load {
	if by == 0 {
		return l
	}
	return &delayed{Load: l, by: by}
}

// delayed holds turns that have arrived until they are released.
type delayed struct {
	Load
	by   int64
	held []Turn
	at   []int64 // of each when it is released
}

// Next returns when a turn is released, or the next one arrives.
func (d *delayed) Next() (int64, bool) {
	at, ok := d.Load.Next()
	if len(d.at) > 0 && (!ok || d.at[0] < at) {
		return d.at[0], true
	}
	return at, ok
}

// Release takes in the turns that arrive, and the next one that is released.
func (d *delayed) Release(now int64) (t Turn, ok bool) {
	for {
		one, ok := d.Load.Release(now)
		if !ok {
			break
		}
		one.Delay = d.by
		d.held, d.at = append(d.held, one), append(d.at, now+d.by)
	}
	if len(d.at) == 0 || d.at[0] > now {
		return t, false
	}
	t, d.held, d.at = d.held[0], d.held[1:], d.at[1:]
	return t, true
}

func (d *delayed) Left() int { return d.Load.Left() + len(d.held) }

// Refused tells the load of a turn that no worker can hold.
func (d *delayed) Refused(id int, now int64) {
	if l, ok := d.Load.(Refuser); ok {
		l.Refused(id, now)
		return
	}
	d.Load.Completed(id, now)
}

// ready is a turn and when it is ready.
type ready struct {
	at int64
	id int
}

// order is the order in which turns leave: by time, then session, then turn, which is that of the table.
func (a ready) order(b ready) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id)) }

func (a ready) before(b ready) bool { return a.order(b) < 0 }

// traceLoad is the open loop: first turns at their recorded arrivals.
type traceLoad struct {
	sessions *Sessions
	speedup  float64
	firsts   []ready // sorted
	follow   []ready // a heap
	left     int
}

// Trace returns the load in which first turns arrive as recorded, and later ones after their delays; both times are divided by
// speedup, which is finite and positive.
func (s *Sessions) Trace(speedup float64) (Load, error) {
	if !(speedup > 0) || math.IsInf(speedup, 0) {
		return nil, fmt.Errorf("arrival speed-up %g: want a finite number above 0", speedup)
	}
	l := &traceLoad{sessions: s, speedup: speedup, left: len(s.turns)}
	for _, one := range s.list {
		if one.first < one.next {
			l.firsts = append(l.firsts, ready{nanoseconds(one.start, speedup), one.first})
		}
	}
	slices.SortFunc(l.firsts, ready.order)
	return l, nil
}

// Next returns the earlier of the next first turn and the next turn that follows one.
func (l *traceLoad) Next() (int64, bool) {
	switch {
	case len(l.firsts) == 0 && len(l.follow) == 0:
		return 0, false
	case l.followsFirst():
		return l.follow[0].at, true
	default:
		return l.firsts[0].at, true
	}
}

// followsFirst reports whether a turn that follows another one leaves before the next first turn.
func (l *traceLoad) followsFirst() bool {
	return len(l.follow) > 0 && (len(l.firsts) == 0 || l.follow[0].order(l.firsts[0]) < 0)
}

// Release takes the next turn, if its time has come.
func (l *traceLoad) Release(now int64) (t Turn, ok bool) {
	if at, ok := l.Next(); !ok || at > now {
		return t, false
	}
	l.left--
	if l.followsFirst() {
		return l.sessions.Turn(heap.Pop(&l.follow, ready.before).id), true
	}
	t = l.sessions.Turn(l.firsts[0].id)
	l.firsts = l.firsts[1:]
	return t, true
}

// Completed makes the next turn of the session ready, after its delay.
func (l *traceLoad) Completed(id int, now int64) {
	if !l.sessions.last(id) {
		heap.Push(&l.follow, ready{now + nanoseconds(l.sessions.turns[id+1].delay, l.speedup), id + 1}, ready.before)
	}
}

func (l *traceLoad) Left() int { return l.left }

// concurrencyLoad is the closed loop: a place for each of n sessions, or of n requests.
type concurrencyLoad struct {
	sessions *Sessions
	places   int
	requests bool    // a place is for a request
	taken    int     // places
	freed    int64   // when the last one was freed
	next     int     // session
	follow   []ready // a heap
	left     int
}

// Concurrency returns the load in which n sessions are open, in file order, or n requests in flight, as the unit says. Recorded
// arrivals are ignored; delays are kept.
func (s *Sessions) Concurrency(n int, unit preset.Choice) (Load, error) {
	if n < 1 {
		return nil, fmt.Errorf("concurrency %d: want at least 1", n)
	}
	return &concurrencyLoad{sessions: s, places: n, requests: unit == preset.UnitRequests, left: len(s.turns)}, nil
}

// Next returns when a turn can leave: a session begins when a place is free, a later turn leaves after its delay. Where places are for
// requests it needs one too.
func (l *concurrencyLoad) Next() (int64, bool) {
	free := l.taken < l.places
	follow := len(l.follow) > 0 && (free || !l.requests)
	begin := free && l.next < len(l.sessions.list)
	switch {
	case follow && l.requests:
		if at := max(l.follow[0].at, l.freed); !begin || at <= l.freed {
			return at, true
		}
		return l.freed, true
	case begin:
		return l.freed, true
	case follow:
		return l.follow[0].at, true
	default:
		return 0, false
	}
}

// Release takes a turn that follows another one, else the first of the next session if a place is free.
func (l *concurrencyLoad) Release(now int64) (t Turn, ok bool) {
	free := l.taken < l.places
	switch {
	case len(l.follow) > 0 && l.follow[0].at <= now && (free || !l.requests):
		t = l.sessions.Turn(heap.Pop(&l.follow, ready.before).id)
		if l.requests {
			l.taken++
		}
	case free && l.next < len(l.sessions.list):
		t = l.sessions.Turn(l.sessions.list[l.next].first)
		l.next++
		l.taken++
	default:
		return t, false
	}
	l.left--
	return t, true
}

// Completed makes the next turn of the session ready after its delay, or frees the place.
func (l *concurrencyLoad) Completed(id int, now int64) {
	last := l.sessions.last(id)
	if !last {
		heap.Push(&l.follow, ready{now + nanoseconds(l.sessions.turns[id+1].delay, 1), id + 1}, ready.before)
	}
	if last || l.requests {
		l.taken--
		l.freed = now
	}
}

func (l *concurrencyLoad) Left() int { return l.left }

// LanesOptions say what the load of lanes plays, and how.
type LanesOptions struct {
	// Replay is what replay.NewPlayer takes: a cache and how its trees are played. Concurrency is the number of lanes. Recorded
	// response times play no part, but in the gaps that were measured from them.
	Replay replay.Options

	BlockSize int // of the engine, tokens
	IDWidth   preset.Choice
	Separate  bool // no two trees share a block, as prompts with a marker
}

// LanesLoad is the load in which lanes play trees of sessions: doc/spec/simulate.md 3.2. The player that drives servers decides what is
// sent, in which order and when; here the fleet is the server. It numbers blocks when a trace is first played.
type LanesLoad struct {
	player  *replay.Player
	cache   *mmapcache.Cache
	traces  []lanesTrace // by position in the cache
	reader  *prompts
	numbers *Chains
	block   int
	trees   map[int]uint32 // where they are separate: by tree, before its first chain number
	next    uint32         // before that of the next tree
	err     error          // the cache cannot be read
}

// lanesTrace are the turns of a trace as the fleet gets them.
type lanesTrace struct {
	session  int      // number of its first session
	firsts   []uint32 // by session: its first turn
	requests []request
	blocks   uint32 // where trees are separate: chain numbers of the trace
}

// request is the part of a turn that does not depend on when it is played.
type request struct {
	prompt, output int32
	chain          []engine.Run
}

// Lanes returns the load of lanes. Options.Validate of Replay does not hold for it: a model and servers are not needed.
func Lanes(o LanesOptions) (*LanesLoad, error) {
	if o.BlockSize < 1 {
		return nil, fmt.Errorf("lanes: blocks of %d tokens: want at least 1", o.BlockSize)
	}
	player, err := replay.NewPlayer(o.Replay)
	if err != nil {
		return nil, fmt.Errorf("lanes: %w", err)
	}
	c := o.Replay.Cache
	reader, err := newPrompts(c, o.IDWidth)
	if err != nil {
		return nil, fmt.Errorf("lanes: %w", err)
	}
	l := &LanesLoad{player: player, cache: c, traces: make([]lanesTrace, c.Traces()), reader: reader, numbers: NewChains(reader.tokens, o.BlockSize), block: o.BlockSize}
	if o.Separate {
		l.trees = map[int]uint32{}
	}
	return l, nil
}

// Next returns when the next turn is due if none completes before.
func (l *LanesLoad) Next() (int64, bool) {
	at, ok := l.player.Next()
	return int64(at), ok && l.err == nil
}

// Release takes the next turn that is due.
func (l *LanesLoad) Release(now int64) (t Turn, ok bool) {
	p, ok := l.player.Take(time.Duration(now))
	if !ok {
		return t, false
	}
	trace, err := l.trace(p.Trace)
	if err != nil {
		l.err = err
		return t, false
	}
	r := &trace.requests[int(trace.firsts[p.Session])+p.Turn]
	return Turn{
		ID: p.ID, Session: trace.session + p.Session, Number: p.Turn, Prompt: int(r.prompt), Output: int(r.output), Chain: l.own(p.Tree, trace, r.chain),
	}, true
}

// own returns the chain of a tree: where trees are separate, with numbers that no other has.
func (l *LanesLoad) own(tree int, trace *lanesTrace, chain []engine.Run) []engine.Run {
	if l.trees == nil {
		return chain
	}
	first, known := l.trees[tree]
	if !known {
		first = l.next
		l.trees[tree], l.next = first, first+trace.blocks
	}
	chain = slices.Clone(chain)
	for k := range chain {
		chain[k].First += first
	}
	return chain
}

// Completed says that a turn has ended.
func (l *LanesLoad) Completed(id int, now int64) { l.returned(id, now, conductor.OK) }

// Refused says that a turn has ended because its prompt can fit no worker. It ends the session, whose later prompts are longer.
func (l *LanesLoad) Refused(id int, now int64) { l.returned(id, now, conductor.Overflow) }

// returned tells the player how a turn ended.
func (l *LanesLoad) returned(id int, now int64, outcome conductor.Outcome) {
	if err := l.player.Returned(id, time.Duration(now), outcome); err != nil {
		panic(err) // the fleet completes each turn once
	}
}

// Left returns 0 when nothing is left to release or to complete, else how many trees are open, at least 1: how many turns that makes is
// not known before they are played.
func (l *LanesLoad) Left() int {
	if l.player.Done() || l.err != nil {
		return 0
	}
	return max(1, l.player.Counts().TreesOpen)
}

// Err returns what ended the play before its bounds.
func (l *LanesLoad) Err() error {
	if err := cmp.Or(l.player.Err(), l.err); err != nil {
		return fmt.Errorf("lanes: %w", err)
	}
	return nil
}

// trace returns the turns of a trace, whose blocks it numbers the first time.
func (l *LanesLoad) trace(k int) (t *lanesTrace, err error) {
	if t = &l.traces[k]; t.requests != nil {
		return t, nil
	}
	plan, err := l.cache.Plan(k)
	if err != nil {
		return nil, err
	}
	if t.session, err = l.cache.FirstSession(k); err != nil {
		return nil, err
	}
	for n := range plan.Sessions {
		t.firsts = append(t.firsts, plan.Sessions[n].FirstTurn)
	}
	if err := l.reader.open(plan); err != nil {
		return nil, err
	}
	if l.trees != nil {
		l.numbers = NewChains(l.reader.tokens, l.block)
	}
	t.requests = make([]request, len(plan.Turns))
	for n, turn := range plan.Turns {
		t.requests[n] = request{
			prompt: int32(max(turn.In, 1)), output: int32(max(turn.MaxTokens(), 1)), chain: l.numbers.Add(l.reader.ids(turn), int(turn.In)),
		}
	}
	t.blocks = uint32(l.numbers.Count())
	return t, nil
}

// Prompts finds the chains of prompts that a run has sent.
type Prompts struct {
	cache    *mmapcache.Cache
	block    int
	reader   *prompts
	numbers  *Chains
	first    uint32 // chain number of numbers' first block
	separate bool
	traces   map[string]int
	trees    map[int]map[[2]int32]request
}

// NewPrompts returns those of a cache, in blocks of an engine. Where trees are separate, no two share a block.
func NewPrompts(c *mmapcache.Cache, block int, width preset.Choice, separate bool) (*Prompts, error) {
	reader, err := newPrompts(c, width)
	if err != nil {
		return nil, err
	}
	p := &Prompts{cache: c, block: block, reader: reader, numbers: NewChains(reader.tokens, block), separate: separate, traces: map[string]int{}, trees: map[int]map[[2]int32]request{}}
	for k := range c.Traces() {
		t, err := c.Trace(k)
		if err != nil {
			return nil, err
		}
		p.traces[t.ID] = k
	}
	return p, nil
}

// Of returns the prompt of a tree, in tokens, and its chain. outer and inner are its place in the recording; inner is nil outside of a
// subagent.
func (p *Prompts) Of(tree int, trace string, outer int, inner *int) (tokens int, chain []engine.Run, err error) {
	turns := p.trees[tree]
	if turns == nil {
		if turns, err = p.number(trace); err != nil {
			return 0, nil, err
		}
		p.trees[tree] = turns
	}
	key := [2]int32{int32(outer), mmapcache.None}
	if inner != nil {
		key[1] = int32(*inner)
	}
	r, ok := turns[key]
	if !ok {
		return 0, nil, fmt.Errorf("trace %s: the cache has no request %d, %d, which the run has sent: name the cache that was played", trace, outer, key[1])
	}
	return int(r.prompt), r.chain, nil
}

// number numbers the blocks of a trace.
func (p *Prompts) number(trace string) (map[[2]int32]request, error) {
	k, known := p.traces[trace]
	if !known {
		return nil, fmt.Errorf("the cache has no trace %s, which the run has played: name the cache that was played", trace)
	}
	plan, err := p.cache.Plan(k)
	if err == nil {
		err = p.reader.open(plan)
	}
	if err != nil {
		return nil, err
	}
	if p.separate {
		p.first += uint32(p.numbers.Count())
		p.numbers = NewChains(p.reader.tokens, p.block)
	}
	turns := map[[2]int32]request{}
	for _, t := range plan.Turns {
		chain := p.numbers.Add(p.reader.ids(t), int(t.In))
		for k := range chain {
			chain[k].First += p.first
		}
		turns[[2]int32{int32(t.Outer), t.Inner}] = request{prompt: int32(max(t.In, 1)), chain: chain}
	}
	return turns, nil
}
