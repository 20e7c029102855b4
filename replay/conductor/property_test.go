package conductor

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/internal/fixtures"
)

// recorded is a recording: start and end of every request, in seconds, by session and turn.
type recorded [][][2]float64

// precedes is the rule of doc/spec/replay.md 4.7.
func precedes(a, b [2]float64) bool { return a[0] < b[0] && a[1] <= b[0] }

// before lists the recorded predecessors of a turn by brute force: of every other session the latest turn that precedes it,
// without those that precede another of the list.
func (r recorded) before(session, turn int) []TurnRef {
	var list []TurnRef
	for n, turns := range r {
		best := -1
		for k, u := range turns {
			if n != session && precedes(u, r[session][turn]) && (best < 0 || slices.Compare([]float64{u[1], u[0]}, []float64{turns[best][1], turns[best][0]}) >= 0) {
				best = k
			}
		}
		if best >= 0 {
			list = append(list, TurnRef{n, best})
		}
	}
	at := func(p TurnRef) [2]float64 { return r[p.Session][p.Turn] }
	return slices.DeleteFunc(slices.Clone(list), func(p TurnRef) bool {
		return slices.ContainsFunc(list, func(q TurnRef) bool { return precedes(at(p), at(q)) })
	})
}

// scenario is a tree, its start state, and the outcome of every turn.
type scenario struct {
	tree    *Tree
	start   *StartState // nil: from the first turn
	times   recorded
	answers map[TurnRef]answer
	refused map[TurnRef]bool
	sound   bool // its predecessors and gates are those of the recording: it cannot deadlock
	apart   bool // no two requests of the forest return at one instant
}

// draws returns a random number from a range.
type draws func(label string, low, high int) int

// drawScenario returns a random tree in whole seconds, so that coincidences are common. It has a root of up to 7 turns and up
// to 8 other sessions, nested, in branches of one or several, some of them unplayable. A turn may join several branches, and
// several turns one branch. Predecessors are those of the recording, or any. The view says when children and joins are due. With
// apart the requests take fractions of a second besides, so that no two return at one instant.
func drawScenario(number draws, v View, takenUp bool, apart *rand.Rand) *scenario {
	one := func(label string, of int) bool { return number(label, 1, of) == 1 }
	kind := number("predecessors", 0, 3) // none, as recorded (2), any
	s := &scenario{tree: &Tree{}, answers: map[TurnRef]answer{}, refused: map[TurnRef]bool{}, sound: kind < 3, apart: apart != nil}
	play := func(begin float64, most int) (list []Turn) {
		n, at := len(s.times), begin
		s.times = append(s.times, nil)
		for k := range number("turns", 1, most) {
			u := Turn{}
			if k > 0 {
				last := s.times[n][k-1]
				at = max(last[0], last[1]+float64(number("gap", -2, 6)))
				u.Delay = seconds(max(0, at-last[1]))
				if !v.ImmediateJoins {
					u.JoinDelay = u.Delay
				}
			}
			s.times[n] = append(s.times[n], [2]float64{at, at + float64(number("recorded", 0, 5))})
			u.At = seconds(at)
			list = append(list, u)
			r, a := TurnRef{n, k}, answer{takes: time.Duration(number("takes", 0, 6)) * time.Second}
			if apart != nil {
				a.takes += time.Duration(apart.IntN(1 << 29))
			}
			a.token = a.takes / 2
			switch what := number("what", 0, 19); {
			case what < 2:
				a.outcome = Failed
			case what < 4:
				a.outcome = Overflow
			case what < 5:
				s.refused[r] = true
			}
			s.answers[r] = a
		}
		return list
	}
	s.tree.Absolute = one("absolute", 4)
	s.tree.Sessions = []Session{{Turns: play(0, 7)}}
	for n := range number("children", 0, 8) {
		n++
		b := len(s.tree.Branches) - 1
		if b < 0 || !one("sibling", 3) {
			b++
			parent := 0
			if one("nested", 3) {
				parent = number("parent", 0, n-1)
			}
			turn := number("spawn", 0, len(s.tree.Sessions[parent].Turns)-1)
			s.tree.Branches = append(s.tree.Branches, Branch{Parent: parent, Spawn: turn})
			u := &s.tree.Sessions[parent].Turns[turn]
			u.Spawns = append(u.Spawns, b)
		}
		branch := &s.tree.Branches[b]
		branch.Sessions = append(branch.Sessions, n)
		p, early := s.times[branch.Parent][branch.Spawn], 0
		if kind == 0 { // older than the turn that spawns it: with recorded order this may wait for itself
			early = -3
		}
		begin := p[0] + float64(number("begin", early, 12))
		child := Session{Branch: b, Depth: s.tree.Sessions[branch.Parent].Depth + 1, Rank: 100 - n, Unplayable: one("broken", 12)}
		child.OnIssue = begin < p[1]
		child.Offset = seconds(begin - p[1])
		if child.OnIssue {
			child.Offset = seconds(max(0, begin-p[0]))
		}
		child.Turns = play(begin, 3)
		s.tree.Sessions = append(s.tree.Sessions, child)
	}
	if v.BranchSpawns {
		s.spawnByBranch()
	}
	for n, c := range s.tree.Sessions[1:] {
		branch := &s.tree.Branches[s.tree.Sessions[n+1].Branch]
		branch.OnIssue = branch.OnIssue || c.OnIssue
	}
	for b, branch := range s.tree.Branches {
		end := 0.0
		for _, n := range branch.Sessions {
			for _, u := range s.times[n] {
				end = max(end, u[1])
			}
		}
		gates := s.tree.Sessions[branch.Parent].Turns
		for g := branch.Spawn + 1; g < len(gates); g++ {
			if (kind == 0 || kind == 3 || s.times[branch.Parent][g][0] >= end) && one("joined", 2) {
				gates[g].Joins = append(gates[g].Joins, b)
			}
		}
	}
	for n := range s.tree.Sessions {
		for k := range s.tree.Sessions[n].Turns {
			u := &s.tree.Sessions[n].Turns[k]
			switch {
			case kind == 1 || kind == 2:
				u.After = s.times.before(n, k)
			case kind == 3 && len(s.tree.Sessions) > 1 && one("waits", 6):
				other := (n + number("for", 1, len(s.tree.Sessions)-1)) % len(s.tree.Sessions)
				u.After = []TurnRef{{other, number("turn", 0, len(s.tree.Sessions[other].Turns)-1)}}
			}
		}
	}
	if takenUp {
		s.takeUp(v, float64(number("t*", 0, 40)), []string{v.Anchor, "burst", "as drawn"}[number("alignment", 0, 2)])
	}
	return s
}

