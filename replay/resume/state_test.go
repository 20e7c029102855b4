package resume

import (
	"math"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/replay/conductor"
)

// traceOf is a trace of a vector.
type traceOf struct {
	Root          string
	Conversations map[string]struct {
		Turns []struct {
			TS            *float64 `json:"ts_ms"`
			Spawns, Joins []string
		}
		Branches []struct {
			ID       string
			Children []string
			Start    *float64 `json:"start_ms"`
		}
		Depth int
	}
}

func milliseconds(ms float64) time.Duration { return time.Duration(min(ms*1e6, 1<<62)) }

// newTrace returns a trace with a root whose turns started at these times.
func newTrace(starts []float64) *Trace {
	t := &Trace{Tree: &conductor.Tree{}}
	t.add(-1, starts)
	return t
}

func (t *Trace) add(branch int, starts []float64) int {
	t.Sessions = append(t.Sessions, conductor.Session{Branch: branch, Turns: make([]conductor.Turn, len(starts))})
	t.Starts = append(t.Starts, starts)
	return len(t.Sessions) - 1
}

// spawn adds a branch without a recorded start that a turn spawns and others join, and returns its sessions.
func (t *Trace) spawn(parent, turn int, joins []int, sessions ...[]float64) (children []int) {
	b := len(t.Branches)
	t.Branches = append(t.Branches, conductor.Branch{Parent: parent, Spawn: turn})
	t.BranchStarts = append(t.BranchStarts, math.NaN())
	for _, k := range joins {
		t.Sessions[parent].Turns[k].Joins = append(t.Sessions[parent].Turns[k].Joins, b)
	}
	for _, starts := range sessions {
		children = append(children, t.add(b, starts))
	}
	t.Branches[b].Sessions = children
	return children
}

// trace returns the trace, and what its sessions are called.
func (o traceOf) trace() (*Trace, []string) {
	known := func(v *float64) float64 {
		if v == nil {
			return math.NaN()
		}
		return *v
	}
	starts := func(name string) (list []float64) {
		for _, u := range o.Conversations[name].Turns {
			list = append(list, known(u.TS))
		}
		return list
	}
	t, names := newTrace(starts(o.Root)), []string{o.Root}
	for n := 0; n < len(names); n++ {
		c := o.Conversations[names[n]]
		for _, b := range c.Branches {
			spawn, joins, children := -1, []int(nil), [][]float64(nil)
			for k, u := range c.Turns {
				if spawn < 0 && slices.Contains(u.Spawns, b.ID) {
					spawn = k
				}
				if slices.Contains(u.Joins, b.ID) {
					joins = append(joins, k)
				}
			}
			for _, child := range b.Children {
				names, children = append(names, child), append(children, starts(child))
			}
			t.spawn(n, spawn, joins, children...)
			t.BranchStarts[len(t.Branches)-1] = known(b.Start)
		}
	}
	return t, names
}

