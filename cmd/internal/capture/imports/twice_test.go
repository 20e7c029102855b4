package imports

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/cmd/internal/capture/chain"
	"github.com/agentx/agentx/convert/text"
)

// A session of Claude Code that was recorded twice, in its log and by what stands between it and the server, has the same blocks behind what
// the log lacks. AGENTX_TWICE is a directory with the two as make test-claude-code makes them of the client itself; the two in testdata are
// made by hand as those of version 2.1.332.
//
//
func TestRecordedTwice(t *testing.T) {
	dir := os.Getenv("AGENTX_TWICE")
	if dir == "" {
		dir = "testdata/twice"
	}
	tok := o200k()
	d, sizes := read(t, tok, []string{dir + "/log"})
	require.NotNil(t, d)
	require.Len(t, d.Traces, 1)
	trace := d.Traces[0]
	require.Len(t, trace.Sessions, 1)
	trace.Sessions[0].Filler, trace.Sessions[0].Lacks = text.None, text.None
	tree, err := chain.New([32]byte{1}, chain.Options{Tokenizer: tok, Name: tok.Name(), BlockSize: 4}) // of both: equal numbers are equal tokens
	require.NoError(t, err)
	j := &lines{}
	r := &recorder{stream: stream{data: d, sizes: sizes}, trace: trace, tree: tree, journal: j}
	r.prepare()
	require.NoError(t, r.record(t.Context()))
	f, err := os.Open(dir + "/bodies.jsonl")
	require.NoError(t, err)
	defer f.Close()
	q := 0
	bodies := bufio.NewScanner(f)
	for bodies.Buffer(nil, 1<<30); bodies.Scan(); q++ {
		body := withoutUnlogged(t, bodies.Bytes())
		_, prepared, err := tree.Read(canon.Messages, body)
		require.NoError(t, err)
		blocks, err := tree.Apply(len(j.ids)+q, prepared)
		require.NoError(t, err)
		require.Less(t, q, len(j.ids), "requests that the log lacks")
		require.Equal(t, j.ids[q].In, blocks.Tokens, "request %d: %s", q, body)
		require.Equal(t, tree.AppendIDs(nil, q), tree.AppendIDs(nil, len(j.ids)+q), "request %d: %s", q, body)
	}
	require.NoError(t, bodies.Err())
	require.Len(t, j.ids, q)
	require.Greater(t, q, 2)
	t.Logf("%d requests, %d tokens in the last one", q, j.ids[q-1].In)
}

// withoutUnlogged returns a body without what no log has: tools, system prompts, reminders. Results of tools that ran at once stand in the
// order of their calls, as an import has them; the client sends them in the order in which they ended.
func withoutUnlogged(t *testing.T, raw []byte) []byte {
	var body struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	require.NoError(t, json.Unmarshal(raw, &body))
	type block struct {
		Type, Text, ID string
		Answers        string `json:"tool_use_id"`
	}
	messages := body.Messages[:0]
	var calls []string
	for _, m := range body.Messages {
		if m.Role == "system" {
			continue
		}
		var blocks []json.RawMessage
		if bytes.HasPrefix(m.Content, []byte("[")) {
			require.NoError(t, json.Unmarshal(m.Content, &blocks))
			of := func(raw json.RawMessage) (b block) {
				require.NoError(t, json.Unmarshal(raw, &b))
				return b
			}
			blocks = slices.DeleteFunc(blocks, func(raw json.RawMessage) bool { return strings.HasPrefix(of(raw).Text, "<system-reminder>") })
			slices.SortStableFunc(blocks, func(a, b json.RawMessage) int {
				return slices.Index(calls, of(a).Answers) - slices.Index(calls, of(b).Answers)
			})
			calls = nil
			var list [][]byte
			for _, raw := range blocks {
				calls, list = append(calls, of(raw).ID), append(list, raw)
			}
			m.Content = slices.Concat([]byte("["), bytes.Join(list, []byte(",")), []byte("]"))
		}
		messages = append(messages, m)
	}
	body.Messages = messages
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	require.NoError(t, e.Encode(body))
	return b.Bytes()
}
