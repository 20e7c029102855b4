package reconstruct

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/timeline"
	"github.com/agentx/agentx/trace"
)

// This file is the oracle of prompts: slow and plain, token by token, as doc/spec/reconstruction.md 4 words it, with the
// repaired length rule. Block h is h*1000, h*1000+1, ...; filler is 900000, 900001, ...

// tile is a message of the prompt.
type tile struct {
	role   string
	blocks int
	tokens []int
}

func blockTokens(id int64, blockSize int) (list []int) {
	for j := range blockSize {
		list = append(list, int(id)*1000+j)
	}
	return list
}

// region returns the tokens of a prompt from a block on: blocks, then filler.
func region(q recorded, blockSize, from int) (tokens []int, covered, filler int) {
	covered = min(len(q.HashIDs), q.In/blockSize)
	filler = q.In - covered*blockSize
	for _, id := range q.HashIDs[min(from, covered):covered] {
		tokens = append(tokens, blockTokens(id, blockSize)...)
	}
	for k := range filler {
		tokens = append(tokens, 900000+k)
	}
	return tokens, covered, filler
}

func common(a, b []int64) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

func up(n, blockSize int) int { return (n + blockSize - 1) / blockSize }

// slowCaps computes assistant caps as doc/spec/reconstruction.md 4.6 words it, over a list with the owner of every block.
func slowCaps(blockSize int, turns []recorded) []int {
	caps, kept := make([]int, len(turns)), make([]int, len(turns))
	var owners []int
	for k, q := range turns {
		caps[k] = math.MaxInt
		_, covered, filler := region(q, blockSize, 0)
		if k > 0 {
			kept[k] = min(common(turns[k-1].HashIDs, q.HashIDs), len(owners), covered)
		}
		if e := kept[k]; k > 0 && covered == e && filler == 0 && e >= 1 && owners[e-1] != 0 {
			if o := owners[e-1]; e-1-kept[o] >= 0 {
				caps[o] = min(caps[o], e-1-kept[o])
			}
		}
		owners = owners[:kept[k]]
		for len(owners) < covered {
			owners = append(owners, k)
		}
	}
	return caps
}

// slowPrompts returns the messages of every turn.
func slowPrompts(blockSize int, turns []recorded, declared int) (prompts [][]tile) {
	caps := slowCaps(blockSize, turns)
	var buffer []tile
	for k, q := range turns {
		shared := 0
		if k == 0 {
			all, covered, _ := region(q, blockSize, 0)
			prefix := min(up(declared, blockSize), covered)
			if prefix > 0 {
				buffer = append(buffer, tile{"system", prefix, all[:prefix*blockSize]})
			}
			if rest := all[prefix*blockSize:]; len(rest) > 0 || prefix == 0 {
				buffer = append(buffer, tile{"user", covered - prefix, rest})
			}
			prompts = append(prompts, slices.Clone(buffer))
			continue
		}
		inBuffer := 0
		for _, m := range buffer {
			inBuffer += m.blocks
		}
		_, covered, filler := region(q, blockSize, 0)
		shared = min(common(turns[k-1].HashIDs, q.HashIDs), inBuffer, covered)
		var cut []tile // the first shared blocks, message by message
		for left, i := shared, 0; left > 0; i++ {
			m := buffer[i]
			n := min(m.blocks, left)
			if n > 0 {
				cut = append(cut, tile{m.role, n, m.tokens[:n*blockSize]})
			}
			left -= n
		}
		buffer = cut
		fresh, _, _ := region(q, blockSize, shared)
		n := covered - shared
		assistant := 0
		if hasUser := slices.ContainsFunc(buffer, func(m tile) bool { return m.role == "user" }); hasUser && turns[k-1].Out > 0 {
			assistant = min(up(turns[k-1].Out, blockSize), n, caps[k])
		}
		if filler == 0 && assistant == n && assistant > 0 {
			assistant--
		}
		if assistant > 0 {
			buffer = append(buffer, tile{"assistant", assistant, fresh[:assistant*blockSize]})
		}
		if rest := fresh[assistant*blockSize:]; len(rest) > 0 {
			buffer = append(buffer, tile{"user", n - assistant, rest})
		}
		prompts = append(prompts, slices.Clone(buffer))
	}
	return prompts
}

