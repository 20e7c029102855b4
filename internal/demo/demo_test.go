package demo

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The traces as a reader of the JSON sees them: the tests below do not use the builder.
type (
	Trace struct {
		ID           string
		Models       []string
		BlockSize    int    `json:"block_size"`
		HashIDScope  string `json:"hash_id_scope"`
		ToolTokens   int    `json:"tool_tokens"`
		SystemTokens int    `json:"system_tokens"`
		Requests     []Entry
		Totals       struct {
			Parent    Sum `json:"parent_tokens"`
			Subagents Sum `json:"subagent_tokens"`
			Combined  Sum `json:"combined_tokens"`
			Count     int `json:"subagent_count"`
		}
	}
	Sum   struct{ Input, Output int }
	Entry struct {
		T           float64
		Type        string
		Model       string
		In, Out     int
		HashIDs     []int    `json:"hash_ids"`
		InputTypes  []string `json:"input_types"`
		OutputTypes []string `json:"output_types"`
		Stop        string
		APITime     *float64 `json:"api_time"`
		ThinkTime   *float64 `json:"think_time"`
		TTFT        *float64

		AgentID      string `json:"agent_id"`
		SubagentType string `json:"subagent_type"`
		DurationMS   *int   `json:"duration_ms"`
		TotalTokens  *int   `json:"total_tokens"`
		ToolUseCount *int   `json:"tool_use_count"`
		Status       string
		Requests     []Entry
		Models       []string
		ToolTokens   int `json:"tool_tokens"`
		SystemTokens int `json:"system_tokens"`
	}
)

func traces(t *testing.T) []Trace {
	var all []Trace
	for line := range bytes.Lines(JSONL()) {
		var tr Trace
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		require.NoError(t, d.Decode(&tr))
		all = append(all, tr)
	}
	return all
}

func (tr Trace) parent() []Entry {
	return slices.DeleteFunc(slices.Clone(tr.Requests), func(e Entry) bool { return e.Type == "subagent" })
}

func (tr Trace) agents() []Entry {
	return slices.DeleteFunc(slices.Clone(tr.Requests), func(e Entry) bool { return e.Type != "subagent" })
}

// lanes holds the parent's requests, then those of each subagent.
func (tr Trace) lanes() [][]Entry {
	lanes := [][]Entry{tr.parent()}
	for _, a := range tr.agents() {
		lanes = append(lanes, a.Requests)
	}
	return lanes
}

func (e Entry) end() float64 {
	if e.APITime == nil {
		return e.T
	}
	return e.T + *e.APITime
}

// span is a subagent's start and end on the parent's clock.
func (e Entry) span() (from, to float64) {
	if e.DurationMS == nil {
		return e.T, e.T + e.Requests[len(e.Requests)-1].end()
	}
	return e.T - float64(*e.DurationMS)/1000, e.T
}

func shared(a, b []int) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// step names the change from one prompt to the next.
func step(a, b Entry) string {
	kept, before := shared(a.HashIDs, b.HashIDs), len(a.HashIDs)
	switch {
	case kept == before && a.In == b.In:
		return "identical"
	case kept == before:
		return "append"
	case kept == 0:
		return "reset"
	case kept == before-1:
		return "last block"
	case float64(kept) < 0.9*float64(before):
		return "pull-back"
	}
	return "edit"
}

func steps(requests []Entry) map[string]int {
	count := make(map[string]int)
	for i := range requests[1:] {
		count[step(requests[i], requests[i+1])]++
	}
	return count
}

func count(requests []Entry, is func(Entry) bool) int {
	n := 0
	for _, r := range requests {
		if is(r) {
			n++
		}
	}
	return n
}

func TestDigest(t *testing.T) {
	sum := sha256.Sum256(JSONL())
	assert.Equal(t, SHA256, hex.EncodeToString(sum[:]))
	t.Logf("%d bytes", len(JSONL()))
}

// Every trace has the properties that all traces of the public set have.
func TestEveryTrace(t *testing.T) {
	all := traces(t)
	require.True(t, len(all) >= 12 && len(all) <= 16, len(all))
	for i, tr := range all {
		t.Run(tr.ID, func(t *testing.T) {
			assert.True(t, i == 0 || all[i-1].ID < tr.ID)
			assert.Equal(t, 64, tr.BlockSize)
			assert.Equal(t, "local", tr.HashIDScope)
			assert.True(t, tr.ToolTokens > 0 && tr.SystemTokens > 0)

			parent := tr.parent()
			assert.True(t, len(parent) >= 6 && len(parent) <= 14, len(parent))
			assert.True(t, parent[0].In >= 1500 && parent[0].In <= 6000, parent[0].In)
			assert.Zero(t, parent[0].T)
			for i := range tr.Requests[1:] {
				assert.Less(t, tr.Requests[i].T, tr.Requests[i+1].T)
			}
			for _, a := range tr.agents() {
				assert.NotEmpty(t, a.AgentID)
				assert.NotEmpty(t, a.SubagentType)
				assert.Zero(t, a.Requests[0].T, "times are relative")
				from, _ := a.span()
				assert.Greater(t, from, 0.0)
			}
			for _, lane := range tr.lanes() {
				checkRequests(t, lane)
			}
			checkNumbering(t, tr)
			checkTotals(t, tr)
		})
	}
}

