package reply

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
)

const stream = "text/event-stream; charset=utf-8"

// readAt reads a reply in pieces. Piece k arrives at instant k+1.
func readAt(o Options, broken bool, pieces ...string) *Facts {
	r := New(o)
	for k, p := range pieces {
		r.Write([]byte(p), int64(k+1))
	}
	return r.End(broken)
}

// events writes a stream with data alone.
func chunks(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		fmt.Fprintf(&b, "data: %s\n\n", d)
	}
	return b.String()
}

// named writes a stream whose events have the names of their types.
func named(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		kind, _, _ := strings.Cut(strings.TrimPrefix(d, `{"type":"`), `"`)
		fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", kind, d)
	}
	return b.String()
}

// Replies of every format, streamed and whole.
//
// Covers C-15.
func TestFormats(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		body string
		want Facts
	}{
		{"chat stream", Options{Format: canon.Chat, Type: stream}, chunks(
			`{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"usage":null}`,
			`{"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}`,
			`{"choices":[{"index":0,"delta":{"content":"Hel"}}]}`,
			`{"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}`,
			`{"choices":[],"usage":{"prompt_tokens":22,"completion_tokens":3}}`, "[DONE]"),
			Facts{Whole: true, HasOutput: true, First: 2, Prompt: 22, Out: 3, Stop: journal.StopEndTurn, Word: "stop",
				Output: journal.Text | journal.Thinking, Texts: []string{"hm", "Hello"}}},
		{"chat stream, usage unasked", Options{Format: canon.Chat, Type: stream}, chunks(
			`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"length"}]}`, "[DONE]"),
			Facts{Whole: true, HasOutput: true, First: 1, Prompt: -1, Out: -1, Word: "length", Output: journal.Text, Texts: []string{"a"}}},
		{"chat stream, calls", Options{Format: canon.Chat, Type: stream}, chunks(
			`{"choices":[{"index":0,"delta":{"content":null,"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"Task","arguments":""}}]}}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"subagent_type\":\"Ex"}}]}}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"c2","function":{"name":"ls","arguments":"{}"}}]}}]}`,
			`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"plore\"}"}}]}}]}`,
			`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":9}}`, "[DONE]"),
			Facts{Whole: true, HasOutput: true, First: 1, Prompt: 1, Out: 9, Stop: journal.StopToolUse, Word: "tool_calls", Output: journal.ToolUse,
				Calls: []Call{{"c1", "Task", "Explore"}, {"c2", "ls", ""}}, Texts: []string{`Task{"subagent_type":"Explore"}`, "ls{}"}}},
		{"chat", Options{Format: canon.Chat, Limit: 1 << 20}, `{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":5,"completion_tokens":6}}`,
			Facts{Whole: true, HasOutput: true, First: -1, Prompt: 5, Out: 6, Stop: journal.StopToolUse, Word: "tool_calls", Output: journal.ToolUse,
				Calls: []Call{{"c", "f", ""}}, Texts: []string{"f{}"}}},
		{"completions", Options{Format: canon.Completions, Limit: 1 << 20}, `{"choices":[{"text":" the","finish_reason":"length"}],"usage":{"prompt_tokens":5,"completion_tokens":1}}`,
			Facts{Whole: true, HasOutput: true, First: -1, Prompt: 5, Out: 1, Word: "length", Output: journal.Text, Texts: []string{" the"}}},
		{"messages stream", Options{Format: canon.Messages, Type: stream}, named(
			`{"type":"message_start","message":{"type":"message","content":[],"usage":{"input_tokens":10,"cache_creation_input_tokens":7,"cache_read_input_tokens":null,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`,
			`{"type":"ping"}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"Agent","input":{}}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"subagent_type\":"}}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"\"Plan\"}"}}`,
			`{"type":"content_block_stop","index":1}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":31,"cache_read_input_tokens":100}}`,
			`{"type":"something_new"}`,
			`{"type":"message_stop"}`),
			Facts{Whole: true, HasOutput: true, First: 4, Prompt: 117, Out: 31, Stop: journal.StopToolUse, Word: "tool_use", Output: journal.Thinking | journal.ToolUse,
				Calls: []Call{{"t", "Agent", "Plan"}}, Texts: []string{"hm", `Agent{"subagent_type":"Plan"}`}}},
		{"messages", Options{Format: canon.Messages, Type: "application/json", Limit: 1 << 20},
			`{"type":"message","content":[{"type":"text","text":"Hi"},{"type":"tool_use","id":"t","name":"ls","input":{"a":1}}],"stop_reason":"pause_turn","usage":{"input_tokens":3,"output_tokens":4}}`,
			Facts{Whole: true, HasOutput: true, First: -1, Prompt: 3, Out: 4, Word: "pause_turn", Output: journal.Text | journal.ToolUse,
				Calls: []Call{{"t", "ls", ""}}, Texts: []string{"Hi", `ls{"a":1}`}}},
		{"responses stream", Options{Format: canon.Responses, Type: stream}, named(
			`{"type":"response.created","sequence_number":0,"response":{"id":"r","output":[],"usage":null}}`,
			`{"type":"response.output_item.added","output_index":0,"item":{"type":"message","content":[]}}`,
			`{"type":"response.output_text.delta","output_index":0,"delta":"Hel"}`,
			`{"type":"response.output_text.delta","output_index":0,"delta":"lo"}`,
			`{"type":"response.output_text.done","output_index":0,"text":"Hello"}`,
			`{"type":"response.completed","response":{"id":"r","status":"completed","error":null,"incomplete_details":null,"output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello"}]}],"usage":{"input_tokens":8,"output_tokens":2}}}`),
			Facts{Whole: true, HasOutput: true, First: 3, Prompt: 8, Out: 2, Stop: journal.StopEndTurn, Word: "completed", Output: journal.Text, Texts: []string{"Hello"},
				ID: "r", Items: []byte(`[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hello"}]}]`)}},
		{"responses", Options{Format: canon.Responses, Limit: 1 << 20},
			`{"id":"r2","status":"completed","output":[{"type":"reasoning","id":"x","summary":[{"type":"summary_text","text":"hm"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}],"usage":{"input_tokens":8,"output_tokens":2}}`,
			Facts{Whole: true, HasOutput: true, First: -1, Prompt: 8, Out: 2, Stop: journal.StopToolUse, Word: "function_call", Output: journal.Thinking | journal.ToolUse,
				Calls: []Call{{"c", "f", ""}}, Texts: []string{"hm", "f{}"}, ID: "r2",
				Items: []byte(`[{"type":"reasoning","id":"x","summary":[{"type":"summary_text","text":"hm"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}]`)}},
		{"responses, cut by its limit", Options{Format: canon.Responses, Limit: 1 << 20},
			`{"id":"r3","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[],"usage":{"input_tokens":8,"output_tokens":0}}`,
			Facts{Whole: true, First: -1, Prompt: 8, Word: "max_output_tokens", ID: "r3", Items: []byte("[]")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.o.Type != stream {
				require.Equal(t, &c.want, readAt(c.o, false, c.body))
				return
			}
			parts := strings.SplitAfter(c.body, "\n\n")
			require.Equal(t, &c.want, readAt(c.o, false, parts...))
			broken := readAt(c.o, true, parts[:len(parts)-2]...) // the terminal mark is missing
			require.False(t, broken.Whole)
			require.Equal(t, c.want.HasOutput, broken.HasOutput)
			require.Zero(t, broken.Stop)
		})
	}
}