// spawnByBranch sets when children are due by the rule branch of doc/spec/replay.md 6.3.
func (s *scenario) spawnByBranch() {
	for _, b := range s.tree.Branches {
		first, p := math.Inf(1), s.times[b.Parent][b.Spawn]
		for _, n := range b.Sessions {
			first = min(first, s.times[n][0][0])
		}
		for _, n := range b.Sessions {
			c := &s.tree.Sessions[n]
			c.OnIssue = b.Parent == 0 && first < p[1] && p[0] < p[1]
			c.Offset = seconds(s.times[n][0][0] - first)
			if c.OnIssue {
				c.Offset = seconds(max(0, s.times[n][0][0]-p[0]))
			}
		}
	}
}

// takeUp gives the tree the start state of an instant, if it has a turn to send after it.
func (s *scenario) takeUp(v View, at float64, alignment string) {
	r := Recording{Tree: s.tree}
	for _, turns := range s.times {
		var starts []float64
		for _, u := range turns {
			starts = append(starts, 1000*u[0])
		}
		r.Starts = append(r.Starts, starts)
	}
	if state := ResumeAt(r, v, 1000*at); len(state.Live) > 0 {
		AlignLanes(alignment, []*StartState{state}, 0)
		s.start = state
	}
}

// actualTimes are when the turns of one tree were sent, refused and returned in a replay; nil: sent when due, returned as
// scripted.
type actualTimes struct{ sent, refused, back map[TurnRef]time.Duration }

// oracle works out a scenario without clock, queue or events: it advances every session as far as the times of what it waits
// for are known, until nothing changes. Sessions that are left wait in vain.
type oracle struct {
	*scenario
	actual *actualTimes

	due, sent, back map[TurnRef]time.Duration
	alive           []bool
	next            []int
	first           []time.Duration // when the first turn that it sends is due
	waits           []bool          // whether that turn waits for its branches all the same
	closed          map[int]time.Duration
	spawned         []bool        // branches
	from            time.Duration // its recorded instants count from here
	begun, end      time.Duration
	left            []Blocked
}