func checkRequests(t *testing.T, lane []Entry) {
	for i, r := range lane {
		assert.Contains(t, []string{"n", "s"}, r.Type)
		assert.Len(t, r.HashIDs, r.In/64)
		assert.LessOrEqual(t, r.In, 20_000)
		assert.NotEmpty(t, r.HashIDs)
		assert.NotEmpty(t, r.InputTypes)
		assert.True(t, r.TTFT == nil || r.Type == "s")
		if r.APITime != nil {
			assert.True(t, *r.APITime >= 0.1 && *r.APITime <= 0.8, *r.APITime)
		}
		if i == 0 {
			continue
		}
		last := lane[i-1]
		assert.Greater(t, r.T, last.end())
		if r.ThinkTime != nil && last.APITime != nil {
			assert.LessOrEqual(t, *r.ThinkTime, r.T-last.end()+1e-9)
			assert.GreaterOrEqual(t, *r.ThinkTime, 0.1)
		}
	}
}

// Every id has one predecessor in the whole trace, and first appearances rise: the parent first, then the subagents.
func checkNumbering(t *testing.T, tr Trace) {
	before := make(map[int]int)
	highest := 0
	for _, lane := range tr.lanes() {
		for _, r := range lane {
			for i, id := range r.HashIDs {
				last := 0
				if i > 0 {
					last = r.HashIDs[i-1]
				}
				if known, ok := before[id]; ok {
					require.Equal(t, known, last, "predecessor of id %d", id)
					continue
				}
				before[id] = last
				require.Greater(t, id, highest)
				if !strings.HasSuffix(tr.ID, "-hole") {
					require.Equal(t, highest+1, id)
				}
				highest = id
			}
		}
	}
}

func checkTotals(t *testing.T, tr Trace) {
	var parent, subagents Sum
	for i, lane := range tr.lanes() {
		sum := &subagents
		if i == 0 {
			sum = &parent
		}
		for _, r := range lane {
			sum.Input += r.In
			sum.Output += r.Out
		}
	}
	assert.Equal(t, parent, tr.Totals.Parent)
	assert.Equal(t, subagents, tr.Totals.Subagents)
	assert.Equal(t, Sum{parent.Input + subagents.Input, parent.Output + subagents.Output}, tr.Totals.Combined)
	assert.Equal(t, len(tr.agents()), tr.Totals.Count)
}

