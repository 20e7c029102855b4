package main

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/mock"
)

// canaries replace strings of a log. Equal strings have equal ones.
type canaries struct {
	all  bool // also words of closed lists and times: nothing is left of the format
	own  bool // what stays on this machine: names of files and of models are not replaced
	list []string
	of   map[string]string
}

// word is in every canary. The blank keeps it from being the name of a model.
const word = "cAnArY Bird"

func (c *canaries) replace(s string) string {
	if c.of[s] == "" {
		c.of[s] = fmt.Sprintf("%s %d", word, len(c.list))
		c.list = append(c.list, c.of[s])
	}
	return c.of[s]
}

// kept are keys whose values are words of closed lists, times, or what tells formats apart.
var kept = []string{"type", "role", "timestamp", "created_at", "start_time", "end_time", "startTimeUnixNano", "endTimeUnixNano", "start_time_unix_nano", "end_time_unix_nano",
	"subtype", "stop_reason", "finish_reason", "from", "kind", "record_type", "status", "intValue", "key"}

// value replaces strings below a value; of objects that people fill, the keys too.
func (c *canaries) value(v any, keep, keys bool) any {
	switch v := v.(type) {
	case string:
		if keep && !c.all {
			return v
		}
		return c.replace(v)
	case []any:
		for k := range v {
			v[k] = c.value(v[k], keep, keys)
		}
	case map[string]any:
		named, isName := v["key"].(string) // an attribute of OTLP
		for key, of := range v {
			delete(v, key)
			if keys {
				key = c.replace(key)
			}
			free := key == "input" || key == "arguments" || key == "toolUseResult"
			v[key] = c.value(of, !keys && (slices.Contains(kept, key) || c.own && (key == "model" || isName && key == "value" && strings.Contains(named, "model")) || isName && key == "value" && strings.Contains(named, "operation.name") || keep && isName), keys || free && !isName)
		}
	}
	return v
}

// member is a member of an object whose value is a string, in a text that may be broken.
var member = regexp.MustCompile(`"([A-Za-z_]+)": ?"((?:[^"\\\\]|\\\\.)*)"?`)

// file replaces strings of a file of JSON.
func (c *canaries) file(data []byte) []byte {
	var whole any
	if json.Unmarshal(data, &whole) == nil {
		b, _ := json.Marshal(c.value(whole, false, false))
		return b
	}
	var out bytes.Buffer
	for line := range bytes.Lines(data) {
		var v any
		d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))))
		d.UseNumber()
		if d.Decode(&v) == nil {
			b, _ := json.Marshal(c.value(v, false, false))
			out.Write(append(b, '\n'))
			continue
		}
		out.Write(member.ReplaceAllFunc(line, func(m []byte) []byte {
			parts := member.FindSubmatch(m)
			if slices.Contains(kept, string(parts[1])) {
				return m
			}
			return fmt.Appendf(nil, "%q:%q", parts[1], c.replace(string(parts[2])))
		}))
	}
	return out.Bytes()
}

// forms are what a canary must not be found as.
func (c *canaries) forms() (list []string) {
	reversed := []rune(word)
	slices.Reverse(reversed)
	list = append(list, "canary", strings.ToLower(string(reversed)), hex.EncodeToString([]byte(word)))
	var wide []byte
	for _, u := range utf16.Encode([]rune(word)) {
		wide = append(wide, byte(u), byte(u>>8))
	}
	list = append(list, string(bytes.ToLower(wide)), string(bytes.ToLower(wide[1:])))
	for shift := range 3 {
		encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + word))
		list = append(list, strings.ToLower(encoded[4:len(encoded)-4]))
	}
	for _, s := range c.list {
		sha, md := sha256.Sum256([]byte(s)), md5.Sum([]byte(s))
		wide := xxh3.HashString128(s).Bytes()
		list = append(list, hex.EncodeToString(sha[:8]), hex.EncodeToString(md[:8]), fmt.Sprintf("%016x", xxh3.HashString(s)), hex.EncodeToString(wide[:8]))
	}
	return list
}