// Of a stream that broke off, the usage at its beginning does not say how long the output became: the observer counts it.
//
// Covers C-15.
func TestUsageOfTheBeginning(t *testing.T) {
	o := Options{Format: canon.Messages, Type: stream}
	body := named(`{"type":"message_start","message":{"usage":{"input_tokens":10,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"so far"}}`)
	f := readAt(o, true, body)
	require.Equal(t, []any{int64(10), int64(-1), []string{"so far"}}, []any{f.Prompt, f.Out, f.Texts})
	f = readAt(o, true, body, named(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}`))
	require.Equal(t, []any{false, int64(10), int64(4)}, []any{f.Whole, f.Prompt, f.Out})
}

// A stream says the same wherever its pieces end, and however its lines do; only instants differ.
//
// Covers C-14.
func TestEverySplit(t *testing.T) {
	plain := ": comment\n" + named(`{"type":"message_start","message":{"usage":{"input_tokens":10,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"naïve 日本"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":4}}`) +
		"event:message_stop\nid: 7\nretry\ndata:{\"type\":\ndata:\"message_stop\"}" // two lines of data, no blank, no end
	want := readAt(Options{Format: canon.Messages, Type: stream}, false, plain)
	require.Equal(t, []string{"naïve 日本"}, want.Texts)
	require.True(t, want.Whole)
	require.Zero(t, want.Marks)
	want.First = 0
	for _, end := range []string{"\n", "\r\n", "\r"} {
		text := strings.ReplaceAll(plain, "\n", end)
		for k := range len(text) {
			got := readAt(Options{Format: canon.Messages, Type: stream}, false, text[:k], text[k:])
			got.First = 0
			require.Equal(t, want, got, "%q at %d", end, k)
		}
		got := readAt(Options{Format: canon.Messages, Type: stream}, false, strings.Split(text, "")...)
		got.First = 0
		require.Equal(t, want, got, "%q, every byte alone", end)
	}
	require.Equal(t, want.Texts, readAt(Options{Format: canon.Messages, Type: stream}, false, "\xef\xbb\xbf"+plain).Texts)
}

// A coded reply is read as it passes: the instant of the first output is that of the piece with it.
func TestCodedReplies(t *testing.T) {
	first := chunks(`{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`)
	second := chunks(`{"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":"stop"}]}`)
	third := chunks(`{"choices":[],"usage":{"prompt_tokens":22,"completion_tokens":3}}`, "[DONE]")
	type flusher interface {
		io.WriteCloser
		Flush() error
	}
	for name, open := range map[string]func(io.Writer) flusher{
		"gzip": func(w io.Writer) flusher { return gzip.NewWriter(w) },
		"br":   func(w io.Writer) flusher { return brotli.NewWriter(w) },
		"zstd": func(w io.Writer) flusher {
			z, err := zstd.NewWriter(w)
			require.NoError(t, err)
			return z
		},
	} {
		var b bytes.Buffer
		w := open(&b)
		var pieces []string
		cut := func() {
			pieces = append(pieces, b.String())
			b.Reset()
		}
		for _, text := range []string{first, second, third} {
			_, err := io.WriteString(w, text)
			require.NoError(t, err)
			require.NoError(t, w.Flush())
			cut()
		}
		require.NoError(t, w.Close())
		cut()
		o := Options{Format: canon.Chat, Type: stream, Encoding: name}
		want := &Facts{Whole: true, HasOutput: true, First: 2, Prompt: 22, Out: 3, Stop: journal.StopEndTurn, Word: "stop", Output: journal.Text, Texts: []string{"Hello"}}
		require.Equal(t, want, readAt(o, false, pieces...), name)
		require.Equal(t, want, readAt(o, false, append(pieces, "more behind the end")...), name)
		damaged := readAt(o, false, pieces[0], pieces[1], "\xff\x00\xff damage", pieces[3])
		require.False(t, damaged.Whole, name)
		require.True(t, damaged.HasOutput, name)
		require.Equal(t, journal.MarkReplyStream, damaged.Marks, name)
		require.Zero(t, readAt(o, true, pieces[0], pieces[1]).Marks, name)
		all := strings.Join(pieces, "")
		one := readAt(o, false, strings.Split(all, "")...)
		one.First = 2
		require.Equal(t, want, one, name)
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	o := Options{Format: canon.Chat, Encoding: "gzip", Limit: 1 << 20}
	require.Zero(t, readAt(o, false, b.String()).Marks)
	cut := readAt(o, false, b.String()[:b.Len()-4]) // its JSON is whole, its checksum is not
	require.Equal(t, []any{true, journal.MarkReplyJSON, []string{"a"}}, []any{cut.Whole, cut.Marks, cut.Texts})
	require.Equal(t, journal.HoleEncoding, readAt(Options{Format: canon.Chat, Type: stream, Encoding: "compress"}, false, "x").Lost)
	require.Equal(t, journal.HoleOversize, readAt(Options{Format: canon.Chat, Limit: 3}, false, "{}", "  ").Lost)
	require.Empty(t, readAt(Options{Format: canon.Chat, Type: stream, Limit: 3}, false, first, second, third).Lost)
}

// What is wrong with a reply becomes a mark, and its tokens are not believed.
//
// Covers C-25.
func TestMarks(t *testing.T) {
	chat := Options{Format: canon.Chat, Limit: 1 << 20}
	good := `{"choices":[{"message":{"content":"a"}}],"usage":%s}`
	for body, want := range map[string]journal.Mark{
		"":                journal.MarkReplyJSON,
		"{":               journal.MarkReplyJSON,
		`{"x":NaN}`:       journal.MarkReplyJSON,
		`{"x":-Infinity}`: journal.MarkReplyJSON,
		`{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":1,"completion_tokens":2}} x`: journal.MarkReplyJSON,
		"{\"x\":\"\xff\"}": journal.MarkReplyJSON,
		strings.Repeat("[", 1001) + strings.Repeat("]", 1001): journal.MarkReplyJSON,
		`[]`:                                     journal.MarkReplyShape,
		`7`:                                      journal.MarkReplyShape,
		`{"choices":null}`:                       journal.MarkReplyShape,
		`{"choices":{}}`:                         journal.MarkReplyShape,
		`{"choices":[]}`:                         journal.MarkReplyShape,
		`{"choices":[7]}`:                        journal.MarkReplyShape,
		`{"choices":[{"message":"a"}]}`:          journal.MarkReplyShape,
		`{"choices":[{}]}`:                       journal.MarkReplyShape,
		fmt.Sprintf(good, `null`):                journal.MarkReplyUsage,
		fmt.Sprintf(good, `[]`):                  journal.MarkReplyUsage,
		fmt.Sprintf(good, `{}`):                  journal.MarkReplyUsage,
		fmt.Sprintf(good, `{"prompt_tokens":1}`): journal.MarkReplyUsage,
		fmt.Sprintf(good, `{"prompt_tokens":1,"completion_tokens":true}`):                                                        journal.MarkReplyUsage,
		fmt.Sprintf(good, `{"prompt_tokens":1,"completion_tokens":"2"}`):                                                         journal.MarkReplyUsage,
		fmt.Sprintf(good, `{"prompt_tokens":1,"completion_tokens":1.0}`):                                                         journal.MarkReplyUsage,
		fmt.Sprintf(good, `{"prompt_tokens":1,"completion_tokens":-1}`):                                                          journal.MarkReplyUsage,
		fmt.Sprintf(good, `{"prompt_tokens":1,"completion_tokens":2147483648}`):                                                  journal.MarkReplyUsage,
		fmt.Sprintf(good, `{"prompt_tokens":1,"completion_tokens":2147483647}`):                                                  0,
		`{"choices":[{"message":{"content":null,"tool_calls":[]}}],"usage":{"prompt_tokens":1,"completion_tokens":2},"x":[1e9]}`: 0,
	} {
		got := readAt(chat, false, body)
		require.True(t, got.Whole)
		require.Equal(t, want.Names(), (got.Marks & (want | journal.MarkReplyJSON | journal.MarkReplyStream)).Names(), body)
		require.Equal(t, want != 0, got.Out < 0, body)
	}
	for _, body := range []string{`{"content":7,"usage":{"input_tokens":1,"output_tokens":1}}`, `{"usage":{"input_tokens":1,"output_tokens":1}}`,
		`{"content":["x"],"usage":{"input_tokens":1,"output_tokens":1}}`} {
		require.Equal(t, journal.MarkReplyShape, readAt(Options{Format: canon.Messages, Limit: 1 << 20}, false, body).Marks, body)
	}
	for _, body := range []string{`{"output":null,"usage":{"input_tokens":1,"output_tokens":1}}`, `{"usage":{"input_tokens":1,"output_tokens":1}}`,
		`{"output":["x"],"usage":{"input_tokens":1,"output_tokens":1}}`} {
		require.Equal(t, journal.MarkReplyShape, readAt(Options{Format: canon.Responses, Limit: 1 << 20}, false, body).Marks, body)
	}

	start := `{"type":"message_start","message":{"usage":{"input_tokens":1,"output_tokens":1}}}`
	open := `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	delta := `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}`
	stop := `{"type":"message_stop"}`
	messages := Options{Format: canon.Messages, Type: stream}
	for name, body := range map[string]string{
		"no terminal mark":         named(start, open, delta),
		"two":                      named(start, open, delta, stop, stop),
		"a delta without block":    named(start, delta, stop),
		"a delta behind its block": named(start, open, `{"type":"content_block_stop","index":0}`, delta, stop),
		"not JSON":                 named(start, open, delta) + "data: {\n\n" + named(stop),
		"too long":                 named(start, open, delta) + "data: " + strings.Repeat("x", maxEvent) + "\n\n" + named(stop),
		"no event":                 "",
	} {
		require.Equal(t, journal.MarkReplyStream, readAt(messages, false, body).Marks&journal.MarkReplyStream, name)
	}
	require.Zero(t, readAt(messages, false, named(start, open, delta, stop)).Marks)
	item, words := `{"type":"response.output_item.added","output_index":0,"item":{"type":"message","content":[]}}`, `{"type":"response.output_text.delta","output_index":0,"delta":"a"}`
	completed := `{"type":"response.completed","response":{"status":"completed","output":[],"usage":{"input_tokens":1,"output_tokens":1}}}`
	responses := Options{Format: canon.Responses, Type: stream}
	require.Zero(t, readAt(responses, false, named(item, words, completed)).Marks)
	require.Equal(t, journal.MarkReplyStream, readAt(responses, false, named(words, completed)).Marks, "a delta without its item")
	unfinished := readAt(Options{Format: canon.Chat, Type: stream}, false, chunks(`{"choices":[{"index":0,"delta":{"content":"a"}}]}`, `{"error":{"message":"x"}}`, "[DONE]"))
	require.Equal(t, []any{false, true, journal.MarkReplyStream}, []any{unfinished.Whole, unfinished.Failed, unfinished.Marks}, "no finish_reason")
	long := named(start, open, delta) + ": " + strings.Repeat("x", 2*maxEvent) + "\n\n" + named(stop)
	r := New(messages)
	for len(long) > 0 {
		piece := long[:min(len(long), 32<<10)]
		long = long[len(piece):]
		r.Write([]byte(piece), 1)
	}
	require.True(t, r.End(false).Whole)
	require.Less(t, cap(r.events.line), 2*maxEvent+1<<20)
}

// A count that is null leaves the one before.
//
// Covers C-15.
func TestCountsThatAreNull(t *testing.T) {
	f := readAt(Options{Format: canon.Messages, Type: stream}, false, named(
		`{"type":"message_start","message":{"type":"message","content":[],"usage":{"input_tokens":10,"cache_read_input_tokens":100,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":null,"cache_read_input_tokens":null,"output_tokens":2}}`,
		`{"type":"message_stop"}`))
	require.Equal(t, [2]int64{110, 2}, [2]int64{f.Prompt, f.Out})
}

// A server that cuts its output by UTF-16 writes an emoji as halves of a surrogate pair, which is JSON: the reply is as it should be.
//
// Covers C-25.
func TestHalvesOfCharacters(t *testing.T) {
	f := readAt(Options{Format: canon.Chat, Type: stream}, false, chunks(`{"choices":[{"index":0,"delta":{"content":"a\ud83d"}}]}`,
		`{"choices":[{"index":0,"delta":{"content":"\ude00b"},"finish_reason":"stop"}]}`, `{"choices":[],"usage":{"prompt_tokens":22,"completion_tokens":3}}`, "[DONE]"))
	require.Equal(t, &Facts{Whole: true, HasOutput: true, First: 1, Prompt: 22, Out: 3, Stop: journal.StopEndTurn, Word: "stop",
		Output: journal.Text, Texts: []string{"a\ufffd\ufffdb"}}, f)
	f = readAt(Options{Format: canon.Messages, Limit: 1 << 20}, false, `{"content":[{"type":"text","text":"\udc00"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":4}}`)
	require.Equal(t, []any{journal.Mark(0), int64(4)}, []any{f.Marks, f.Out})
}

// An API may fail after it has said 200.
func TestFailuresUnder200(t *testing.T) {
	for _, c := range []struct {
		o    Options
		body string
	}{
		{Options{Format: canon.Chat, Type: stream}, chunks(`{"error":{"message":"x"}}`)},
		{Options{Format: canon.Chat, Limit: 1 << 20}, `{"error":{"message":"x"}}`},
		{Options{Format: canon.Messages, Type: stream}, named(`{"type":"error","error":{"type":"overloaded_error","message":"x"}}`)},
		{Options{Format: canon.Responses, Type: stream}, named(`{"type":"error","code":"x","message":"x"}`)},
		{Options{Format: canon.Responses, Type: stream}, named(`{"type":"response.failed","response":{"status":"failed","error":{"code":"x"},"output":[]}}`)},
	} {
		f := readAt(c.o, false, c.body)
		require.True(t, f.Failed, c.body)
		require.False(t, f.HasOutput)
	}
	require.False(t, readAt(Options{Format: canon.Chat, Type: stream}, false, chunks(`{"choices":[],"error":null}`)).Failed)
}

// No reply, in any pieces, makes a reader panic; and whole and split streams say the same.
func FuzzReader(f *testing.F) {
	f.Add([]byte(named(`{"type":"message_start","message":{"usage":{"input_tokens":1,"output_tokens":1}}}`, `{"type":"message_stop"}`)), uint8(1), uint(9))
	f.Add([]byte(chunks(`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"Task","arguments":"{"}}]}}]}`, "[DONE]")), uint8(0), uint(40))
	f.Add([]byte(named(`{"type":"response.completed","response":{"output":[{"type":"x_call","summary":[{"text":"a"}]}]}}`)), uint8(2), uint(3))
	f.Fuzz(func(t *testing.T, body []byte, format uint8, cut uint) {
		o := Options{Format: canon.Chat + canon.Format(format%4), Type: stream, Limit: 1 << 20}
		k := int(cut % uint(len(body)+1))
		one, two := readAt(o, false, string(body)), readAt(o, false, string(body[:k]), string(body[k:]))
		one.First, two.First = min(one.First, 0), min(two.First, 0)
		require.Equal(t, one, two)
		o.Type = ""
		readAt(o, false, string(body))
		o.Encoding = []string{"gzip", "deflate", "br", "zstd"}[format%4]
		readAt(o, false, string(body[:k]), string(body[k:]))
	})
}
