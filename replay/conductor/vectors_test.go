package conductor

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/timeline"
)

// vector is a vector of doc/spec/replay.md under a preset.
type vector = fixtures.Case

// eachVector runs the vectors of a group under each preset that they name. counts are their numbers under fixtures.Presets.
func eachVector(t *testing.T, group string, counts fixtures.Counts, run func(t *testing.T, v vector)) {
	t.Helper()
	vectorsOf(t, group, "", counts, run)
}

// vectorsOf does so with the vectors that belong to a test of the catalogue; "": all.
func vectorsOf(t *testing.T, group, test string, counts fixtures.Counts, run func(t *testing.T, v vector)) {
	t.Helper()
	fixtures.EachCaseOf(t, group, test, counts, func(t *testing.T, v vector, _, _ json.RawMessage) { run(t, v) })
}

// eventLogsOf plays the vectors of the group event_log that belong to a test of the catalogue.
func eventLogsOf(t *testing.T, test string, counts fixtures.Counts) {
	t.Helper()
	vectorsOf(t, "event_log", test, counts, playVector)
}

// eventLog is a vector of the group event_log, played with the view of a preset.
type eventLog struct {
	fixtures.EventLog
	view View
}

// script is a trace of a vector as a tree, with the names of its sessions and branches.
type script struct {
	view     View
	trace    string
	tree     *Tree
	starts   [][]float64 // by session and turn, milliseconds
	begins   []float64   // by branch, milliseconds; NaN: not known
	names    []string
	branches []string
}

func milliseconds(ms float64) time.Duration { return time.Duration(math.Round(ms * 1e6)) }

func (e *eventLog) script(trace string) script {
	r := e.Traces[trace]
	s := script{trace: trace, tree: &Tree{}, view: e.view}
	s.add(r.Conversations, r.Root, Session{})
	ranks := slices.Clone(s.names)
	sort.Strings(ranks)
	for n := range s.tree.Sessions {
		c := &s.tree.Sessions[n]
		c.Rank = slices.Index(ranks, s.names[n])
		c.Unplayable = slices.Contains(e.Unbuildable, s.names[n])
		for k, u := range r.Conversations[s.names[n]].Turns {
			for _, p := range u.Preds {
				c.Turns[k].After = append(c.Turns[k].After, TurnRef{slices.Index(s.names, p[0].(string)), int(p[1].(float64))})
			}
		}
	}
	return s
}

// recordedTurns returns the turns of a conversation as the functions of package timeline take them.
func recordedTurns(c fixtures.Conversation) (list []timeline.Recorded) {
	for _, u := range c.Turns {
		list = append(list, timeline.Recorded{Start: u.TS / 1000, API: u.API / 1000, Think: timeline.Missing})
	}
	return list
}

// branchStart returns when a branch of a conversation started, milliseconds: with its earliest child if the recording does not say.
func branchStart(c fixtures.Conversation, of map[string]fixtures.Conversation, branch int) float64 {
	b := c.Branches[branch]
	if b.Start != nil {
		return *b.Start
	}
	first := math.Inf(1)
	for _, child := range b.Children {
		first = min(first, of[child].Turns[0].TS)
	}
	return first
}

// spawn sets when a child is due, whose first request and branch started at an instant in milliseconds.
func (s *script) spawn(child *Session, first, branch float64, turn timeline.Recorded) {
	from, offset := timeline.SpawnOffset(turn.Start, turn.API, first/1000)
	if s.view.BranchSpawns {
		if child.Depth > 1 {
			turn.API = 0 // a parent that is a child starts none while its turn runs: doc/spec/replay.md 6.3
		}
		from, offset = timeline.BranchSpawnOffset(turn.Start, turn.API, branch/1000, first/1000)
	}
	child.OnIssue, child.Offset = from == timeline.FromIssue, milliseconds(offset)
}

// add appends a conversation, and then those that it spawns.
func (s *script) add(of map[string]fixtures.Conversation, name string, session Session) (at int) {
	c, at, starts := of[name], len(s.names), []float64{}
	turns := recordedTurns(c)
	played, err := timeline.View{}.TurnTimes(timeline.Rules{}, turns, session.Depth > 0, nil)
	if err != nil {
		panic(err)
	}
	for k, u := range c.Turns {
		turn := Turn{}
		if k > 0 {
			turn.Delay = milliseconds(played[k].Delay)
		}
		if !s.view.ImmediateJoins {
			turn.JoinDelay = turn.Delay
		}
		session.Turns, starts = append(session.Turns, turn), append(starts, u.TS)
	}
	s.names, s.starts = append(s.names, name), append(s.starts, starts)
	s.tree.Sessions = append(s.tree.Sessions, session)
	for k, u := range c.Turns {
		for n, b := range c.Branches {
			if slices.Contains(u.Spawns, b.ID) {
				s.addBranch(of, at, k, n, turns[k])
			}
		}
	}
	return at
}

