package capture

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/cmd/internal/capture/chain"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/internal/durable"
)

// canary is what must not be found.
const canary = "cAnArY1d2c3b"

// singing is an upstream that says the canary wherever it can.
func singing(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Set-Cookie", "id="+canary)
	w.Header().Set("X-Request-Id", canary)
	send := func(kind, text string) {
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, strings.ReplaceAll(text, "CANARY", canary))
	}
	switch do := r.Header.Get("X-Do"); do {
	case "status":
		w.WriteHeader(http.StatusTooManyRequests)
		send("application/json", `{"error":{"message":"CANARY"}}`)
	case "reset":
		panic(http.ErrAbortHandler)
	case "coded":
		w.Header().Set("Content-Encoding", canary)
		send("text/event-stream", delta)
	case "kind":
		send("application/"+canary, `{"CANARY":1}`)
	case "malformed":
		send("application/json", `{"id":"CANARY`)
	case "messages":
		send("text/event-stream", `data: {"type":"message_start","message":{"id":"CANARY","usage":{"input_tokens":5,"output_tokens":1}}}

data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"CANARY","name":"Task"}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"subagent_type\":\"CANARY\"}"}}

data: {"type":"message_delta","delta":{"stop_reason":"CANARY"},"usage":{"output_tokens":7}}

data: {"type":"message_stop"}

`)
	case "responses":
		send("application/json", `{"id":"resp_CANARY","status":"CANARY","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"CANARY"}]},{"type":"CANARY"}],"usage":{"input_tokens":5,"output_tokens":3,"CANARY":1}}`)
	default:
		send("text/event-stream", `data: {"id":"CANARY","choices":[{"index":0,"delta":{"content":"CANARY PANIC","tool_calls":[{"index":0,"id":"CANARY","function":{"name":"CANARY","arguments":"CANARY"}}]},"finish_reason":"CANARY"}]}

data: {"error":{"message":"CANARY"}}

`)
	}
}

// loud is a tokenizer whose panics say what it was given.
type loud struct{ panicking }

func (l loud) AppendIDs(ids []uint32, text string) []uint32 {
	if strings.Contains(text, "PANIC") {
		panic(text)
	}
	return l.panicking.AppendIDs(ids, text)
}

// bodies have the canary wherever a client can put one.
var bodies = map[string][]string{
	chatPath: {
		`{"model":"CANARY with blanks","stream":true,"user":"CANARY","prompt_cache_key":"CANARY","tools":[{"type":"function","function":{"name":"CANARY"}}],"messages":[{"role":"CANARY","content":"CANARY"},{"role":"assistant","tool_calls":[{"id":"CANARY","function":{"name":"CANARY","arguments":"CANARY"}}]},{"role":"tool","tool_call_id":"CANARY","content":"CANARY"}]}`,
		`{"model":"m","messages":[{"role":"user","content":"CANARY PANIC"}]}`, `{"CANARY`, `"CANARY"`, `{"messages":"CANARY"}`,
	},
	"/v1/messages": {
		`{"model":"m","stream":true,"metadata":{"user_id":"user_CANARY_session_CANARY"},"system":[{"type":"text","text":"x-anthropic-billing-header: CANARY\nCANARY"}],"messages":[{"role":"user","content":[{"type":"CANARY","text":"CANARY"},{"type":"image","source":{"type":"url","url":"http://CANARY"}}]}]}`,
	},
	"/v1/responses": {`{"model":"m","instructions":"CANARY","input":"CANARY"}`, `{"model":"m","previous_response_id":"resp_CANARY","input":"CANARY"}`, `{"model":"m","conversation":"CANARY"}`},
}

// sing sends everything in which a canary can be.
func (r *running) sing() {
	hide := func(text string) string { return strings.ReplaceAll(text, "CANARY", canary) }
	headers := [][]string{
		nil, {"Authorization", "Bearer CANARY"}, {"X-Session-Affinity", "CANARY"}, {"X-Claude-Code-Session-Id", "CANARY", "X-Claude-Code-Agent-Id", "CANARY"},
		{"X-Dynamo-Session-Id", "CANARY", "X-Dynamo-Parent-Session-Id", "CANARY-parent"}, {"Content-Encoding", "CANARY"}, {"Cookie", "CANARY"},
	}
	for path, list := range bodies {
		for _, body := range list {
			for _, do := range []string{"", "status", "reset", "coded", "kind", "malformed", "messages", "responses"} {
				for _, prefix := range []string{"", "/s/CANARY", "/s/CANARY/a/CANARY"} {
					for _, header := range headers[:max(1, len(headers)-len(prefix))] { // all where the path names no session
						hidden := make([]string, 0, len(header))
						for _, text := range header {
							hidden = append(hidden, hide(text))
						}
						r.do(hide(prefix+path+"?key=CANARY"), do, hide(body), hidden...)
					}
				}
			}
		}
	}
	r.do("/"+canary, "", canary)
}

