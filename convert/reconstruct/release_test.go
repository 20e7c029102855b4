package reconstruct

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/timeline"
	"github.com/agentx/agentx/trace"
)

// wantedConversation is one session of a vector, with every output field.
type wantedConversation struct {
	SessionID string  `json:"session_id"`
	IsRoot    bool    `json:"is_root"`
	Depth     int     `json:"agent_depth"`
	Parent    *string `json:"parent_conversation_id"`
	Scope     string  `json:"replay_scope_id"`
	Turns     []struct {
		Timestamp, Delay *float64
		APITime          *float64 `json:"api_time_ms"`
		Outer            uint32   `json:"source_outer_idx"`
		Inner            *int32   `json:"source_inner_idx"`
		Kind             string   `json:"source_kind"`
		Model            string
		MaxTokens        int  `json:"max_tokens"`
		Reset            bool `json:"reset_context"`
		Messages         []shaped
		Hits             uint32   `json:"cache_hit_blocks"`
		Total            uint32   `json:"cache_total_blocks"`
		InputKind        *string  `json:"input_kind"`
		BranchIDs        []string `json:"branch_ids"`
		Prerequisites    []struct {
			BranchID string `json:"branch_id"`
		}
		Predecessors []struct {
			Session string
			Turn    int
		} `json:"replay_predecessors"`
	}
	Branches []struct {
		BranchID     string   `json:"branch_id"`
		Children     []string `json:"child_conversation_ids"`
		IsBackground bool     `json:"is_background"`
		Start        float64  `json:"start_timestamp_ms"`
	}
}

// shaped is a message that may carry a call or answer one.
type shaped struct {
	Role   string
	Runs   [][2]int
	Call   string `json:"tool_calls"`
	Answer string `json:"tool_call_id"`
}

// wired is a message as sent, written out.
type wired struct {
	Role, Call, Answer string
	Tokens             []int
}

func wire(list []shaped) (out []wired) {
	for _, m := range list {
		out = append(out, wired{m.Role, m.Call, m.Answer, expand(m.Runs)})
	}
	return out
}

// endToEnd is the input of a whole trace.
type endToEnd struct {
	Profile       string
	Backend       string
	Seed          int64
	BaseSeed      string `json:"base_seed"`
	CorpusLen     int    `json:"corpus_len"`
	BlockSize     int    `json:"block_size_override"`
	Trace         json.RawMessage
	ThinkTimeOnly bool     `json:"think_time_only"`
	WarpCap       *float64 `json:"warp_cap_s"`
	TurnCap       *float64 `json:"turn_cap_s"`
	MaxOSL        *int64   `json:"max_osl"`
	MaxISL        *int64   `json:"max_isl"`
	ToolShape     bool     `json:"tool_shape"`
	Split         *bool
}

func (in endToEnd) rules() rules.Rules {
	r := rules.Default()
	if in.Profile == "aiperf" {
		r = rules.AIPerf()
	}
	if in.BlockSize > 0 {
		r.BlockSize = in.BlockSize
	}
	r.MaxInput, r.MaxOutput, r.ToolShaped = in.MaxISL, in.MaxOSL, in.ToolShape
	override(&r.SplitAgents, in.Split)
	return r
}

func (in endToEnd) view() (v mmapcache.View) {
	v.ThinkTimeOnly = in.ThinkTimeOnly
	override(&v.TurnCap, in.TurnCap)
	if in.WarpCap != nil {
		v.Warped, v.TraceCap = true, *in.WarpCap
	}
	return v
}

// planTrace plans a trace given as JSON. Vectors of AIPerf have traces that only tolerant rules read.
func planTrace(t *testing.T, text json.RawMessage, r rules.Rules) (*mmapcache.Plan, Notes, error) {
	loose := r
	loose.UnknownKeys = "count"
	tr, err := weka.Scan(text, loose)
	require.NoError(t, err)
	return MakePlan(tr, r)
}

// content writes out prompts over an identity corpus.
type content struct {
	plan   *mmapcache.Plan
	placer *Placer
	n      int
	short  bool
}