// Covers T-14.
func TestStartStateVectors(t *testing.T) {
	type in struct {
		Trace traceOf
		TStar float64 `json:"t_star_ms"`
	}
	type state struct {
		Conversation string
		Next         int     `json:"next_turn"`
		Offset       float64 `json:"offset_ms"`
		Depth        int
		Waiting      bool
		Memberships  [][2]any
	}
	type want struct {
		Bounds              [2]float64 `json:"bounds_ms"`
		Spawnable, Rootless bool
		States              []state
		Boundaries, Primers [][2]any
	}
	fixtures.EachCase(t, "start_state", fixtures.Counts{32, 32, 32}, func(t *testing.T, c fixtures.Case, in in, want want) {
		trace, names := in.Trace.trace()
		trace.ImmediateJoins = switchesOf(t, c).ImmediateJoins
		first, last, ok := trace.Bounds()
		require.True(t, ok)
		require.Equal(t, want.Bounds, [2]float64{first, last})

		s := trace.At(in.TStar)
		require.Equal(t, want.Spawnable, len(s.Live) > 0)
		require.Equal(t, want.Rootless, len(s.Live) > 0 && s.Live[0].Session != 0)
		var branches []string
		for _, name := range names {
			for _, b := range in.Trace.Conversations[name].Branches {
				branches = append(branches, b.ID)
			}
		}
		states, primers := []state{}, [][2]any{}
		for _, l := range s.Live {
			members, depth := [][2]any{}, 0
			if l.Session > 0 {
				b := trace.Sessions[l.Session].Branch
				for _, turn := range trace.joins(b) {
					members = append(members, [2]any{branches[b], float64(turn)})
				}
				depth = max(1, in.Trace.Conversations[names[l.Session]].Depth)
			}
			states = append(states, state{names[l.Session], l.Turn, l.Due.Seconds() * 1000, depth, l.Parked, members})
			if l.Turn > 0 {
				primers = append(primers, [2]any{names[l.Session], float64(l.Turn - 1)})
			}
		}
		for k := range want.States {
			if want.States[k].Waiting && trace.ImmediateJoins {
				want.States[k].Offset = 0 // it would be the deadline
			}
		}
		require.Equal(t, want.States, states)
		require.Equal(t, want.Primers, primers)
		boundaries := [][2]any{}
		for n := range names {
			if k := trace.started(n, in.TStar); k > 0 {
				boundaries = append(boundaries, [2]any{names[n], float64(k)})
			}
		}
		sort.Slice(boundaries, func(i, j int) bool { return boundaries[i][0].(string) < boundaries[j][0].(string) })
		require.Equal(t, want.Boundaries, boundaries)
	})
}

// joins returns the turns that wait for a branch.
func (t *Trace) joins(b int) (turns []int) {
	for k, u := range t.Sessions[t.Branches[b].Parent].Turns {
		if slices.Contains(u.Joins, b) {
			turns = append(turns, k)
		}
	}
	return turns
}

// oracle is doc/spec/replay.md 2.4 once more, session by session, from the definitions.
type oracle struct {
	*Trace
	at float64
}

func (o oracle) absent(v float64) bool { return v != v || v > math.MaxFloat64 || v < -math.MaxFloat64 }

// next is -1 for a session that has finished.
func (o oracle) next(n int) int {
	found := -1
	for k := len(o.Starts[n]) - 1; k >= 0; k-- {
		if at := o.Starts[n][k]; !o.absent(at) && at >= o.at {
			found = k
		}
	}
	return found
}

func (o oracle) branchOf(n int) int {
	for b, branch := range o.Branches {
		for _, child := range branch.Sessions {
			if child == n {
				return b
			}
		}
	}
	return -1
}

func (o oracle) live(n int) bool {
	if o.next(n) < 0 {
		return false
	}
	if n == 0 {
		return true
	}
	b := o.branchOf(n)
	if b < 0 || o.Branches[b].Parent != 0 {
		return false
	}
	branch := o.Branches[b]
	starts := []float64{o.BranchStarts[b]}
	if o.absent(starts[0]) {
		starts = nil
		for _, child := range branch.Sessions {
			if len(o.Starts[child]) > 0 {
				starts = append(starts, o.Starts[child][0])
			}
		}
		starts = slices.DeleteFunc(starts, o.absent)
		sort.Float64s(starts)
	}
	if len(starts) == 0 || o.at >= starts[0] {
		return true
	}
	spawn := o.Starts[0][branch.Spawn]
	return !o.absent(spawn) && spawn <= o.at && (o.next(0) < 0 || o.next(0) > branch.Spawn)
}

func (o oracle) state(n int) conductor.LiveSession {
	l := conductor.LiveSession{Session: n, Turn: o.next(n), Due: milliseconds(o.Starts[n][o.next(n)] - o.at)}
	for child := range o.Sessions {
		if n == 0 && child > 0 && o.live(child) && slices.Contains(o.joins(o.branchOf(child)), l.Turn) {
			l.Parked = true
		}
	}
	return l
}

// fate says what becomes of a session.
type fate string

const (
	ahead fate = "ahead" // it will be spawned
	live  fate = "live"  // it is being played
	over  fate = "over"  // it sends nothing
)

func (o oracle) fate(n int) fate {
	if o.live(n) {
		return live
	}
	b := o.branchOf(n)
	if o.next(n) < 0 || b < 0 {
		return over
	}
	parent := o.Branches[b].Parent
	if o.fate(parent) == over || o.fate(parent) == live && o.next(parent) > o.Branches[b].Spawn {
		return over
	}
	return ahead
}

