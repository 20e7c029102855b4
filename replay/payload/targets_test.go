package payload

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
)

// shaped returns a trace whose tool results are shaped as such. Its turns send a system prompt alone; then user messages; then a
// new prompt, after a reset, without a system prompt; then a tool result.
func shaped(t *testing.T) *mmapcache.Cache {
	requests := []string{}
	for k, r := range []struct {
		in   int
		ids  string
		kind string
	}{{64, "0", ""}, {192, "0,1,2", `"tool_result"`}, {320, "0,1,2,3,4", `"text"`}, {192, "7,8,9", `"text"`}, {320, "7,8,9,10,11", `"tool_result"`}} {
		requests = append(requests, fmt.Sprintf(`{"t":%d,"type":"n","model":"m","in":%d,"out":64,"hash_ids":[%s],"input_types":[%s],"output_types":[],"stop":"","api_time":0.25}`,
			k, r.in, r.ids, r.kind))
	}
	line := fmt.Sprintf(`{"id":"shaped","models":["m"],"block_size":64,"hash_id_scope":"local","tool_tokens":0,"system_tokens":64,"requests":[%s]}`+"\n", strings.Join(requests, ","))
	own := rules.Default()
	own.ToolShaped = true
	r, err := convert.Convert(context.Background(), convert.Options{
		Root: cachetest.Root(), Inputs: []string{"traces"}, Rules: own, Placement: rules.Placement{Backend: rules.XXH3, Seed: 42},
		Tokenizer: "o200k_base", Corpus: "code", Source: hfsource.Options{Embedded: map[string][]byte{"traces": []byte(line)}},
	})
	require.NoError(t, err)
	return cachetest.Open(t, cachetest.Root(), r.Key)
}

// roles returns the roles of the messages of a turn, as a chat request names them.
func roles(tree *mmapcache.RenderedTrace, turn int) (list []string) {
	var p mmapcache.Prompt
	tree.Prompt(turn, &p)
	for k := range p.Messages {
		role := p.Messages[k].Role.String()
		if p.Messages[k].Kind() == mmapcache.ToolResultMessage {
			role = "tool"
		}
		list = append(list, role)
	}
	return list
}

// Markers stand at user messages, not at tool results, and at those of the prompt that a turn sends, whatever was sent before.
//
// Covers T-35, M-9, M-10.
func TestTargetsInEveryShape(t *testing.T) {
	c := shaped(t)
	text, err := c.Render(0, mmapcache.Text)
	require.NoError(t, err)
	ids, err := c.Render(0, mmapcache.IDs)
	require.NoError(t, err)
	var shapes []string
	for turn := range text.Turns {
		shapes = append(shapes, strings.Join(roles(text, turn), " "))
		plain := contents(text, turn)
		for k, role := range roles(text, turn) {
			plain[k].Role = role
		}
		for _, target := range targets {
			want := inject(plain, "[rid:"+string(someMarker)+"]", target)
			var b Body
			b.fill(encoderOf(t, c, ChatCompletions, "m", target), text, turn, someMarker, 1)
			var got struct{ Messages []message }
			require.NoError(t, json.Unmarshal(written(t, &b), &got))
			require.Equal(t, want, got.Messages, "turn %d, %s", turn, target)

			b.fill(encoderOf(t, c, Completions, "m", target), ids, turn, someMarker, 1)
			require.Equal(t, markedIDs(c, ids, turn, someMarker, plain, want), *read(t, written(t, &b)).Prompt, "turn %d, %s", turn, target)
		}
	}
	require.Equal(t, []string{"system", "system user", "system user assistant user", "user", "user assistant tool"}, shapes)
}

// A marker stands at no tool result, although a plan has it as a message of the user.
//
// Covers T-35, M-9.
func TestTargetMessages(t *testing.T) {
	messages := map[string]mmapcache.Message{
		"system": {Role: mmapcache.System, ToolTurn: mmapcache.None}, "user": {Role: mmapcache.User, ToolTurn: mmapcache.None},
		"assistant": {Role: mmapcache.Assistant, ToolTurn: mmapcache.None},
		"calls":     {Role: mmapcache.Assistant, ToolTurn: 3}, "tool": {Role: mmapcache.User, ToolTurn: 3},
	}
	for _, test := range []struct {
		prompt       string
		user, system int
	}{
		{"", -1, -1}, {"system", -1, 0}, {"user", 0, 0}, {"system user", 1, 0}, {"assistant", -1, -1}, {"assistant user", 1, 1},
		{"calls tool", -1, -1}, {"calls tool assistant user user", 3, 3}, {"system calls tool user", 3, 0}, {"user system", 0, 1},
	} {
		var list []mmapcache.Message
		for _, role := range strings.Fields(test.prompt) {
			list = append(list, messages[role])
		}
		for target, want := range map[MarkerTarget]int{
			NoMarker: -1, FirstTurnPrefix: test.user, FirstTurnSuffix: test.user, SystemPrefix: test.system, SystemSuffix: test.system,
		} {
			require.Equal(t, want, target.index(list), "%q, %s", test.prompt, target)
		}
	}
}

// markedIDs returns the ids of a prompt with those of the marker where the messages with it differ from those without.
func markedIDs(c *mmapcache.Cache, tree *mmapcache.RenderedTrace, turn int, marker Marker, plain, marked []message) (list []uint32) {
	var p mmapcache.Prompt
	tree.Prompt(turn, &p)
	pieces := c.Arenas.Marker
	var mark []uint32
	for _, digit := range marker {
		mark = append(mark, pieces.Hex[strings.IndexRune("0123456789abcdef", digit)]...)
	}
	mark = slices.Concat(pieces.Open, mark, pieces.Close)
	for k := range p.Messages {
		content := p.AppendTokenIDs(nil, k)
		switch {
		case plain[k] == marked[k]:
		case strings.HasPrefix(marked[k].Content.(string), "[rid:"):
			content = slices.Concat(mark, pieces.Newlines, content)
		default:
			content = slices.Concat(content, pieces.Newlines, mark)
		}
		list = append(list, content...)
	}
	return list
}

// Bodies are what the slow oracles say, for any turn, target and marker, written in pieces of any size.
func FuzzTargets(f *testing.F) {
	c := cachetest.SplitCharacters(f)
	for k, target := range targets {
		f.Add(uint16(k), uint16(7*k), uint8(target), uint16(1<<k), int64(k))
	}
	f.Fuzz(func(t *testing.T, trace, turn uint16, target uint8, limit uint16, pass int64) {
		place := targets[int(target)%len(targets)]
		marker := NewMarker("fuzz", int(pass), int(trace), "t")
		i := int(trace) % c.Traces()
		text, err := c.Render(i, mmapcache.Text)
		require.NoError(t, err)
		ids, err := c.Render(i, mmapcache.IDs)
		require.NoError(t, err)
		row := int(turn) % len(text.Turns)
		plain := contents(text, row)
		want := inject(plain, "[rid:"+string(marker)+"]", place)
		body := func(endpoint Endpoint, tree *mmapcache.RenderedTrace) []byte {
			var b Body
			var out bytes.Buffer
			b.fill(encoderOf(t, c, endpoint, "m", place), tree, row, marker, 1)
			n, err := b.writeTo(&out, 2+int(limit))
			require.NoError(t, err)
			require.Equal(t, b.Size(), n)
			return out.Bytes()
		}
		require.Equal(t, want, *read(t, body(ChatCompletions, text)).Messages)
		require.Equal(t, markedIDs(c, ids, row, marker, plain, want), *read(t, body(Completions, ids)).Prompt)
	})
}
