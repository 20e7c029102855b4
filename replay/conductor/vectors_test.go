package conductor

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/fixtures"
)

// vector is one case of a group of the vectors of doc/spec/replay.md.
type vector struct {
	Name, How, Profile string
	Test               string
	In, Want           json.RawMessage
}

// vectors lists the vectors of a group that hold under the profile default.
func vectors(t *testing.T, group string) (list []vector) {
	raw, err := fixtures.Replay(group)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &list))
	return slices.DeleteFunc(list, func(v vector) bool {
		names := strings.Fields(v.Profile)
		return !slices.Contains(names, "default") && !slices.Contains(names, "all")
	})
}

// eachVector runs the vectors of a group and checks their number.
func eachVector(t *testing.T, group string, count int, run func(t *testing.T, v vector)) {
	list := vectors(t, group)
	require.Len(t, list, count)
	for _, v := range list {
		t.Run(v.Name, func(t *testing.T) { run(t, v) })
	}
}

// eventLog is the input of a vector of the group event_log: what happens in virtual time.
type eventLog struct {
	Traces map[string]recording
	Lanes  []struct {
		Trace string
		TStar *float64 `json:"t_star_ms"`
	}
	Recycle     []string
	Service     map[string]float64 `json:"service_ms"`
	Outcomes    map[string]string
	Refused     []string
	Unbuildable []string
	Anchor      string
	SystemIdle  float64  `json:"system_idle_cap_ms"`
	TreeIdle    float64  `json:"tree_idle_cap_ms"`
	LaneStart   *float64 `json:"lane_start_cap_ms"`
	Deadline    *float64 `json:"deadline_ms"`
	Grace       float64  `json:"grace_ms"`
}

type recording struct {
	Root          string
	Conversations map[string]conversation
}

type conversation struct {
	Turns []struct {
		TS            float64 `json:"ts_ms"`
		API           float64 `json:"api_ms"`
		Spawns, Joins []string
		Preds         [][2]any
	}
	Branches []struct {
		ID       string
		Children []string
		Start    *float64 `json:"start_ms"`
	}
}

// script is a trace of a vector as a tree, with the names of its sessions and branches.
type script struct {
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
	s := script{trace: trace, tree: &Tree{}}
	s.add(r.Conversations, r.Root, -1, 0)
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

// add appends a conversation and then those that it spawns. It repeats the rules of doc/spec/replay.md 6.3.
func (s *script) add(of map[string]conversation, name string, parent, spawn int) {
	c, me := of[name], len(s.names)
	session, starts := Session{Branch: len(s.branches) - 1}, []float64{}
	if parent >= 0 {
		p, child := of[s.names[parent]].Turns[spawn], c.Turns[0]
		session.Depth = s.tree.Sessions[parent].Depth + 1
		session.OnIssue = child.TS < p.TS+p.API
		session.Offset = milliseconds(child.TS - p.TS - p.API)
		if session.OnIssue {
			session.Offset = milliseconds(max(0, child.TS-p.TS))
		}
	}
	for k, u := range c.Turns {
		turn := Turn{}
		if k > 0 {
			turn.Delay = milliseconds(max(0, u.TS-c.Turns[k-1].TS-c.Turns[k-1].API))
			turn.JoinDelay = turn.Delay
		}
		session.Turns = append(session.Turns, turn)
		starts = append(starts, u.TS)
	}
	s.names = append(s.names, name)
	s.tree.Sessions = append(s.tree.Sessions, session)
	s.starts = append(s.starts, starts)
	for k, u := range c.Turns {
		for _, b := range c.Branches {
			if !slices.Contains(u.Spawns, b.ID) {
				continue
			}
			n := len(s.branches)
			s.branches = append(s.branches, b.ID)
			s.tree.Branches = append(s.tree.Branches, Branch{Parent: me, Spawn: k})
			s.begins = append(s.begins, math.NaN())
			if b.Start != nil {
				s.begins[n] = *b.Start
			}
			turn := &s.tree.Sessions[me].Turns[k]
			turn.Spawns = append(turn.Spawns, n)
			for g, v := range c.Turns {
				if slices.Contains(v.Joins, b.ID) {
					joins := &s.tree.Sessions[me].Turns[g].Joins
					*joins = append(*joins, n)
				}
			}
			for _, child := range b.Children {
				at := len(s.names)
				s.add(of, child, me, k)
				s.tree.Sessions[at].Branch = n
				s.tree.Branches[n].OnIssue = s.tree.Branches[n].OnIssue || s.tree.Sessions[at].OnIssue
				s.tree.Branches[n].Sessions = append(s.tree.Branches[n].Sessions, at)
			}
		}
	}
}

// openings returns where the lanes begin, and how much of their waiting was skipped, by lane.
func (e *eventLog) openings(t *testing.T, scripts []script) (list []Assignment, skipped []float64) {
	states := make([]*StartState, len(scripts))
	for k, l := range e.Lanes {
		states[k] = &StartState{Live: []LiveSession{{}}}
		if l.TStar != nil {
			states[k] = ResumeAt(Recording{scripts[k].tree, scripts[k].starts, scripts[k].begins}, *l.TStar)
			require.NotEmpty(t, states[k].Live)
		}
	}
	alignment, limit := "burst", time.Duration(0)
	if e.Anchor == "spread" {
		alignment = "spread"
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
	eachVector(t, "event_log", 50, playVector)
}

// eventLogsOf plays the vectors of the group event_log that belong to a test of the catalogue, and checks their number.
func eventLogsOf(t *testing.T, test string, count int) {
	t.Helper()
	vectorsOf(t, "event_log", test, count, playVector)
}

// vectorsOf runs the vectors of a group that belong to a test of the catalogue, and checks their number.
func vectorsOf(t *testing.T, group, test string, count int, run func(t *testing.T, v vector)) {
	t.Helper()
	n := 0
	for _, v := range vectors(t, group) {
		if v.Test == test {
			n++
			t.Run(v.Name, func(t *testing.T) { run(t, v) })
		}
	}
	require.Equal(t, count, n)
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
	var e eventLog
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
