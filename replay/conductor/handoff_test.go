package conductor

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// start returns the start state of a tree that is taken up where it was handed over. due says when its sessions go on.
func (l LaneState) start(due func() time.Duration) *StartState {
	start := &StartState{TurnsDone: l.TurnsDone}
	for _, s := range l.Sessions {
		start.Live = append(start.Live, LiveSession{Session: s.Session, Turn: s.Turn, Parked: s.Parked, Due: due()})
	}
	return start
}

// handOff hands the trees of a phase over to the next. It returns what the lanes of that phase play first, and what the checker
// of that phase knows.
func (w *world) handOff(due func() time.Duration) (first map[int]Assignment, known map[int]*checked) {
	first, known = map[int]Assignment{}, map[int]*checked{}
	for lane := range w.c.lanes {
		state, ok := w.c.Handoff(lane)
		if seen := w.check.handOff(lane, state, ok); seen != nil {
			known[lane] = seen
			first[lane] = Assignment{Tree: seen.tree, Start: state.start(due)}
		}
	}
	return first, known
}

// goesOn plays a forest of one tree for each lane in two phases. The first one ends with the requests of its lanes, or with a
// pause, and the second one goes on at once.
func goesOn(t *testing.T, limits Limits, pause time.Duration, refused []int, answers map[TurnRef]answer, lanes ...Assignment) (first, second *world) {
	server := func(s Dispatch) answer {
		if a, ok := answers[TurnRef{s.Session, s.Turn}]; ok {
			return a
		}
		return answer{takes: time.Second}
	}
	first = newWorld(len(lanes), &assignments{lanes: slices.Clone(lanes)}, limits).refused(refused...)
	first.server, first.pauses = server, true
	first.playUntil(pause, never)
	handed, known := first.handOff(func() time.Duration { return 0 })
	require.Empty(t, first.check.broken)
	for lane := range lanes {
		lanes[lane] = handed[lane]
	}
	second = newWorld(len(lanes), &assignments{lanes: lanes}, Limits{}).refused(refused...)
	second.server, second.check.carried = server, known
	second.play()
	second.requireQuiet(t)
	return first, second
}

