package replay

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
)

// shapedTraces returns a cache of three traces that share blocks, have heads of blocks where another prompt has all of it, reset
// their prompts, and answer tool calls: two of them where the third has a user's text.
func shapedTraces(t *testing.T, scope string) *mmapcache.Cache {
	var lines strings.Builder
	for _, id := range []string{"a", "b", "c"} {
		var requests []string
		answer := `"tool_result"`
		if id == "c" {
			answer = `"text"`
		}
		for k, r := range []struct {
			in   int
			ids  string
			kind string
		}{
			{64, "0", ""}, {192, "0,1,2", answer}, {300, "0,1,2,3,4", `"text"`}, {320, "0,1,2,3,4", `"text"`}, {192, "7,8,9", `"text"`},
			{330, "7,8,9,10,11,12", `"tool_result"`}, {200, "0,1,2,13", `"text"`},
		} {
			requests = append(requests, fmt.Sprintf(`{"t":%d,"type":"n","model":"m","in":%d,"out":64,"hash_ids":[%s],"input_types":[%s],"output_types":[],"stop":"","api_time":0.25}`,
				k, r.in, r.ids, r.kind))
		}
		fmt.Fprintf(&lines, `{"id":%q,"models":["m"],"block_size":64,"hash_id_scope":%q,"tool_tokens":0,"system_tokens":64,"requests":[%s]}`+"\n", id, scope, strings.Join(requests, ","))
	}
	shaped := rules.Default()
	shaped.ToolShaped = true
	r, err := convert.Convert(context.Background(), convert.Options{
		Root: cachetest.Root(), Inputs: []string{"traces"}, Rules: shaped, Placement: rules.Placement{Backend: rules.XXH3, Seed: 42},
		Tokenizer: "o200k_base", Corpus: "code", Source: hfsource.Options{Embedded: map[string][]byte{"traces": []byte(lines.String())}},
	})
	require.NoError(t, err)
	return cachetest.Open(t, cachetest.Root(), r.Key)
}

// heads returns a cache of Mooncake's form: the last block of a prompt is the head of one that another prompt may have as a whole.
func heads(t *testing.T) *mmapcache.Cache {
	var lines strings.Builder
	for k, r := range []struct {
		in  int
		ids string
	}{{700, "0,1"}, {1024, "0,1"}, {600, "0,1"}, {1300, "0,1,2"}, {1500, "0,1,2"}, {513, "0,3"}} {
		fmt.Fprintf(&lines, `{"timestamp":%d,"input_length":%d,"output_length":5,"hash_ids":[%s]}`+"\n", 1000*k, r.in, r.ids)
	}
	return cachetest.Prepare(t, lines.String(), "code")
}

// spelled returns a prompt token by token: places in the corpus, beginnings of messages, and the marker of a tree. Those of messages
// are no tokens.
func spelled(c *mmapcache.Cache, trace, turn, tree int, endpoint payload.Endpoint, target payload.MarkerTarget) (list []uint64) {
	const marker, message = 1 << 60, 1 << 61
	plan := cachetest.Plan(c, trace)
	tools := map[int32]uint32{}
	for _, r := range plan.Tools {
		tools[r.Segment] = r.Turn + 1
	}
	var messages [][]uint64
	var roles []mmapcache.Role
	var answers []bool
	var path []int32
	for s := plan.Turns[turn].Last; s != mmapcache.None; s = plan.Segments[s].Parent {
		path = append(path, s)
	}
	slices.Reverse(path)
	for _, s := range path {
		role := plan.Segments[s].Role
		if plan.Segments[s].Flags&mmapcache.Continues == 0 {
			messages, roles, answers = append(messages, nil), append(roles, role), append(answers, tools[s] > 0)
			if endpoint != payload.Completions {
				messages[len(messages)-1] = []uint64{message | uint64(role)<<32 | uint64(tools[s])}
			}
			if endpoint == payload.TextCompletions {
				messages[len(messages)-1] = []uint64{message}
			}
		}
		last := &messages[len(messages)-1]
		windows, err := c.AppendWindows(nil, trace, plan, int(s))
		if err != nil {
			panic(err)
		}
		for _, w := range windows {
			for k := range w.Tokens {
				*last = append(*last, uint64(int(w.Start+k)%c.CorpusTokens()))
			}
		}
	}
	at := -1
	if target.Place().System {
		at = slices.Index(roles, mmapcache.System)
	}
	for k := 0; k < len(roles) && at < 0; k++ {
		if roles[k] == mmapcache.User && !answers[k] {
			at = k
		}
	}
	for k, m := range messages {
		var text []uint64
		if k == at && target != payload.NoMarker {
			for n := range payload.MarkerTokens(c.Arenas.Marker) {
				text = append(text, marker|uint64(tree)<<8|uint64(n))
			}
		}
		head := 0
		if endpoint != payload.Completions {
			head = 1
		}
		if target.Place().After {
			list = append(append(list, m...), text...)
		} else {
			list = append(append(append(list, m[:head]...), text...), m[head:]...)
		}
	}
	return list
}