// addBranch appends a branch that a turn of a session spawns, and its children.
func (s *script) addBranch(of map[string]fixtures.Conversation, parent, turn, branch int, spawning timeline.Recorded) {
	c, n := of[s.names[parent]], len(s.branches)
	b := c.Branches[branch]
	s.branches, s.begins = append(s.branches, b.ID), append(s.begins, math.NaN())
	if b.Start != nil {
		s.begins[n] = *b.Start
	}
	s.tree.Branches = append(s.tree.Branches, Branch{Parent: parent, Spawn: turn})
	turns := s.tree.Sessions[parent].Turns
	turns[turn].Spawns = append(turns[turn].Spawns, n)
	for g, v := range c.Turns {
		if slices.Contains(v.Joins, b.ID) {
			turns[g].Joins = append(turns[g].Joins, n)
		}
	}
	for _, child := range b.Children {
		session := Session{Branch: n, Depth: s.tree.Sessions[parent].Depth + 1}
		s.spawn(&session, of[child].Turns[0].TS, branchStart(c, of, branch), spawning)
		at := s.add(of, child, session)
		s.tree.Branches[n].OnIssue = s.tree.Branches[n].OnIssue || session.OnIssue
		s.tree.Branches[n].Sessions = append(s.tree.Branches[n].Sessions, at)
	}
}

// openings returns where the lanes begin, and how much of their waiting was skipped, by lane.
func (e *eventLog) openings(t *testing.T, scripts []script) (list []Assignment, skipped []float64) {
	states := make([]*StartState, len(scripts))
	for k, l := range e.Lanes {
		states[k] = &StartState{Live: []LiveSession{{}}}
		if l.TStar != nil {
			states[k] = ResumeAt(Recording{scripts[k].tree, scripts[k].starts, scripts[k].begins}, e.view, *l.TStar)
			require.NotEmpty(t, states[k].Live)
		}
	}
	alignment, limit := "burst", time.Duration(0)
	if e.Anchor == "spread" {
		alignment = e.view.Anchor
	}
	if e.LaneStart != nil {
		limit = milliseconds(*e.LaneStart)
	}
	for _, d := range AlignLanes(alignment, states, limit) {
		skipped = append(skipped, d.Seconds()*1000)
	}
	for k, s := range scripts {
		o := Assignment{Tree: s.tree}
		if e.Lanes[k].TStar != nil {
			o.Start = states[k]
		}
		list = append(list, o)
	}
	return list, skipped
}

// play plays the log. It returns the world, the scripts by ordinal of the tree, and what the lane start cap skipped, by lane.
func (e *eventLog) play(t *testing.T) (w *world, opened []script, skipped []float64) {
	source := &assignments{}
	for _, l := range e.Lanes {
		opened = append(opened, e.script(l.Trace))
	}
	source.lanes, skipped = e.openings(t, opened)
	for _, trace := range e.Recycle {
		s := e.script(trace)
		source.more = append(source.more, s.tree)
		opened = append(opened, s)
	}
	for _, s := range opened {
		require.NoError(t, s.tree.Validate())
	}
	w = newWorld(len(e.Lanes), source, Limits{SystemIdle: milliseconds(e.SystemIdle), TreeIdle: milliseconds(e.TreeIdle)})
	w.refuse = func(s Dispatch) error {
		if s.Turn == 0 && slices.Contains(e.Refused, opened[s.Tree].names[s.Session]) {
			return errRefused
		}
		return nil
	}
	w.server = func(s Dispatch) answer {
		a := answer{outcome: map[string]Outcome{"ok": OK, "error": Failed, "overflow": Overflow}[e.outcome(opened, s)]}
		name := opened[s.Tree].names[s.Session]
		for _, key := range []string{fmt.Sprintf("%s:%d", name, s.Turn), name, "default"} {
			if ms, ok := e.Service[key]; ok {
				a.takes = milliseconds(ms)
				return a
			}
		}
		return a
	}
	stop, cancel := never, never
	if e.Deadline != nil {
		stop = milliseconds(*e.Deadline)
		cancel = stop + milliseconds(e.Grace)
	}
	w.playUntil(stop, cancel)
	require.NoError(t, w.failed)
	w.requireQuiet(t)
	return w, opened, skipped
}

// outcome returns the scripted outcome of a request, in the words of the vectors.
func (e *eventLog) outcome(opened []script, s Dispatch) string {
	if o := e.Outcomes[fmt.Sprintf("%s:%d", opened[s.Tree].names[s.Session], s.Turn)]; o != "" {
		return o
	}
	return "ok"
}

// TestEventLogs plays the vectors of the group event_log.
func TestEventLogs(t *testing.T) {
	eachVector(t, "event_log", fixtures.Counts{50, 48, 49}, playVector)
}

