package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sessionShapes are files of Mooncake rows, and what is sent for them: U is a prompt, a a fixed answer; bodies of a session in their order.
// The output length of a row chooses its answer.
var sessionShapes = []struct{ name, rows, sent string }{
	{"after the answer", rowsOf("a 0 600 11", "a +20 400 12", "a +20 300 13"), "U0 | U0 a11 U1 | U0 a11 U1 a12 U2"},
	{"at timestamps", rowsOf("a 0 600 11", "b 30 700 12", "a 90 400 11", "b 120 300 13", "a 180 200 12"), "U0 | U0 a11 U1 | U0 a11 U1 a11 U2\nU0 | U0 a12 U1"},
	{"ids that go on", rowsOf("a 0 1024 11 1,2", "a +20 1536 11 1,2,3", "a +20 512 11 1"), "U0 | U0 a11 U1 | U0 a11 U1 a11 U2"},
	{"thoughts, calls and failures", rowsOf("a 0 500 14", "a +5 501 15", "a +5 502 16", "a +5 503 17", "a +5 504 18", "a +5 505 19", "a +5 506 11"),
		"U0 | U0 a14 U1 | U0 a14 U1 a15 U2 | U0 a14 U1 a15 U2 a16 U3 | U0 a14 U1 a15 U2 a16 U3 U4 | U0 a14 U1 a15 U2 a16 U3 U4 a18 U5 | U0 a14 U1 a15 U2 a16 U3 U4 a18 U5 U6"},
	{"other members", rowsOf("a 0 600 11", "- 10 300 12", "a . 300 13") + `{"session_id":"b","group_id":3,"is_resume":true,"type":"mooncake_trace","timestamp":20,"input_length":5,"output_length":11,"hash_ids":[77]}` + "\n",
		"U0\nU0\nU0 | U0 a11 U1"},
}

// rowsOf writes rows: session, timestamp or +delay, input length, output length, and ids, which are new ones where they are left out.
func rowsOf(list ...string) string {
	var b strings.Builder
	for k, row := range list {
		f := strings.Fields(row)
		var in int
		fmt.Sscan(f[2], &in)
		if len(f) == 4 {
			f = append(f, fmt.Sprint(2*k+100))
			if in > 512 {
				f[4] += fmt.Sprint(",", 2*k+101)
			}
		}
		b.WriteByte('{')
		if f[0] != "-" {
			fmt.Fprintf(&b, `"session_id":"%s",`, f[0])
		}
		if delay, ok := strings.CutPrefix(f[1], "+"); ok {
			fmt.Fprintf(&b, `"delay":%s,`, delay)
		} else if f[1] != "." {
			fmt.Fprintf(&b, `"timestamp":%s,`, f[1])
		}
		fmt.Fprintf(&b, `"input_length":%s,"output_length":%s,"hash_ids":[%s]}`+"\n", f[2], f[3], f[4])
	}
	return b.String()
}

// fixedAnswers are the answers of the server by max_completion_tokens: the deltas of a stream, and the message that later turns have.
var fixedAnswers = map[int][2]string{
	11: {`{"content":"The \"answer\"\n"};{"content":"é <b>&\\ 😀"}`, `{"role":"assistant","content":"The \"answer\"\né <b>&\\ 😀"}`},
	12: {`{"reasoning_content":"hmm "};{"reasoning":"so"}`, `{"role":"assistant","content":"hmm so"}`},
	13: {`{"content":"x"}`, `{"role":"assistant","content":"x"}`},
	14: {`{"reasoning_content":"hmm","content":"text"};{"content":"."}`, `{"role":"assistant","content":"text."}`},
	15: {`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":""}}]};{"tool_calls":[{"index":0,"function":{"arguments":"{\"a"}}]};{"tool_calls":[{"index":0,"function":{"arguments":"\":1}"}},{"index":1,"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]}`,
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]}`},
	16: {`{"reasoning":"hmm"};{"content":"Let me"};{"function_call":{"name":"f"}};{"function_call":{"name":"oo","arguments":"{"}};{"function_call":{"arguments":"}"}}`,
		`{"role":"assistant","content":"Let me","tool_calls":[{"type":"function","function":{"name":"foo","arguments":"{}"}}]}`},
	17: {"", ""}, // status 500
	18: {`{"content":"part"};cut`, `{"role":"assistant","content":"part"}`},
	19: {`{}`, ""},
}

// sessionServer gives fixed answers, and keeps bodies by session with names instead of prompts and answers.
type sessionServer struct {
	mutex    sync.Mutex
	prompts  map[string]map[string]string // of a session: names by text
	sessions map[string][]string
	tails    map[string]bool // what stands behind the messages
}

func (s *sessionServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var q struct {
		Messages []json.RawMessage
		Tokens   int `json:"max_completion_tokens"`
	}
	answer, known := fixedAnswers[q.Tokens]
	if json.Unmarshal(body, &q) == nil {
		answer, known = fixedAnswers[q.Tokens]
	}
	if !known || r.URL.Path != "/v1/chat/completions" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	s.keep(r.Header.Get("X-Correlation-ID"), body, q.Messages)
	if answer[0] == "" {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	const event = `data: {"id":"1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}` + "\n\n"
	for delta := range strings.SplitSeq(answer[0], ";") {
		if delta == "cut" {
			return
		}
		fmt.Fprintf(w, event, delta, "null")
	}
	fmt.Fprintf(w, event, "{}", `"length"`)
	fmt.Fprint(w, `data: {"id":"1","object":"chat.completion.chunk","model":"m","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}`+"\n\ndata: [DONE]\n\n")
}

