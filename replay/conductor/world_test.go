package conductor

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Recording is a tree and when its requests started, in milliseconds: Starts by session and turn, BranchStarts by
// branch (nil: the recording has none).
type Recording struct {
	Tree         *Tree
	Starts       [][]float64
	BranchStarts []float64
}

// View is what a preset says of the trees and starts of a run.
type View struct {
	BranchSpawns, ImmediateJoins bool
	Anchor                       string        // of a start that is spread, for AlignLanes
	TreeIdle                     time.Duration // 0: no cap
}

// The functions of packages resume and preset that the tests use. resume_test.go sets them: package resume imports this one,
// and this one cannot name a switch.
var (
	ViewOf     func(preset string) View
	ResumeAt   func(r Recording, v View, tStar float64) *StartState
	ResumeFrom func(t *Tree, turn int) *StartState
	AlignLanes func(alignment string, lanes []*StartState, limit time.Duration) (skipped []time.Duration)
)

// answer is how the server answers a request.
type answer struct {
	takes   time.Duration
	token   time.Duration // to the first token; 0: not reported before the end
	outcome Outcome
}

// world drives a conductor in the tests: a clock that jumps from event to event, an admission hook, and a server that takes a
// scripted time for every request. It logs and checks every event.
type world struct {
	c       *Conductor
	now     time.Duration
	server  func(Dispatch) answer
	refuse  func(Dispatch) error // decides at the admission hook; nil: refuses none
	pauses  bool                 // the end of the sending is a pause
	closed  bool                 // the admission hook holds the dispatches
	held    []Dispatch           // by it
	lag     func() time.Duration // by how much the conductor is called late; nil: not late
	flights heap[flight]         // by the time, then in the order of sending
	sends   []sending
	returns []returning
	events  []Event
	check   *checker
	failed  error         // of the start
	ended   time.Duration // when the conductor was done
}

// flight is a first token or an answer on its way from the server.
type flight struct {
	Dispatch
	at      time.Duration
	outcome Outcome
	token   bool // not the end, but the first token
	seq     int
}

// sending is a request that was sent.
type sending struct {
	Dispatch
	at time.Duration
}

func (s sending) String() string {
	return fmt.Sprintf("%v lane%d tree%d %d#%d", s.at, s.Lane, s.Tree, s.Session, s.Turn)
}

// returning is a request that returned.
type returning struct {
	Dispatch
	at      time.Duration
	outcome Outcome
}

// queue hands out trees: to every lane its own, then those of -1 to any lane.
type queue map[int][]*Tree

func (q queue) Next(lane int) (Assignment, bool) {
	for _, k := range []int{lane, -1} {
		if list := q[k]; len(list) > 0 {
			q[k] = list[1:]
			return Assignment{Tree: list[0]}, true
		}
	}
	return Assignment{}, false
}

// assignments hands out the first assignment of each lane, then more trees to any lane.
type assignments struct {
	lanes []Assignment
	more  []*Tree
}

func (o *assignments) Next(lane int) (Assignment, bool) {
	if lane < len(o.lanes) && o.lanes[lane].Tree != nil {
		first := o.lanes[lane]
		o.lanes[lane].Tree = nil
		return first, true
	}
	if len(o.more) == 0 {
		return Assignment{}, false
	}
	t := o.more[0]
	o.more = o.more[1:]
	return Assignment{Tree: t}, true
}

// anyLane is a queue that serves all lanes.
func anyLane(trees ...*Tree) queue { return queue{-1: trees} }

// newWorld returns a world in which every request takes a second.
func newWorld(lanes int, source Source, limits Limits) *world {
	w := &world{server: func(Dispatch) answer { return answer{takes: time.Second} }, check: newChecker()}
	w.flights.less = func(a, b flight) bool { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.seq, b.seq)) < 0 }
	w.c = New(lanes, w.check.watch(source), limits, w.launch, w.observe)
	w.check.c = w.c
	return w
}

var errRefused = errors.New("refused by the script")