// solve works out the scenario of a tree that is opened at an instant.
func (s *scenario) solve(at time.Duration, d *actualTimes) *oracle { return s.solveFrom(at, at, d) }

// solveFrom works out the scenario of a tree that arrived at an instant and is opened at another.
func (s *scenario) solveFrom(from, at time.Duration, d *actualTimes) *oracle {
	n := len(s.tree.Sessions)
	w := &oracle{
		scenario: s, actual: d, due: map[TurnRef]time.Duration{}, sent: map[TurnRef]time.Duration{}, back: map[TurnRef]time.Duration{},
		alive: make([]bool, n), next: make([]int, n), first: make([]time.Duration, n), waits: make([]bool, n),
		closed: map[int]time.Duration{}, spawned: make([]bool, len(s.tree.Branches)), from: from, begun: at, end: at,
	}
	if s.start == nil {
		w.alive[0], w.first[0] = true, from
	} else {
		for k, over := range s.start.TurnsDone {
			if over == len(s.tree.Sessions[k].Turns) {
				w.closed[k] = from
			}
		}
		for _, l := range s.start.Live {
			w.alive[l.Session], w.next[l.Session], w.first[l.Session], w.waits[l.Session] = true, l.Turn, from+l.Due, l.Parked
		}
		for b, branch := range s.tree.Branches {
			w.spawned[b] = !slices.ContainsFunc(branch.Sessions, func(k int) bool { return !w.alive[k] && !w.isClosed(k) })
		}
	}
	for changed := true; changed; {
		changed = false
		for k := range s.tree.Sessions {
			for w.step(k) {
				changed = true
			}
		}
	}
	for k := range s.tree.Sessions {
		if w.alive[k] && !w.isClosed(k) {
			w.block(k)
		}
	}
	return w
}

func (w *oracle) isClosed(n int) bool {
	_, ok := w.closed[n]
	return ok
}

// after returns when a turn is due that follows something.
func (w *oracle) after(r TurnRef, done, gap time.Duration) time.Duration {
	if w.tree.Absolute {
		return max(done, w.from+w.tree.Sessions[r.Session].Turns[r.Turn].At)
	}
	return done + gap
}

// ready returns when a session's next turn is due, without its predecessors, and the branches that it joins and that are not
// done.
func (w *oracle) ready(n int) (at time.Duration, missing []int) {
	k := w.next[n]
	u := w.tree.Sessions[n].Turns[k]
	before, ok := w.back[TurnRef{n, k - 1}]
	at = w.after(TurnRef{n, k}, before, u.Delay)
	if ok && w.parks(n, before) {
		at = w.after(TurnRef{n, k}, before, u.JoinDelay)
	}
	if !ok {
		at = w.first[n]
		if !w.waits[n] {
			return at, nil
		}
	}
	for _, b := range u.Joins {
		for _, child := range w.tree.Branches[b].Sessions {
			if !w.isClosed(child) {
				missing = append(missing, b)
				break
			}
			at = max(at, w.closed[child])
		}
	}
	return at, missing
}

// parks reports whether a session waits for branches of its next turn after a return.
func (w *oracle) parks(n int, at time.Duration) bool {
	for _, b := range w.tree.Sessions[n].Turns[w.next[n]].Joins {
		for _, child := range w.tree.Branches[b].Sessions {
			if closed, ok := w.closed[child]; !ok || closed > at {
				return true
			}
		}
	}
	return false
}

// overAt returns when a turn is done.
func (w *oracle) overAt(r TurnRef) (at time.Duration, ok bool) {
	if at, ok = w.back[r]; ok {
		return at, true
	}
	if w.start != nil && r.Turn < w.start.TurnsDone[r.Session] {
		return w.from, true
	}
	at, ok = w.closed[r.Session]
	return at, ok
}