// silent requires that a text has no canary in any form.
func (c *canaries) silent(t *testing.T, forms []string, where, s string) {
	t.Helper()
	lower := strings.ToLower(s)
	for _, form := range forms {
		require.False(t, strings.Contains(lower, form), "%s has %q: %.400q", where, form, s)
	}
}

// What import writes and prints has nothing of what a log says: no string of it, no key of what people fill, no name of a file or directory,
// at every exit.
//
//
func TestCanariesOfImport(t *testing.T) {
	root, err := filepath.Abs("../../../shared/text-samples")
	require.NoError(t, err)
	if _, err := os.Stat(root); err != nil {
		t.Skip("no samples of logs beside the checkout")
	}
	made := 0
	for _, format := range convert.LogFormats() {
		cases, err := os.ReadDir(filepath.Join(root, format))
		if errors.Is(err, fs.ErrNotExist) { // of AIPerf: its samples are those of package convert
			continue
		}
		require.NoError(t, err)
		for _, one := range cases {
			for _, all := range []bool{false, true} {
				t.Run(fmt.Sprint(format, "/", one.Name(), "/", all), func(t *testing.T) {
					c := &canaries{all: all, of: map[string]string{}}
					made += c.importSample(t, filepath.Join(root, format, one.Name()))
				})
			}
		}
	}
	require.Greater(t, made, 5, "samples that became traces")
}

// importSample imports a sample with canaries in every way, and returns 1 if traces came of it.
func (c *canaries) importSample(t *testing.T, sample string) (made int) {
	in, out := c.copy(t, sample), t.TempDir()
	t.Setenv("HOME", in)
	forms := c.forms()
	for k, flags := range [][]string{nil, {"--json"}, {"--strict"}, {"--skip-invalid", "--in", "recorded"}, {"--sessions", "none"}, {"--format", "messages"}, {"--max-gap", "1s", "--scope", "dataset", "--prefix", "none"}} {
		var printed bytes.Buffer
		dir := filepath.Join(out, fmt.Sprint(k))
		status := run(append([]string{"import", in, "--out", dir, "--block-size", "64"}, flags...), nil, &printed, &printed)
		if status == 0 {
			made = 1
		}
		c.silent(t, forms, fmt.Sprint("output of ", flags, status), printed.String())
		if status == 0 {
			printed.Reset()
			require.Equal(t, exitUsage, run([]string{"import", in, "--out", dir}, nil, &printed, &printed))
			c.silent(t, forms, "a refusal", printed.String())
		}
	}
	require.NoError(t, filepath.WalkDir(out, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		c.silent(t, forms, "a file", path[len(out):]+string(data))
		return err
	}))
	c.cut(t, forms, in)
	return made
}

// copy returns a directory with the files of a sample, their strings replaced; their names, too, but where they say what the format needs.
func (c *canaries) copy(t *testing.T, sample string) string {
	in := filepath.Join(t.TempDir(), word)
	if c.own {
		in = filepath.Join(t.TempDir(), "logs")
	}
	require.NoError(t, filepath.WalkDir(sample, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "ANSWER.json" {
			return err
		}
		data, err := os.ReadFile(path)
		dir, name := filepath.Split(strings.TrimPrefix(path, sample))
		if !c.own && !strings.HasPrefix(name, "agent-") {
			name = word + name
		}
		require.NoError(t, os.MkdirAll(filepath.Join(in, dir), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(in, dir, name), c.file(data), 0o644))
		return err
	}))
	return in
}

