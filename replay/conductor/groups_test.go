package conductor

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
)

// TestVectorGroups runs the vectors of the conductor's parts; those of whole replays are in TestEventLogs.
func TestVectorGroups(t *testing.T) {
	for _, g := range []struct {
		name   string
		counts fixtures.Counts
		run    func(t *testing.T, v vector)
	}{
		{"idle_system", fixtures.Counts{13, 13, 13}, playSystemIdle}, {"idle_tree", fixtures.Counts{5, 0, 5}, playTreeIdle}, {"barrier_log", fixtures.Counts{10, 10, 10}, playBarrier},
		{"slot_order", fixtures.Counts{2, 2, 2}, playSlotOrder}, {"startup", fixtures.Counts{2, 2, 2}, playStartup},
		{"warmup_admission", fixtures.Counts{3, 0, 3}, playAdmission}, {"handoff_states", fixtures.Counts{3, 3, 3}, playHandoff},
	} {
		t.Run(g.name, func(t *testing.T) { eachVector(t, g.name, g.counts, g.run) })
	}
}

// limitsOf returns the limits of a vector's preset.
func limitsOf(v vector) Limits { return Limits{TreeIdle: ViewOf(v.Preset).TreeIdle} }

// sleepers returns a tree in a start state: its root is done, and one child is due at each instant, in milliseconds. So a tree
// has as many timers as a test wants.
func sleepers(instants ...float64) Assignment {
	o := Assignment{Tree: root(0), Start: &StartState{}}
	for n, at := range instants {
		if n == 0 {
			o.Tree.child(0, 0, false, 0, 0)
		} else {
			o.Tree.sibling(false, 0, 0)
		}
		o.Start.Live = append(o.Start.Live, LiveSession{Session: n + 1, Due: milliseconds(at)})
	}
	o.Start.TurnsDone = make([]int, len(o.Tree.Sessions))
	o.Start.TurnsDone[0] = 1
	return o
}

// fires returns when the timer of a session fires, or when its turn was sent, in milliseconds after an instant.
func (w *world) fires(lane, session int, after time.Duration) float64 {
	for _, s := range slices.Backward(w.sends) {
		if s.Lane == lane && s.Session == session && w.c.lanes[lane].sessions[session].timerIndex < 0 {
			return float64(s.at-after) / 1e6
		}
	}
	return float64(w.c.timers.realTime(w.c.lanes[lane].sessions[session])-after) / 1e6
}

// playSystemIdle sets the cap at the instant of the vector, so that the cap can be applied late.
func playSystemIdle(t *testing.T, v vector) {
	var in struct {
		Cap         float64 `json:"cap_ms"`
		IdleFor     float64 `json:"idle_for_ms"`
		Timers      []float64
		TimersMS    []float64 `json:"timers_ms"`
		Kinds       []string
		InFlight    int `json:"in_flight"`
		Accelerated bool
	}
	var want struct {
		Shift  float64   `json:"shift_ms"`
		Timers []float64 `json:"timers_ms"`
		Jumped bool
	}
	require.NoError(t, json.Unmarshal(v.In, &in))
	require.NoError(t, json.Unmarshal(v.Want, &want))
	now := milliseconds(in.IdleFor)
	var dues []float64
	for _, ms := range in.TimersMS {
		dues = append(dues, in.IdleFor+ms)
	}
	o, order := sleepers(dues...), []int{}
	for n := range dues {
		order = append(order, n+1)
	}
	switch fmt.Sprint(in.Kinds) { // a turn of 0 s comes before each of these
	case "[child_start]":
		o, order = Assignment{Tree: root(0).child(0, 0, false, dues[0]/1000, 0)}, []int{1}
	case "[child_start turn]":
		o, order = Assignment{Tree: root(0, dues[1]/1000).child(0, 0, false, dues[0]/1000, 0)}, []int{1, 0}
	case "[join_deadline turn]":
		o, order = Assignment{Tree: root(0, dues[0]/1000).child(0, 0, false, dues[1]/1000, 0).join(0, 1, 1)}, []int{0, 1}
	}
	source := &assignments{lanes: []Assignment{o}}
	for range in.InFlight {
		source.lanes = append(source.lanes, Assignment{Tree: root(0)})
	}
	if len(dues) == 0 { // nothing at all is pending
		source = &assignments{}
	}
	w := newWorld(1+in.InFlight, source, limitsOf(v))
	w.start()
	if len(in.Kinds) > 0 {
		w.call(func() { w.check.must(w.c.Returned(0, 0, 0, OK)) })
	}
	if !in.Accelerated {
		w.c.limits.SystemIdle = milliseconds(in.Cap)
	}
	w.now = now
	w.call(func() { w.c.Wake(now) })
	timers := []float64{}
	for _, session := range order {
		timers = append(timers, w.fires(0, session, now))
	}
	require.Equal(t, want.Timers, timers)
	require.Equal(t, milliseconds(want.Shift), w.c.Counts().IdleSkipped)
	require.Equal(t, want.Jumped, w.c.Counts().IdleJumps == 1)
	require.Empty(t, w.check.broken)
}

