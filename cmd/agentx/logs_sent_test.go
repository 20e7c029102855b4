package main

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/aiperf"
	"github.com/agentx/agentx/internal/tokenizer"
	"github.com/agentx/agentx/mock"
)

// What a server gets of a text cache is what the log says, in both forms: the mock, which refuses calls and results that do not pair, answers
// each request, and its messages, decoded, are those of the model. AGENTX_LOGS is a directory or a file of logs to send instead of the
// samples, AGENTX_SERVER the address of a server to send them to, AGENTX_PAYLOAD the form.
//
//
func TestLogsAreSentAsRecorded(t *testing.T) {
	payloads := []string{"chat", "anthropic"}
	if one := os.Getenv("AGENTX_PAYLOAD"); one != "" {
		payloads = []string{one}
	}
	cache := t.TempDir()
	for name, files := range logsToSend(t) {
		for _, payload := range payloads {
			t.Run(name+"/"+payload, func(t *testing.T) { sendLogs(t, files, payload, cache) })
		}
	}
}

// logsToSend lists the files of TestLogsAreSentAsRecorded, by format.
func logsToSend(t *testing.T) map[string][]string {
	if own := os.Getenv("AGENTX_LOGS"); own != "" {
		return map[string][]string{"own": {own}}
	}
	list := map[string][]string{}
	for _, format := range convert.LogFormats() {
		samples, err := filepath.Glob("../../../shared/text-samples/" + format + "/*")
		require.NoError(t, err)
		if slices.ContainsFunc(aiperf.Forms, func(f aiperf.Form) bool { return f.Name == format }) { // TestFormsAreSentAsByAIPerf
			continue
		}
		if len(samples) == 0 {
			t.Skip("no samples of logs beside the checkout")
		}
		for _, sample := range samples {
			files := filesOfSample(t, sample)
			d, _, err := convert.ReadLogs(t.Context(), convert.Options{Inputs: files}, lengths{})
			if err != nil { // it is refused
				continue
			}
			require.NoError(t, d.Store.Close())
			list[format] = append(list[format], files...)
		}
	}
	return list
}

// filesOfSample lists the files of a sample.
func filesOfSample(t *testing.T, sample string) (files []string) {
	require.NoError(t, filepath.WalkDir(sample, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && e.Name() != "ANSWER.json" {
			files = append(files, path)
		}
		return err
	}))
	return files
}

// sendLogs sends logs in a form, from a cache, and compares.
func sendLogs(t *testing.T, files []string, payload, cache string) {
	tok, err := tokenizer.Load("o200k_base")
	require.NoError(t, err)
	d, _, err := convert.ReadLogs(t.Context(), convert.Options{Inputs: files}, tok)
	require.NoError(t, err)
	defer d.Store.Close()
	want := map[string]int{}
	for _, trace := range d.Traces {
		for k := range trace.Sessions {
			for n := range trace.Sessions[k].Turns {
				want[modelRuns(d, trace, &trace.Sessions[k], n)]++
			}
		}
	}

	var mu sync.Mutex
	got := map[string]int{}
	upstream := http.Handler(mock.New(mock.Config{}))
	if address := os.Getenv("AGENTX_SERVER"); address != "" {
		u, err := url.Parse(address)
		require.NoError(t, err)
		proxy := httputil.NewSingleHostReverseProxy(u)
		proxy.Transport = &http.Transport{DisableKeepAlives: true} // llama.cpp's server closes connections and does not say so
		upstream = proxy
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/v1/") {
			body, err := io.ReadAll(r.Body)
			mu.Lock()
			got[bodyRuns(body)]++
			mu.Unlock()
			if err != nil {
				return
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		upstream.ServeHTTP(w, r)
	}))
	defer server.Close()
	key := lastLine(command(t, append([]string{"convert", "--redact", "none", "--prefix", "none", "--cache", cache, "--quiet"}, files...)...))
	model := "mock"
	if os.Getenv("AGENTX_SERVER") != "" {
		model = "tiny"
	}
	printed := command(t, "replay", key, "--cache", cache, "--url", server.URL, "--model", model, "--payload", payload, "--once", "--asap", "--no-preflight",
		"--marker", "off", "--concurrency", "2", "--quiet", "--json", "--out", filepath.Join(t.TempDir(), "out"))
	require.Equal(t, want, got)
	var summary struct{ Requests, Completed int }
	require.NoError(t, json.Unmarshal([]byte(printed), &summary), "%s", printed)
	require.Equal(t, summary.Requests, summary.Completed, "%s", printed)
}

// runs collects the texts of a prompt: those that the model said apart from those that it was given, without regard to the order in a run,
// since a form has a place of its own for calls and results.
type runs struct {
	said  []bool
	texts [][]string
}

func (r *runs) add(said bool, texts ...string) {
	for _, s := range texts {
		if s == "" {
			continue
		}
		if n := len(r.said); n == 0 || r.said[n-1] != said {
			r.said, r.texts = append(r.said, said), append(r.texts, nil)
		}
		last := &r.texts[len(r.texts)-1]
		*last = append(*last, s)
	}
}