// launch is the admission hook, then the wire.
func (w *world) launch(s Dispatch) error {
	w.check.dispatched(s)
	if w.refuse != nil {
		if err := w.refuse(s); err != nil {
			return err
		}
	}
	if w.closed {
		w.held = append(w.held, s)
		return nil
	}
	w.send(s)
	return nil
}

func (w *world) send(s Dispatch) {
	w.sends = append(w.sends, sending{s, w.now})
	a := w.server(s)
	if a.token > 0 {
		w.flights.push(flight{s, w.now + a.token, a.outcome, true, 2 * len(w.sends)})
	}
	w.flights.push(flight{s, w.now + a.takes, a.outcome, false, 2*len(w.sends) + 1})
}

// open opens the admission hook: it sends the held dispatches.
func (w *world) open() {
	w.closed = false
	for _, s := range w.held {
		w.send(s)
	}
	w.held = nil
}

func (w *world) observe(e Event) {
	w.events = append(w.events, e)
	w.check.event(e)
}

// of lists the events of a kind.
func (w *world) of(kind EventKind) (list []Event) {
	for _, e := range w.events {
		if e.Kind == kind {
			list = append(list, e)
		}
	}
	return list
}

// call calls a method of the conductor between begin and end of the checker.
func (w *world) call(f func()) {
	w.check.begin()
	f()
	w.check.end()
}

// openBy lets trees open when they arrive.
func (w *world) openBy(a Arrivals) *world {
	w.c.OpenBy(w.check.watchArrivals(a))
	return w
}

const never = time.Duration(1 << 62)

// play runs until the conductor is done.
func (w *world) play() *world { return w.playUntil(never, never) }

// start starts the conductor.
func (w *world) start() {
	w.call(func() { w.failed = w.c.Start(w.now) })
}

// playUntil ends the sending at one instant and cancels the requests in flight at another.
func (w *world) playUntil(stop, cancel time.Duration) *world {
	w.start()
	return w.goOn(stop, cancel)
}

func (w *world) goOn(stop, cancel time.Duration) *world {
	stopped := false
	for !w.c.Done() {
		next, due := w.c.NextWake()
		landing := w.flights.len() > 0 && (!due || w.flights.items[0].at <= next)
		if landing {
			next = w.flights.items[0].at
		}
		if !stopped && next >= stop {
			w.now, stopped = max(w.now, stop), true
			w.call(func() {
				if w.pauses {
					w.c.Pause(w.now)
				} else {
					w.c.Stop(w.now)
				}
			})
			continue
		}
		w.now = max(w.now, min(next, cancel))
		if w.lag != nil {
			w.now += w.lag()
		}
		if !landing {
			w.call(func() { w.c.Wake(w.now) })
			continue
		}
		f := w.flights.remove(0)
		if f.token {
			w.call(func() { w.c.FirstToken(f.ID, w.now) })
			continue
		}
		if f.at > cancel {
			f.at, f.outcome = cancel, Cancelled
		}
		w.back(f)
	}
	w.ended = w.now
	w.check.sweep()
	return w
}

// back lets a request return.
func (w *world) back(f flight) {
	w.returns = append(w.returns, returning{f.Dispatch, f.at, f.outcome})
	w.call(func() { w.check.must(w.c.Returned(f.ID, f.at, w.now, f.outcome)) })
}

// requestsOf counts the requests of a list: one that was sent again occurs twice.
func requestsOf[T any](list []T, id func(T) int) int {
	seen := map[int]bool{}
	for _, x := range list {
		seen[id(x)] = true
	}
	return len(seen)
}

// log lists what was sent.
func (w *world) log() (lines []string) {
	for _, s := range w.sends {
		lines = append(lines, s.String())
	}
	return lines
}

func seconds(s float64) time.Duration { return time.Duration(s * 1e9) }

// takes scripts how long requests take, in seconds, by "session#turn" of any tree. All others take a second.
func (w *world) takes(list map[string]float64) {
	w.server = func(s Dispatch) answer {
		if d, ok := list[fmt.Sprintf("%d#%d", s.Session, s.Turn)]; ok {
			return answer{takes: seconds(d)}
		}
		return answer{takes: time.Second}
	}
}

