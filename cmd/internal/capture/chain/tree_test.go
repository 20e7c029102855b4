package chain

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
)

// Text of a message in a few shapes: empty, short, code, several blocks long.
var genText = rapid.OneOf(
	rapid.SampledFrom([]string{"", "a", "Reading it.", "naïve 日本", "if err != nil {\n\treturn err\n}\n"}),
	rapid.Map(rapid.IntRange(1, 400), func(n int) string { return strings.Repeat("one two ", n) }),
	rapid.String(),
)

// genMessage draws a message of chat: roles and content of all kinds.
var genMessage = rapid.Custom(func(t *rapid.T) string {
	text, _ := json.Marshal(genText.Draw(t, "text"))
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		return `{"role":"user","content":[{"type":"text","text":` + string(text) + `},{"type":"image_url","image_url":{"url":` + string(text) + `}}]}`
	case 1:
		return `{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"read","arguments":` + string(text) + `}}]}`
	case 2:
		return `{"role":"tool","tool_call_id":"c","content":` + string(text) + `}`
	case 3:
		return `{"role":"assistant","reasoning_content":"Hm.","content":` + string(text) + `}`
	case 4:
		return `{"role":"user","content":[]}`
	}
	return `{"role":"user","content":` + string(text) + `}`
})

func chatBody(messages []string) string { return `{"messages":[` + strings.Join(messages, ",") + `]}` }

// requireOracle compares request q of a tree with the full computation.
func requireOracle(t require.TestingT, tree *Tree, o *oracle, q int, r Request, stream []uint32, before [][]uint32) []uint32 {
	want := o.ids(stream)
	require.Equal(t, want, slices.Clone(tree.AppendIDs(nil, q)))
	require.Equal(t, len(stream), r.Tokens)
	keep, base := 0, -1
	for i, ids := range before {
		if n := common(ids, want); n > keep {
			keep, base = n, i
		}
	}
	require.Equal(t, []int{base, keep, len(want) - keep}, []int{r.Base, r.Keep, r.New})
	for i, s := range tree.AppendShared(nil, q) {
		require.Equal(t, Shared{i, common(before[i], want)}, s)
	}
	return want
}

// Prompts that grow, are edited, cut and forked have the ids of the full computation, and so has what a session prepares at
// once and applies later.
//
// Covers C-17.
func TestTreeIsTheFullComputation(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.SampledFrom([]int{1, 4, 64}).Draw(rt, "block size")
		tree, o := newTree(t, counting(), size), newOracle(counting(), size)
		var bodies [][]string
		var before [][]uint32
		q := 0
		for q < 8 {
			var prepared []*Prepared
			var streams [][]uint32
			for range rapid.IntRange(1, 3).Draw(rt, "at once") {
				var messages []string
				if len(bodies) > 0 {
					messages = slices.Clone(rapid.SampledFrom(bodies).Draw(rt, "earlier"))
					messages = messages[:rapid.IntRange(0, len(messages)).Draw(rt, "cut")]
				}
				if len(messages) > 0 && rapid.Bool().Draw(rt, "edit") {
					messages[rapid.IntRange(0, len(messages)-1).Draw(rt, "place")] = genMessage.Draw(rt, "edited")
				}
				messages = append(messages, rapid.SliceOfN(genMessage, 1, 4).Draw(rt, "new")...)
				bodies = append(bodies, messages)
				p := parse(t, canon.Chat, chatBody(messages))
				one, err := tree.Prepare(p)
				require.NoError(rt, err)
				prepared, streams = append(prepared, one), append(streams, o.stream(p.Segments))
			}
			for i, one := range prepared {
				r, err := tree.Apply(q, one)
				require.NoError(rt, err)
				before = append(before, requireOracle(rt, tree, o, q, r, streams[i], before))
				q++
			}
		}
		require.Equal(rt, len(o.numbers), tree.Blocks())
	})
}

