package convert

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/tokenizer"
	"github.com/agentx/agentx/mmapcache"
)

// Every sample of logs becomes what its answer says, by an independent reading of doc/spec/text.md.
func TestLogSamples(t *testing.T) {
	root := shared(t, "text-samples")
	tok, err := tokenizer.Load("o200k_base")
	require.NoError(t, err)
	for _, f := range slices.Concat(agentLogs, otherLogs) {
		format := f.name
		cases, err := os.ReadDir(filepath.Join(root, format))
		require.NoError(t, err)
		for _, c := range cases {
			t.Run(format+"/"+c.Name(), func(t *testing.T) {
				dir := filepath.Join(root, format, c.Name())
				want, err := os.ReadFile(filepath.Join(dir, "ANSWER.json"))
				require.NoError(t, err)
				var refused struct{ Refused string }
				require.NoError(t, json.Unmarshal(want, &refused))
				got, err := answerOf(t, dir, tok)
				if refused.Refused != "" {
					require.Error(t, err)
					t.Logf("%s: %v", refused.Refused, err)
					return
				}
				require.NoError(t, err)
				require.Equal(t, indented(t, want), indented(t, got))
			})
		}
	}
}

func answerOf(t *testing.T, dir string, tok *tokenizer.Tokenizer) ([]byte, error) {
	ctx := context.Background()
	files, formats, err := LogFiles([]string{dir})
	require.NoError(t, err)
	if len(formats) == 0 {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		files = nil
		for _, e := range entries {
			if e.Name() != "ANSWER.json" {
				files = append(files, filepath.Join(dir, e.Name()))
			}
		}
	}
	s, err := hfsource.Resolve(ctx, files, hfsource.Options{})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	d := text.NewDataset(text.NewStore(t.TempDir()))
	defer d.Store.Close()
	if err := readLogs(ctx, s, d, Options{Logs: LogOptions{Formats: formats}}.withDefaults()); err != nil {
		return nil, err
	}
	sizes := text.NewSizes(d, tok)
	if err := sizes.Complete(); err != nil {
		return nil, err
	}
	a, err := sizes.Answer(64, true)
	if err != nil {
		return nil, err
	}
	return json.Marshal(a)
}

func indented(t *testing.T, data []byte) string {
	var v any
	require.NoError(t, json.Unmarshal(data, &v))
	b, err := json.MarshalIndent(v, "", " ")
	require.NoError(t, err)
	return string(b)
}

// What stands in front of prompts whose beginning a log lacks: a filler; nothing; or what a file says, and filler for what still lacks.
// A prompt and a session that have their own keep it.
func TestPrefixes(t *testing.T) {
	logs := filepath.Join(t.TempDir(), "logs.jsonl")
	write := func(row string) { require.NoError(t, os.WriteFile(logs, []byte(row), 0o600)) }
	read := func(body string, none bool) *text.Session {
		o := Options{Inputs: []string{logs}}
		if o.Logs.Prefix.None = none; body != "" {
			require.NoError(t, o.Logs.SetPrefix([]byte(body)))
		}
		d, sizes, err := ReadLogs(t.Context(), o, byteTokens{})
		require.NoError(t, err)
		defer d.Store.Close()
		require.NoError(t, sizes.Complete())
		s := &d.Traces[0].Sessions[0]
		s.ID = ""
		for _, m := range s.Front {
			require.Equal(t, text.System, d.Messages[m].Role)
			s.ID += d.Store.String(d.Messages[m].Parts[0].Text) + "."
		}
		for _, tool := range s.Tools {
			s.ID += d.Store.String(tool)
		}
		s.ID += fmt.Sprint(" ", sizes.Prompt(d.Traces[0], 0, 0), " ", s.Lacks, " ", s.Filler, " ", s.Recorded(&s.Turns[0]))
		return s
	}
	write(`{"type":"user","uuid":"a","sessionId":"s","timestamp":"2026-01-02T15:00:00Z","message":{"role":"user","content":"hello"}}
{"type":"assistant","uuid":"b","parentUuid":"a","sessionId":"s","timestamp":"2026-01-02T15:00:02Z","message":{"id":"m1","role":"assistant","content":"hi","usage":{"input_tokens":100,"output_tokens":2}}}
`)
	require.Equal(t, " 8 92 92 100", read("", false).ID)
	require.Equal(t, " 8 92 -1 8", read("", true).ID)
	require.Equal(t, "Be terse.. 20 80 80 100", read("Be terse.\n", false).ID)
	body := `{"system":"Be terse.","tools":[{"name":"f"}],"messages":[{"role":"developer","content":"And kind."},{"role":"user","content":"x"}]}`
	require.Equal(t, `Be terse..And kind..{"name":"f"} 46 54 54 100`, read(body, false).ID)

	write(`{"type":"session_meta","payload":{"id":"s","base_instructions":{"text":"Be wise."}}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"hello"}]}}
{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi"}]}}
`)
	require.Contains(t, read(body, false).ID, `{"name":"f"} `)
	require.NotContains(t, read(body, false).ID, "terse", "the log has a system prompt")

	write(`{"messages":[{"role":"user","content":"hello"},{"role":"assistant","content":"hi"}]}`)
	require.Equal(t, " 8 -1 -1 -1", read(body, false).ID, "such a log lacks nothing")

	for _, wrong := range []string{"", " \n", "{", `{"tools":[]}`, `{"messages":[{"role":"user","content":"x"}]}`, `{"messages":[{"content":"secret"}]}`} {
		err := new(LogOptions).SetPrefix([]byte(wrong))
		require.Error(t, err, wrong)
		require.NotContains(t, err.Error(), "secret")
	}
}