// A tree goes on in the next phase where it was handed over.
//
// Covers T-51, INV-20.
func TestHandoffLosesNoSession(t *testing.T) {
	overflow := answer{takes: time.Second, outcome: Overflow}
	for _, c := range []struct {
		name          string
		tree          *Tree
		start         *StartState
		requests      int
		answers       map[TurnRef]answer
		refused       []int
		first, second []string
	}{
		{
			name: "children that sent nothing, beside a parked parent", requests: 1,
			tree:  root(0, 0).child(0, 0, false, 0, 0, 0).child(0, 0, false, 9, 0).join(0, 1, 1, 2),
			first: []string{"0s 0#0"}, second: []string{"0s 1#0", "0s 2#0", "1s 1#1", "2s 0#1"},
		},
		{
			name: "a branch of which one child is over", requests: 2,
			tree:  root(0, 0).child(0, 0, false, 0, 0).sibling(false, 0, 0, 0).join(0, 1, 1),
			first: []string{"0s 0#0", "1s 1#0"}, second: []string{"0s 2#0", "1s 2#1", "2s 0#1"},
		},
		{
			name: "nested children", requests: 2,
			tree:  root(0, 0).child(0, 0, false, 0, 0, 0).child(1, 0, false, 0, 0).join(0, 1, 1).join(1, 1, 2),
			first: []string{"0s 0#0", "1s 1#0"}, second: []string{"0s 2#0", "1s 1#1", "2s 0#1"},
		},
		{
			name: "a branch that is over", requests: 2,
			tree:  root(0, 0).child(0, 0, false, 0, 0).join(0, 1, 1),
			first: []string{"0s 0#0", "1s 1#0"}, second: []string{"0s 0#1"},
		},
		{
			name: "a session that overflowed, and what it would have spawned", requests: 3,
			tree:    root(0, 9, 0).child(0, 0, false, 0, 0, 0).child(1, 1, false, 0, 0).join(0, 2, 1).after(0, 2, 2, 0),
			answers: map[TurnRef]answer{{1, 0}: overflow},
			first:   []string{"0s 0#0", "1s 1#0", "10s 0#1"}, second: []string{"0s 0#2"},
		},
		{
			name: "a turn that spawns, deferred", requests: 1,
			tree:  root(0, 0).child(0, 1, true, 0, 0).sibling(false, 0, 0),
			first: []string{"0s 0#0"}, second: []string{"0s 0#1", "0s 1#0", "1s 2#0"},
		},
		{
			name: "a start state of which one session sent nothing", requests: 1,
			tree:  root(0, 0, 0).child(0, 0, false, 0, 0, 0, 0).join(0, 1, 1),
			start: &StartState{TurnsDone: []int{1, 1}, Live: []LiveSession{{Session: 0, Turn: 1, Parked: true}, {Session: 1, Turn: 1}}},
			first: []string{"0s 1#1"}, second: []string{"0s 1#2", "1s 0#1", "2s 0#2"},
		},
		{
			name: "a refused child", requests: 2, refused: []int{1},
			tree:  root(0, 0, 0).child(0, 0, false, 0, 0).sibling(false, 0, 0, 0).join(0, 1, 1),
			first: []string{"0s 0#0", "1s 2#0"}, second: []string{"0s 2#1", "1s 0#1", "2s 0#2"},
		},
		{
			name: "a root that is over", requests: 2,
			tree:  root(0).child(0, 0, false, 0, 0, 0),
			first: []string{"0s 0#0", "1s 1#0"}, second: []string{"0s 1#1"},
		},
		{
			name: "a turn that waits for a deferred one", requests: 1,
			tree:  root(0).child(0, 0, true, 0, 0).child(0, 0, true, 0, 0).after(2, 0, 1, 0),
			first: []string{"0s 0#0"}, second: []string{"0s 1#0", "1s 2#0"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NoError(t, c.tree.Validate())
			first, second := goesOn(t, Limits{LaneRequests: c.requests}, never, c.refused, c.answers, Assignment{Tree: c.tree, Start: c.start})
			short := func(w *world) (lines []string) {
				for _, s := range w.sends {
					lines = append(lines, fmt.Sprintf("%v %d#%d", s.at, s.Session, s.Turn))
				}
				return lines
			}
			require.Equal(t, c.first, short(first))
			require.Equal(t, c.second, short(second))
		})
	}
	t.Run("by depth and name", func(t *testing.T) {
		tree := root(0, 0).child(0, 0, false, 0, 0).child(0, 0, false, 0, 0)
		for n := range tree.Sessions {
			tree.Sessions[n].Rank = 2 - n
		}
		first, _ := goesOn(t, Limits{LaneRequests: 1}, never, nil, nil, Assignment{Tree: tree})
		var order []int
		for _, s := range first.handed(t, 0).Sessions {
			order = append(order, s.Session)
		}
		require.Equal(t, []int{0, 2, 1}, order)
	})
	t.Run("a child without turns is not spawned again", func(t *testing.T) {
		// The branch was live at t*, before the turn that spawns it; then its last child that can be played ends.
		tree := root(0, 0).child(0, 1, false, 0, 0).sibling(false, 0)
		tree.Sessions[2].Turns, tree.Sessions[2].Unplayable = nil, true
		start := &StartState{TurnsDone: make([]int, 3), Live: []LiveSession{{Session: 0}, {Session: 1}}}
		_, second := goesOn(t, Limits{LaneRequests: 2}, never, nil, nil, Assignment{Tree: tree, Start: start})
		require.Equal(t, []string{"0s lane0 tree0 0#1"}, second.log())
		require.Zero(t, second.c.Counts().ChildrenSpawned)
	})
}

