package replay

import "slices"

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
