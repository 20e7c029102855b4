package chain

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
)

const (
	headOfResponses = `{"instructions":"You are careful.","tools":[{"type":"function","name":"read"}],`
	asked           = `{"role":"user","content":"Fix it."}`
	called          = `{"type":"function_call","id":"fc_1","call_id":"call_1","name":"read","arguments":"{}"}`
	thought         = `{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Think about all of it, at length."}]}`
	returned        = `{"type":"function_call_output","call_id":"call_1","output":"func parse() error {"}`
)

// remember tells a tree the response to request q.
func remember(t *testing.T, tree *Tree, q int, id, output string) {
	t.Helper()
	p, err := canon.ParseOutput([]byte(output))
	require.NoError(t, err)
	prepared, err := tree.PrepareOutput(q, p)
	require.NoError(t, err)
	require.NoError(t, tree.Remember(id, prepared))
}

// A prompt that names a response goes on behind it, as if it had been sent whole; one that names an unknown response, or has
// other tools or instructions, has no stream.
//
// Covers C-16.
func TestPromptsThatNameAResponse(t *testing.T) {
	for _, size := range []int{1, 4, 64} {
		tree, whole := newTree(t, counting(), size), newOracle(counting(), size)
		full := func(items ...string) []uint32 {
			p := parse(t, canon.Responses, headOfResponses+`"input":[`+strings.Join(items, ",")+`]}`)
			return whole.stream(p.Segments)
		}
		var before [][]uint32
		check := func(q int, body string, stream []uint32) {
			t.Helper()
			r := apply(t, tree, q, parse(t, canon.Responses, body))
			before = append(before, requireOracle(t, tree, whole, q, r, stream, before))
			require.Equal(t, []int{11, 7}, []int{r.Tools, r.System}, q)
		}
		check(0, headOfResponses+`"input":[`+asked+`]}`, full(asked))
		remember(t, tree, 0, "resp_1", `[`+thought+`,`+called+`]`)
		check(1, headOfResponses+`"previous_response_id":"resp_1","input":[`+returned+`]}`, full(asked, thought, called, returned))
		remember(t, tree, 1, "resp_2", `[]`)
		check(2, headOfResponses+`"previous_response_id":"resp_2","input":"Go on."}`, full(asked, thought, called, returned, `{"role":"user","content":"Go on."}`))
		// A fork, which begins with items of the assistant: they need no role behind others of it.
		check(3, headOfResponses+`"previous_response_id":"resp_1","input":[`+called+`,`+returned+`]}`, full(asked, thought, called, called, returned))
		// The response alone, again; then all of it from the client, who goes on elsewhere.
		check(4, headOfResponses+`"previous_response_id":"resp_1"}`, full(asked, thought, called))
		check(5, headOfResponses+`"input":[`+asked+`,`+thought+`,`+asked+`]}`, full(asked, thought, asked))
	}

	tree := newTree(t, counting(), 4)
	apply(t, tree, 0, parse(t, canon.Responses, headOfResponses+`"input":[`+asked+`]}`))
	remember(t, tree, 0, "resp_1", `[`+called+`]`)
	for name, body := range map[string]string{
		"unknown":            headOfResponses + `"previous_response_id":"resp_2","input":[` + returned + `]}`,
		"other instructions": strings.Replace(headOfResponses, "careful", "quick", 1) + `"previous_response_id":"resp_1","input":[` + returned + `]}`,
		"no instructions":    `{"tools":[{"type":"function","name":"read"}],"previous_response_id":"resp_1","input":[` + returned + `]}`,
		"other tools":        strings.Replace(headOfResponses, "read", "write", 1) + `"previous_response_id":"resp_1","input":[` + returned + `]}`,
		"no head":            `{"previous_response_id":"resp_1","input":[` + returned + `]}`,
	} {
		_, err := tree.Prepare(parse(t, canon.Responses, body))
		var own *canon.Error
		require.ErrorAs(t, err, &own, name)
		require.Equal(t, journal.HoleUnhashable, own.Reason, name)
	}
}

// Blocks of an output get numbers when a prompt has them, whichever prompt or output has its segments first.
func TestBlocksOfOutputsWaitForAPrompt(t *testing.T) {
	item := `{"type":"message","role":"assistant","content":"` + long + `"}`
	tree, o := newTree(t, counting(), 4), newOracle(counting(), 4)
	apply(t, tree, 0, parse(t, canon.Responses, `{"input":[`+asked+`]}`))
	ids := [][]uint32{o.ids(o.stream(parse(t, canon.Responses, `{"input":[`+asked+`]}`).Segments))}
	blocks := tree.Blocks()

	sent := parse(t, canon.Responses, `{"input":[`+asked+`,`+item+`,`+asked+`]}`)
	early, err := tree.Prepare(sent) // before the output is known
	require.NoError(t, err)
	remember(t, tree, 0, "resp_1", `[`+item+`,`+called+`]`)
	require.Equal(t, blocks, tree.Blocks())
	r, err := tree.Apply(1, early)
	require.NoError(t, err)
	ids = append(ids, requireOracle(t, tree, o, 1, r, o.stream(sent.Segments), ids))
	require.Len(t, tree.loose, 1) // the call, which the prompt does not repeat

	further := parse(t, canon.Responses, `{"previous_response_id":"resp_1","input":[`+returned+`]}`)
	want := parse(t, canon.Responses, `{"input":[`+asked+`,`+item+`,`+called+`,`+returned+`]}`)
	requireOracle(t, tree, o, 2, apply(t, tree, 2, further), o.stream(want.Segments), ids)
	require.Empty(t, tree.loose)
}

// What a request adds, by kinds of content.
func TestTypesOfTheNewInput(t *testing.T) {
	user := `{"role":"user","content":"` + long + `"}`
	answer := `{"role":"assistant","content":[{"type":"thinking","thinking":"a"},{"type":"text","text":"b"},{"type":"tool_use","name":"f","input":{}}]}`
	result := `{"role":"user","content":[{"type":"tool_result","content":"c"}]}`
	body := func(messages ...string) *canon.Prompt {
		return parse(t, canon.Messages, `{"system":"`+long+`","messages":[`+strings.Join(messages, ",")+`]}`)
	}
	tree := newTree(t, counting(), 4)
	for q, c := range []struct {
		prompt      *canon.Prompt
		predecessor int
		want        journal.Kinds
	}{
		{body(user), -1, journal.Text},
		{body(user, answer, result), 0, journal.ToolResult},
		{body(user, answer, result, answer, result, answer, user), 1, journal.ToolResult | journal.Text | journal.ToolUse | journal.Thinking},
		{body(user, answer, result), 1, 0},                          // a retry
		{body(user, answer), 0, 0},                                  // what was answered alone
		{body(user, answer, result), -1, 15},                        // all of it
		{parse(t, canon.Messages, `{"messages":[`+user+`]}`), 5, 1}, // nothing shared
		{body(answer, result), 2, 15},                               // less than half of the blocks are left
		{body(user, answer, `{"role":"user","content":[{"type":"image"}]}`), 0, journal.Text},
	} {
		apply(t, tree, q, c.prompt)
		require.Equal(t, c.want, kindsOf(tree, q, c.predecessor), q)
	}
	require.Zero(t, tree.InputKinds(99, 0, 0))
}

// kindsOf returns the kinds that a request adds to an earlier one.
func kindsOf(t *Tree, q, predecessor int) journal.Kinds {
	shared := 0
	for _, s := range t.AppendShared(nil, q) {
		if s.Q == predecessor {
			shared = s.Blocks
		}
	}
	return t.InputKinds(q, predecessor, shared)
}