// step sends the next turn of a session if all that it waits for is known.
func (w *oracle) step(n int) bool {
	if !w.alive[n] || w.isClosed(n) {
		return false
	}
	r := TurnRef{n, w.next[n]}
	u := w.tree.Sessions[n].Turns[r.Turn]
	at, missing := w.ready(n)
	for _, p := range u.After {
		over, ok := w.overAt(p)
		if !ok {
			return false
		}
		at = max(at, over)
	}
	if missing != nil {
		return false
	}
	w.due[r] = at
	at = max(at, w.begun)
	end := at
	if !w.refused[r] {
		end += w.answers[r].takes
	}
	if d := w.actual; d != nil {
		var ok [3]bool
		at, ok[0] = d.sent[r]
		end, ok[1] = d.back[r]
		if w.refused[r] {
			at, ok[2] = d.refused[r]
			end = at
		}
		if ok[0] != ok[1] || ok[0] == ok[2] {
			delete(w.due, r)
			return false // not sent before the end
		}
	}
	dead := w.refused[r] || w.answers[r].outcome == Overflow && r.Turn+1 < len(w.tree.Sessions[n].Turns)
	for _, b := range u.Spawns {
		list := w.tree.Branches[b].Sessions
		early := slices.ContainsFunc(list, func(c int) bool { return w.tree.Sessions[c].OnIssue })
		if w.spawned[b] || dead && !early {
			continue
		}
		w.spawned[b] = true
		for _, c := range list {
			child := w.tree.Sessions[c]
			born := end
			if early {
				born = at
			}
			switch {
			case w.alive[c] || w.isClosed(c): // of a start state
			case child.Unplayable:
				w.close(c, born)
			case w.refused[r]:
				w.close(c, at)
			case child.OnIssue:
				w.alive[c], w.first[c] = true, w.after(TurnRef{c, 0}, at, child.Offset)
			case dead:
				w.close(c, end)
			default:
				w.alive[c], w.first[c] = true, w.after(TurnRef{c, 0}, end, child.Offset)
			}
		}
	}
	if !w.refused[r] {
		w.sent[r], w.back[r] = at, end
	}
	if dead || r.Turn+1 == len(w.tree.Sessions[n].Turns) {
		w.close(n, end)
	} else {
		w.next[n]++
	}
	w.end = max(w.end, end)
	return true
}

// close ends a session, and the sessions that its unsent turns would have spawned.
func (w *oracle) close(n int, at time.Duration) {
	w.closed[n] = at
	for _, u := range w.tree.Sessions[n].Turns[w.next[n]:] {
		for _, b := range u.Spawns {
			if !w.spawned[b] {
				w.spawned[b] = true
				for _, c := range w.tree.Branches[b].Sessions {
					if !w.alive[c] && !w.isClosed(c) {
						w.close(c, at)
					}
				}
			}
		}
	}
}

// block records what a session waits for in vain.
func (w *oracle) block(n int) {
	b := Blocked{Session: n, Turn: w.next[n]}
	at, missing := w.ready(n)
	b.Branches = missing
	w.end = max(w.end, at)
	if missing == nil {
		for _, r := range w.tree.Sessions[n].Turns[b.Turn].After {
			if over, ok := w.overAt(r); !ok {
				b.After = append(b.After, r)
			} else if b.After == nil {
				w.end = max(w.end, over)
			}
		}
	}
	w.left = append(w.left, b)
}

// sends are the instants at which a forest sends its turns.
type sends map[turnOf]time.Duration

// turnOf names a turn by the number of its tree on its lane, so that it does not depend on the order in which trees are opened.
type turnOf struct {
	lane, nth int
	TurnRef
}

// forest is the scenarios of each lane.
type forest [][]*scenario

// forestSource hands out the trees of a forest.
type forestSource struct {
	forest
	given  []int
	handed map[int]Assignment // by lane: its last tree, as a phase before left it
	opened []turnOf           // by ordinal of the tree, without a turn
}

func (f *forestSource) Next(lane int) (Assignment, bool) {
	if a, ok := f.handed[lane]; ok {
		delete(f.handed, lane)
		f.opened = append(f.opened, turnOf{lane: lane, nth: f.given[lane] - 1})
		return a, true
	}
	if f.given[lane] == len(f.forest[lane]) {
		return Assignment{}, false
	}
	s := f.forest[lane][f.given[lane]]
	f.opened = append(f.opened, turnOf{lane: lane, nth: f.given[lane]})
	f.given[lane]++
	return Assignment{Tree: s.tree, Start: s.start}, true
}

func (f *forestSource) scenario(ordinal int) *scenario {
	at := f.opened[ordinal]
	return f.forest[at.lane][at.nth]
}

// world returns a world that plays a forest, and its source.
func (f forest) world(limits Limits) (*world, *forestSource) {
	source := &forestSource{forest: f, given: make([]int, len(f))}
	return source.world(limits), source
}