func playVector(t *testing.T, v vector) {
	var want struct {
		Sends        [][]any
		Ends         [][]any
		TreesDrained [][]any `json:"trees_drained"`
		Recycles     [][]any
		PhaseEnd     *float64 `json:"phase_end_ms"`
		Peak         int      `json:"peak_open_trees"`
		Wedged       []any
		Counts       map[string]int
		First        []float64 `json:"lane_first_send_ms"`
		Skipped      []float64 `json:"lane_skipped_ms"`
	}
	require.NoError(t, json.Unmarshal(v.Want, &want))
	e := eventLog{view: ViewOf(v.Preset)}
	require.NoError(t, json.Unmarshal(v.In, &e))
	w, opened, skipped := e.play(t)

	ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
	row := func(at time.Duration, s Dispatch, more ...any) []any {
		return append([]any{ms(at), float64(s.Lane), opened[s.Tree].names[s.Session], float64(s.Turn)}, more...)
	}
	sends, ends, trees, recycles, wedged := [][]any{}, [][]any{}, [][]any{}, [][]any(nil), []any{}
	for _, s := range w.sends {
		sends = append(sends, row(s.at, s.Dispatch))
		assert.Equal(t, s.at, s.Due)
	}
	for _, r := range w.returns {
		if r.outcome == Cancelled {
			ends = append(ends, row(r.at, r.Dispatch, "cancelled"))
		} else {
			ends = append(ends, row(r.at, r.Dispatch, e.outcome(opened, r.Dispatch)))
		}
	}
	peak, open := 0, 0
	for _, ev := range w.events {
		switch ev.Kind {
		case TreeOpened:
			open++
			peak = max(peak, open)
			if ev.Tree >= len(e.Lanes) {
				recycles = append(recycles, []any{ms(ev.At), float64(ev.Lane), opened[ev.Tree].trace})
			}
		case TreeDrained, TreeReleased:
			open--
			if ev.Kind == TreeDrained {
				trees = append(trees, []any{ms(ev.At), float64(ev.Lane), opened[ev.Tree].trace})
			}
		case TreeDeadlocked:
			wedged = append(wedged, reported(ev, opened[ev.Tree]))
		}
	}
	for _, rows := range [][][]any{sends, ends, trees, recycles} {
		sortRows(rows)
	}
	assert.Equal(t, want.Sends, sends)
	assert.Equal(t, want.Ends, ends)
	assert.Equal(t, want.TreesDrained, trees)
	assert.Equal(t, want.Recycles, recycles)
	assert.Equal(t, want.Wedged, wedged)
	assert.Equal(t, want.Peak, peak)
	n := w.c.Counts()
	assert.Equal(t, want.Counts, map[string]int{
		"children_resumed": n.ChildrenResumed, "children_spawned": n.ChildrenSpawned,
		"children_completed": n.ChildrenCompleted, "children_errored": n.ChildrenErrored, "children_truncated": n.ChildrenTruncated,
		"parents_suspended": n.ParentsSuspended, "parents_resumed": n.ParentsResumed, "joins_suppressed": n.JoinsSuppressed,
	})
	if want.PhaseEnd != nil {
		assert.Equal(t, milliseconds(*want.PhaseEnd), w.ended)
	}
	if want.First != nil {
		first := make([]float64, len(e.Lanes))
		for _, s := range slices.Backward(w.sends) {
			first[s.Lane] = ms(s.at)
		}
		assert.Equal(t, want.First, first)
		assert.Equal(t, want.Skipped, skipped)
	}
}

// reported returns the report of a deadlock in the notation of the vectors.
func reported(e Event, s script) map[string]any {
	blocked := []any{}
	for _, b := range e.Deadlock.Blocked {
		why, waits := "predecessor", []any{}
		for _, n := range b.Branches {
			why, waits = "gate", append(waits, s.branches[n])
		}
		for _, r := range b.After {
			waits = append(waits, fmt.Sprintf("%s:%d", s.names[r.Session], r.Turn))
		}
		blocked = append(blocked, map[string]any{
			"conversation": s.names[b.Session], "turn": float64(b.Turn), "why": why, "waits_for": waits,
		})
	}
	return map[string]any{"t_ms": float64(e.At) / 1e6, "lane": float64(e.Lane), "trace": s.trace, "blocked": blocked}
}

func sortRows(rows [][]any) {
	sort.SliceStable(rows, func(i, j int) bool {
		for k := range rows[i] {
			a, b := rows[i][k], rows[j][k]
			if x, ok := a.(float64); ok && x != b.(float64) {
				return x < b.(float64)
			}
			if x, ok := a.(string); ok && x != b.(string) {
				return x < b.(string)
			}
		}
		return false
	})
}
