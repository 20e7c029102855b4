package convert

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/aiperf"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/tokenizer"
	"github.com/agentx/agentx/mmapcache"
)

// rowsAnswer reads a file of rows, and says what they become.
func rowsAnswer(t *testing.T, o LogOptions, name, rows string, tok text.Tokenizer) (string, error) {
	dir := t.TempDir()
	file := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(file, []byte(rows), 0o600))
	s, err := hfsource.Resolve(t.Context(), []string{file}, hfsource.Options{})
	require.NoError(t, err)
	defer s.Close()
	d := text.NewDataset(text.NewStore(dir))
	defer d.Store.Close()
	if err := readLogs(t.Context(), s, d, Options{Logs: o}.withDefaults()); err != nil {
		return "", errors.New(strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), ""))
	}
	sizes := text.NewSizes(d, tok)
	require.NoError(t, sizes.Complete())
	a, err := sizes.Answer(64, false)
	require.NoError(t, err)
	b, err := json.Marshal(a)
	require.NoError(t, err)
	return string(b), nil
}

// Every sample of AIPerf's forms becomes what its answer says, which a program of another language made by doc/spec/text.md 7.1. The first row
// says the form, but of a pool and of bodies, which other forms have, too.
func TestFormsOfAIPerf(t *testing.T) {
	tok, err := tokenizer.Load("o200k_base")
	require.NoError(t, err)
	for k := range aiperf.Forms {
		f := &aiperf.Forms[k]
		a, err := txtar.ParseFile(filepath.Join("testdata", "aiperf", f.Name+".txtar"))
		require.NoError(t, err)
		require.Len(t, a.Files, 10)
		format := "auto"
		if f.Name == "random_pool" || f.Name == "raw_payload" {
			format = f.Name
		}
		for n := 0; n < len(a.Files); n += 2 {
			t.Run(f.Name+"/"+a.Files[n].Name, func(t *testing.T) {
				got, err := rowsAnswer(t, LogOptions{Format: format}, a.Files[n].Name, string(a.Files[n].Data), tok)
				require.NoError(t, err)
				require.Equal(t, indented(t, a.Files[n+1].Data), indented(t, []byte(got)))
			})
		}
	}
}

// Starts that a file has are those of its sessions in the cache, and requests of a session that say how long to wait have that gap.
func TestFormsHaveStarts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rows.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(`{"text":"a","timestamp":7500,"session_id":"s"}
{"text":"b","timestamp":1000.5}
{"text":"c","delay":250,"session_id":"s"}`), 0o600))
	o := options(t)
	o.Inputs = []string{file}
	c := openResult(t, o, o.convert(t))
	require.Equal(t, 2, c.RecordedStarts())
	for k, want := range []float64{1000, 7500} {
		at, ok, err := c.RecordedStart(k)
		require.NoError(t, err)
		require.True(t, ok)
		require.InDelta(t, want, at, 0)
	}
	p, err := c.Plan(1)
	require.NoError(t, err)
	require.InDelta(t, 0.25, p.Turns[1].ThinkTime, 0)
	require.Equal(t, int32(mmapcache.NoLength), p.Turns[1].Out)
}

// What somebody gets wrong in a file of AIPerf's, or of its kind, is told in one line.
func TestFormsOfAIPerfRefused(t *testing.T) {
	tests := 0
	for rows := range strings.Lines(refusedForms) {
		tests++
		rows, want, _ := strings.Cut(strings.TrimSpace(rows), " => ")
		format, rows, _ := strings.Cut(rows, " ")
		rows = strings.ReplaceAll(rows, " ; ", "\n")
		_, err := rowsAnswer(t, LogOptions{Format: format}, "rows.jsonl", rows, byteTokens{})
		require.Error(t, err, rows)
		if good := goodRows[format]; good != "" { // a row that is left out leaves nothing behind
			want, err := rowsAnswer(t, LogOptions{Format: format}, "rows.jsonl", good, byteTokens{})
			require.NoError(t, err)
			if first, _, several := strings.Cut(rows, "\n"); several {
				want, err = rowsAnswer(t, LogOptions{Format: format}, "rows.jsonl", first+"\n"+good, byteTokens{})
				require.NoError(t, err)
			}
			got, err := rowsAnswer(t, LogOptions{Format: format, SkipInvalid: true}, "rows.jsonl", rows+"\n"+good, byteTokens{})
			if !strings.Contains(rows, `"forks":["t"]`) && rows != "" { // which only all rows show
				require.NoError(t, err)
				assert.Equal(t, strings.Replace(want, `"warnings":{}`, `"warnings":{"bad_line":1}`, 1), got, rows)
			}
		}
		assert.Equal(t, "rows.jsonl"+want, err.Error(), rows)
		assert.NotContains(t, err.Error(), "canary")
	}
	require.Equal(t, 38, tests)
}

// goodRows has a row of forms.
var goodRows = map[string]string{
	"single_turn": `{"text":"good"}`,
	"multi_turn":  `{"session_id":"s","turns":[{"role":"system","text":"good"},{"text":"one"}]}`,
	"raw_payload": `{"messages":[{"role":"user","content":"good"}]}`,
	"dag_jsonl":   `{"session_id":"s","turns":[{"messages":[{"role":"user","content":"good"}]},{"messages":[{"role":"user","content":"one"}]}]}`,
}

