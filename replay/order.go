package replay

import (
	"slices"

	"github.com/agentx/agentx/internal/pyrand"
	"github.com/agentx/agentx/replay/resume"
)

// Order is the order in which traces are dealt to lanes. What is drawn depends on the seed alone.
type Order uint8

// The orders.
const (
	Sequential Order = iota // that of the cache, again and again
	Shuffle                 // a new permutation for every pass over the traces
	Random                  // drawn with replacement
)

// dealer deals the selected traces in their order, again and again unless each is to be dealt once.
type dealer struct {
	traces       []int // positions in the cache
	order        Order
	seed         string
	once         bool           // every trace is dealt once
	part         Part           // whose deals are dealt alone; the zero value: all
	ordered      bool           // the first pass has the order of traces, whatever order says
	dealt        int            // traces dealt
	permutations [2]permutation // of the last two passes that were asked for
}

type permutation struct {
	pass int
	list []int
}

// deal returns the next trace. ok is false if every trace was dealt once, and that is enough.
func (d *dealer) deal() (trace int, ok bool) {
	if d.once && d.dealt >= d.part.Share(len(d.traces)) {
		return 0, false
	}
	d.dealt++
	return d.at(d.dealt - 1), true
}

// next deals traces until one is usable; ok is false if none is. Twice as many deals as there are traces hold each of them in
// every order but Random, in which the draws may miss one.
func (d *dealer) next(usable func(trace int) bool) (trace int, ok bool) {
	for range 2 * len(d.traces) {
		if trace, ok = d.deal(); !ok {
			return 0, false
		}
		if usable(trace) {
			return trace, true
		}
	}
	if k := slices.IndexFunc(d.traces, usable); k >= 0 {
		return d.traces[k], true
	}
	return 0, false
}

// ended does nothing: any number of lanes may play a trace.
func (d *dealer) ended(int) {}

// hold does nothing: any number of lanes may play a trace.
func (d *dealer) hold(int, int) {}

// queue returns the traces in the order of the first pass over them, those of the cache where draws repeat traces. If each is
// dealt once, it returns those that are left.
func (d *dealer) queue() (list []int) {
	if d.order == Random {
		return slices.Clone(d.traces)
	}
	first := 0
	if d.once {
		first = d.dealt
	}
	for k := first; k < len(d.traces); k++ {
		list = append(list, d.at(k))
	}
	return list
}

// upcoming returns the traces that are dealt next, at most n.
func (d *dealer) upcoming(n int) (list []int) {
	for k := d.dealt; k < d.dealt+n && !(d.once && k >= d.part.Share(len(d.traces))); k++ {
		list = append(list, d.at(k))
	}
	return list
}

// at returns the k-th trace that is dealt, counted from 0.
func (d *dealer) at(k int) int {
	k = d.part.whole(k)
	n := len(d.traces)
	switch {
	case d.order == Random:
		g := pyrand.NewPCG64(resume.LaneSeed(d.seed, "random", k))
		return d.traces[g.Bounded(uint32(n))]
	case d.order == Shuffle && !(d.ordered && k < n):
		return d.permutation(k / n)[k%n]
	}
	return d.traces[k%n]
}

// permutation returns the order of a pass.
func (d *dealer) permutation(pass int) []int {
	p := &d.permutations[pass%2]
	if p.list == nil || p.pass != pass {
		g := pyrand.NewPCG64(resume.LaneSeed(d.seed, "shuffle", pass))
		p.pass, p.list = pass, append(p.list[:0], d.traces...)
		for k := len(p.list) - 1; k > 0; k-- {
			j := g.Bounded(uint32(k + 1))
			p.list[k], p.list[j] = p.list[j], p.list[k]
		}
	}
	return p.list
}

// Recycle is how the next trace of a lane is chosen.
type Recycle uint8

// The ways to choose.
const (
	RecycleSampler     Recycle = iota // as Options.Order deals them
	RecycleFIFOGuarded                // the one that ended first and that no more lanes play than at the start
)