func (o oracle) start() *conductor.StartState {
	s := &conductor.StartState{}
	if o.live(0) {
		s.Live = append(s.Live, o.state(0))
	}
	for _, b := range o.Branches {
		for _, n := range b.Sessions {
			if o.live(n) {
				s.Live = append(s.Live, o.state(n))
			}
		}
	}
	for n, turns := range o.Starts {
		s.TurnsDone = append(s.TurnsDone, map[fate]int{ahead: 0, live: o.next(n), over: len(turns)}[o.fate(n)])
	}
	return s
}

// drawTrace makes up a trace: children of children, turns out of order, times that are missing or none.
func drawTrace(t *rapid.T) *Trace {
	instant := func(name string) float64 {
		switch rapid.IntRange(0, 11).Draw(t, "kind") {
		case 0:
			return rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1)}).Draw(t, name)
		case 1:
			return rapid.Float64Range(0, 20).Draw(t, name)
		}
		return float64(rapid.IntRange(0, 20).Draw(t, name)) // often the same
	}
	session := func() (starts []float64) {
		for range rapid.IntRange(0, 4).Draw(t, "turns") {
			starts = append(starts, instant("turn"))
		}
		if rapid.IntRange(0, 3).Draw(t, "sorted") > 0 {
			slices.Sort(starts)
		}
		return starts
	}
	trace := newTrace(session())
	for range rapid.IntRange(0, 5).Draw(t, "branches") {
		parent := 0
		if rapid.IntRange(0, 3).Draw(t, "nested") == 0 {
			parent = rapid.IntRange(0, len(trace.Sessions)-1).Draw(t, "parent")
		}
		turns := len(trace.Starts[parent])
		if turns == 0 {
			continue
		}
		spawn, start := rapid.IntRange(0, turns-1).Draw(t, "spawn"), math.NaN()
		if rapid.Bool().Draw(t, "recorded start") {
			start = instant("start")
		}
		var joins []int
		for k := spawn + 1; k < turns; k++ {
			if rapid.IntRange(0, 2).Draw(t, "join") == 0 {
				joins = append(joins, k)
			}
		}
		var children [][]float64
		for range rapid.IntRange(1, 3).Draw(t, "children") {
			children = append(children, session())
		}
		trace.spawn(parent, spawn, joins, children...)
		trace.BranchStarts[len(trace.Branches)-1] = start
	}
	return trace
}

// boundaries are the instants at which something may change, and those around them.
func (t *Trace) boundaries() []float64 {
	list := []float64{-1}
	add := func(at float64) { list = append(list, math.Nextafter(at, -1e9), at, math.Nextafter(at, 1e9), at+0.5) }
	for _, at := range slices.Concat(append(t.Starts, t.BranchStarts)...) {
		add(at)
	}
	return slices.DeleteFunc(list, oracle{}.absent)
}

// TestStartStateAgainstOracle compares random traces with the oracle. Traces of fixed seeds come first: they show every case,
// however few random ones are drawn.
//
// Covers T-14.
func TestStartStateAgainstOracle(t *testing.T) {
	seen := map[string]int{}
	traces := rapid.Custom(drawTrace)
	for seed := range 100 {
		sweep(t, traces.Example(seed), seen)
	}
	for _, what := range []string{"ahead", "live", "over", "rootless", "unspawnable", "parked"} {
		require.NotZero(t, seen[what], "%s never came up", what)
	}
	rapid.Check(t, func(t *rapid.T) { sweep(t, drawTrace(t), seen) })
}

// sweep compares the states of a trace at all its boundaries with the oracle's, and counts the cases that it has seen.
func sweep(t require.TestingT, trace *Trace, seen map[string]int) {
	for _, at := range trace.boundaries() {
		s, o := trace.At(at), oracle{trace, at}
		require.Equal(t, o.start(), s, "t* %g of %+v", at, trace)
		checkStart(t, o, s)
		for n := range trace.Sessions {
			seen[string(o.fate(n))]++
		}
		for name, is := range map[string]bool{
			"rootless":    len(s.Live) > 0 && s.Live[0].Session != 0,
			"unspawnable": len(s.Live) == 0,
			"parked":      len(s.Live) > 0 && s.Live[0].Parked,
		} {
			if is {
				seen[name]++
			}
		}
	}
}