// turns returns the turns of a session with their delays in seconds.
func turns(delays ...float64) []Turn {
	list := make([]Turn, len(delays))
	for k, d := range delays {
		list[k].Delay, list[k].JoinDelay = seconds(d), seconds(d)
	}
	return list
}

// root returns a tree of one session.
func root(delays ...float64) *Tree { return &Tree{Sessions: []Session{{Turns: turns(delays...)}}} }

// child adds a session in a branch of its own, which a turn of its parent spawns, with an offset in seconds.
func (t *Tree) child(parent, turn int, onIssue bool, offset float64, delays ...float64) *Tree {
	n, b := len(t.Sessions), len(t.Branches)
	t.Sessions = append(t.Sessions, Session{
		Turns: turns(delays...), Branch: b, Depth: t.Sessions[parent].Depth + 1, Rank: n, OnIssue: onIssue, Offset: seconds(offset),
	})
	t.Branches = append(t.Branches, Branch{Parent: parent, Spawn: turn, Sessions: []int{n}, OnIssue: onIssue})
	spawns := &t.Sessions[parent].Turns[turn].Spawns
	*spawns = append(*spawns, b)
	return t
}

// sibling adds a session to the branch of the one added last.
func (t *Tree) sibling(onIssue bool, offset float64, delays ...float64) *Tree {
	n, b := len(t.Sessions), len(t.Branches)-1
	t.Sessions = append(t.Sessions, Session{
		Turns: turns(delays...), Branch: b, Depth: t.Sessions[n-1].Depth, Rank: n, OnIssue: onIssue, Offset: seconds(offset),
	})
	t.Branches[b].Sessions = append(t.Branches[b].Sessions, n)
	t.Branches[b].OnIssue = t.Branches[b].OnIssue || onIssue
	return t
}

// join makes a turn of a session join the branches of other sessions.
func (t *Tree) join(session, turn int, children ...int) *Tree {
	joins := &t.Sessions[session].Turns[turn].Joins
	for _, k := range children {
		if b := t.Sessions[k].Branch; !slices.Contains(*joins, b) {
			*joins = append(*joins, b)
		}
	}
	return t
}

// after gives a turn a recorded predecessor.
func (t *Tree) after(session, turn, other, otherTurn int) *Tree {
	list := &t.Sessions[session].Turns[turn].After
	*list = append(*list, TurnRef{other, otherTurn})
	return t
}

// requireQuiet requires that nothing is left over and no invariant was broken.
func (w *world) requireQuiet(t require.TestingT) {
	require.Empty(t, w.check.broken)
	n := w.c.Counts()
	require.True(t, w.c.Done())
	require.Zero(t, n.InFlight)
	require.Zero(t, n.TreesOpen)
	require.Zero(t, n.ChildrenLive)
	require.Zero(t, n.ParentsParked)
	require.Equal(t, n.Sent, requestsOf(w.sends, func(s sending) int { return s.ID }))
	require.Equal(t, n.Sent, requestsOf(w.returns, func(r returning) int { return r.ID }))
	require.Equal(t, len(w.sends), len(w.returns))
	require.Empty(t, w.c.inFlight)
	for _, left := range w.c.timers.trees.items[:cap(w.c.timers.trees.items)] {
		require.Nil(t, left, "a tree that is over is still referred to")
	}
	for _, left := range w.c.lanes {
		require.Nil(t, left)
	}
	for _, list := range [][]*tree{w.c.prefill.trees.items, w.c.touched, w.c.drained} {
		for _, left := range list[:cap(list)] {
			require.Nil(t, left)
		}
	}
	for _, left := range w.c.undecided[:cap(w.c.undecided)] {
		require.Nil(t, left)
	}
	require.Empty(t, w.check.trees)
	require.Zero(t, n.TreesWaiting)
	require.Empty(t, w.c.openings.waiting.items)
}