func (c content) window(start uint32, n int) (tokens []int) {
	if c.short {
		n = min(n, c.n)
	}
	for k := range n {
		tokens = append(tokens, (int(start)+k)%c.n)
	}
	return tokens
}

func (c content) prompt(turn int) []wired {
	size := int(c.plan.Trace.BlockSize)
	blocks := make([]uint32, c.plan.Trace.Blocks)
	for _, r := range c.plan.Runs {
		c.placer.Blocks(blocks[r.First:r.First+r.Count], r.Scope, r.ID, size)
	}
	var path []int32
	for s := c.plan.Turns[turn].Last; s != mmapcache.None; s = c.plan.Segments[s].Parent {
		path = append(path, s)
	}
	slices.Reverse(path)
	var out []wired
	for _, id := range path {
		s := c.plan.Segments[id]
		if s.Flags&mmapcache.Continues == 0 {
			out = append(out, wired{Role: s.Role.String(), Tokens: []int{}})
			for _, tool := range c.plan.Tools {
				if tool.Segment == id {
					out[len(out)-1].Role, out[len(out)-1].Answer = "tool", callID(int(tool.Turn))
					out[len(out)-2].Call = callID(int(tool.Turn))
				}
			}
		}
		m := &out[len(out)-1]
		if s.Flags&mmapcache.Filler == 0 {
			for k := range s.Count {
				m.Tokens = append(m.Tokens, c.window(blocks[s.First+k], size)...)
			}
			continue
		}
		owner, k := c.session(int(s.First))
		m.Tokens = append(m.Tokens, c.window(c.placer.Filler(owner, k, int(s.Count)), int(s.Count))...)
	}
	return out
}

// session returns the session of a turn of the trace, and the number of the turn in it.
func (c content) session(turn int) (id string, k int) {
	for _, s := range c.plan.Sessions {
		if k := turn - int(s.FirstTurn); k >= 0 && k < int(s.Turns) {
			return s.ID, k
		}
	}
	return "", 0
}

// Covers D13.
func TestEndToEnd(t *testing.T) {
	type want struct {
		Conversations []wantedConversation
		Dropped       []string
	}
	check := func(t *testing.T, in endToEnd, want want) {
		r := in.rules()
		plan, notes, err := planTrace(t, in.Trace, r)
		require.NoError(t, err)
		times, err := plan.Times(r.TimeRules(), in.view())
		require.NoError(t, err)
		d := NewPlacer(rules.Placement{Backend: in.Backend, Seed: in.Seed}, in.CorpusLen, nil)
		d.base = []byte(in.BaseSeed)
		c := content{plan, d, in.CorpusLen, r.FillerOverrun == "short"}

		if want.Dropped != nil {
			assert.Equal(t, want.Dropped, append([]string{}, notes.Dropped...))
		}
		if notes.Queries != nil { // of global scope: alone in its cache here
			var shared GlobalPrefixCache
			shared.Add(notes.Queries, 0)
			shared.Count(r, func(row, hits int) { plan.Turns[row].CacheHits = uint32(hits) })
		}
		require.Len(t, plan.Sessions, len(want.Conversations))
		for n, w := range want.Conversations {
			checkConversation(t, n, w, plan, times, r, c)
		}
	}
	fixtures.EachWeka(t, "end_to_end", check)
	fixtures.EachWeka(t, "end_to_end_release", check)
}