// A client that appends messages appends ids, whatever the sizes. The control hashes the array of messages as one JSON
// text, as others do: its closing bracket falls into the last block, and some turns lose one.
//
// Covers C-6.
func TestAppendedMessagesAppendIDs(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tree := newTree(t, counting(), 64)
		var messages []string
		var before []uint32
		for q := range rapid.IntRange(2, 8).Draw(rt, "turns") {
			messages = append(messages, rapid.SliceOfN(genMessage, 1, 3).Draw(rt, "new")...)
			apply(t, tree, q, parse(t, canon.Chat, chatBody(messages)))
			ids := tree.AppendIDs(nil, q)
			require.Equal(rt, len(before), common(before, ids), "turn %d", q)
			before = ids
		}
	})

	tree, control := newTree(t, counting(), 64), newOracle(counting(), 64)
	var messages []string
	var before, controlBefore []uint32
	lost := 0
	for q := range 200 {
		messages = append(messages, fmt.Sprintf(`{"role":"user","content":"%d %s"}`, q, long[:q*5]))
		apply(t, tree, q, parse(t, canon.Chat, chatBody(messages)))
		ids, whole := tree.AppendIDs(nil, q), control.ids(control.tokenizer.Encode("["+strings.Join(messages, ",")+"]"))
		require.Equal(t, len(before), common(before, ids), q)
		if common(controlBefore, whole) < len(controlBefore) {
			lost++
		}
		before, controlBefore = ids, whole
	}
	require.NotZero(t, lost)
	t.Logf("hashing JSON as a whole loses a block in %d of 199 turns", lost)
}

// idsOf returns the ids of prompts that follow each other in one session.
func idsOf(t *testing.T, f canon.Format, size int, bodies ...string) (lists [][]uint32) {
	tree := newTree(t, counting(), size)
	for q, body := range bodies {
		apply(t, tree, q, parse(t, f, body))
		lists = append(lists, tree.AppendIDs(nil, q))
	}
	return lists
}

// long is a text of many tokens.
var long = strings.Repeat("The quick brown fox. ", 60)

// What clients change from turn to turn without changing the prompt does not change ids. The same words inside of an input,
// of a schema or of a text do.
//
// Covers C-7.
func TestWhatIsNoPromptIsLeftOut(t *testing.T) {
	body := func(system, tool, text, thinking, call, input, result string) string {
		return `{"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.36; cch=` + system + `"},{"type":"text","text":"` + long + `"}],
		"tools":[{"name":"read","input_schema":{` + tool + `}],
		"messages":[{"role":"user","content":[{"type":"text","text":"` + long + `"` + text + `}]},
		{"role":"assistant","content":[{"type":"thinking","thinking":"Hm."` + thinking + `},{"type":"tool_use","id":"` + call + `","name":"read","input":{"a":1` + input + `}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + call + `","content":"` + long + `"` + result + `}]}]}`
	}
	const cached = `,"cache_control":{"type":"ephemeral"}`
	first := body("0a1b2;", `"a":1}`, ``, ``, `toolu_1`, ``, ``)
	for name, same := range map[string]string{
		"cch":                     body("ffff;", `"a":1}`, ``, ``, `toolu_1`, ``, ``),
		"cache_control of a tool": body("0a1b2;", `"a":1}`+cached, ``, ``, `toolu_1`, ``, ``),
		"cache_control of a text": body("0a1b2;", `"a":1}`, cached, ``, `toolu_1`, ``, ``),
		"and of a result":         body("0a1b2;", `"a":1}`, cached, ``, `toolu_1`, ``, cached),
		"signature":               body("0a1b2;", `"a":1}`, ``, `,"signature":"Er"`, `toolu_1`, ``, ``),
		"ids of calls":            body("0a1b2;", `"a":1}`, ``, ``, `toolu_2`, ``, ``),
	} {
		lists := idsOf(t, canon.Messages, 4, first, same)
		require.Equal(t, lists[0], lists[1], name)
	}
	for name, other := range map[string]string{
		"in a schema":      body("0a1b2;", `"a":1`+cached+`}`, ``, ``, `toolu_1`, ``, ``),
		"in an input":      body("0a1b2;", `"a":1}`, ``, ``, `toolu_1`, cached, ``),
		"id in an input":   body("0a1b2;", `"a":1}`, ``, ``, `toolu_1`, `,"id":"toolu_1"`, ``),
		"text behind cch":  body(`0a1b2;\nNew.`, `"a":1}`, ``, ``, `toolu_1`, ``, ``),
		"what thinking is": strings.Replace(first, "Hm.", "So.", 1),
	} {
		lists := idsOf(t, canon.Messages, 4, first, other)
		require.NotEqual(t, lists[0], lists[1], name)
	}
}

// An edited message keeps exactly the full blocks before it, and a tool is what its sender wrote.
//
// Covers C-8.
func TestEditsKeepTheBlocksBeforeThem(t *testing.T) {
	o := newOracle(counting(), 64)
	var messages []string
	for i := range 12 {
		messages = append(messages, fmt.Sprintf(`{"role":"user","content":"%d %s"}`, i, long[:i*90+30]))
	}
	whole := parse(t, canon.Chat, chatBody(messages))
	for k := range messages {
		edited := slices.Clone(messages)
		edited[k] = strings.Replace(edited[k], `"content":"`, `"content":"New `, 1)
		lists := idsOf(t, canon.Chat, 64, chatBody(messages), chatBody(edited))
		before := len(o.stream(whole.Segments[:k])) + 2 // its role and its kind are as before
		require.Equal(t, before/64, common(lists[0], lists[1]), k)
	}
	tool := `{"tools":[{"name":"read","description":"` + long + `"}],"messages":[{"role":"user","content":"` + long + `"}]}`
	lists := idsOf(t, canon.Chat, 64, tool, strings.Replace(tool, `"name":"read","description":"`+long+`"`, `"description":"`+long+`","name":"read"`, 1))
	require.Zero(t, common(lists[0], lists[1]))
}

