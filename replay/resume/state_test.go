package resume

import (
	"math"
	"slices"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
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

// trace returns what is decided on, and what its sessions are called.
func (o traceOf) trace() (*Trace, []string) {
	t, names := &Trace{}, []string{o.Root}
	parents := []int{-1}
	known := func(v *float64) float64 {
		if v == nil {
			return math.NaN()
		}
		return *v
	}
	for n := 0; n < len(names); n++ {
		c := o.Conversations[names[n]]
		s := Session{Parent: parents[n], Depth: c.Depth}
		for _, u := range c.Turns {
			s.Starts = append(s.Starts, known(u.TS))
		}
		t.Sessions = append(t.Sessions, s)
		for _, b := range c.Branches {
			branch := Branch{Parent: n, Spawn: -1, Start: known(b.Start)}
			for k, u := range c.Turns {
				if branch.Spawn < 0 && slices.Contains(u.Spawns, b.ID) {
					branch.Spawn = k
				}
				if slices.Contains(u.Joins, b.ID) {
					branch.Joins = append(branch.Joins, k)
				}
			}
			for _, child := range b.Children {
				branch.Sessions = append(branch.Sessions, len(names))
				names, parents = append(names, child), append(parents, n)
			}
			t.Branches = append(t.Branches, branch)
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
	eachVector(t, "start_state", 32, func(t *testing.T, in in, want want) {
		trace, names := in.Trace.trace()
		first, last, ok := trace.Bounds()
		require.True(t, ok)
		require.Equal(t, want.Bounds, [2]float64{first, last})

		s := trace.At(in.TStar)
		require.Equal(t, in.TStar, s.TStar)
		require.Equal(t, want.Spawnable, s.Spawnable)
		require.Equal(t, want.Rootless, s.Rootless)
		var branches []string
		for _, name := range names {
			for _, b := range in.Trace.Conversations[name].Branches {
				branches = append(branches, b.ID)
			}
		}
		states, primers := []state{}, [][2]any{}
		for _, c := range s.States {
			members := [][2]any{}
			for _, m := range c.Members {
				members = append(members, [2]any{branches[m.Branch], float64(m.Turn)})
			}
			states = append(states, state{names[c.Session], c.Next, c.Offset, c.Depth, c.Waiting, members})
			if k, ok := c.Primer(); ok {
				primers = append(primers, [2]any{names[c.Session], float64(k)})
			}
		}
		require.Equal(t, want.States, states)
		require.Equal(t, want.Primers, primers)
		boundaries := [][2]any{}
		for n, k := range s.Finished {
			if k > 0 {
				boundaries = append(boundaries, [2]any{names[n], float64(k)})
			}
		}
		sort.Slice(boundaries, func(i, j int) bool { return boundaries[i][0].(string) < boundaries[j][0].(string) })
		require.Equal(t, want.Boundaries, boundaries)
	})
}

// oracle is section 2.4 once more, session by session and without haste.
type oracle struct {
	*Trace
	at float64
}

func (o oracle) absent(v float64) bool { return v != v || v > math.MaxFloat64 || v < -math.MaxFloat64 }

// next is -1 for a session that has finished.
func (o oracle) next(n int) int {
	found := -1
	for k := len(o.Sessions[n].Starts) - 1; k >= 0; k-- {
		if at := o.Sessions[n].Starts[k]; !o.absent(at) && at >= o.at {
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
	starts := []float64{branch.Start}
	if o.absent(branch.Start) {
		starts = nil
		for _, child := range branch.Sessions {
			if len(o.Sessions[child].Starts) > 0 {
				starts = append(starts, o.Sessions[child].Starts[0])
			}
		}
		starts = slices.DeleteFunc(starts, o.absent)
		sort.Float64s(starts)
	}
	if len(starts) == 0 || o.at >= starts[0] {
		return true
	}
	spawn := o.Sessions[0].Starts[branch.Spawn]
	return !o.absent(spawn) && spawn <= o.at && (o.next(0) < 0 || o.next(0) > branch.Spawn)
}

func (o oracle) state(n int) State {
	c := State{Session: n, Next: o.next(n), Offset: o.Sessions[n].Starts[o.next(n)] - o.at}
	if n > 0 {
		c.Depth = o.Sessions[n].Depth
		if c.Depth == 0 {
			c.Depth = 1
		}
		b := o.branchOf(n)
		for _, turn := range o.Branches[b].Joins {
			c.Members = append(c.Members, Member{b, turn})
		}
		return c
	}
	for child := range o.Sessions {
		if child > 0 && o.live(child) && slices.Contains(o.Branches[o.branchOf(child)].Joins, c.Next) {
			c.Waiting = true
		}
	}
	return c
}

func (o oracle) place(n int) Place {
	if o.live(n) {
		return Live
	}
	b := o.branchOf(n)
	if o.next(n) < 0 || b < 0 || o.place(o.Sessions[n].Parent) == Over {
		return Over
	}
	parent := o.Sessions[n].Parent
	if o.place(parent) == Live && o.next(parent) > o.Branches[b].Spawn {
		return Over
	}
	return Ahead
}

func (o oracle) start() *Start {
	s := &Start{TStar: o.at}
	if o.live(0) {
		s.States = append(s.States, o.state(0))
	}
	for _, b := range o.Branches {
		for _, n := range b.Sessions {
			if o.live(n) {
				s.States = append(s.States, o.state(n))
			}
		}
	}
	for n := range o.Sessions {
		s.Places = append(s.Places, o.place(n))
		s.Finished = append(s.Finished, o.next(n))
		if o.next(n) < 0 {
			s.Finished[n] = len(o.Sessions[n].Starts)
		}
	}
	s.Rootless = !o.live(0) && len(s.States) > 0
	for _, c := range s.States {
		s.Spawnable = s.Spawnable || !c.Waiting
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
	session := func(parent int) Session {
		s := Session{Parent: parent, Depth: rapid.IntRange(0, 2).Draw(t, "depth")}
		for range rapid.IntRange(0, 4).Draw(t, "turns") {
			s.Starts = append(s.Starts, instant("turn"))
		}
		if rapid.IntRange(0, 3).Draw(t, "sorted") > 0 {
			slices.Sort(s.Starts)
		}
		return s
	}
	trace := &Trace{Sessions: []Session{session(-1)}}
	for range rapid.IntRange(0, 5).Draw(t, "branches") {
		parent := 0
		if rapid.IntRange(0, 3).Draw(t, "nested") == 0 {
			parent = rapid.IntRange(0, len(trace.Sessions)-1).Draw(t, "parent")
		}
		turns := len(trace.Sessions[parent].Starts)
		if turns == 0 {
			continue
		}
		b := Branch{Parent: parent, Spawn: rapid.IntRange(0, turns-1).Draw(t, "spawn"), Start: math.NaN()}
		if rapid.Bool().Draw(t, "recorded start") {
			b.Start = instant("start")
		}
		for k := b.Spawn + 1; k < turns; k++ {
			if rapid.IntRange(0, 2).Draw(t, "join") == 0 {
				b.Joins = append(b.Joins, k)
			}
		}
		for range rapid.IntRange(1, 3).Draw(t, "children") {
			b.Sessions = append(b.Sessions, len(trace.Sessions))
			trace.Sessions = append(trace.Sessions, session(parent))
		}
		trace.Branches = append(trace.Branches, b)
	}
	return trace
}

// boundaries are the instants at which something may change, and those around them.
func (t *Trace) boundaries() []float64 {
	list := []float64{-1}
	add := func(at float64) { list = append(list, math.Nextafter(at, -1e9), at, math.Nextafter(at, 1e9), at+0.5) }
	for _, s := range t.Sessions {
		for _, at := range s.Starts {
			add(at)
		}
	}
	for _, b := range t.Branches {
		add(b.Start)
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

// sweep compares the starts of a trace at all its boundaries with the oracle's, and counts the cases that it has seen.
func sweep(t require.TestingT, trace *Trace, seen map[string]int) {
	for _, at := range trace.boundaries() {
		s := trace.At(at)
		require.Equal(t, oracle{trace, at}.start(), s, "t* %g of %+v", at, trace)
		checkStart(t, trace, s)
		for _, p := range s.Places {
			seen[p.String()]++
		}
		for name, is := range map[string]bool{
			"rootless":    s.Rootless,
			"unspawnable": !s.Spawnable,
			"parked":      len(s.States) > 0 && s.States[0].Waiting,
		} {
			if is {
				seen[name]++
			}
		}
	}
}

// checkStart checks what holds of every start, whatever the rules say.
func checkStart(t require.TestingT, trace *Trace, s *Start) {
	states := map[int]State{}
	for _, c := range s.States {
		require.NotContains(t, states, c.Session, "two states of a session")
		states[c.Session] = c
		require.Equal(t, Live, s.Places[c.Session])
		require.Equal(t, c.Next, s.Finished[c.Session])
		require.GreaterOrEqual(t, c.Offset, 0.0)
		require.False(t, c.Waiting && c.Session != 0)
	}
	for n, p := range s.Places {
		_, live := states[n]
		require.Equal(t, live, p == Live)
		if n > 0 && s.Places[trace.Sessions[n].Parent] == Over && p != Live {
			require.Equal(t, Over, p, "a child whose parent is over is never spawned")
		}
	}
	for _, b := range trace.Branches {
		dispatched := slices.ContainsFunc(b.Sessions, func(n int) bool { return s.Places[n] == Live })
		for _, n := range b.Sessions {
			require.False(t, dispatched && s.Places[n] == Ahead, "a branch with a live child is spawned again")
			if s.Places[n] == Ahead && s.Places[b.Parent] == Live {
				require.GreaterOrEqual(t, b.Spawn, s.Finished[b.Parent])
			}
		}
	}
	require.Equal(t, len(s.States) > 0, s.Spawnable, "a parent waits for a child that can be sent")
}

// The boundaries that the catalogue names, by hand.
//
// Covers T-14.
func TestStartStateBoundaries(t *testing.T) {
	none := math.NaN()
	trace := &Trace{
		Sessions: []Session{
			{Starts: []float64{0, 1000, 8000, 9000}, Parent: -1},
			{Starts: []float64{3200, 8500}, Parent: 0, Depth: 1}, // beyond its second gate
			{Starts: []float64{100}, Parent: 0, Depth: 1},        // before its spawning turn
			{Starts: []float64{4000}, Parent: 1, Depth: 2},
		},
		Branches: []Branch{
			{Parent: 0, Spawn: 1, Joins: []int{2, 3}, Sessions: []int{1}, Start: 3000},
			{Parent: 0, Spawn: 1, Sessions: []int{2}, Start: none},
			{Parent: 1, Spawn: 0, Sessions: []int{3}, Start: none},
		},
	}
	gates := []Member{{0, 2}, {0, 3}}
	for _, c := range []struct {
		at     float64
		states []State
		places []Place
	}{
		{0, []State{{Session: 0}}, []Place{Live, Ahead, Ahead, Ahead}},
		{100, []State{{Session: 0, Next: 1, Offset: 900}, {Session: 2, Depth: 1}}, []Place{Live, Ahead, Live, Ahead}},
		// Session 2 has sent all it has, though the turn that would spawn it is still to come.
		{1000, []State{{Session: 0, Next: 1}}, []Place{Live, Ahead, Over, Ahead}},
		{1001, []State{{Session: 0, Next: 2, Offset: 6999, Waiting: true}, {Session: 1, Offset: 2199, Depth: 1, Members: gates}}, []Place{Live, Live, Over, Ahead}},
		// Session 3 is live in the recording, but it is no child of the root: it is lost with its spawning turn.
		{3201, []State{{Session: 0, Next: 2, Offset: 4799, Waiting: true}, {Session: 1, Next: 1, Offset: 5299, Depth: 1, Members: gates}}, []Place{Live, Live, Over, Over}},
		{8001, []State{{Session: 0, Next: 3, Offset: 999, Waiting: true}, {Session: 1, Next: 1, Offset: 499, Depth: 1, Members: gates}}, []Place{Live, Live, Over, Over}},
		{8501, []State{{Session: 0, Next: 3, Offset: 499}}, []Place{Live, Over, Over, Over}},
		{9001, nil, []Place{Over, Over, Over, Over}},
	} {
		s := trace.At(c.at)
		require.Equal(t, c.states, s.States, "t* %g", c.at)
		require.Equal(t, c.places, s.Places, "t* %g", c.at)
		require.Equal(t, c.states != nil, s.Spawnable)
		require.False(t, s.Rootless)
	}
}

// Covers T-14.
func TestTraceWithoutTimes(t *testing.T) {
	for _, trace := range []*Trace{{}, {Sessions: []Session{{Parent: -1}}}, {Sessions: []Session{{Starts: []float64{math.NaN(), math.Inf(1), math.Inf(-1)}, Parent: -1}}}} {
		_, _, ok := trace.Bounds()
		require.False(t, ok)
		require.False(t, trace.At(0).Spawnable)
	}
	one := &Trace{Sessions: []Session{{Starts: []float64{math.NaN()}, Parent: -1}, {Starts: []float64{7, math.Inf(1)}, Parent: 0}}}
	first, last, ok := one.Bounds()
	require.True(t, ok)
	require.Equal(t, [2]float64{7, 7}, [2]float64{first, last})
}