// Every scenario has the shape that it is for.
func TestShapes(t *testing.T) {
	aligned := func(r Entry) bool { return r.In%64 == 0 }
	streamed := func(r Entry) bool { return r.Type == "s" }
	shapes := map[string]func(t *testing.T, tr Trace){
		"append": func(t *testing.T, tr Trace) {
			p := tr.parent()
			assert.Equal(t, map[string]int{"append": len(p) - 1}, steps(p))
			assert.Zero(t, count(p, streamed))
		},
		"stream": func(t *testing.T, tr Trace) {
			p := tr.parent()
			assert.Equal(t, map[string]int{"append": len(p) - 1}, steps(p))
			assert.Equal(t, len(p), count(p, streamed))
			assert.Equal(t, 1, count(p, func(r Entry) bool { return r.TTFT == nil }))
		},
		"churn": func(t *testing.T, tr Trace) {
			assert.Zero(t, count(tr.parent(), aligned))
			assert.GreaterOrEqual(t, steps(tr.parent())["last block"], 3)
		},
		"edit": func(t *testing.T, tr Trace) {
			assert.Equal(t, 2, steps(tr.parent())["edit"])
		},
		"pullback": func(t *testing.T, tr Trace) {
			assert.Equal(t, 2, steps(tr.parent())["pull-back"])
		},
		"reset": func(t *testing.T, tr Trace) {
			assert.Equal(t, 1, steps(tr.parent())["reset"])
			assert.Len(t, tr.Models, 1)
		},
		"twice": func(t *testing.T, tr Trace) {
			assert.Equal(t, 1, steps(tr.parent())["identical"])
		},
		"aligned": func(t *testing.T, tr Trace) {
			p := tr.parent()
			assert.Equal(t, 3, count(p, aligned))
			assert.Equal(t, 1, count(p, func(r Entry) bool { return r.Out == 0 }))
		},
		"gaps": func(t *testing.T, tr Trace) {
			p := tr.parent()
			assert.Equal(t, 4, count(p, func(r Entry) bool { return r.APITime == nil }))
			assert.Equal(t, 2, count(p, func(r Entry) bool { return r.ThinkTime == nil }))
			assert.True(t, count(p, streamed) > 0 && count(p, streamed) < len(p))
			for i := range p[1:] { // think_time has accumulated
				if p[i].APITime == nil && p[i+1].ThinkTime != nil {
					assert.InDelta(t, p[i+1].T-p[i].T, *p[i+1].ThinkTime, 1e-9)
				}
			}
		},
		"siblings": func(t *testing.T, tr Trace) {
			a := tr.agents()
			require.Len(t, a, 2)
			prefix := shared(a[0].Requests[0].HashIDs, a[1].Requests[0].HashIDs)
			assert.Equal(t, (a[0].ToolTokens+a[0].SystemTokens)/64, prefix)
			assert.Less(t, prefix, len(a[0].Requests[0].HashIDs))
			assert.Zero(t, sharedIDs(tr), "shared with the parent")

			from0, to0 := a[0].span()
			from1, to1 := a[1].span()
			assert.True(t, from0 < to1 && from1 < to0, "they overlap")
			sent, joined := around(tr, a[1])
			assert.Equal(t, sent+1, joined, "the parent waits")
			assert.NotContains(t, tr.Models, a[0].Requests[0].Model)
		},
		"late-join": func(t *testing.T, tr Trace) {
			a := tr.agents()
			require.Len(t, a, 1)
			assert.Equal(t, "completed", a[0].Status)
			assert.InDelta(t, a[0].Requests[len(a[0].Requests)-1].end(), float64(*a[0].DurationMS)/1000, 1e-9)
			sent, joined := around(tr, a[0])
			assert.GreaterOrEqual(t, joined, sent+3)
			assert.Less(t, joined, len(tr.parent()))
			assert.Equal(t, "subagent", tr.Requests[joined].Type, "the marker stands at its end")
		},
		"background": func(t *testing.T, tr Trace) {
			a := tr.agents()
			require.Len(t, a, 1)
			assert.Equal(t, "async_launched", a[0].Status)
			assert.Nil(t, a[0].DurationMS)
			assert.Nil(t, a[0].TotalTokens)
			assert.Nil(t, a[0].ToolUseCount)
			sent, joined := around(tr, a[0])
			assert.GreaterOrEqual(t, joined, sent+3)
			assert.Equal(t, "subagent", tr.Requests[sent+1].Type, "the marker stands at its start")
		},
		"models": func(t *testing.T, tr Trace) {
			assert.Len(t, tr.Models, 2)
			p := tr.parent()
			assert.Equal(t, 2, count(p, func(r Entry) bool { return r.Model == tr.Models[1] }))
			assert.True(t, count(p, streamed) > 0 && count(p, streamed) < len(p))
		},
		"hole": func(t *testing.T, tr Trace) {
			highest, unique := numbers(tr)
			assert.Greater(t, highest, unique+100)
		},
		"family": func(t *testing.T, tr Trace) {
			assert.Greater(t, sharedIDs(tr), (tr.ToolTokens+tr.SystemTokens)/64)
			highest, unique := numbers(tr)
			assert.Equal(t, unique, highest)
		},
		"everything": func(t *testing.T, tr Trace) {
			assert.Len(t, tr.agents(), 4)
			s := steps(tr.parent())
			for _, kind := range []string{"append", "edit", "pull-back", "identical", "reset"} {
				assert.Positive(t, s[kind], kind)
			}
		},
	}
	for i, tr := range traces(t) {
		name := strings.TrimPrefix(tr.ID, fmt.Sprintf("demo-%02d-", i+1))
		t.Run(name, func(t *testing.T) {
			require.Contains(t, shapes, name)
			shapes[name](t, tr)
		})
		delete(shapes, name)
	}
	assert.Empty(t, shapes)
}

// around returns the parent's turn after which a subagent starts, and the first one after its end.
func around(tr Trace, agent Entry) (sent, joined int) {
	from, to := agent.span()
	p := tr.parent()
	joined = len(p)
	for i, r := range p {
		if r.T <= from {
			sent = i
		}
		if r.T >= to {
			joined = min(joined, i)
		}
	}
	return sent, joined
}

// sharedIDs counts the ids that the parent shares with any subagent.
func sharedIDs(tr Trace) int {
	lanes := tr.lanes()
	in := make(map[int]int)
	for i, lane := range lanes {
		for _, r := range lane {
			for _, id := range r.HashIDs {
				if i == 0 {
					in[id] |= 1
				} else {
					in[id] |= 2
				}
			}
		}
	}
	n := 0
	for _, who := range in {
		if who == 3 {
			n++
		}
	}
	return n
}

func numbers(tr Trace) (highest, unique int) {
	seen := make(map[int]bool)
	for _, lane := range tr.lanes() {
		for _, r := range lane {
			for _, id := range r.HashIDs {
				highest = max(highest, id)
				seen[id] = true
			}
		}
	}
	return highest, len(seen)
}

// A replay of the demo takes seconds.
func TestPace(t *testing.T) {
	for _, tr := range traces(t) {
		last := tr.Requests[len(tr.Requests)-1]
		assert.Less(t, last.T, 30.0, tr.ID)
		for _, lane := range tr.lanes() {
			for i := range lane[1:] {
				gap := lane[i+1].T - lane[i].T
				assert.True(t, gap >= 0.2 && !math.IsNaN(gap), "%s: %v", tr.ID, gap)
			}
		}
	}
}