// drawConversation draws requests that extend, cut, repeat, or share nothing with the one before. Lists are as long as the
// prompt, longer, or shorter.
func drawConversation(t *rapid.T, blockSize int) (turns []recorded) {
	var last []int64
	for range rapid.IntRange(1, 7).Draw(t, "turns") {
		list := slices.Clone(last[:rapid.IntRange(0, len(last)).Draw(t, "keep")])
		if len(turns) > 0 && rapid.IntRange(0, 3).Draw(t, "cut only") == 0 {
			turns = append(turns, recorded{HashIDs: list, In: len(list) * blockSize, Out: rapid.IntRange(-1, 4*blockSize).Draw(t, "out")})
			last = list
			continue
		}
		if rapid.Bool().Draw(t, "all") {
			list = slices.Clone(last)
		}
		for range rapid.IntRange(0, 4).Draw(t, "fresh") {
			list = append(list, rapid.Int64Range(0, 15).Draw(t, "id"))
		}
		in := len(list) * blockSize
		switch rapid.IntRange(0, 5).Draw(t, "length") {
		case 0: // aligned
		case 1:
			in = rapid.IntRange(0, in).Draw(t, "less")
		case 2:
			in = 0
		default:
			in += rapid.IntRange(0, 3*blockSize).Draw(t, "more")
		}
		turns = append(turns, recorded{HashIDs: list, In: in, Out: rapid.IntRange(-1, 4*blockSize).Draw(t, "out")})
		last = list
	}
	return turns
}

// Covers P1, P4, P5, P6, P7.
func TestPromptsMatchTheSpecificationTokenByToken(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		blockSize := rapid.SampledFrom([]int{1, 2, 4, 7}).Draw(t, "block size")
		turns := drawConversation(t, blockSize)
		declared := rapid.IntRange(0, len(turns[0].HashIDs)*blockSize).Draw(t, "declared")
		plan, err := planned(t, "t", blockSize, int64(declared), 0, turns)
		require.NoError(t, err)
		want := slowPrompts(blockSize, turns, declared)
		require.Len(t, plan.Turns, len(turns))
		for k, q := range turns {
			got := prompt(plan, k)
			var all []int
			for i, m := range got {
				all = append(all, m.Tokens...)
				seen[m.Role]++
				require.False(t, m.Role == "system" && i > 0, "turn %d: a system message that is not the first", k)
				require.False(t, m.Role == "assistant" && (len(m.Tokens)%blockSize != 0 || len(m.Tokens) == 0), "turn %d", k)
				require.Equal(t, want[k][i].role, m.Role, "turn %d, message %d", k, i)
				require.Equal(t, append([]int{}, want[k][i].tokens...), m.Tokens, "turn %d, message %d", k, i)
			}
			require.Len(t, got, len(want[k]), "turn %d", k)
			blocks, _, _ := region(q, blockSize, 0)
			require.Equal(t, blocks, all, "turn %d: what the hash list says, then filler", k)
			require.Len(t, all, q.In, "turn %d", k)
			requireOwnFiller(t, plan, k)
		}
	})
	if testing.Short() { // few conversations are drawn, which may lack a role
		return
	}
	for _, role := range []string{"system", "user", "assistant"} {
		assert.Positive(t, seen[role], role)
	}
}

// requireOwnFiller requires that the filler of a prompt is the turn's own, complete, and its last segment.
func requireOwnFiller(t require.TestingT, plan *mmapcache.Plan, turn int) {
	filler := plan.Turns[turn].FillerTokens(plan.Trace.BlockSize)
	for s := plan.Turns[turn].Last; s != mmapcache.None; s = plan.Segments[s].Parent {
		if part := plan.Segments[s]; part.Flags&mmapcache.Filler != 0 {
			require.Equal(t, uint32(turn), part.First)
			require.Equal(t, filler, part.Count)
			require.Equal(t, plan.Turns[turn].Last, s)
			filler = 0
		}
	}
	require.Zero(t, filler)
}

