package conductor

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// arrivingSource hands out the scenarios of a forest, one in each row, to any lane. A row below 0 is a tree that cannot be played.
type arrivingSource struct {
	*forestSource
	rows []int
}

func (s *arrivingSource) Next(int) (Assignment, bool) {
	if len(s.rows) == 0 {
		return Assignment{}, false
	}
	row := s.rows[0]
	s.rows = s.rows[1:]
	if row < 0 {
		return Assignment{}, true
	}
	return s.forestSource.Next(row)
}

// solveQueue works out the trees of a forest, which arrive at instants and are played on some lanes: one opens when it has
// arrived and the first of the lanes is free.
func (f forest) solveQueue(rows []int, arrivals []time.Duration, lanes int) sends {
	all, free := sends{}, make([]time.Duration, lanes)
	for k, row := range rows {
		if row < 0 || k >= len(arrivals) {
			continue
		}
		first := 0
		for lane, at := range free {
			if at < free[first] {
				first = lane
			}
		}
		w := f[row][0].solveFrom(arrivals[k], max(arrivals[k], free[first]), nil)
		free[first] = w.end
		for r, at := range w.sent {
			all[turnOf{row, 0, r}] = at
		}
	}
	return all
}

// drawArrivals returns a forest of one tree in each row, the rows that are to be played, and when they arrive. Some of them cannot be played.
func drawArrivals(number draws, f forest) (rows forest, order []int, arrivals []time.Duration) {
	at := time.Duration(0)
	for _, scenarios := range f {
		for _, s := range scenarios {
			for number("skips", 0, 5) == 5 {
				order = append(order, -1)
			}
			order, rows = append(order, len(rows)), append(rows, []*scenario{s})
		}
	}
	for range max(1, len(order)+number("fewer arrivals", -3, 2)) {
		at += time.Duration(max(0, number("apart by", -2, 5))) * time.Second
		arrivals = append(arrivals, at)
	}
	return rows, order, arrivals
}

// TestRandomArrivals plays random trees that arrive at random instants, on fewer lanes than trees, under random limits. The
// checker checks every event. Without limits all instants are those of a queue that is worked out tree by tree.
//
// Covers T-38, INV-1, INV-2, INV-3, INV-8, INV-9, INV-11, INV-14, INV-16, INV-17, INV-18, INV-20, INV-21.
func TestRandomArrivals(t *testing.T) {
	checkForests(t, func(t *rapid.T, number draws, v View, f forest) {
		rows, order, arrivals := drawArrivals(number, f)
		limits, plain, lag, hold := Limits{}, number("plain", 0, 1) == 1, 0, 0
		if !plain {
			hold = max(0, number("hold", -6, 4))
			lag = max(0, number("lag", -2, 3))
			limits.Prefill = max(0, number("prefill", -2, 3))
			limits.TreeIdle = time.Duration(max(0, number("tree idle", -6, 5))) * time.Second
			limits.Requests = max(0, number("requests", -40, 40))
			limits.Trees = max(0, number("trees in all", -8, 8))
		}
		stop, lanes := never, number("places", 1, 4)
		if number("ends", 0, 2) == 0 {
			stop = time.Duration(number("end", 0, 60))*time.Second + time.Second/2
		}
		source := &arrivingSource{&forestSource{forest: rows, given: make([]int, len(rows))}, order}
		list := make(instants, len(arrivals))
		for k, at := range arrivals {
			list[k] = at.Seconds()
		}
		w := newWorld(lanes, source, limits).openBy(&list)
		source.script(w)
		if serve := w.server; hold > 0 {
			w.server = func(s Dispatch) answer {
				if s.ID%3 == 0 {
					w.c.Hold(s.Lane, w.now+time.Duration(hold)*time.Second)
				}
				return serve(s)
			}
		}
		if lag > 0 {
			w.lag = func() time.Duration { return time.Duration(number("late by", 0, lag)) * time.Second / 4 }
		}
		w.playUntil(stop, never)
		w.requireQuiet(t)

		must, got := rows.solveQueue(order, arrivals, lanes), sends{}
		for _, s := range w.sends {
			r := source.opened[s.Tree]
			r.TurnRef = TurnRef{s.Session, s.Turn}
			require.Contains(t, must, r, "a turn that nothing explains")
			got[r] = s.at
		}
		timed := !v.ImmediateJoins || f.apart() && lag == 0
		switch {
		case plain && timed:
			for r, at := range must {
				if at > stop {
					delete(must, r)
				}
			}
			require.Equal(t, must, got, "what is sent, and when")
		case limits.Requests > 0 && limits.Trees == 0 && stop == never:
			require.Len(t, got, min(limits.Requests, len(must)))
		case limits.Requests == 0 && limits.Trees == 0 && stop == never:
			require.Len(t, got, len(must))
		case limits.Requests == 0 && stop == never:
			playable := 0
			for k := range min(len(order), len(arrivals)) {
				playable += count(order[k] >= 0)
			}
			require.Equal(t, min(limits.Trees, playable), w.c.Counts().TreesOpened)
		}
		if limits.TreeIdle == 0 && hold == 0 && timed {
			requireDues(t, w, source.forestSource)
		}
	})
}