func checkConversation(t *testing.T, n int, w wantedConversation, plan *mmapcache.Plan, times *mmapcache.Times, rules rules.Rules, c content) {
	s := plan.Sessions[n]
	assert.Equal(t, w.SessionID, s.ID)
	assert.Equal(t, w.IsRoot, s.Parent == mmapcache.None)
	if w.Parent != nil {
		assert.Equal(t, *w.Parent, plan.Sessions[s.Parent].ID)
	}
	assert.Equal(t, w.Scope, plan.ReplayScope(n, rules.TimeRules().ParsedScope))
	require.EqualValues(t, len(w.Turns), s.Turns, s.ID)
	var sent []wired
	for k, wt := range w.Turns {
		row := int(s.FirstTurn) + k
		u, p := plan.Turns[row], times.Turns[row]
		near(t, wt.Timestamp, p.Start)
		near(t, wt.Delay, p.Delay)
		near(t, wt.APITime, p.API)
		assert.Equal(t, wt.Outer, u.Outer)
		if wt.Inner != nil {
			assert.Equal(t, *wt.Inner, u.Inner)
		} else {
			assert.EqualValues(t, mmapcache.None, u.Inner)
		}
		assert.Equal(t, wt.Kind, s.Kind.String())
		assert.Equal(t, wt.Model, u.Model)
		assert.Equal(t, wt.MaxTokens, rules.TimeRules().MaxTokens(s.Kind, u))
		assert.Equal(t, wt.Hits, u.CacheHits)
		assert.Equal(t, wt.Total, u.HashIDs)
		kind := ""
		if wt.InputKind != nil {
			kind = *wt.InputKind
		}
		assert.Equal(t, kind, u.Input.String())
		sent = accumulate(sent, wt.Reset, wire(wt.Messages))
		assert.Equal(t, append([]wired{}, sent...), append([]wired{}, c.prompt(row)...), "%s turn %d", s.ID, k)

		spawns, joins := []string{}, []string{}
		if n == 0 {
			for _, b := range times.Branches {
				if b.Spawn == int32(k) {
					spawns = append(spawns, b.ID)
				}
				if b.Join == int32(k) {
					joins = append(joins, b.ID)
				}
			}
		}
		assert.Equal(t, wt.BranchIDs, spawns)
		want := []string{}
		for _, p := range wt.Prerequisites {
			want = append(want, p.BranchID)
		}
		assert.Equal(t, want, joins)
		require.Len(t, times.After[row], len(wt.Predecessors), "%s turn %d", s.ID, k)
		for i, ref := range wt.Predecessors {
			got := times.After[row][i]
			assert.Equal(t, ref.Session, plan.Sessions[got.Stream].ID)
			assert.Equal(t, ref.Turn, got.Turn)
		}
	}
	if n > 0 {
		return
	}
	require.Len(t, times.Branches, len(w.Branches))
	for k, wb := range w.Branches {
		b := times.Branches[k]
		assert.Equal(t, wb.BranchID, b.ID)
		assert.Equal(t, wb.IsBackground, b.Join == mmapcache.None)
		assert.InDelta(t, wb.Start, b.Start, 1e-6)
		var ids []string
		for _, m := range b.Sessions {
			ids = append(ids, plan.Sessions[m].ID)
		}
		assert.Equal(t, wb.Children, ids)
	}
}

// near compares a time, nil for none.
func near(t *testing.T, want *float64, got float64) {
	t.Helper()
	if want == nil {
		assert.True(t, math.IsNaN(got), "want none, got %v", got)
		return
	}
	assert.InDelta(t, *want, got, 1e-6)
}

func TestBranchesOfBothProfiles(t *testing.T) {
	type want struct {
		Conversations []string
		Root          []uint32
		Branches      []struct {
			BranchID     string   `json:"branch_id"`
			Children     []string `json:"child_conversation_ids"`
			IsBackground bool     `json:"is_background"`
			Spawn        int32    `json:"spawn_turn"`
			Join         *int32   `json:"join_turn"`
			Start        float64  `json:"start_timestamp_ms"`
		}
		Dropped []string
		First   map[string]*float64 `json:"first_times_ms"`
		Error   string
	}
	faults := map[string]trace.ErrorKind{"duplicate_agent": trace.DuplicateID, "negative_branch_start": trace.NegativeBranch}
	fixtures.EachWeka(t, "branches", func(t *testing.T, in endToEnd, want want) {
		profiles := []string{in.Profile}
		if in.Profile == "both" {
			profiles = []string{"default", "aiperf"}
		}
		for _, profile := range profiles {
			in.Profile = profile
			rules := in.rules()
			rules.BlockSize = 0 // declared in both
			plan, notes, err := planTrace(t, in.Trace, rules)
			if want.Error != "" {
				var e *trace.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, faults[want.Error], e.Kind)
				continue
			}
			require.NoError(t, err)
			times, err := plan.Times(rules.TimeRules(), in.view())
			require.NoError(t, err)
			var ids []string
			first := map[string]float64{}
			for _, s := range plan.Sessions {
				ids = append(ids, s.ID)
				if s.Turns > 0 {
					first[s.ID] = times.Turns[s.FirstTurn].Start
				}
			}
			assert.Equal(t, want.Conversations, ids)
			for id, at := range want.First {
				near(t, at, first[id])
			}
			var root []uint32
			for _, u := range plan.Turns[:plan.Sessions[0].Turns] {
				root = append(root, u.Outer)
			}
			assert.Equal(t, append([]uint32{}, want.Root...), append([]uint32{}, root...))
			assert.Equal(t, append([]string{}, want.Dropped...), append([]string{}, notes.Dropped...))
			require.Len(t, times.Branches, len(want.Branches))
			for k, wb := range want.Branches {
				b := times.Branches[k]
				assert.Equal(t, wb.BranchID, b.ID)
				assert.Equal(t, wb.Spawn, b.Spawn)
				join := int32(mmapcache.None)
				if wb.Join != nil {
					join = *wb.Join
				}
				assert.Equal(t, join, b.Join)
				assert.InDelta(t, wb.Start, b.Start, 1e-6)
				assert.Len(t, b.Sessions, len(wb.Children))
			}
		}
	})
}