// Where every list covers its prompt exactly, the published rule and the repaired one are the same.
//
// Covers P10.
func TestLengthRulesAgreeOnExactLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blockSize := rapid.SampledFrom([]int{1, 4}).Draw(t, "block size")
		turns := drawConversation(t, blockSize)
		for k := range turns {
			q := &turns[k]
			q.In = len(q.HashIDs)*blockSize + q.In%blockSize
		}
		repaired, err := planned(t, "t", blockSize, 0, 0, turns)
		require.NoError(t, err)
		upstream := plannedBy(t, traceOf("t", blockSize, turns), func(r *rules.Rules) { r.LengthRule = "upstream" })
		assert.Equal(t, fmt.Sprintf("%+v", repaired), fmt.Sprintf("%+v", upstream))
	})
}

// traceOf makes a trace of one conversation.
func traceOf(id string, blockSize int, turns []recorded) *trace.Trace {
	tr := &trace.Trace{ID: id, BlockSize: int64(blockSize), Scope: trace.ScopeLocal, Models: []string{"m"}}
	for k, q := range turns {
		tr.Entries = append(tr.Entries, trace.Entry{Request: trace.Request{T: float64(k), In: int64(q.In), Out: int64(q.Out), IDs: idsOf(q.HashIDs)}})
	}
	return tr
}

func planned(t require.TestingT, id string, blockSize int, tool, system int64, turns []recorded) (*mmapcache.Plan, error) {
	tr := traceOf(id, blockSize, turns)
	tr.ToolTokens, tr.SystemTokens = tool, system
	rules := rules.Default()
	rules.SplitAgents = false
	plan, _, err := MakePlan(tr, rules)
	if err != nil {
		return nil, err
	}
	return plan, nil
}

func plannedBy(t require.TestingT, tr *trace.Trace, change func(*rules.Rules)) *mmapcache.Plan {
	rules := rules.Default()
	rules.SplitAgents = false
	change(&rules)
	plan, _, err := MakePlan(tr, rules)
	require.NoError(t, err)
	return plan
}

// drawTrace draws a trace with subagents: names, scopes and times at random, in any order.
func drawTrace(t *rapid.T) *trace.Trace {
	blockSize := rapid.SampledFrom([]int{1, 4}).Draw(t, "block size")
	tr := &trace.Trace{ID: "t", BlockSize: int64(blockSize), Models: []string{"m"},
		Scope: rapid.SampledFrom([]trace.Scope{trace.ScopeAbsent, trace.ScopeLocal, trace.ScopeGlobal}).Draw(t, "scope")}
	clock := func() float64 { return float64(rapid.IntRange(-2, 9).Draw(t, "t")) }
	request := func(q recorded) trace.Request {
		r := trace.Request{T: clock(), In: int64(q.In), Out: int64(q.Out), IDs: idsOf(q.HashIDs)}
		r.APITime = trace.Seconds{V: float64(rapid.IntRange(-1, 3).Draw(t, "api")), OK: rapid.Bool().Draw(t, "known")}
		return r
	}
	top := drawConversation(t, blockSize)
	for len(top) > 0 || rapid.IntRange(0, 2).Draw(t, "more") == 0 {
		if len(top) > 0 && rapid.Bool().Draw(t, "request") {
			tr.Entries = append(tr.Entries, trace.Entry{Request: request(top[0])})
			top = top[1:]
			continue
		}
		m := &trace.Subagent{T: clock(), AgentID: fmt.Sprint("a", len(tr.Entries)), Completed: rapid.Bool().Draw(t, "completed"),
			HasDuration: rapid.Bool().Draw(t, "duration"), DurationMS: int64(rapid.IntRange(-1, 5000).Draw(t, "ms"))}
		for _, q := range drawConversation(t, blockSize)[rapid.IntRange(0, 1).Draw(t, "skip"):] {
			m.Requests = append(m.Requests, request(q))
		}
		tr.Entries = append(tr.Entries, trace.Entry{Subagent: m})
	}
	return tr
}

// asked is a request as a theoretical prefix cache sees it.
type asked struct {
	t                  float64
	outer, chain, turn int
	scope              string
	ids                []int64
	row                int
}