// A text is one block of text, and one prompt has the same blocks in chat and in Responses.
//
// Covers C-9.
func TestSpellingsOfOnePrompt(t *testing.T) {
	chat := `{"messages":[{"role":"system","content":"` + long + `"},{"role":"user","content":"` + long + `"},
		{"role":"assistant","content":"Yes.","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"b\": 1}"}}]},{"role":"tool","tool_call_id":"a","content":"` + long + `"}]}`
	blocks := strings.ReplaceAll(chat, `"`+long+`"`, `[{"type":"text","text":"`+long+`"}]`)
	responses := `{"instructions":"` + long + `","input":[{"role":"user","content":[{"type":"input_text","text":"` + long + `"}]},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Yes."}]},
		{"type":"function_call","call_id":"a","name":"f","arguments":"{\"b\": 1}"},{"type":"function_call_output","call_id":"a","output":"` + long + `"}]}`
	escaped := strings.ReplaceAll(chat, "quick", `qu\u0069ck`)
	tree := newTree(t, counting(), 4)
	first := apply(t, tree, 0, parse(t, canon.Chat, chat))
	for q, p := range []*canon.Prompt{parse(t, canon.Chat, blocks), parse(t, canon.Responses, responses), parse(t, canon.Chat, escaped)} {
		r := apply(t, tree, q+1, p)
		require.Equal(t, first.Tokens, r.Tokens, q)
		require.Zero(t, r.New, q)
		require.Equal(t, first.System, r.System, q)
	}
	require.Less(t, 20, first.New)
}

// What is behind the last full block is in the count of tokens alone.
//
// Covers C-10.
func TestTailsHaveNoBlock(t *testing.T) {
	tree := newTree(t, counting(), 64)
	for q, c := range []struct {
		tokens []uint32
		want   Request
	}{
		{counted(128), Request{Tokens: 128, Base: -1, New: 2}},
		{append(counted(128), 7), Request{Tokens: 129, Base: 0, Keep: 2, firstID: 2}},
		{append(counted(128), slices.Repeat([]uint32{7}, 63)...), Request{Tokens: 191, Base: 0, Keep: 2, firstID: 2}},
		{append(counted(128), slices.Repeat([]uint32{7}, 64)...), Request{Tokens: 192, Base: 0, Keep: 2, New: 1, firstID: 2}},
	} {
		require.Equal(t, c.want, apply(t, tree, q, tokens(c.tokens...)))
	}
}

// Two sessions number the same prompts alike, and have no digest in common.
//
// Covers C-11.
func TestSessionsShareNoDigest(t *testing.T) {
	a, b := newTree(t, counting(), 4), newTree(t, digest{1}, 4)
	for q, body := range []string{`{"messages":[{"role":"user","content":"` + long + `"}]}`, `{"messages":[{"role":"user","content":"` + long + `"},{"role":"user","content":[{"type":"image_url","image_url":"https://a"}]}]}`} {
		require.Equal(t, apply(t, a, q, parse(t, canon.Chat, body)), apply(t, b, q, parse(t, canon.Chat, body)))
		require.Equal(t, a.AppendIDs(nil, q), b.AppendIDs(nil, q))
	}
	for _, lists := range [][2][]short{{a.blocks.keys, b.blocks.keys}, {a.segments.keys, b.segments.keys}} {
		require.Len(t, lists[1], len(lists[0]))
		for _, key := range lists[0] {
			require.NotContains(t, lists[1], key)
		}
	}
}

