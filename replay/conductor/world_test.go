package conductor

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is what surrounds a conductor in these tests: a clock that jumps from event to event, and a server that takes a
// scripted time for every request.
type world struct {
	c       *Conductor
	now     time.Duration
	service func(Send) (takes time.Duration, ended bool)
	lag     func() time.Duration // how late the next event is noticed; nil: not at all
	flights []flight
	sends   []sending
	returns []returning
	ended   time.Duration // when the conductor was done
}

// flight is a request under way.
type flight struct {
	Send
	at    time.Duration // when it will be over
	ended bool
}

// sending is a request that went out.
type sending struct {
	Send
	at time.Duration
}

func (s sending) String() string {
	return fmt.Sprintf("%v lane%d tree%d %d#%d", s.at, s.Lane, s.Tree, s.Session, s.Turn)
}

// returning is a request that came back.
type returning struct {
	Send
	at    time.Duration
	ended bool
}

// queue hands out trees: to every lane its own, then those of -1 to whoever asks.
type queue map[int][]*Tree

func (q queue) Next(lane int) (*Tree, bool) {
	for _, k := range []int{lane, -1} {
		if list := q[k]; len(list) > 0 {
			q[k] = list[1:]
			return list[0], true
		}
	}
	return nil, false
}

// anyLane is a queue that serves all lanes.
func anyLane(trees ...*Tree) queue { return queue{-1: trees} }

// newWorld returns a world in which every request takes a second.
func newWorld(lanes int, source Source, limits Limits) *world {
	w := &world{service: func(Send) (time.Duration, bool) { return time.Second, false }}
	w.c = New(lanes, source, limits, func(s Send) {
		w.sends = append(w.sends, sending{s, w.now})
		takes, ended := w.service(s)
		w.flights = append(w.flights, flight{s, w.now + takes, ended})
	})
	return w
}

// play runs until nothing is left to do.
func (w *world) play() *world { return w.playUntil(1<<62, 1<<62) }

// playUntil stops the sending at one instant, and cancels what is in flight at another.
func (w *world) playUntil(stop, cancel time.Duration) *world {
	w.c.Start(w.now)
	stopped := false
	for !w.c.Done() {
		next, due := w.c.Next()
		slices.SortStableFunc(w.flights, func(a, b flight) int { return cmp.Compare(a.at, b.at) })
		landing := len(w.flights) > 0 && (!due || w.flights[0].at <= next)
		if landing {
			next = w.flights[0].at
		}
		if !stopped && next >= stop {
			w.now, stopped = max(w.now, stop), true
			w.c.Stop(w.now)
			continue
		}
		w.now = max(w.now, min(next, cancel))
		if w.lag != nil {
			w.now += w.lag()
		}
		if !landing {
			w.c.Wake(w.now)
			continue
		}
		f := w.flights[0]
		w.flights = w.flights[1:]
		at := min(f.at, cancel)
		w.returns = append(w.returns, returning{f.Send, at, f.ended})
		w.c.Returned(f.ID, at, w.now, f.ended)
	}
	w.ended = w.now
	return w
}

// log lists what was sent.
func (w *world) log() (lines []string) {
	for _, s := range w.sends {
		lines = append(lines, s.String())
	}
	return lines
}

// takes scripts how long the turns of sessions take, in seconds, by "session#turn" of any tree.
func (w *world) takes(seconds map[string]float64) {
	w.service = func(s Send) (time.Duration, bool) {
		if d, ok := seconds[fmt.Sprintf("%d#%d", s.Session, s.Turn)]; ok {
			return time.Duration(d * 1e9), false
		}
		return time.Second, false
	}
}

// turns makes the turns of a session, each so many seconds after the one before.
func turns(delays ...float64) []Turn {
	list := make([]Turn, len(delays))
	for k, d := range delays {
		list[k].Delay = time.Duration(d * 1e9)
	}
	return list
}

// root makes a tree of one session.
func root(delays ...float64) *Tree { return &Tree{Sessions: []Session{{Turns: turns(delays...)}}} }

// child adds a session, which is spawned by a turn of its parent, so many seconds from then.
func (t *Tree) child(parent, turn int, onIssue bool, offset float64, delays ...float64) *Tree {
	t.Sessions = append(t.Sessions, Session{
		Turns: turns(delays...), Parent: parent, SpawnTurn: turn, OnIssue: onIssue, Offset: time.Duration(offset * 1e9),
	})
	return t
}

// join lets a turn of a session wait for others.
func (t *Tree) join(session, turn int, children ...int) *Tree {
	joins := &t.Sessions[session].Turns[turn].Joins
	*joins = append(*joins, children...)
	return t
}

// requireQuiet checks that nothing is left over.
func (w *world) requireQuiet(t require.TestingT) {
	n := w.c.Counts()
	require.True(t, w.c.Done())
	require.Zero(t, n.InFlight)
	require.Equal(t, n.TreesOpened, n.TreesDrained)
	require.Equal(t, n.Sent, len(w.sends))
	require.Equal(t, n.Sent, len(w.returns))
	require.Empty(t, w.c.flying)
	for _, left := range w.c.timers[:cap(w.c.timers)] {
		require.Nil(t, left.stream, "a tree that is over is still referred to")
	}
}