// playTreeIdle plays trees, each of which is idle since an instant of its own.
func playTreeIdle(t *testing.T, v vector) {
	var in struct {
		Cap     float64              `json:"cap_ms"`
		Timers  map[string][]float64 `json:"timers_ms"`
		IdleFor map[string]*float64  `json:"idle_for_ms"`
	}
	var want struct {
		Shift  map[string]float64   `json:"shift_ms"`
		Timers map[string][]float64 `json:"timers_ms"`
	}
	require.NoError(t, json.Unmarshal(v.In, &in))
	require.NoError(t, json.Unmarshal(v.Want, &want))
	now := 0.0
	for _, idle := range in.IdleFor {
		if idle != nil {
			now = max(now, *idle)
		}
	}
	// A tree whose idle time began after the start, or has not begun, has a request in flight until then.
	source, names, busy := &assignments{}, []string{"A", "B"}[:len(in.Timers)], map[int]float64{}
	for lane, name := range names {
		var dues []float64
		for _, ms := range in.Timers[name] {
			dues = append(dues, now+ms)
		}
		if idle := in.IdleFor[name]; idle == nil {
			busy[lane] = -1
			dues = append(dues, 0)
		} else if *idle < now {
			busy[lane] = now - *idle
			dues = append(dues, 0)
		}
		source.lanes = append(source.lanes, sleepers(dues...))
	}
	w := newWorld(len(names), source, Limits{TreeIdle: milliseconds(in.Cap)})
	w.start()
	for _, s := range w.sends {
		if at := milliseconds(busy[s.Lane]); at >= 0 {
			w.now = at
			w.call(func() { w.check.must(w.c.Returned(s.ID, at, at, OK)) })
		}
	}
	w.now = milliseconds(now)
	w.call(func() { w.c.Wake(w.now) })
	shift, timers := map[string]float64{}, map[string][]float64{}
	for lane, name := range names {
		shift[name] = 0
		for n := range in.Timers[name] {
			timers[name] = append(timers[name], w.fires(lane, n+1, w.now))
		}
	}
	for _, e := range w.of(TreeIdleSkipped) {
		shift[names[e.Lane]] += float64(e.Skipped) / 1e6
	}
	require.Equal(t, want.Timers, timers)
	require.Equal(t, want.Shift, shift)
	require.Empty(t, w.check.broken)
}

// barrierKey is a turn as the vectors write it: the name of a conversation and a number.
type barrierKey struct {
	name string
	turn int
}

func (k *barrierKey) UnmarshalJSON(raw []byte) error {
	return json.Unmarshal(raw, &[]any{&k.name, &k.turn})
}

// panics reports whether a function panics.
func panics(f func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	f()
	return false
}

// waitersOf lists the sessions that a barrier retains, by name and turn.
func waitersOf(b *barrier) (list []*session) {
	for _, h := range b.waiters {
		list = append(list, h.items...)
	}
	slices.SortFunc(list, byNameAndTurn)
	return list
}