// Covers D19, D20, D21.
func TestRefusalsOfAIPerf(t *testing.T) {
	type in struct {
		Trace   json.RawMessage
		Options struct {
			ThinkTimeOnly bool `json:"use_think_time_only"`
		}
	}
	type want struct {
		OK            bool
		Fault         string
		Conversations []string
		Delays        [][]*float64
	}
	faults := map[string]trace.ErrorKind{"join_before_spawn": trace.JoinBeforeSpawn, "negative_branch_start": trace.NegativeBranch,
		"prefix": trace.PrefixTooLong, "duplicate_agent": trace.DuplicateID, "id-range": trace.IDRange}
	fixtures.EachWeka(t, "refusals", func(t *testing.T, in in, want want) {
		rules := rules.AIPerf()
		var times *mmapcache.Times
		var plan *mmapcache.Plan
		tr, err := weka.Scan(in.Trace, rules)
		if err == nil {
			plan, _, err = MakePlan(tr, rules)
		}
		if err == nil {
			v := mmapcache.View{View: timeline.View{ThinkTimeOnly: in.Options.ThinkTimeOnly}}
			times, err = plan.Times(rules.TimeRules(), v)
			if want.Fault == "negative_delay" {
				require.ErrorContains(t, err, "negative delay")
				return
			}
		}
		if !want.OK {
			var e *trace.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, faults[want.Fault], e.Kind, err)
			return
		}
		require.NoError(t, err)
		for n, id := range want.Conversations {
			s := plan.Sessions[n]
			assert.Equal(t, id, s.ID)
			for k, d := range want.Delays[n] {
				near(t, d, times.Turns[int(s.FirstTurn)+k].Delay)
			}
		}
	})
}

// Covers P12, P13.
func TestSubagentPlans(t *testing.T) {
	type in struct {
		TraceID   string `json:"trace_id"`
		Outer     int
		BlockSize int `json:"block_size"`
		Marker    json.RawMessage
	}
	type want struct {
		Chains []struct {
			SessionID string `json:"session_id"`
			Inner     []int32
			Times     []float64
		}
	}
	fixtures.EachWeka(t, "subagent_plan", func(t *testing.T, in in, want want) {
		text, err := json.Marshal(map[string]any{"id": in.TraceID, "models": []string{}, "block_size": in.BlockSize, "hash_id_scope": "local",
			"requests": []any{map[string]any{"t": 0, "type": "n", "model": "m", "in": 0, "out": 0}, in.Marker}})
		require.NoError(t, err)
		rules := rules.AIPerf()
		rules.BlockSize, rules.UnknownKeys = 0, "count"
		plan, _, err := planTrace(t, text, rules)
		require.NoError(t, err)
		require.Len(t, plan.Sessions, 1+len(want.Chains))
		for k, w := range want.Chains {
			s := plan.Sessions[k+1]
			assert.Equal(t, w.SessionID, s.ID)
			require.EqualValues(t, len(w.Inner), s.Turns)
			for i := range w.Inner {
				u := plan.Turns[int(s.FirstTurn)+i]
				assert.Equal(t, w.Inner[i], u.Inner)
				assert.InDelta(t, w.Times[i], u.T, 1e-9)
			}
		}
	})
}