// Requests are applied in order, once, and not after the end.
func TestApplyingOutOfOrder(t *testing.T) {
	tree := newTree(t, counting(), 4)
	prepare := func() *Prepared {
		p, err := tree.Prepare(tokens(counted(9)...))
		require.NoError(t, err)
		require.Equal(t, 9, p.Tokens())
		return p
	}
	apply(t, tree, 3, tokens(counted(9)...))
	for _, q := range []int{-1, 0, 3} {
		_, err := tree.Apply(q, prepare())
		require.ErrorIs(t, err, errOrder)
	}
	require.Equal(t, Request{Tokens: 9, Base: 3, Keep: 2, firstID: 2}, apply(t, tree, 7, tokens(counted(9)...)))
	require.Equal(t, 1+1, tree.Nodes())
	_, err := tree.PrepareOutput(4, &canon.Prompt{})
	require.ErrorIs(t, err, errNoRequest)
	late := prepare()
	tree.Erase()
	_, err = tree.Apply(8, late)
	require.ErrorIs(t, err, ErrErased)
	_, err = tree.Prepare(tokens(1))
	require.ErrorIs(t, err, ErrErased)
	_, err = tree.PrepareOutput(7, &canon.Prompt{})
	require.ErrorIs(t, err, ErrErased)
	require.ErrorIs(t, tree.Remember("resp", &Prepared{}), ErrErased)
	tree.Erase()
}

// The end of a session overwrites the key, the digests and the tails.
func TestEraseOverwritesSecrets(t *testing.T) {
	tree := newTree(t, counting(), 64)
	for q := range 40 {
		apply(t, tree, q, tokens(append(counted(100*q), 7)...))
	}
	out, err := canon.ParseOutput([]byte(`[{"type":"message","role":"assistant","content":"` + long + `"}]`))
	require.NoError(t, err)
	prepared, err := tree.PrepareOutput(39, out)
	require.NoError(t, err)
	require.NoError(t, tree.Remember("resp_1", prepared))
	require.Empty(t, prepared.keys)
	keys, segments, nodes, chunk, inner, outer := tree.blocks.keys, tree.segments.keys, tree.nodes, tree.nodes[1].tail, tree.signer.inner, tree.signer.outer
	require.NotZero(t, keys[0])
	require.NotZero(t, chunk[0])
	tree.Erase()
	require.Equal(t, make([]short, len(keys)), keys)
	require.Equal(t, make([]short, len(segments)), segments)
	require.Equal(t, make([]node, len(nodes)), nodes)
	require.Equal(t, make([]uint32, len(chunk)), chunk)
	require.Equal(t, make([]byte, len(inner)), inner)
	require.Equal(t, make([]byte, len(outer)), outer)
	require.Zero(t, tree.Blocks()+tree.Nodes())
}

// A list that holds secrets overwrites what it leaves behind when it grows.
func TestGrowingListsOverwriteWhatTheyLeave(t *testing.T) {
	list := appendErasing([]uint32(nil), 1, 2, 3)
	for n := uint32(4); n < 1000; n++ {
		before := list
		if list = appendErasing(list, n); &list[0] != &before[0] {
			require.Equal(t, make([]uint32, len(before)), before)
		}
	}
	require.Equal(t, counted(1000)[1:], list)
}

// Prompts are prepared at once in any number, while others are applied, and before their predecessors.
func TestManyPrepareAtOnce(t *testing.T) {
	bodies := make([]string, 64)
	for i := range bodies {
		messages := []string{`{"role":"system","content":"` + long + `"}`}
		for k := range i%16 + 1 {
			messages = append(messages, fmt.Sprintf(`{"role":"user","content":"%d %d %s"}`, i/16, k, long[:k*20]))
		}
		bodies[i] = chatBody(messages)
	}
	want := idsOf(t, canon.Chat, 4, bodies...)
	tree := newTree(t, counting(), 4)
	prepared := make([]chan *Prepared, len(bodies))
	for i := range prepared {
		prepared[i] = make(chan *Prepared, 1)
	}
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			for i := len(bodies) - 1 - w; i >= 0; i -= 4 {
				p, err := canon.Parse(canon.Chat, []byte(bodies[i]))
				if err != nil {
					panic(err)
				}
				one, err := tree.Prepare(p)
				if err != nil {
					panic(err)
				}
				prepared[i] <- one
			}
		})
	}
	for q := range bodies {
		_, err := tree.Apply(q, <-prepared[q])
		require.NoError(t, err)
		require.Equal(t, want[q], tree.AppendIDs(nil, q), q)
	}
	workers.Wait()
}

func TestOptionsAreChecked(t *testing.T) {
	valid := newTree(t, counting(), 64).options
	for _, change := range []func(o *Options){
		func(o *Options) { o.Tokenizer = nil }, func(o *Options) { o.Name = "" }, func(o *Options) { o.BlockSize = 0 }, func(o *Options) { o.BlockSize = maxBlockSize + 1 },
	} {
		o := valid
		change(&o)
		_, err := New(counting(), o)
		require.Error(t, err)
	}
	_, err := New(counting(), Options{Tokenizer: valid.Tokenizer, Name: "a", BlockSize: maxBlockSize})
	require.NoError(t, err)
}
