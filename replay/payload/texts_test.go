package payload

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
)

// chats are two conversations: one has tools, a call and its result, and odd text.
const chats = `{"id":"a","tools":[{"type":"function","function":{"name":"sh","parameters":{"type":"object"}}}],"messages":[{"role":"system","content":"Be terse."},{"role":"user","content":"How \"many\" files? \u00e9\ud83d\ude00"},{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"sh","arguments":"{\"cmd\": \"ls\"}"}}]},{"role":"tool","tool_call_id":"c1","content":"42\n"},{"role":"assistant","content":"42."}]}
{"id":"b","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://a/b.png"}},{"type":"text","text":"what?"}]},{"role":"assistant","content":"a cat"}]}
`

func textCache(t *testing.T) (*mmapcache.Cache, string) {
	root := t.TempDir()
	require.NoError(t, os.Chmod(root, 0o755))
	r, err := convert.Convert(context.Background(), convert.Options{Root: root, Inputs: []string{"chats"}, Corpus: "words",
		Source: hfsource.Options{Embedded: map[string][]byte{"chats": []byte(chats)}}})
	require.NoError(t, err)
	return cachetest.Open(t, root, r.Key), root
}

// Bodies of recorded messages are JSON of the length that they say, with the tools, the system prompt and the marker in their places, in
// pieces of any size.
func TestRecordedMessages(t *testing.T) {
	c, _ := textCache(t)
	require.True(t, c.HasTexts())
	for _, target := range []MarkerTarget{NoMarker, FirstTurnPrefix, SystemPrefix} {
		for _, endpoint := range []Endpoint{ChatCompletions, Messages} {
			e, _, err := NewEncoder(c, Options{Endpoint: endpoint, Model: "m", Marker: target})
			require.NoError(t, err)
			encoding, err := endpoint.EncodingOf(c)
			require.NoError(t, err)
			var got []string
			for i := range c.Traces() {
				tr, err := c.Render(i, encoding)
				require.NoError(t, err)
				for turn := range tr.Turns {
					m := NewMarker("run", 0, 0, "t")
					if target == NoMarker {
						m = ""
					}
					b, err := e.Body(tr, turn, m, 7)
					require.NoError(t, err)
					var whole, parts bytes.Buffer
					_, err = b.WriteTo(&whole)
					require.NoError(t, err)
					require.Equal(t, b.Size(), int64(whole.Len()))
					_, err = b.writeTo(&parts, 5)
					require.NoError(t, err)
					require.Equal(t, whole.String(), parts.String())
					require.True(t, json.Valid(whole.Bytes()), whole.String())
					require.Equal(t, target != NoMarker, strings.Contains(whole.String(), "[rid:"), whole.String())
					got = append(got, strings.ReplaceAll(whole.String(), string(m), "MARK"))
					b.Release()
				}
			}
			require.Len(t, got, 3)
			key := endpoint.String() + " " + target.String()
			if want, ok := recordedBodies[key]; ok {
				assert.Equal(t, want, got[1], key)
			}
		}
	}
}

// recordedBodies are the second bodies: of the first conversation behind its call.
var recordedBodies = map[string]string{
	"chat first_turn_prefix":      `{"tools":[{"type":"function","function":{"name":"sh","parameters":{"type":"object"}}}],"messages":[{"role":"system","content":"Be terse."},{"role":"user","content":"[rid:MARK]\n\nHow \"many\" files? é😀"},{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"sh","arguments":"{\"cmd\": \"ls\"}"}}]},{"role":"tool","tool_call_id":"call_1","content":"42\n"}],"model":"m","stream":true,"max_completion_tokens":7,"ignore_eos":true,"stream_options":{"include_usage":true}}`,
	"anthropic first_turn_prefix": `{"tools":[{"name":"sh","input_schema":{"type":"object"}}],"system":[{"type":"text","text":"Be terse."}],"messages":[{"role":"user","content":"[rid:MARK]\n\nHow \"many\" files? é😀"},{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"sh","input":{"cmd": "ls"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"42\n"}]}],"model":"m","stream":true,"max_tokens":7,"ignore_eos":true}`,
	"anthropic system_prefix":     `{"tools":[{"name":"sh","input_schema":{"type":"object"}}],"system":[{"type":"text","text":"[rid:MARK]\n\nBe terse."}],"messages":[{"role":"user","content":"How \"many\" files? é😀"},{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"sh","input":{"cmd": "ls"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":"42\n"}]}],"model":"m","stream":true,"max_tokens":7,"ignore_eos":true}`,
}

// A body of recorded messages allocates nothing once its slices have grown.
func TestRecordedMessagesAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	c, _ := textCache(t)
	e, _, err := NewEncoder(c, Options{Endpoint: Messages, Model: "m"})
	require.NoError(t, err)
	tr, err := c.Render(0, mmapcache.AnthropicMessages)
	require.NoError(t, err)
	var out bytes.Buffer
	out.Grow(1 << 16)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		out.Reset()
		b, err := e.Body(tr, 1, "0123456789ab", 7)
		if err == nil {
			_, err = b.WriteTo(&out)
		}
		if err != nil {
			t.Fatal(err)
		}
		b.Release()
	}))
}

// What recorded messages cannot be sent as is an error that says what can.
func TestRecordedMessagesAreRefused(t *testing.T) {
	c, _ := textCache(t)
	for _, endpoint := range []Endpoint{Completions, TextCompletions} {
		_, _, err := NewEncoder(c, Options{Endpoint: endpoint, Model: "m"})
		require.ErrorContains(t, err, "want chat or anthropic")
	}
	_, _, err := NewEncoder(c, Options{Marker: FirstTurnSuffix, Model: "m"})
	require.ErrorContains(t, err, "a marker stands before a recorded message")
	_, err = c.Render(0, mmapcache.Text)
	require.Error(t, err)
}

// Only the owner can read a text cache in a root that others can, and only the file of the texts has any of it.
func TestTextsArePrivate(t *testing.T) {
	c, root := textCache(t)
	for _, kind := range []string{mmapcache.TextsKind, mmapcache.StructureKind} {
		dir := filepath.Join(root, kind, c.Manifest.Parts[kind].Key)
		require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			require.NoError(t, err)
			info, err := e.Info()
			require.NoError(t, err)
			require.Zero(t, info.Mode().Perm()&0o077, path)
			return nil
		}))
	}
	require.NoError(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		if e.IsDir() || filepath.Base(filepath.Dir(filepath.Dir(path))) == mmapcache.ArenasKind {
			return nil
		}
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		if filepath.Base(path) != "text.json" {
			for _, canary := range []string{"terse", "files?", "a cat", "b.png", "chats"} {
				require.NotContains(t, string(data), canary, path)
			}
		}
		return nil
	}))
}