// TestCheckerSeesBrokenArrivals breaks the arrivals of a conductor on purpose. Each case begins at 4 s: of four lanes, lane 0 and
// lane 2 are free since 3 s, 1 and 3 are not; the next trees arrive at 5, 6, 7 and 7.5 s. The others are over at 10 s.
func TestCheckerSeesBrokenArrivals(t *testing.T) {
	for _, c := range []struct {
		name, want string
		act        func(c *Conductor)
	}{
		{"an instant is moved", "INV-21: a tree arrives at 5.000000001s", func(c *Conductor) { c.openings.at++ }},
		{"a lane is passed over", "INV-21: tree 4 takes lane 2, lane 0 is free", func(c *Conductor) { c.openings.free.remove(0) }},
		{"a lane is lost", "INV-16: 0 lanes are free, 3 in use", func(c *Conductor) { c.openings.free.remove(0) }},
		{"a tree waits though a lane is free", "INV-21: 1 trees wait", func(c *Conductor) {
			c.openings.free.remove(0)
			c.openings.free.remove(0)
		}},
		{"a tree is opened too late", "INV-21: tree 4, which arrived at 5s, is opened at 6s", func(c *Conductor) { c.openings.freeSince[0] = seconds(6) }},
		{"a tree is lost", "INV-18:", func(c *Conductor) { c.counts.TreesWaiting-- }},
		{"trees change places", "INV-21: the first turn of tree 6 is due at 7.5s, the tree arrived at 7s", func(c *Conductor) {
			c.Wake(seconds(8))
			c.openings.waiting.items[0], c.openings.waiting.items[1] = c.openings.waiting.items[1], c.openings.waiting.items[0]
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(4, endlessTrees{root(0)}, Limits{}).openBy(&instants{0, 0, 0, 0, 5, 6, 7, 7.5})
			w.server = func(s Dispatch) answer {
				return answer{takes: []time.Duration{seconds(3), seconds(10)}[min(1, s.Tree%2+s.Tree/4)]}
			}
			w.start()
			for range 2 {
				w.now = seconds(3)
				w.back(w.flights.remove(0))
			}
			require.Empty(t, w.check.broken)
			require.Equal(t, []int{0, 2}, w.c.openings.free.items)
			c.act(w.c)
			w.check.begin()
			for _, at := range []float64{5, 8} {
				w.now = max(w.now, seconds(at))
				w.call(func() { w.c.Wake(w.now) })
			}
			w.now = seconds(10)
			w.back(w.flights.remove(0))
			found := false
			for _, line := range w.check.broken {
				found = found || strings.HasPrefix(line, c.want)
			}
			require.True(t, found, "%q: %q", c.want, w.check.broken)
		})
	}
}