// Covers P2, P14.
func TestTracesWithSubagents(t *testing.T) {
	dropped, joined, blocksShared := 0, 0, 0
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		tr := drawTrace(t)
		rules := rules.Default()
		rules.SplitAgents = false
		plan, notes, err := MakePlan(tr, rules)
		require.NoError(t, err)
		requireOpens(t, root, plan)

		type place struct {
			scope string
			id    int64
		}
		number := map[place]uint32{} // of blocks, in order of first appearance
		next := uint32(0)
		for _, r := range plan.Runs {
			require.Equal(t, next, r.First)
			for k := range r.Count {
				at := place{r.Scope, r.ID + int64(k)}
				require.NotContains(t, number, at)
				number[at] = next
				next++
			}
		}
		require.Equal(t, next, plan.Trace.Blocks)

		// Sessions: the root, then the subagents that some request stands before.
		var main []int // outer indices
		for k, e := range tr.Entries {
			if e.Subagent == nil {
				main = append(main, k)
			}
		}
		want := []string{"t"}
		var names []string
		for k, e := range tr.Entries {
			if m := e.Subagent; m != nil && main[0] < k {
				want = append(want, "t::sa:"+m.AgentID)
			} else if m != nil {
				names = append(names, m.AgentID)
			}
		}
		var got []string
		for _, s := range plan.Sessions {
			got = append(got, s.ID)
		}
		require.Equal(t, want, got)
		require.Equal(t, names, notes.Dropped)
		dropped += len(names)

		var questions []asked
		fresh := uint32(0)
		for n, s := range plan.Sessions {
			scope := "t"
			switch {
			case tr.Scope == trace.ScopeGlobal:
				scope = fmt.Sprint("__global__:", tr.BlockSize)
			case tr.Scope == trace.ScopeAbsent && n > 0:
				scope = "t::sa:" + s.Agent
			}
			first := math.Inf(-1)
			for k := range int(s.Turns) {
				row := int(s.FirstTurn) + k
				u := plan.Turns[row]
				e := tr.Entries[u.Outer]
				q := e.Request
				if n > 0 {
					q = e.Subagent.Requests[u.Inner]
					require.GreaterOrEqual(t, u.T, first, "a subagent's turns are in order of time")
					first = u.T
				}
				list := expandIDs(q.IDs)
				for _, id := range list {
					if number[place{scope, id}] == fresh {
						fresh++
					}
				}
				require.Equal(t, q.In, int64(u.In))
				require.Len(t, list, int(u.HashIDs))
				questions = append(questions, asked{u.T, int(u.Outer), n, k, scope, list, row})
				requireBlocks(t, plan, row, func(i int) uint32 { return number[place{scope, list[i]}] })
			}
			if n > 0 {
				joined += requireBranch(t, tr, plan, s, main)
			}
		}
		require.Equal(t, next, fresh, "numbered in order of first appearance")

		if notes.Queries != nil { // of a global scope, which other traces may share
			var g GlobalPrefixCache
			g.Add(notes.Queries, 0)
			g.Count(rules, func(row, hits int) { plan.Turns[row].CacheHits = uint32(hits) })
		}

		// Prefix cache: by time, a set per scope.
		slices.SortStableFunc(questions, func(a, b asked) int {
			return cmp.Or(cmp.Compare(a.t, b.t), a.outer-b.outer, a.chain-b.chain, a.turn-b.turn)
		})
		held := map[place]bool{}
		for _, q := range questions {
			hit := 0
			for hit < len(q.ids) && held[place{q.scope, q.ids[hit]}] {
				hit++
			}
			require.Equal(t, hit, int(plan.Turns[q.row].CacheHits))
			for _, id := range q.ids {
				held[place{q.scope, id}] = true
			}
			blocksShared += hit
		}
	})
	assert.Positive(t, dropped)
	assert.Positive(t, joined)
	assert.Positive(t, blocksShared)
}