// A text cache has what a log says in its texts alone: nothing else in the cache has it, nothing that convert prints, at every exit, and no
// result of a replay, with its page.
//
//
func TestCanariesOfTextCaches(t *testing.T) {
	server := httptest.NewServer(mock.New(mock.Config{}))
	defer server.Close()
	for _, sample := range []string{"claude/base", "claude/agent_progress", "codex/base", "messages/bodies"} { // those of otel have messages as JSON in a string, of which nothing is left
		t.Run(sample, func(t *testing.T) {
			sample := filepath.Join("../../../shared/text-samples", sample)
			if _, err := os.Stat(sample); err != nil {
				t.Skip("no samples of logs beside the checkout")
			}
			c := &canaries{own: true, of: map[string]string{}}
			in, cache, out := c.copy(t, sample), t.TempDir(), filepath.Join(t.TempDir(), "results")
			forms := c.forms()
			said := func(args ...string) string {
				var printed bytes.Buffer
				status := run(args, nil, &printed, &printed)
				c.silent(t, forms, fmt.Sprint(args, status), printed.String())
				return printed.String()
			}
			for _, flags := range [][]string{{"--dry-run"}, {"--dry-run", "--json"}, {"--explain"}, {"--format", "messages"}, {"--sessions", "none"}, {"--skip-invalid"}} {
				said(append([]string{"convert", in, "--cache", cache}, flags...)...)
			}
			key := lastLine(said("convert", in, "--cache", cache, "--quiet"))
			for _, args := range [][]string{{"cache", "ls", "--json"}, {"cache", "verify"}, {"cache", "explain", in}, {"inspect", key}, {"inspect", key, "--digest"}} {
				said(append(args, "--cache", cache)...)
			}
			said("replay", key, "--cache", cache, "--url", server.URL, "--model", "mock", "--once", "--asap", "--report", "html", "--out", out)
			pulled, warmed := filepath.Join(t.TempDir(), "pulled"), filepath.Join(t.TempDir(), "warmed")
			for _, args := range [][]string{{"cache", "pull", key, "--from", cache, "--cache", pulled}, {"cache", "warm", in, "--cache", cache, "--to", warmed}} {
				require.Contains(t, said(args...), "--with-text")
				said(append(args, "--with-text")...)
			}
			said("replay", key, "--cache", pulled, "--url", server.URL+"/nowhere", "--model", "mock", "--once", "--asap", "--verbose", "--out", out+"-refused")
			read := 0
			for _, dir := range []string{cache, out, pulled, warmed} {
				texts := 0
				require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
					if err != nil || e.IsDir() || strings.Contains(path, "/arenas/") { // that is the prompt corpus
						return err
					}
					if strings.Contains(path, "/texts/") || strings.Contains(path, "/structure/") {
						info, err := e.Info()
						require.NoError(t, err)
						require.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), path)
					}
					if e.Name() == "text.json" {
						texts++
						return nil
					}
					data, err := os.ReadFile(path)
					require.NoError(t, err)
					c.silent(t, forms, "a file", path[len(dir):]+string(data))
					read++
					return nil
				}))
				require.Equal(t, dir != out, texts > 0, dir)
			}
			require.Greater(t, read, 10)
		})
	}
}

// cut requires silence of the errors about files that end anywhere, with a line end behind it or without. AGENTX_LONG tries every byte.
func (c *canaries) cut(t *testing.T, forms []string, in string) {
	steps := 40
	if os.Getenv("AGENTX_LONG") != "" {
		steps = math.MaxInt
	}
	dir := t.TempDir()
	require.NoError(t, filepath.WalkDir(in, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		file, end := filepath.Join(dir, e.Name()), ""
		for n := 0; n < len(data); n += max(1, len(data)/steps) {
			if end = "\n"; n%2 == 0 {
				end = ""
			}
			require.NoError(t, os.WriteFile(file, append(data[:n:n], end...), 0o644))
			d, _, err := convert.ReadLogs(t.Context(), convert.Options{Inputs: []string{file}}, lengths{})
			if err != nil {
				c.silent(t, forms, "an error", err.Error())
				continue
			}
			for name := range d.Warnings {
				c.silent(t, forms, "a count", name)
			}
			require.NoError(t, d.Store.Close())
		}
		return os.Remove(file)
	}))
}

// lengths is a tokenizer whose tokens are bytes.
type lengths struct{}

func (lengths) AppendIDs(ids []uint32, s string) []uint32 {
	return append(ids, make([]uint32, len(s))...)
}