// world returns a world that plays what is left of a forest.
func (source *forestSource) world(limits Limits) *world {
	w := newWorld(len(source.forest), source, limits)
	source.script(w)
	return w
}

// script makes a world answer and refuse as the scenarios say.
func (source *forestSource) script(w *world) {
	w.server = func(s Dispatch) answer { return source.scenario(s.Tree).answers[TurnRef{s.Session, s.Turn}] }
	w.refuse = func(s Dispatch) error {
		if source.scenario(s.Tree).refused[TurnRef{s.Session, s.Turn}] {
			return errRefused
		}
		return nil
	}
}

// solve works out the trees of all lanes, one after the other: the turns that must be sent, when, and the deadlocks. A lane
// whose tree is refused before it has sent anything takes no other tree.
func (f forest) solve() (all sends, deadlocks map[turnOf]*oracle, opened int) {
	all, deadlocks = sends{}, map[turnOf]*oracle{}
	for lane, scenarios := range f {
		at := time.Duration(0)
		for nth, s := range scenarios {
			opened++
			w := s.solve(at, nil)
			for r, sent := range w.sent {
				all[turnOf{lane, nth, r}] = sent
			}
			if w.left != nil {
				deadlocks[turnOf{lane: lane, nth: nth}] = w
			}
			at = w.end
			if len(w.sent) == 0 && len(s.refusedIn(w)) > 0 {
				break
			}
		}
	}
	return all, deadlocks, opened
}

// refusedIn lists the turns that were to be sent and were refused.
func (s *scenario) refusedIn(w *oracle) (list []TurnRef) {
	for r := range w.due {
		if s.refused[r] {
			list = append(list, r)
		}
	}
	return list
}