func TestRequestFilter(t *testing.T) {
	type in struct {
		Requests []struct {
			T  float64
			In int64
		}
		Start  *int64 `json:"start_offset_ms"`
		End    *int64 `json:"end_offset_ms"`
		MaxISL *int64 `json:"max_isl"`
	}
	fixtures.EachWeka(t, "request_filter", func(t *testing.T, in in, want struct{ Retained []int }) {
		tr := &trace.Trace{BlockSize: 64}
		for _, q := range in.Requests {
			tr.Entries = append(tr.Entries, trace.Entry{Request: trace.Request{T: q.T, In: q.In}})
		}
		p := planner{tr: tr, rules: rules.Rules{StartOffset: in.Start, EndOffset: in.End, MaxInput: in.MaxISL}}
		got := []int{}
		for _, u := range p.keptRequests() {
			got = append(got, u.outer)
		}
		assert.Equal(t, want.Retained, got)
	})
}

// Covers D17.
func TestCausalCache(t *testing.T) {
	type in struct {
		Requests []struct {
			T       float64
			APITime any     `json:"api_time"` // a number, null or "NaN"
			HashIDs []int64 `json:"hash_ids"`
		}
	}
	fixtures.EachWeka(t, "prefix_cache", func(t *testing.T, in in, want struct{ Causal [][2]uint32 }) {
		tr := &trace.Trace{ID: "t", BlockSize: 1, Scope: trace.ScopeLocal, Models: []string{"m"}}
		for _, q := range in.Requests {
			r := trace.Request{T: q.T, IDs: idsOf(q.HashIDs), In: int64(len(q.HashIDs))}
			if v, ok := q.APITime.(float64); ok {
				r.APITime = trace.Seconds{V: v, OK: true}
			}
			tr.Entries = append(tr.Entries, trace.Entry{Request: r})
		}
		rules := together()
		rules.CacheMetric = "causal"
		plan, _, err := MakePlan(tr, rules)
		require.NoError(t, err)
		for k, w := range want.Causal {
			assert.Equal(t, w, [2]uint32{plan.Turns[k].CacheHits, plan.Turns[k].HashIDs}, "request %d", k)
		}
	})
}

// Traces of global scope share one cache; others do not.
//
// Covers D3.
func TestCacheScopes(t *testing.T) {
	type in struct {
		Requests []struct {
			Scope   string
			T       float64
			Outer   int
			HashIDs []int64 `json:"hash_ids"`
		}
	}
	fixtures.EachWeka(t, "prefix_cache_scopes", func(t *testing.T, in in, want struct{ Legacy [][2]int }) {
		caches := map[string]*GlobalPrefixCache{}
		got := make([]int, len(in.Requests))
		for k, q := range in.Requests {
			if caches[q.Scope] == nil {
				caches[q.Scope] = &GlobalPrefixCache{}
			}
			caches[q.Scope].Add([]CacheQuery{{Start: q.T, end: q.T, order: [3]int{q.Outer, 0, 0}, ids: idsOf(q.HashIDs)}}, k)
		}
		for _, c := range caches {
			c.Count(rules.Default(), func(row, hits int) { got[row] = hits })
		}
		for k, w := range want.Legacy {
			assert.Equal(t, w[0], got[k], "request %d", k)
		}
	})
}

// Covers D12.
func TestReplayScopes(t *testing.T) {
	type in struct {
		TraceID   string  `json:"trace_id"`
		AgentID   *string `json:"agent_id"`
		SessionID string  `json:"session_id"`
	}
	fixtures.EachWeka(t, "replay_scope", func(t *testing.T, in in, want struct{ Assigned, Parsed string }) {
		s := mmapcache.Session{ID: in.SessionID, Kind: mmapcache.Flat}
		if in.AgentID != nil {
			s.Kind, s.Agent = mmapcache.Subagent, *in.AgentID
		}
		p := mmapcache.Plan{Trace: mmapcache.Trace{ID: in.TraceID}, Sessions: []mmapcache.Session{s}}
		assert.Equal(t, want.Assigned, p.ReplayScope(0, false))
		assert.Equal(t, want.Parsed, p.ReplayScope(0, true))
	})
}