// playBarrier drives the barrier of a tree, with one session for every key: a session has one turn at a time, but a vector may
// retain several turns of one conversation together.
func playBarrier(t *testing.T, v vector) {
	var in struct {
		Predecessors [][]json.RawMessage
		Ops          []struct {
			Op       string
			Key      barrierKey
			Prefixes []barrierKey
			Conv     string
			Turns    int
		}
	}
	var want struct {
		Results []any
		Entries *int
	}
	require.NoError(t, json.Unmarshal(v.In, &in))
	require.NoError(t, json.Unmarshal(v.Want, &want))
	after := map[barrierKey][]barrierKey{}
	for _, p := range in.Predecessors {
		var key barrierKey
		var list []barrierKey
		require.NoError(t, json.Unmarshal(p[0], &key))
		require.NoError(t, json.Unmarshal(p[1], &list))
		after[key] = list
	}
	names := []string{"R", "a", "b"}
	tree := root(0).child(0, 0, false, 0, 0).sibling(false, 0, 0)
	for n := range names {
		tree.Sessions[n].Turns = make([]Turn, 10)
		tree.Sessions[n].Rank = n
	}
	tree.Sessions[0].Turns[0].Spawns = []int{0}
	for key, list := range after {
		for _, k := range list {
			tree.after(slices.Index(names, key.name), key.turn, slices.Index(names, k.name), k.turn)
		}
	}
	w := newWorld(1, anyLane(tree), limitsOf(v))
	w.start()
	live := w.c.lanes[0]
	keys := map[barrierKey]*session{}
	listed := func(list []*session) any {
		out := []any{}
		for _, s := range list {
			out = append(out, []any{names[s.index], float64(s.turn)})
		}
		return out
	}
	results := []any{}
	for _, op := range in.Ops {
		var result any = "ok"
		switch op.Op {
		case "due":
			s := keys[op.Key]
			if s == nil {
				s = &session{tree: live, index: slices.Index(names, op.Key.name), turn: op.Key.turn, state: due, queueIndex: -1, watchIndex: -1}
				keys[op.Key] = s
			}
			if panics(func() { w.c.queueOrRetain(s, due) }) {
				result = "error"
			} else {
				result = map[state]string{queued: "sent", retained: "retained"}[s.state]
			}
		case "complete":
			if live == nil {
				require.Error(t, w.c.Returned(0, 0, 0, OK))
				result = []any{}
				break
			}
			result = listed(live.barrier.complete(slices.Index(names, op.Key.name), op.Key.turn+1, 0))
		case "close":
			result = listed(live.barrier.complete(slices.Index(names, op.Conv), op.Turns, 0))
		case "seed":
			for _, p := range op.Prefixes {
				if panics(func() { live.barrier.seed(slices.Index(names, p.name), p.turn) }) {
					result = "error"
				}
			}
		case "pause":
			w.call(func() { w.c.Pause(0) })
		case "teardown":
			result = listed(waitersOf(&live.barrier))
		case "drop": // the tree is over: its last request returns
			live = nil
			w.call(func() { w.c.Stop(0) })
			w.call(func() { w.check.must(w.c.Returned(0, 0, 0, OK)) })
		}
		results = append(results, result)
	}
	require.Equal(t, want.Results, results)
	if want.Entries != nil {
		require.Equal(t, *want.Entries, len(w.c.inFlight)+w.c.timers.trees.len()+w.c.prefill.trees.len()+len(w.check.trees))
		require.Nil(t, w.c.lanes[0])
	}
}