// TestRandomReplays plays random trees from random instants, under random limits, with random refusals, errors, overflows and
// ends, with the view of each preset. The checker checks every event; the turns that were sent are compared with those of the oracle.
//
// AGENTX_LONG=1 plays 10,000 forests, which takes some seconds.
//
// Covers T-38, INV-1, INV-2, INV-3, INV-4, INV-7, INV-8, INV-9, INV-11, INV-13, INV-14, INV-16, INV-17, INV-18, INV-19, INV-20.
func TestRandomReplays(t *testing.T) {
	checkForests(t, func(t *rapid.T, number draws, v View, f forest) {
		// Half of all runs have no limit, so that the times are known as well. Without deadlines of joins a turn is due at the
		// return of its last child, or after its delay if that came before the parent's. Which came first is not known if both
		// came at one instant, or if the conductor is called late.
		limits, plain, lag, hold := Limits{}, number("plain", 0, 1) == 1, 0, 0
		if !plain {
			hold = max(0, number("hold", -6, 4))
			limits.Prefill = max(0, number("prefill", -2, 3))
			lag = max(0, number("lag", -2, 3))
			limits.TreeIdle = time.Duration(max(0, number("tree idle", -6, 5))) * time.Second
			limits.SystemIdle = time.Duration(max(0, number("system idle", -6, 5))) * time.Second
			limits.Requests = max(0, number("requests", -40, 40))
			limits.Trees = max(0, number("trees in all", -8, 8))
		}
		timed := !v.ImmediateJoins || f.apart() && lag == 0
		stop, cancel := never, never
		if number("ends", 0, 2) == 0 { // between two seconds: at the same instant either order is right
			stop = time.Duration(number("end", 0, 60))*time.Second + time.Second/2
			if number("has grace", 0, 1) == 1 {
				cancel = stop + time.Duration(number("grace", 0, 3))*time.Second
			}
		}
		w, source := f.world(limits)
		until := map[int]time.Duration{} // by lane
		throttled := map[int]bool{}
		if serve := w.server; hold > 0 { // every third request has its lane held, every other of those is to be sent again
			w.server = func(s Dispatch) answer {
				require.GreaterOrEqual(t, w.now, until[s.Lane], "a lane that is held sends")
				if s.ID%3 == 0 {
					until[s.Lane] = w.now + time.Duration(hold)*time.Second
					w.c.Hold(s.Lane, until[s.Lane])
				}
				if s.ID%6 == 0 && !throttled[s.ID] {
					throttled[s.ID] = true
					return answer{takes: time.Second / 4, outcome: Throttled}
				}
				return serve(s)
			}
		}
		if lag > 0 {
			w.lag = func() time.Duration { return time.Duration(number("late by", 0, lag)) * time.Second / 4 }
		}
		w.playUntil(stop, cancel)
		w.requireQuiet(t)

		// The turns.
		must, deadlocks, opened := f.solve()
		got := sends{}
		sentAgain := map[int]bool{}
		for _, s := range w.sends {
			r := source.opened[s.Tree]
			r.TurnRef = TurnRef{s.Session, s.Turn}
			_, twice := got[r]
			require.Equal(t, twice, throttled[s.ID] && s.ID < len(got), "%v is sent twice", r)
			require.Contains(t, must, r, "a turn that nothing explains")
			if twice {
				require.False(t, sentAgain[s.ID], "%v is sent three times", r)
				sentAgain[s.ID] = true
			} else {
				require.Equal(t, len(got), s.ID)
			}
			require.Equal(t, s.at, s.Issued)
			require.GreaterOrEqual(t, s.at, s.Due)
			require.Less(t, s.at, stop+4*time.Second)
			got[r] = s.at
		}
		reported := map[turnOf]*Deadlock{}
		for _, e := range w.of(TreeDeadlocked) {
			reported[source.opened[e.Tree]] = e.Deadlock
		}
		switch {
		case plain && !timed:
			if stop == never {
				require.Len(t, got, len(must))
			}
		case plain:
			for r, at := range must {
				if at > stop {
					delete(must, r)
				}
			}
			require.Equal(t, must, got, "what is sent, and when")
		case limits.Trees > 0:
			if stop == never && limits.Requests == 0 {
				require.Equal(t, min(limits.Trees, opened), w.c.Counts().TreesOpened)
			}
		case limits.Requests > 0 && stop == never:
			require.Len(t, got, min(limits.Requests, len(must)))
		case stop == never:
			require.Len(t, got, len(must), "every one of them is in it")
		}
		// The deadlocks: those of the oracle, and no other.
		for k, deadlock := range reported {
			require.Contains(t, deadlocks, k)
			require.Equal(t, deadlocks[k].left, deadlock.Blocked)
			require.False(t, source.forest[k.lane][k.nth].sound)
		}
		if stop == never && limits.Requests == 0 && limits.Trees == 0 {
			require.Len(t, reported, len(deadlocks))
		}
		if plain && timed {
			for _, e := range w.of(TreeDeadlocked) {
				require.Equal(t, deadlocks[source.opened[e.Tree]].end, e.At)
			}
		}
		if limits.TreeIdle == 0 && limits.SystemIdle == 0 && hold == 0 && timed {
			requireDues(t, w, source)
		}
		if limits.Prefill == 0 && lag == 0 && hold == 0 {
			requireCaps(t, w)
		}
	})
}

// apart reports whether no two requests of the forest return at one instant.
func (f forest) apart() bool { return f[0][0].apart }

// checkForests checks a property of random forests under each preset: 100 of them, with AGENTX_LONG=1 10,000.
func checkForests(t *testing.T, property func(t *rapid.T, number draws, v View, f forest)) {
	if checks := flag.Lookup("rapid.checks"); os.Getenv("AGENTX_LONG") != "" && checks.Value.String() == checks.DefValue {
		require.NoError(t, checks.Value.Set("10000"))
		defer func() { require.NoError(t, checks.Value.Set(checks.DefValue)) }()
	}
	for _, preset := range fixtures.Presets {
		v := ViewOf(preset)
		t.Run(preset, func(t *testing.T) { checkForestsUnder(t, v, property) })
	}
}

func checkForestsUnder(t *testing.T, v View, property func(t *rapid.T, number draws, v View, f forest)) {
	rapid.Check(t, func(t *rapid.T) {
		number := func(label string, low, high int) int { return rapid.IntRange(low, high).Draw(t, label) }
		if rapid.Bool().Draw(t, "evenly") { // rapid prefers small numbers, which it can make smaller; so trees stay small
			random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			number = func(_ string, low, high int) int { return low + random.IntN(high-low+1) }
		}
		f, apart := forest{}, (*rand.Rand)(nil)
		if v.ImmediateJoins && number("apart", 0, 2) > 0 {
			apart = rand.New(rand.NewPCG(1, 2))
		}
		for range number("lanes", 1, 3) {
			scenarios := []*scenario{}
			for nth := range number("trees", 1, 3) {
				scenarios = append(scenarios, drawScenario(number, v, nth == 0 && number("taken up", 0, 1) == 1, apart))
			}
			f = append(f, scenarios)
		}
		for _, scenarios := range f {
			for _, s := range scenarios {
				require.NoError(t, s.tree.Validate())
			}
		}
		property(t, number, v, f)
	})
}