func (r *runs) String() string {
	for _, list := range r.texts {
		slices.Sort(list)
	}
	b, _ := json.Marshal(r.texts)
	return string(b)
}

// noText stands for a result of a call that the log never answered: clients send it.
const noText = "aborted"

// arguments returns arguments of a call in one form.
func arguments(s string) string {
	var v any
	if json.Unmarshal([]byte(s), &v) != nil {
		return s
	}
	if o, ok := v.(map[string]any); ok && len(o) == 1 && o["arguments"] != nil { // what is no object, as Anthropic takes it
		if inner, ok := o["arguments"].(string); ok {
			return inner
		}
	}
	b, _ := json.Marshal(v)
	return string(b)
}

// modelRuns returns the texts of the prompt of a turn, by the model.
func modelRuns(d *text.Dataset, t *text.Trace, s *text.Session, n int) string {
	var r runs
	alone := true
	for _, node := range t.Path(nil, s.Turns[n].Last) {
		m := &d.Messages[t.Nodes[node].Message]
		alone = alone && m.Role == text.System
		for k := range m.Parts {
			p := &m.Parts[k]
			said, body := m.Role == text.Assistant, d.Store.String(p.Text)
			switch p.Kind {
			case text.Redacted:
			case text.Call:
				r.add(said, d.Store.String(p.Name), arguments(body))
			case text.Image, text.Document, text.Audio:
				r.add(said, strings.Repeat(" "+p.Kind.String(), int(p.Tokens)))
			case text.Result:
				for i := range p.Parts {
					if inner := &p.Parts[i]; inner.Kind == text.Plain || inner.Kind == text.Other {
						if body := d.Store.String(inner.Text); body != noText {
							r.add(said, body)
						}
					} else {
						r.add(said, strings.Repeat(" "+inner.Kind.String(), int(inner.Tokens)))
					}
				}
			default:
				r.add(said, body)
			}
		}
	}
	if alone {
		r.add(false, "continue")
	}
	return r.String()
}

// bodyRuns returns the texts of the messages of a body, in either form.
func bodyRuns(body []byte) string {
	var b struct {
		System   []any
		Messages []map[string]any
	}
	if err := json.Unmarshal(body, &b); err != nil {
		return err.Error()
	}
	var r runs
	var content func(said bool, v any)
	content = func(said bool, v any) {
		switch v := v.(type) {
		case string:
			if v != noText {
				r.add(said, v)
			}
		case []any:
			for _, one := range v {
				content(said, one)
			}
		case map[string]any:
			for _, member := range []string{"text", "thinking", "name", "content"} {
				content(said, v[member])
			}
			if input, ok := v["input"]; ok {
				raw, _ := json.Marshal(input)
				r.add(said, arguments(string(raw)))
			}
		}
	}
	content(false, b.System)
	for _, m := range b.Messages {
		said := m["role"] == "assistant"
		content(said, m["content"])
		content(said, m["reasoning_content"])
		calls, _ := m["tool_calls"].([]any)
		for _, call := range calls {
			f := call.(map[string]any)["function"].(map[string]any)
			r.add(said, f["name"].(string), arguments(f["arguments"].(string)))
		}
	}
	return r.String()
}

// Traces that an import makes come back from a capture of their replay with the same trie digests.
//
//
func TestImportedTracesComeBack(t *testing.T) {
	server := httptest.NewServer(mock.New(mock.Config{}))
	defer server.Close()
	cache := t.TempDir()
	for format, files := range logsToSend(t) {
		t.Run(format, func(t *testing.T) {
			imported, out := t.TempDir(), t.TempDir()
			command(t, append([]string{"import", "--out", imported}, files...)...)
			key := lastLine(command(t, "convert", imported, "--cache", cache, "--quiet"))
			capture := startCapture(t, "--out", out, "--upstream", server.URL)
			command(t, "replay", key, "--cache", cache, "--url", capture.traffic, "--model", "mock", "--payload", "ids", "--once", "--asap", "--no-preflight", "--marker", "off",
				"--session-header", "X-Dynamo-Session-ID", "--quiet", "--out", filepath.Join(t.TempDir(), "results"))
			require.NoError(t, capture.end(), "%s", &capture.stderr)
			require.Equal(t, digestsOf(t, imported), digestsOf(t, out))
		})
	}
}

// command runs a command that must succeed, and returns what it prints.
func command(t *testing.T, args ...string) string {
	t.Helper()
	var printed, problems bytes.Buffer
	require.Zero(t, run(args, nil, &printed, &problems), "%s%s", &printed, &problems)
	return printed.String()
}

// digestsOf returns the trie digests of the traces of a directory.
func digestsOf(t *testing.T, dir string) (list []string) {
	for line := range strings.Lines(command(t, "capture", "check", dir, "--trie")) {
		if digest, _, _ := strings.Cut(line, " "); len(digest) == 64 { // else an alarm, or the last line
			list = append(list, digest)
		}
	}
	require.NotEmpty(t, list)
	slices.Sort(list)
	return list
}