// playSlotOrder plays trees in start states whose requests are all due later.
func playSlotOrder(t *testing.T, v vector) {
	var in struct {
		Limit    int
		Hold     float64 `json:"hold_ms"`
		Requests []struct {
			ID, Tree string
			Depth    int
			Due      float64 `json:"due_ms"`
		}
	}
	var want struct{ Grants [][]any }
	require.NoError(t, json.Unmarshal(v.In, &in))
	require.NoError(t, json.Unmarshal(v.Want, &want))
	var trees []string
	var lanes []Assignment
	names := [][]string{}
	for _, r := range in.Requests {
		if !slices.Contains(trees, r.Tree) {
			trees = append(trees, r.Tree)
			lanes = append(lanes, Assignment{Tree: root(0), Start: &StartState{}})
			names = append(names, []string{""})
		}
		lane, session := slices.Index(trees, r.Tree), 0
		o := &lanes[lane]
		if r.Depth > 0 {
			session = len(names[lane])
			names[lane] = append(names[lane], r.ID)
			o.Tree.child(0, 0, false, 0, 0)
		} else {
			names[lane][0] = r.ID
		}
		o.Start.Live = append(o.Start.Live, LiveSession{Session: session, Due: milliseconds(r.Due)})
	}
	for lane := range lanes {
		ranks := slices.Clone(names[lane])
		sort.Strings(ranks)
		for n := range lanes[lane].Tree.Sessions {
			lanes[lane].Tree.Sessions[n].Rank = slices.Index(ranks, names[lane][n])
		}
		lanes[lane].Start.TurnsDone = make([]int, len(names[lane]))
	}
	limits := limitsOf(v)
	limits.Prefill = in.Limit
	w := newWorld(len(lanes), &assignments{lanes: lanes}, limits)
	w.server = func(Dispatch) answer { return answer{takes: time.Hour, token: milliseconds(in.Hold)} }
	w.play()
	w.requireQuiet(t)
	grants := [][]any{}
	for _, s := range w.sends {
		require.Equal(t, s.at, s.Issued)
		grants = append(grants, []any{float64(s.at) / 1e6, names[s.Lane][s.Session]})
	}
	require.Equal(t, want.Grants, grants)
}

// distinct counts the sessions of dispatches.
func distinct(sends []Dispatch) int {
	seen := map[[2]int]bool{}
	for _, s := range sends {
		seen[[2]int{s.Tree, s.Session}] = true
	}
	return len(seen)
}

// playStartup starts lanes while the admission hook is closed.
func playStartup(t *testing.T, v vector) {
	var in struct {
		Lanes int
		Fail  []int
	}
	var want struct {
		Waiting  int
		Distinct int `json:"distinct_sessions"`
		Closed   int `json:"sent_while_closed"`
		Sent     int
		Error    *int  `json:"error_lane"`
		Logged   []int `json:"logged_lanes"`
		Settled  *int  `json:"settled_before_return"`
	}
	require.NoError(t, json.Unmarshal(v.In, &in))
	require.NoError(t, json.Unmarshal(v.Want, &want))
	source := &assignments{}
	for range in.Lanes {
		source.lanes = append(source.lanes, Assignment{Tree: root(0)})
	}
	w := newWorld(in.Lanes, source, limitsOf(v))
	w.closed = true
	var asked []Dispatch
	w.refuse = func(s Dispatch) error {
		asked = append(asked, s)
		if slices.Contains(in.Fail, s.Lane) {
			return errRefused
		}
		return nil
	}
	w.start()
	require.Len(t, asked, want.Waiting)
	require.Equal(t, want.Distinct, distinct(asked))
	require.Len(t, w.sends, want.Closed)
	if want.Error != nil {
		require.ErrorIs(t, w.failed, errRefused)
		require.ErrorContains(t, w.failed, fmt.Sprintf("lane %d:", *want.Error))
		var logged []int
		for _, e := range w.of(TurnRefused) {
			require.ErrorIs(t, e.Err, errRefused)
			logged = append(logged, e.Lane)
		}
		require.Equal(t, want.Logged, logged)
		require.Equal(t, *want.Settled, len(w.held)+len(logged))
	} else {
		require.NoError(t, w.failed)
	}
	w.open()
	require.Len(t, w.sends, want.Sent)
	w.goOn(never, never)
	w.requireQuiet(t)
	require.Equal(t, time.Second, w.ended)
}