// TestRandomHandoffs plays random forests in up to four phases. Each but the last ends with a number of requests for each lane,
// or with a pause at a random instant, after which the requests in flight may be cancelled; the next one takes up what it hands
// over. The checkers follow every tree over all phases. Together the phases send what the oracle says, each turn once.
//
// Covers T-38, INV-1, INV-2, INV-3, INV-4, INV-8, INV-9, INV-11, INV-13, INV-14, INV-16, INV-17, INV-18, INV-19, INV-20.
func TestRandomHandoffs(t *testing.T) {
	checkForests(t, func(t *rapid.T, number draws, _ View, f forest) {
		w, source := f.world(drawPhase(number))
		sent, deadlocks := map[turnOf]bool{}, map[turnOf]*Deadlock{}
		for left := number("boundaries", 1, 3); ; left-- {
			stop, cancel := never, never
			if left > 0 && (w.c.limits.LaneRequests == 0 || number("also pauses", 0, 1) == 1) {
				stop = time.Duration(number("pause", 0, 80)) * time.Second / 2
				if number("has grace", 0, 1) == 1 {
					cancel = stop + time.Duration(number("grace", 0, 3))*time.Second
				}
			}
			if lag := number("lag", -2, 3); lag > 0 {
				w.lag = func() time.Duration { return time.Duration(number("late by", 0, lag)) * time.Second / 4 }
			}
			w.pauses = true
			w.playUntil(stop, cancel)
			source.note(t, w, sent, deadlocks)
			if left == 0 {
				break
			}
			require.True(t, w.c.paused || w.c.Counts().TreesOpen == 0)
			first, known := w.handOff(func() time.Duration { return time.Duration(number("due", 0, 5)) * time.Second })
			require.Empty(t, w.check.broken)
			source = &forestSource{forest: f, given: source.given, handed: first}
			limits := Limits{}
			if left > 1 {
				limits = drawPhase(number)
			}
			w = source.world(limits)
			w.check.carried = known
		}
		w.requireQuiet(t)
		for lane, scenarios := range f {
			require.Equal(t, len(scenarios), source.given[lane], "trees that were opened")
			for nth, s := range scenarios {
				o, id := s.solve(0, nil), turnOf{lane: lane, nth: nth}
				for id.TurnRef = range o.sent {
					require.True(t, sent[id], "%v is not sent", id)
					delete(sent, id)
				}
				id.TurnRef = TurnRef{}
				require.Equal(t, o.left != nil, deadlocks[id] != nil)
				if o.left != nil {
					require.Equal(t, o.left, deadlocks[id].Blocked)
				}
			}
		}
		require.Empty(t, sent, "turns that nothing explains")
	})
}

// drawPhase draws the limits of a phase.
func drawPhase(number draws) Limits {
	return Limits{
		LaneRequests: max(0, number("lane requests", -6, 8)), Prefill: max(0, number("prefill", -2, 3)),
		TreeIdle: time.Duration(max(0, number("tree idle", -6, 5))) * time.Second, SystemIdle: time.Duration(max(0, number("system idle", -6, 5))) * time.Second,
	}
}

// note adds what a phase sent, its deadlocks, and the lanes that it ended with an error, after which no phase gives them a tree.
// A request that was cancelled has failed.
func (f *forestSource) note(t *rapid.T, w *world, sent map[turnOf]bool, deadlocks map[turnOf]*Deadlock) {
	require.Empty(t, w.check.broken)
	require.True(t, w.c.Done())
	for _, s := range w.sends {
		id := f.opened[s.Tree]
		id.TurnRef = TurnRef{s.Session, s.Turn}
		require.False(t, sent[id], "%v is sent twice", id)
		sent[id] = true
	}
	for _, r := range w.returns {
		if r.outcome == Cancelled {
			f.scenario(r.Tree).answers[TurnRef{r.Session, r.Turn}] = answer{outcome: Failed}
		}
	}
	for _, e := range w.of(TreeDeadlocked) {
		require.False(t, f.scenario(e.Tree).sound)
		deadlocks[f.opened[e.Tree]] = e.Deadlock
	}
	for _, e := range w.of(LaneFinished) {
		if e.Err != nil {
			f.forest[e.Lane] = f.forest[e.Lane][:f.given[e.Lane]]
		}
	}
}