// requireDues compares the due time of every request with that of the oracle for the actual times of the turns before it.
func requireDues(t *rapid.T, w *world, source *forestSource) {
	actual := make([]*actualTimes, len(source.opened))
	for k := range actual {
		actual[k] = &actualTimes{map[TurnRef]time.Duration{}, map[TurnRef]time.Duration{}, map[TurnRef]time.Duration{}}
	}
	for _, s := range w.sends {
		actual[s.Tree].sent[TurnRef{s.Session, s.Turn}] = s.at
	}
	for _, r := range w.returns {
		actual[r.Tree].back[TurnRef{r.Session, r.Turn}] = r.at
	}
	for _, e := range w.of(TurnRefused) {
		actual[e.Tree].refused[TurnRef{e.Session, e.Turn}] = e.At
	}
	dues, opened := make([]map[TurnRef]time.Duration, len(actual)), make([]time.Duration, len(actual))
	for _, e := range w.of(TreeOpened) {
		opened[e.Tree] = e.At
	}
	for _, s := range w.sends {
		if dues[s.Tree] == nil {
			from := opened[s.Tree]
			if a := w.check.arrivals; a != nil {
				from = a.dues[s.Tree]
			}
			dues[s.Tree] = source.scenario(s.Tree).solveFrom(from, opened[s.Tree], actual[s.Tree]).due
		}
		require.Equal(t, dues[s.Tree][TurnRef{s.Session, s.Turn}], s.Due, "%v", s)
	}
}

// requireCaps compares the idle times of the system and of each tree with their caps.
func requireCaps(t *rapid.T, w *world) {
	type quiet struct {
		flying int
		since  time.Duration
	}
	trees, system := map[int]*quiet{}, &quiet{}
	limits := w.c.limits
	for _, e := range w.events {
		switch e.Kind {
		case TreeOpened:
			trees[e.Tree] = &quiet{since: e.At}
		case TurnSent:
			tree := trees[e.Tree]
			if limits.TreeIdle > 0 && tree.flying == 0 {
				require.LessOrEqual(t, e.At-tree.since, limits.TreeIdle, "tree %d at %v", e.Tree, e.At)
			}
			if limits.SystemIdle > 0 && system.flying == 0 {
				require.LessOrEqual(t, e.At-system.since, limits.SystemIdle, "at %v", e.At)
			}
			tree.flying++
			system.flying++
		case TurnReturned:
			for _, q := range []*quiet{trees[e.Tree], system} {
				q.flying--
				q.since = e.At
			}
		}
	}
}

// The oracle agrees with a tree that was worked out by hand.
func TestOracleAgreesWithAHandWorkedTree(t *testing.T) {
	tree := root(0, 2, 3).child(0, 0, true, 4, 0, 0).child(0, 1, false, 1, 0).join(0, 1, 1).after(2, 0, 1, 1)
	s := &scenario{tree: tree, answers: map[TurnRef]answer{}, refused: map[TurnRef]bool{}}
	for n := range tree.Sessions {
		for k := range tree.Sessions[n].Turns {
			s.answers[TurnRef{n, k}] = answer{takes: 5 * time.Second}
		}
	}
	w := s.solve(time.Second, nil)
	got := map[string]time.Duration{}
	for r, at := range w.sent {
		got[fmt.Sprintf("%d#%d", r.Session, r.Turn)] = at
	}
	second := func(n int) time.Duration { return time.Duration(n) * time.Second }
	require.Equal(t, map[string]time.Duration{
		"0#0": second(1), "1#0": second(5), "1#1": second(10), "0#1": second(15), "2#0": second(21), "0#2": second(23),
	}, got)
	require.Nil(t, w.left)
	require.Equal(t, second(28), w.end)
	s.tree.after(1, 1, 0, 1)
	w = s.solve(0, nil)
	require.Equal(t, []Blocked{{Session: 0, Turn: 1, Branches: []int{0}}, {Session: 1, Turn: 1, After: []TurnRef{{0, 1}}}}, w.left)
	require.Equal(t, second(9), w.end)
}