// A build of logs that loses its lease while it writes, as of a process that was thought dead, writes all texts again.
func TestLogsWithoutTheirLease(t *testing.T) {
	base := options(t, write(t, "chats.jsonl", []byte(sampleMessages)))
	base.convert(t)
	want := filesOf(t, base.Root)
	for _, kind := range []string{mmapcache.TextsKind, mmapcache.StructureKind} {
		o, lost, warned := withArenas(t, base), 0, ""
		o.Warn = func(format string, args ...any) { warned += fmt.Sprintf(format, args...) }
		o.disk.Step = func(name, path string) error {
			if name == "rename" && lost == 0 && strings.Contains(path, kind) {
				lost++
				claims, err := filepath.Glob(filepath.Join(o.Root, durable.StagingDir, "*"))
				require.NoError(t, err)
				for _, claim := range claims {
					require.NoError(t, os.RemoveAll(claim))
				}
			}
			return nil
		}
		o.convert(t)
		require.Equal(t, 1, lost)
		require.Contains(t, warned, durable.ErrLost.Error())
		require.Equal(t, want, filesOf(t, o.Root))
	}
}

// A log whose clock goes back has gaps of 0, and is counted; one with a line of 10 MB is read whole.
func TestOddLogs(t *testing.T) {
	row := func(n int, at, kind, content string) string {
		return fmt.Sprintf(`{"parentUuid":%s,"sessionId":"s","type":%q,"message":{"id":"m%d","role":%q,"content":%s,"usage":{"input_tokens":100,"output_tokens":20}},"uuid":"u%d","timestamp":"2026-01-02T15:%s.000Z"}`,
			map[bool]string{true: "null", false: fmt.Sprintf(`"u%d"`, n-1)}[n == 0], kind, n, kind, content, n, at) + "\n"
	}
	long := strings.Repeat("0123456789abcde ", 10<<20/16)
	log := row(0, "10:00", "user", `"hi"`) + row(1, "10:09", "assistant", `[{"type":"text","text":"hm"}]`) +
		row(2, "09:00", "user", strconv.Quote(long)) + row(3, "09:05", "assistant", `[{"type":"text","text":"so"}]`)
	d, sizes, err := ReadLogs(t.Context(), Options{Inputs: []string{write(t, "log.jsonl", []byte(log))}}, byteTokens{})
	require.NoError(t, err)
	defer d.Store.Close()
	require.NoError(t, sizes.Complete())
	turns := d.Traces[0].Sessions[0].Turns
	require.Len(t, turns, 2)
	require.Equal(t, int64(0), turns[1].Gap)
	require.Equal(t, map[string]int{"clock": 1}, d.Warnings)
	require.Equal(t, len("hi")+len("hm")+len(long)+9, sizes.Prompt(d.Traces[0], 0, 1))
}