// playAdmission plays the primers of a vector in a phase without a quota, and then its other requests in a phase with one: for each
// lane a tree with one session for each request, all due at once.
func playAdmission(t *testing.T, v vector) {
	var in struct {
		Requests int `json:"requests_per_lane"`
		Lanes    []int
		Events   []struct {
			Lane   int
			Primer bool
		}
	}
	var want struct {
		Results []string
		Over    bool `json:"stage_over"`
	}
	require.NoError(t, json.Unmarshal(v.In, &in))
	require.NoError(t, json.Unmarshal(v.Want, &want))
	results := make([]string, len(in.Events))
	for _, primers := range []bool{true, false} {
		lanes, events := make([]Assignment, len(in.Lanes)), make([][]int, len(in.Lanes)) // events: by lane and session
		for n, e := range in.Events {
			if e.Primer != primers {
				continue
			}
			o := &lanes[e.Lane]
			if o.Tree == nil {
				*o = Assignment{Tree: root(0, 0), Start: &StartState{}}
			} else {
				o.Tree.child(0, 0, false, 0, 0, 0)
			}
			o.Start.Live = append(o.Start.Live, LiveSession{Session: len(events[e.Lane])})
			o.Start.TurnsDone = append(o.Start.TurnsDone, 0)
			events[e.Lane] = append(events[e.Lane], n)
		}
		limits := Limits{}
		if !primers {
			limits.LaneRequests = in.Requests
		}
		w := newWorld(len(lanes), &assignments{lanes: lanes}, limits)
		w.start()
		for _, e := range w.of(TurnSent) {
			results[events[e.Lane][e.Session]] = "admit"
		}
		for _, e := range w.of(TurnDeferred) {
			results[events[e.Lane][e.Session]] = "defer"
		}
		if !primers {
			require.Equal(t, want.Over, w.c.paused)
		}
		w.goOn(never, never)
		require.Empty(t, w.check.broken)
	}
	require.Equal(t, want.Results, results)
}

// playHandoff plays the stage of a vector: every request takes a second. It pauses while the last request of the stage is in
// flight, and at the instant at which a turn that is refused at the cut-off is due.
func playHandoff(t *testing.T, v vector) {
	var in struct {
		Sessions []struct {
			Conversation string
			Turns, Next  int
			Stage        string `json:"in_stage"`
			Last         int    `json:"last_returned"`
		}
	}
	type handed struct {
		Conversation string
		Next         int
		Waiting      bool
	}
	var want struct {
		States   []handed
		Finished []string
	}
	require.NoError(t, json.Unmarshal(v.In, &in))
	require.NoError(t, json.Unmarshal(v.Want, &want))
	pause := time.Second / 2
	for _, s := range in.Sessions {
		if s.Stage == "returned" {
			pause = time.Duration(s.Last-s.Next)*time.Second + time.Second/2
		}
	}
	tree, start, names := root(make([]float64, in.Sessions[0].Turns)...), &StartState{}, []string{}
	for n, s := range in.Sessions {
		if n > 0 {
			tree.child(0, 0, false, 0, make([]float64, s.Turns)...)
		}
		l := LiveSession{Session: n, Turn: s.Next, Parked: s.Stage == "parked"}
		if s.Stage == "refused" {
			l.Due = pause
		}
		start.Live, start.TurnsDone, names = append(start.Live, l), append(start.TurnsDone, s.Next), append(names, s.Conversation)
	}
	switch in.Sessions[0].Stage { // what the root waits for
	case "parked":
		tree.join(0, in.Sessions[0].Next, 1)
	case "retained":
		tree.after(0, in.Sessions[0].Next, 1, in.Sessions[1].Turns-1)
	}
	require.NoError(t, tree.Validate())
	first, second := goesOn(t, Limits{}, pause, nil, nil, Assignment{Tree: tree, Start: start})
	states, finished := []handed{}, []string{}
	for _, s := range first.handed(t, 0).Sessions {
		states = append(states, handed{names[s.Session], s.Turn, s.Parked})
		require.Equal(t, in.Sessions[s.Session].Stage == "retained", s.Retained)
		require.Equal(t, in.Sessions[s.Session].Stage == "returned", s.ReturnedAt >= 0)
	}
	for _, e := range first.of(SessionClosed) {
		finished = append(finished, names[e.Session])
	}
	require.Equal(t, want.States, states)
	require.Equal(t, want.Finished, finished)
	left := 0
	for _, s := range want.States {
		left += in.Sessions[slices.Index(names, s.Conversation)].Turns - s.Next
	}
	require.Len(t, second.sends, left)
}