func TestTheoreticalCacheOfReplayVectors(t *testing.T) {
	data, err := fixtures.Replay("theoretical_cache")
	require.NoError(t, err)
	var list []struct {
		Name string
		In   struct {
			Requests []struct {
				Start               float64
				Outer, Stream, Turn int
				IDs                 []int64
			}
		}
		Want struct {
			Walk []struct{ Stream, Turn, Hit, Total int }
		}
	}
	require.NoError(t, json.Unmarshal(data, &list))
	for _, v := range list {
		t.Run(v.Name, func(t *testing.T) {
			var cache GlobalPrefixCache
			var queries []CacheQuery
			for k, q := range v.In.Requests {
				queries = append(queries, CacheQuery{row: k, Start: q.Start, order: [3]int{q.Outer, q.Stream, q.Turn}, ids: idsOf(q.IDs)})
			}
			cache.Add(queries, 0)
			at := 0
			cache.Count(rules.Default(), func(row, hits int) { // in the order of the walk
				q, w := v.In.Requests[row], v.Want.Walk[at]
				assert.Equal(t, []int{w.Stream, w.Turn, w.Hit, w.Total}, []int{q.Stream, q.Turn, hits, len(q.IDs)})
				at++
			})
			assert.Len(t, v.Want.Walk, at)
		})
	}
}

// Tool results become messages of the role tool, each with the id of its call.
//
// Covers P9.
func TestToolShape(t *testing.T) {
	type in struct {
		BlockSize    int    `json:"block_size"`
		SessionID    string `json:"session_id"`
		ToolTokens   int64  `json:"tool_tokens"`
		SystemTokens int64  `json:"system_tokens"`
		LengthRule   string `json:"length_rule"`
		Requests     []recorded
		ToolShape    bool `json:"tool_shape"`
	}
	type want struct {
		Turns []struct {
			Reset    bool
			Messages []shaped
		}
	}
	check := func(t *testing.T, in in, want want) {
		if !in.ToolShape {
			t.Skip("not shaped: TestConversations has it")
		}
		for _, rule := range []string{"repaired", "upstream"} {
			if in.LengthRule != "both" && in.LengthRule != rule {
				continue
			}
			rules := together()
			rules.LengthRule, rules.ToolShaped = rule, true
			plan, err := planUnder(t, in.SessionID, in.BlockSize, in.ToolTokens, in.SystemTokens, in.Requests, rules)
			require.NoError(t, err)
			var sent []wired
			for k, w := range want.Turns {
				sent = accumulate(sent, w.Reset, wire(w.Messages))
				got := []wired{}
				for _, m := range prompt(plan, k) {
					got = append(got, wired{Role: m.Role, Tokens: m.Tokens})
				}
				for at, tool := range toolsOf(plan, k) {
					got[at].Role, got[at].Answer = "tool", callID(int(tool))
					got[at-1].Call = got[at].Answer
				}
				assert.Equal(t, append([]wired{}, sent...), got, "turn %d", k)
			}
		}
	}
	fixtures.EachWeka(t, "tool_shape", check)
	fixtures.EachWeka(t, "conversation", check)
}

// toolsOf returns which messages of a turn's prompt are tool results, and of which turns.
func toolsOf(plan *mmapcache.Plan, turn int) map[int]uint32 {
	var path []int32
	for s := plan.Turns[turn].Last; s != mmapcache.None; s = plan.Segments[s].Parent {
		path = append(path, s)
	}
	slices.Reverse(path)
	tools := map[int]uint32{}
	at := -1
	for _, id := range path {
		if plan.Segments[id].Flags&mmapcache.Continues != 0 {
			continue
		}
		at++
		for _, tool := range plan.Tools {
			if tool.Segment == id {
				tools[at] = tool.Turn
			}
		}
	}
	return tools
}

// callID is the id of the tool call whose result a turn has.
func callID(turn int) string { return fmt.Sprintf("call_turn_%d", turn) }
