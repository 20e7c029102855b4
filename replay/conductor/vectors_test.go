package conductor

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/fixtures"
)

// eventLog is the input of a vector of the group event_log: what happens in virtual time.
type eventLog struct {
	Traces map[string]struct {
		Root          string
		Conversations map[string]conversation
	}
	Lanes []struct {
		Trace string
		TStar *float64 `json:"t_star_ms"`
	}
	Recycle  []string
	Service  map[string]float64 `json:"service_ms"`
	Outcomes map[string]string
	Deadline *float64 `json:"deadline_ms"`
	Grace    float64  `json:"grace_ms"`
}

type conversation struct {
	Turns []struct {
		TS            float64 `json:"ts_ms"`
		API           float64 `json:"api_ms"`
		Spawns, Joins []string
	}
	Branches []struct {
		ID       string
		Children []string
	}
}

// built reports whether the vector asks for nothing that is not built: start states, barriers, idle caps, refusals.
func (e *eventLog) built(raw string) bool {
	for _, l := range e.Lanes {
		if l.TStar != nil {
			return false
		}
	}
	for _, word := range []string{"_cap_ms", "anchor", "pred", "refused", "unbuildable"} {
		if strings.Contains(raw, word) {
			return false
		}
	}
	return true
}

// script is a trace of a vector as a tree, and what its sessions are called.
type script struct {
	trace string
	tree  *Tree
	names []string
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * 1e6) }

func (e *eventLog) script(trace string) script {
	of := e.Traces[trace].Conversations
	s := script{trace: trace, tree: &Tree{}}
	s.add(of, e.Traces[trace].Root, 0, 0)
	return s
}

// add appends a conversation and, behind it, those that it spawns, with the rules of section 6.3 written out again.
func (s *script) add(of map[string]conversation, name string, parent, spawn int) int {
	c, me := of[name], len(s.names)
	session := Session{Parent: parent, SpawnTurn: spawn}
	if me > 0 {
		p, child := of[s.names[parent]].Turns[spawn], c.Turns[0]
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
		}
		session.Turns = append(session.Turns, turn)
	}
	s.names = append(s.names, name)
	s.tree.Sessions = append(s.tree.Sessions, session)
	for k, u := range c.Turns {
		for _, b := range c.Branches {
			if !slices.Contains(u.Spawns, b.ID) {
				continue
			}
			var children []int
			for _, child := range b.Children {
				children = append(children, s.add(of, child, me, k))
			}
			for g, v := range c.Turns {
				if slices.Contains(v.Joins, b.ID) {
					s.tree.join(me, g, children...)
				}
			}
		}
	}
	return me
}

// TestEventLogs plays the vectors of the specification that need nothing beyond what is built.
func TestEventLogs(t *testing.T) {
	raw, err := fixtures.Replay("event_log")
	require.NoError(t, err)
	var vectors []struct {
		Name, How, Profile string
		In                 json.RawMessage
		Want               struct {
			Sends        [][]any
			Ends         [][]any
			TreesDrained [][]any `json:"trees_drained"`
			Recycles     [][]any
			PhaseEnd     *float64 `json:"phase_end_ms"`
		}
	}
	require.NoError(t, json.Unmarshal(raw, &vectors))
	played := 0
	for _, v := range vectors {
		var e eventLog
		require.NoError(t, json.Unmarshal(v.In, &e))
		if !slices.Contains(strings.Fields(v.Profile), "default") && v.Profile != "all" || !e.built(string(v.In)) {
			continue
		}
		played++
		t.Run(v.Name, func(t *testing.T) {
			source, recycled := queue{}, []script{}
			var opened []script // by ordinal of the tree
			for k, l := range e.Lanes {
				s := e.script(l.Trace)
				source[k] = append(source[k], s.tree)
				opened = append(opened, s)
			}
			for _, trace := range e.Recycle {
				s := e.script(trace)
				source[-1] = append(source[-1], s.tree)
				recycled = append(recycled, s)
			}
			opened = append(opened, recycled...)
			outcome := func(s Send) string {
				if o := e.Outcomes[fmt.Sprintf("%s:%d", opened[s.Tree].names[s.Session], s.Turn)]; o != "" {
					return o
				}
				return "ok"
			}
			w := newWorld(len(e.Lanes), source, Limits{})
			w.service = func(s Send) (time.Duration, bool) {
				name := opened[s.Tree].names[s.Session]
				for _, key := range []string{fmt.Sprintf("%s:%d", name, s.Turn), name, "default"} {
					if ms, ok := e.Service[key]; ok {
						return milliseconds(ms), outcome(s) == "overflow"
					}
				}
				return 0, false
			}
			stop, cancel := time.Duration(1<<62), time.Duration(1<<62)
			if e.Deadline != nil {
				stop = milliseconds(*e.Deadline)
				cancel = stop + milliseconds(e.Grace)
			}
			w.playUntil(stop, cancel)
			w.requireQuiet(t)

			row := func(at time.Duration, s Send, more ...any) []any {
				return append([]any{float64(at) / 1e6, float64(s.Lane), opened[s.Tree].names[s.Session], float64(s.Turn)}, more...)
			}
			var sends, ends [][]any
			for _, s := range w.sends {
				sends = append(sends, row(s.at, s.Send))
				require.Equal(t, s.at, s.Due)
			}
			drained := map[int]time.Duration{}
			for _, r := range w.returns {
				drained[r.Tree] = max(drained[r.Tree], r.at)
				if r.at == cancel {
					ends = append(ends, row(r.at, r.Send, "cancelled"))
				} else {
					ends = append(ends, row(r.at, r.Send, outcome(r.Send)))
				}
			}
			sortRows(sends)
			sortRows(ends)
			require.Equal(t, v.Want.Sends, sends)
			require.Equal(t, v.Want.Ends, ends)
			if e.Deadline == nil {
				var trees [][]any
				for k, at := range drained {
					lane := 0.0
					for _, s := range w.sends {
						if s.Tree == k {
							lane = float64(s.Lane)
						}
					}
					trees = append(trees, []any{float64(at) / 1e6, lane, opened[k].trace})
				}
				sortRows(trees)
				require.Equal(t, v.Want.TreesDrained, trees)
			}
			require.Equal(t, len(e.Lanes)+len(v.Want.Recycles), w.c.Counts().TreesOpened)
			if v.Want.PhaseEnd != nil {
				require.Equal(t, milliseconds(*v.Want.PhaseEnd), w.ended)
			}
		})
	}
	require.Equal(t, 23, played, "vectors that need nothing beyond what is built")
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