// requireBlocks requires that the blocks of a prompt are, in order, the numbers of the turn's ids.
func requireBlocks(t require.TestingT, plan *mmapcache.Plan, turn int, want func(int) uint32) {
	var blocks []uint32
	for s := plan.Turns[turn].Last; s != mmapcache.None; s = plan.Segments[s].Parent {
		part := plan.Segments[s]
		if part.Flags&mmapcache.Filler != 0 {
			continue
		}
		for k := range part.Count {
			blocks = append(blocks, part.First+part.Count-1-k)
		}
	}
	slices.Reverse(blocks)
	u := plan.Turns[turn]
	require.Len(t, blocks, min(int(u.HashIDs), int(u.In/plan.Trace.BlockSize)))
	for i, b := range blocks {
		require.Equal(t, want(i), b)
	}
}

// requireBranch computes spawn, join and offset of a subagent as doc/spec/reconstruction.md 5.7 and 6.7 word them, and requires
// that the plan has them. It returns 1 for a subagent that is joined.
func requireBranch(t require.TestingT, tr *trace.Trace, plan *mmapcache.Plan, s mmapcache.Session, main []int) int {
	outer := slices.IndexFunc(tr.Entries, func(e trace.Entry) bool { return e.Subagent != nil && e.Subagent.AgentID == s.Agent })
	spawn, join := 0, mmapcache.None
	for k, o := range main {
		if o < outer {
			spawn = k
		}
	}
	for k, o := range main {
		if o > outer && tr.Entries[o].T+eps >= s.End {
			join = k
			break
		}
	}
	require.Equal(t, int32(spawn), s.SpawnTurn)
	require.Equal(t, int32(join), s.JoinTurn)
	require.Equal(t, int32(0), s.Parent)
	times := agent{tr.Entries[outer].Subagent}.times(rules.Default())
	require.Equal(t, times.start, s.Start)
	require.Equal(t, times.end, s.End)
	if s.Turns == 0 {
		require.Zero(t, s.SpawnOffset)
		return 0
	}
	u := plan.Turns[spawn]
	api := 0.0
	if u.APITime > 0 {
		api = u.APITime * 1000
	}
	gap := plan.Turns[s.FirstTurn].T*1000 - u.T*1000
	if gap >= api {
		require.Equal(t, timeline.FromReturn, s.SpawnFrom)
		require.InDelta(t, gap-api, s.SpawnOffset, 1e-9)
	} else {
		require.Equal(t, timeline.FromIssue, s.SpawnFrom)
		require.InDelta(t, max(0, gap), s.SpawnOffset, 1e-9)
	}
	if join == mmapcache.None {
		return 0
	}
	return 1
}

// requireOpens publishes a plan and opens it, which checks every index.
func requireOpens(t *rapid.T, root string, plan *mmapcache.Plan) {
	s := mmapcache.NewStructure()
	require.NoError(t, s.Append(plan))
	ctx := durable.WithOptions(t.Context(), durable.Options{Sync: func(*os.File) error { return nil }})
	b, err := mmapcache.NewBuilder(ctx, root, mmapcache.StructureKind, fmt.Sprintf("%+v", plan))
	require.NoError(t, err)
	defer b.Discard()
	require.NoError(t, b.BuildStructure(s, mmapcache.StructureFacts{Traces: 1, Sessions: len(plan.Sessions), Turns: len(plan.Turns), Blocks: int(plan.Trace.Blocks)}))
	_, err = b.Publish(t.Context(), mmapcache.Provenance{})
	require.NoError(t, err)
	c, err := mmapcache.OpenStructure(root, b.Key())
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

// Covers P17.
func TestSecondAgentOfOneIDIsRefusedUnlessDropped(t *testing.T) {
	subagent := func() trace.Entry { return trace.Entry{Subagent: &trace.Subagent{AgentID: "a"}} }
	request := trace.Entry{Request: trace.Request{T: 1, In: 1}}
	tr := &trace.Trace{ID: "t", BlockSize: 4, Models: []string{"m"}, Entries: []trace.Entry{subagent(), request, subagent()}}
	plan, notes, err := MakePlan(tr, rules.Default())
	require.NoError(t, err)
	assert.Equal(t, []string{"a"}, notes.Dropped)
	assert.Len(t, plan.Sessions, 2)
	tr.Entries = append(tr.Entries, subagent())
	_, _, err = MakePlan(tr, rules.Default())
	var e *trace.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, trace.DuplicateID, e.Kind)
	assert.EqualError(t, err, `trace "t": requests[3]: a second subagent with agent_id "a"`)
}