// recycler chooses the trace that a lane plays next: doc/spec/replay.md 4.6. The dealer is one, without a bound on the lanes
// that play a trace at a time.
type recycler interface {
	// ended says that a tree is over. It comes before next for the lane that played it.
	ended(trace int)
	// next chooses a usable trace. ok is false if there is none.
	next(usable func(trace int) bool) (trace int, ok bool)
	// hold counts lanes that may play a trace although their tree of it is over in the plan of a stage, in which lanes are planned one
	// after the other and play at a time; by is -1 when the plan is made.
	hold(trace, by int)
	// upcoming returns traces that are likely to be chosen next, at most n.
	upcoming(n int) []int
}

// liveTraces counts the lanes that play each trace, against how many played it at the start.
type liveTraces struct {
	now, atStart map[int]int // lanes by trace
}

// newLiveTraces begins the count with the traces that all lanes play at the start.
func newLiveTraces(playing []int) liveTraces {
	l := liveTraces{now: map[int]int{}, atStart: map[int]int{}}
	for _, trace := range playing {
		l.now[trace]++
		l.atStart[trace]++
	}
	return l
}

// full reports whether no more lanes may play a trace. A trace that a lane has just ended is never full, because the bound held
// while that lane played it: so a lane always finds a trace.
func (l liveTraces) full(trace int) bool { return l.now[trace] >= max(1, l.atStart[trace]) }

// start counts a lane that begins to play a trace, if the trace is not full and usable.
func (l liveTraces) start(trace int, usable func(trace int) bool) bool {
	if l.full(trace) || !usable(trace) {
		return false
	}
	l.now[trace]++
	return true
}

func (l liveTraces) ended(trace int) { l.hold(trace, -1) }

// hold changes by how many lanes a trace is played.
func (l liveTraces) hold(trace, by int) {
	if l.now[trace] += by; l.now[trace] == 0 {
		delete(l.now, trace)
	}
}

// guardedQueue is the recycler of RecycleFIFOGuarded: a queue of all traces, also of those that lanes play. Its length is
// conserved: one trace is appended for each tree that ends, and one taken for each that begins.
type guardedQueue struct {
	live  liveTraces
	queue []int // the next first
	once  bool  // every trace is played once: nothing is appended
}

// ended puts a trace that is over at the end of the queue, unless each is played once.
func (q *guardedQueue) ended(trace int) {
	q.live.ended(trace)
	if !q.once {
		q.queue = append(q.queue, trace)
	}
}

func (q *guardedQueue) hold(trace, by int) { q.live.hold(trace, by) }

// next takes the first trace that may be played. Those before it go to the end of the queue.
func (q *guardedQueue) next(usable func(trace int) bool) (trace int, ok bool) {
	for range q.queue {
		trace, q.queue = q.queue[0], q.queue[1:]
		if q.live.start(trace, usable) {
			return trace, true
		}
		q.queue = append(q.queue, trace)
	}
	return 0, false
}

// upcoming looks at the front of the queue alone: where that is full, lanes play its traces, so they are loaded.
func (q *guardedQueue) upcoming(n int) (list []int) {
	for _, trace := range q.queue[:min(len(q.queue), 16*n)] {
		if len(list) < n && !q.live.full(trace) {
			list = append(list, trace)
		}
	}
	return list
}

// guardedDealer is a dealer that passes over traces that are full, and deals each of them before any other once it no longer is.
type guardedDealer struct {
	*dealer
	live       liveTraces
	passedOver []int // each once, the first that was passed over first
}

func (g *guardedDealer) ended(trace int) { g.live.ended(trace) }

func (g *guardedDealer) hold(trace, by int) { g.live.hold(trace, by) }

// next deals traces until one is usable that no more lanes play than at the start.
func (g *guardedDealer) next(usable func(trace int) bool) (trace int, ok bool) {
	for k, trace := range g.passedOver {
		if g.live.start(trace, usable) {
			g.passedOver = slices.Delete(g.passedOver, k, k+1)
			return trace, true
		}
	}
	passed := map[int]bool{}
	for _, trace := range g.passedOver {
		passed[trace] = true
	}
	return g.dealer.next(func(trace int) bool {
		started := g.live.start(trace, usable)
		if !started && g.live.full(trace) && !passed[trace] {
			passed[trace] = true
			g.passedOver = append(g.passedOver, trace)
		}
		return started
	})
}

func (g *guardedDealer) upcoming(n int) []int {
	list := append(slices.Clone(g.passedOver), g.dealer.upcoming(4*n)...)
	list = slices.DeleteFunc(list, g.live.full)
	return list[:min(n, len(list))]
}