// agentLog is a small log of Claude Code: a reply that thinks and calls twice, its results, an answer, a question, and an answer.
const agentLog = `{"type":"user","uuid":"a","parentUuid":null,"sessionId":"s","timestamp":"2026-01-02T15:00:00.000Z","message":{"role":"user","content":"How many files are there, and how many lines do they have?"}}
{"type":"assistant","uuid":"b","parentUuid":"a","sessionId":"s","timestamp":"2026-01-02T15:00:02.000Z","message":{"id":"m1","model":"m","role":"assistant","content":[{"type":"thinking","thinking":"Count them.","signature":"x"},{"type":"text","text":"I look."},{"type":"tool_use","id":"t1","name":"Glob","input":{"pattern":"*.go"}},{"type":"tool_use","id":"t2","name":"Bash","input":{"command":"wc -l *.go"}}],"stop_reason":"tool_use","usage":{"input_tokens":900,"output_tokens":40}}}
{"type":"user","uuid":"c","parentUuid":"b","sessionId":"s","timestamp":"2026-01-02T15:00:03.000Z","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"main.go\nlist.go"},{"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"12 main.go"}],"is_error":true}]}}
{"type":"assistant","uuid":"d","parentUuid":"c","sessionId":"s","timestamp":"2026-01-02T15:00:04.000Z","message":{"id":"m2","model":"m","role":"assistant","content":[{"type":"text","text":"Two files, twelve lines."}],"stop_reason":"end_turn","usage":{"input_tokens":980,"output_tokens":12}}}
{"type":"user","uuid":"e","parentUuid":"d","sessionId":"s","timestamp":"2026-01-02T15:01:00.000Z","message":{"role":"user","content":"Thanks: name them."}}
{"type":"assistant","uuid":"f","parentUuid":"e","sessionId":"s","timestamp":"2026-01-02T15:01:02.000Z","message":{"id":"m3","model":"m","role":"assistant","content":[{"type":"text","text":"main.go, list.go"}],"stop_reason":"end_turn","usage":{"input_tokens":1010,"output_tokens":9}}}
`

// A text cache without fillers that is replayed through a capture has the blocks of an import of its log.
//
//
func TestCapturedTextCacheIsTheImport(t *testing.T) {
	t.Setenv("AGENTX_NO_CALIBRATE", "true")
	t.Setenv("AGENTX_SCRAPE", "off")
	dir := t.TempDir()
	log, cache := filepath.Join(dir, "log.jsonl"), warmRoot(t)
	require.NoError(t, os.WriteFile(log, []byte(agentLog), 0o600))
	do := func(args ...string) []string {
		var out, problems strings.Builder
		require.Zero(t, run(args, nil, &out, &problems), "%v %s", args, &problems)
		return strings.Split(strings.TrimSpace(out.String()), "\n")
	}
	do("import", log, "--out", filepath.Join(dir, "imported"), "--prefix", "none", "--block-size", "4")
	imported := blocksOf(t, filepath.Join(dir, "imported"))
	require.Len(t, imported, 1)

	upstream := httptest.NewServer(mock.New(mock.Config{}))
	defer upstream.Close()
	captured := filepath.Join(dir, "captured")
	c := startCapture(t, "--out", captured, "--upstream", "anthropic="+upstream.URL, "--block-size", "4")
	printed := do("convert", log, "--prefix", "none", "--cache", cache)
	do("replay", printed[len(printed)-1], "--cache", cache, "--url", c.traffic, "--model", "m", "--payload", "anthropic", "--once", "--asap", "--marker", "off", "--out", filepath.Join(dir, "run"))
	require.NoError(t, c.end())
	require.Contains(t, blocksOf(t, captured), imported[0], "the other traces are of requests before the load")
}

// blocksOf returns the blocks of the requests of each trace in a directory.
func blocksOf(t *testing.T, dir string) (list [][][]int) {
	files, err := filepath.Glob(filepath.Join(dir, "traces", "*.json"))
	require.NoError(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		var trace struct {
			Requests []struct {
				IDs []int `json:"hash_ids"`
			}
		}
		require.NoError(t, json.Unmarshal(data, &trace))
		var blocks [][]int
		for _, r := range trace.Requests {
			blocks = append(blocks, r.IDs)
		}
		list = append(list, blocks)
	}
	return list
}