// checkStart checks what holds of every state, whatever the rules say.
func checkStart(t require.TestingT, o oracle, s *conductor.StartState) {
	seen, ready := map[int]bool{}, false
	for _, l := range s.Live {
		require.False(t, seen[l.Session], "two states of a session")
		seen[l.Session] = true
		require.Equal(t, l.Turn, s.TurnsDone[l.Session])
		require.GreaterOrEqual(t, l.Due, time.Duration(0))
		require.False(t, l.Parked && l.Session != 0)
		ready = ready || !l.Parked
	}
	for _, b := range o.Branches {
		spawned := slices.ContainsFunc(b.Sessions, func(n int) bool { return seen[n] })
		for _, n := range b.Sessions {
			if o.fate(b.Parent) == over && !seen[n] {
				require.Equal(t, over, o.fate(n), "a child whose parent is over is never spawned")
			}
			require.False(t, spawned && o.fate(n) == ahead, "a branch with a live child is spawned again")
			if o.fate(n) == ahead && seen[b.Parent] {
				require.GreaterOrEqual(t, b.Spawn, s.TurnsDone[b.Parent])
			}
		}
	}
	require.Equal(t, len(s.Live) > 0, ready, "a parent waits for a child that can be sent")
}

// The boundaries that the catalogue names, by hand.
//
// Covers T-14.
func TestStartStateBoundaries(t *testing.T) {
	trace := newTrace([]float64{0, 1000, 8000, 9000})
	beyond := trace.spawn(0, 1, []int{2, 3}, []float64{3200, 8500}) // session 1: beyond its second gate
	trace.BranchStarts[0] = 3000
	trace.spawn(0, 1, nil, []float64{100})          // session 2: before its spawning turn
	trace.spawn(beyond[0], 0, nil, []float64{4000}) // session 3
	type live = conductor.LiveSession
	for _, c := range []struct {
		at   float64
		live []live
		done []int
	}{
		{0, []live{{Session: 0}}, []int{0, 0, 0, 0}},
		{100, []live{{Session: 0, Turn: 1, Due: milliseconds(900)}, {Session: 2}}, []int{1, 0, 0, 0}},
		// Session 2 has sent all it has, though the turn that would spawn it is still to come.
		{1000, []live{{Session: 0, Turn: 1}}, []int{1, 0, 1, 0}},
		{1001, []live{{Session: 0, Turn: 2, Due: milliseconds(6999), Parked: true}, {Session: 1, Due: milliseconds(2199)}}, []int{2, 0, 1, 0}},
		// Session 3 is live in the recording, but it is no child of the root: it is lost with its spawning turn.
		{3201, []live{{Session: 0, Turn: 2, Due: milliseconds(4799), Parked: true}, {Session: 1, Turn: 1, Due: milliseconds(5299)}}, []int{2, 1, 1, 1}},
		{8001, []live{{Session: 0, Turn: 3, Due: milliseconds(999), Parked: true}, {Session: 1, Turn: 1, Due: milliseconds(499)}}, []int{3, 1, 1, 1}},
		{8501, []live{{Session: 0, Turn: 3, Due: milliseconds(499)}}, []int{3, 2, 1, 1}},
		{9001, nil, []int{4, 2, 1, 1}},
	} {
		require.Equal(t, &conductor.StartState{Live: c.live, TurnsDone: c.done}, trace.At(c.at), "t* %g", c.at)
	}
}

// Covers T-14.
func TestTraceWithoutTimes(t *testing.T) {
	for _, trace := range []*Trace{{Tree: &conductor.Tree{}}, newTrace(nil), newTrace([]float64{math.NaN(), math.Inf(1), math.Inf(-1)})} {
		_, _, ok := trace.Bounds()
		require.False(t, ok)
		require.Empty(t, trace.At(0).Live)
	}
	one := newTrace([]float64{math.NaN()})
	one.spawn(0, 0, nil, []float64{7, math.Inf(1)})
	first, last, ok := one.Bounds()
	require.True(t, ok)
	require.Equal(t, [2]float64{7, 7}, [2]float64{first, last})
}