// refusedForms has a line for each mistake: the format, rows, and the error.
const refusedForms = `single_turn  => : it is empty: want rows
single_turn {"prompt":"canary"} => :1: text is missing: want text, texts, image, audio or video
single_turn {"texts":"canary"} => :1: texts: want a list; one text is text
single_turn {"text":["canary"]} => :1: text: want a text; a list is texts
single_turn {"text":"canary","texts":["b"]} => :1: text and texts: one turn has one of the two: leave one of them out
single_turn {"texts":[1]} => :1: texts: want a list of texts
single_turn {"texts":[{"contents":"canary"}]} => :1: texts: contents: want a list of texts
single_turn {"text":"a","image":"canary.png"} => :1: image: a file beside the input, which agentx does not read: want its address, or its content as a data URL (of sound wav,BASE64)
single_turn {"text":"a","output_length":0} => :1: output_length: want a whole number of tokens from 1 to 16777216
single_turn {"text":"a"} ; {"text":"a","timestamp":-1} => :2: timestamp: want a number of milliseconds from 0 to 9.2e+12
single_turn {"text":"a","delay":"canary"} => :1: delay: want a number of milliseconds from 0 to 9.2e+12
single_turn {"text":"a","timestamp":5,"delay":5} => :1: timestamp and delay: one request has one of the two: leave one of them out
single_turn {"text":"a","role":7} => :1: role: want a text, such as user
single_turn {"text":"a","session_id":""} => :1: session_id: want a text that is not empty
single_turn {"session_id":"s","turns":[{"text":"canary"}]} => :1: text is missing: want text, texts, image, audio or video: it is a row of multi_turn: name that format
single_turn {"messages":[{"role":"user","content":"canary"}]} => :1: text is missing: want text, texts, image, audio or video: it is a body of raw_payload: name that format
single_turn {"input_length":4,"output_length":4} => :1: text is missing: want text, texts, image, audio or video: it is a row of lengths, which is read where no format is named
multi_turn {"session_id":"s"} => :1: turns is missing: want a list of turns
multi_turn {"session_id":"s","turns":"canary"} => :1: turns: want a list of turns
multi_turn {"session_id":"s","turns":[]} => :1: turns: the list is empty: want turns
multi_turn {"session_id":"s","turns":[{"text":"a"},{"canary":1}]} => :1: turns[1]: text is missing: want text, texts, image, audio or video
multi_turn {"text":"canary"} => :1: turns is missing: want a list of turns: it is a row of single_turn: name that format
mooncake_trace {"text_input":["canary"]} => :1: text_input: want a text
mooncake_trace {"text_input":"canary","messages":[]} => :1: a row has one of text_input, messages, payload and input_length: leave the others out
mooncake_trace {"messages":"canary","output_length":1} => :1: messages: want a list of messages
mooncake_trace {"session_id":"s","text_input":"a"} ; {"session_id":"s","messages":[{"role":"user","content":"canary"}]} => :2: session_id: other rows of this session have texts where this one has messages, or the reverse: give all of a session one form: it is a body of raw_payload: name that format
mooncake_trace {"input_length":4,"hash_ids":[1]} => :1: messages is missing: want a list of messages: it is a row of lengths, which is read where no format is named
raw_payload {"messages":"canary"} => :1: messages: want a list of messages, as chat completions have them
raw_payload {"messages":[{"content":"canary"}]} => :1: message 0: a message without role
raw_payload {"messages":[]} => :1: messages: the list is empty: want messages, as chat completions have them
raw_payload {"prompt":"canary"} => :1: messages is missing: want a list of messages, as chat completions have them
inputs_json {"data":[{"session_id":"s","payloads":[]}]} => :1: data[0]: payloads: the list is empty: want payloads
inputs_json {"data":[{"payloads":[{"messages":[{"role":"user","content":"canary"}]}]}]} => :1: data[0]: session_id is missing: want a text
dag_jsonl {"session_id":"s","turns":[{"messages":[{"role":"user","content":"canary"}],"forks":["t"]}]} => : session 1 of the input: a session that it starts is not there
dag_jsonl {"session_id":"s","orchestrator":true,"spawns":["canary"]} => :1: orchestrator: a session that sends no request and starts others, which agentx does not play: leave it out, and its children are sessions of their own
dag_jsonl {"session_id":"s","turns":[{"messages":[{"role":"user","content":"a"}],"spawn":["canary"]}]} => :1: turns[0]: unknown member spawn: want [messages model max_tokens tools extra forks spawns delay]
dag_jsonl {"session_id":"s","turns":[{"messages":[{"role":"user","content":"a"}],"spawns":"canary"}]} => :1: turns[0]: spawns: want a list of session ids
dag_jsonl {"session_id":"s","turns":[{"messages":[{"role":"user","content":"a"}],"spawns":[{"children":["t"],"join_at":0}]}]} => :1: turns[0]: spawns: join_at: want a turn behind this one`