// keep remembers a body as the names of its messages, byte for byte.
func (s *sessionServer) keep(session string, body []byte, messages []json.RawMessage) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.prompts[session] == nil {
		s.prompts[session] = map[string]string{}
	}
	names, head := s.prompts[session], `{"messages":[`+string(bytes.Join(rawBytes(messages), []byte(",")))+`]`
	tail, _ := strings.CutPrefix(string(body), head)
	s.tails[tail] = true
	var list []string
	for _, m := range messages {
		name := names[string(m)]
		for n, a := range fixedAnswers {
			if string(m) == a[1] {
				name = fmt.Sprint("a", n)
			}
		}
		if name == "" && strings.HasPrefix(string(m), `{"role":"user","content":"`) {
			name = fmt.Sprint("U", len(names))
			names[string(m)] = name
		}
		if name == "" {
			name = string(m)
		}
		list = append(list, name)
	}
	s.sessions[session] = append(s.sessions[session], strings.Join(list, " "))
}

func rawBytes(list []json.RawMessage) (all [][]byte) {
	for _, m := range list {
		all = append(all, m)
	}
	return all
}

// sessionsOf runs a tool on a file and returns what the server got: the bodies of each session, and all that stood behind messages.
func sessionsOf(t *testing.T, file string, tool func(flags []string)) (sent string, tails map[string]bool) {
	s := &sessionServer{prompts: map[string]map[string]string{}, sessions: map[string][]string{}, tails: map[string]bool{}}
	server := httptest.NewServer(s)
	defer server.Close()
	tool([]string{"profile", "--model", "m", "--tokenizer", "builtin", "--url", server.URL, "--endpoint-type", "chat", "--streaming", "--use-server-token-count",
		"--input-file", file, "--custom-dataset-type", "mooncake_trace", "--random-seed", "42", "--no-server-metrics", "--no-gpu-telemetry", "--ui", "none", "--output-artifact-dir", t.TempDir()})
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var list []string
	for _, bodies := range s.sessions {
		list = append(list, strings.Join(bodies, " | "))
	}
	slices.Sort(list)
	return strings.Join(list, "\n"), s.tails
}

// A row of a session goes behind the rows before it and the answers to them, as in AIPerf 0.13.0: where this is installed, it plays the same
// files, and sends the same bodies but for the text of prompts.
//
// Covers T-231.
func TestSessionRowsGoBehindAnswers(t *testing.T) {
	t.Setenv("AGENTX_CACHE", warmRoot(t))
	t.Setenv("AGENTX_NO_CALIBRATE", "true")
	t.Setenv("AGENTX_NO_PREFLIGHT", "true")
	for _, shape := range sessionShapes {
		t.Run(shape.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "rows.jsonl")
			require.NoError(t, os.WriteFile(file, []byte(shape.rows), 0o600))
			sent, tails := sessionsOf(t, file, func(flags []string) {
				var problems strings.Builder
				require.Zero(t, run(append([]string{"aiperf"}, flags...), nil, io.Discard, &problems), problems.String())
			})
			assert.Equal(t, shape.sent, sent)
			python := os.Getenv("BODIES_PYTHON")
			if python == "" {
				return
			}
			theirs, theirTails := sessionsOf(t, file, func(flags []string) {
				ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
				defer stop()
				cmd := exec.CommandContext(ctx, python, append([]string{"-m", "aiperf"}, flags...)...)
				cmd.Env = append(os.Environ(), "TIKTOKEN_CACHE_DIR="+ranksForTiktoken(t), "HOME="+t.TempDir())
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, "AIPerf: %s", out)
			})
			assert.Equal(t, theirs, sent)
			assert.Equal(t, theirTails, tails)
		})
	}
}

// What cannot be played behind answers is refused: rows with prompts of their own, another endpoint, and Mooncake rows beside other traces.
func TestSessionRowsThatAreRefused(t *testing.T) {
	t.Setenv("AGENTX_CACHE", warmRoot(t))
	t.Setenv("AGENTX_NO_CALIBRATE", "true")
	dir := t.TempDir()
	fails := func(status int, rows string, flags ...string) string {
		file := filepath.Join(dir, "rows.jsonl")
		require.NoError(t, os.WriteFile(file, []byte(rows), 0o600))
		var problems strings.Builder
		require.Equal(t, status, run(slices.Concat([]string{"aiperf", "profile", "--model", "m", "--tokenizer", "builtin", "--url", "127.0.0.1:1", "--streaming", "--input-file", file,
			"--custom-dataset-type", "mooncake_trace", "--random-seed", "42", "--output-artifact-dir", t.TempDir()}, flags), nil, io.Discard, &problems))
		return problems.String()
	}
	assert.Contains(t, fails(exitFailed, `{"timestamp":0,"input_length":5,"output_length":4,"hash_ids":[1],"extra":{"a":"secret"}}`), ":1: extra: AIPerf sends what it says, and agentx the blocks of hash_ids")
	assert.Contains(t, fails(exitUsage, rowsOf("a 0 5 4", "a +5 5 4"), "--endpoint-type", "completions"), "--endpoint-type completions with rows of sessions")
}