// requireSilent requires that a text has the canary in no form.
func requireSilent(t *testing.T, where, text string) {
	t.Helper()
	lower := strings.ToLower(text)
	for _, form := range []string{canary, "canary", hex.EncodeToString([]byte(canary)), base64.StdEncoding.EncodeToString([]byte(canary))[:12]} {
		require.NotContains(t, lower, strings.ToLower(form), "%s", where)
	}
}

// requireSilentFiles requires that no file of a directory has it, nor an address.
func requireSilentFiles(t *testing.T, dir, address string) (files int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		requireSilent(t, path, path+string(text))
		require.NotContains(t, string(text), address)
		return nil
	})
	require.NoError(t, err)
	return files
}

// Nothing that a client or an upstream says is in a file, a log, a metric or an answer of ours, whatever fails.
//
// Covers C-38.
func TestCanaries(t *testing.T) {
	for _, fault := range []string{"", "disk", "linear"} {
		t.Run(fault, func(t *testing.T) {
			ctx := durable.WithOptions(t.Context(), durable.Options{})
			if fault == "disk" {
				var writes atomic.Int64
				ctx = durable.WithOptions(t.Context(), durable.Options{Step: func(name, path string) error {
					if writes.Add(1)%7 == 0 && name == "write" {
						return fmt.Errorf("%s: a failing disk", name)
					}
					return nil
				}})
			}
			r := startIn(t, ctx, http.HandlerFunc(singing), func(o *Options) {
				o.Tokenizer = loud{panicking{o.Tokenizer}}
				o.Sync, o.Linear = 0, fault == "linear"
				o.Workers, o.Export.Holes = 1, journal.HolesKeep
			})
			host, _, err := net.SplitHostPort(strings.TrimPrefix(r.traffic, "http://"))
			require.NoError(t, err)
			r.sing()
			for _, path := range []string{"/metrics", "/sessions", "/sessions/" + canary + "x", "/health"} {
				resp, err := http.Get(r.control + path)
				require.NoError(t, err)
				text, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				resp.Body.Close()
				requireSilent(t, path, string(text))
			}
			requireSilentFiles(t, r.dir, host)
			r.stop()
			<-r.done
			s := r.Summary()
			requireCounted(t, s)
			require.NotZero(t, requireSilentFiles(t, r.dir, host))
			requireSilent(t, "the log", r.logged.String())
			require.NotContains(t, r.logged.String(), host)
			requireSilent(t, "the summary", fmt.Sprintf("%+v", s))
			if fault == "" {
				require.Greater(t, s.Recorded, 10)
				require.Zero(t, s.NotRecorded[journal.HoleJournal], "a journal has a line that breaks a rule")
				require.Positive(t, s.NotRecorded[journal.HoleInternal], "%v %s", s.NotRecorded, r.logged)
			}
		})
	}
}

// What a session knows is overwritten when it is over, and a prompt when it has its blocks.
//
// Covers C-39.
func TestMemoryIsOverwritten(t *testing.T) {
	r := start(t, newScripted(), nil)
	r.do("/s/a"+chatPath, "whole", chatBody("a secret"))
	list := r.alive()
	require.Len(t, list, 1)
	tree := list[0].tree
	whole := []byte(chatBody("another secret"))
	p := &prompt{pool: r.pool, share: &share{}, text: whole}
	p.read(canon.Chat, tree)
	require.Empty(t, p.lost)
	require.Equal(t, make([]byte, len(whole)), whole, "it is tokenized")
	require.Nil(t, p.canon.Segments)

	again := []byte(`{"model":"m","input":"a third one","previous_response_id":"r"}`)
	q := &prompt{pool: r.pool, share: &share{}, text: again}
	q.identify(canon.Chat, nil)
	q.read(canon.Responses, tree)
	require.NotNil(t, q.canon, "it goes on behind a response that may become known")
	text := q.text
	require.Contains(t, string(text), "a third one")
	q.erase()
	require.Equal(t, make([]byte, len(again)), again)
	require.Equal(t, make([]byte, len(text)), text)
	p.erase()
	r.end()
	_, err := tree.Prepare(&canon.Prompt{})
	require.ErrorIs(t, err, chain.ErrErased)
	r.requireAtRest()
}