// tokensIn counts what is no beginning of a message.
func tokensIn(list []uint64) (n int64) {
	for _, v := range list {
		if v < 1<<61 {
			n++
		}
	}
	return n
}

// The count of reused prompt tokens is that of comparing every prompt with all earlier ones, token by token.
func TestPromptReuse(t *testing.T) {
	for name, c := range map[string]*mmapcache.Cache{"demo": cachetest.Demo(t), "local": shapedTraces(t, "local"), "global": shapedTraces(t, "global"), "heads": heads(t)} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { checkReuse(t, c) })
		})
	}
}

func checkReuse(t *rapid.T, c *mmapcache.Cache) {
	target := payload.NoMarker + payload.MarkerTarget(rapid.IntRange(0, 4).Draw(t, "target"))
	endpoint := rapid.SampledFrom([]payload.Endpoint{payload.ChatCompletions, payload.Completions, payload.TextCompletions}).Draw(t, "endpoint")
	var played []int
	for range rapid.IntRange(1, 6).Draw(t, "trees") {
		played = append(played, rapid.IntRange(0, min(5, c.Traces()-1)).Draw(t, "trace"))
	}
	var log promptLog
	var earlier [][]uint64
	want := &measure.Prompts{}
	for k := range rapid.IntRange(1, 12).Draw(t, "requests") {
		tree := rapid.IntRange(0, len(played)-1).Draw(t, "tree")
		plan := cachetest.Plan(c, played[tree])
		r := &measure.Record{Phase: measure.ProfilingPhase, Credit: k, Tree: tree, PlanTurn: rapid.IntRange(0, min(11, len(plan.Turns)-1)).Draw(t, "turn"), Bucket: measure.Profiling}
		if rapid.IntRange(0, 3).Draw(t, "cooldown") == 0 {
			r.Bucket = measure.Cooldown
		}
		log.add(r)
		prompt := spelled(c, played[tree], r.PlanTurn, tree, endpoint, target)
		reused := int64(0)
		for _, e := range earlier {
			same := 0
			for same < min(len(e), len(prompt)) && e[same] == prompt[same] {
				same++
			}
			reused = max(reused, tokensIn(prompt[:same]))
		}
		earlier = append(earlier, prompt)
		if r.Bucket == measure.Profiling {
			want.Tokens, want.Reused = want.Tokens+tokensIn(prompt), want.Reused+reused
		}
	}
	got, err := log.reuse(c, endpoint, target, played)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

// Two lanes play one trace without a marker: all of the second tree's prompts have been sent before. With a marker before the
// first user message they share the system prompt of 64 tokens. A warmup counts as sent, and is not counted itself.
func TestPromptReuseOfARun(t *testing.T) {
	c := recorded(t, recording("a", call{at: 0, took: 1}, call{at: 4, took: 1})) // 64 and 128 tokens, the first 64 a system prompt
	run := func(target payload.MarkerTarget) *measure.Prompts {
		o := optionsFor(t, c, unreachable)
		o.Concurrency, o.Trees, o.Marker, o.AllowWrap = 2, 2, target, true
		v, err := virtually(t, o, second)
		require.NoError(t, err)
		return v.results.info.Facts.Prompts
	}
	require.Equal(t, &measure.Prompts{Tokens: 384, Reused: 64 + 64 + 128}, run(payload.NoMarker))
	n := int64(payload.MarkerTokens(c.Arenas.Marker))
	require.Equal(t, &measure.Prompts{Tokens: 384 + 2*n, Reused: 64 + 64 + 64}, run(payload.FirstTurnPrefix))
	require.Equal(t, &measure.Prompts{Tokens: 384 + 4*n, Reused: 2 * (64 + n)}, run(payload.SystemPrefix))

	o := warming(t, c, "default", Warmup{Primers: true})
	v, err := virtually(t, o, second, at(3))
	require.NoError(t, err)
	require.Len(t, v.of(measure.WarmupPhase), 1)
	require.Equal(t, &measure.Prompts{Tokens: 128 + n, Reused: 64}, v.results.info.Facts.Prompts)
}
