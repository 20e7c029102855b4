package capture

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// calling answers as Anthropic's API does, with the calls that the header X-Calls names: id=type, with commas between them.
func calling(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	event := func(text string, args ...any) {
		text = fmt.Sprintf(text, args...)
		name, _, _ := strings.Cut(strings.TrimPrefix(text, `{"type":"`), `"`)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, text)
	}
	event(`{"type":"message_start","message":{"usage":{"input_tokens":10,"output_tokens":1}}}`)
	event(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
	event(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Yes."}}`)
	stop := "end_turn"
	for k, call := range strings.FieldsFunc(r.Header.Get("X-Calls"), func(r rune) bool { return r == ',' }) {
		id, kind, _ := strings.Cut(call, "=")
		event(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":%q,"name":"Task","input":{}}}`, k+1, id)
		event(`{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":%q}}`, k+1, fmt.Sprintf(`{"subagent_type":%q}`, kind))
		stop = "tool_use"
	}
	event(`{"type":"message_delta","delta":{"stop_reason":%q},"usage":{"output_tokens":7}}`, stop)
	event(`{"type":"message_stop"}`)
}

// asked is a request of the script: of an agent, with a list of messages, with the results of calls, whose reply makes calls.
type asked struct {
	agent, parent string
	model         string
	messages      []string
	results       []string
	calls         string
}

// said returns messages that begin alike for one subject, so that a longer list goes on from a shorter one.
func said(subject string, n int) (list []string) {
	for k := range n {
		list = append(list, fmt.Sprintf("%s, part %d: read the files that matter here and say what you see in them", subject, k))
	}
	return list
}

// run is an agent's run: a call for a title, two subagents side by side, of which one makes a third, another model, a rewind, a
// compaction.
var run = []asked{
	{model: "m", messages: said("main", 3), calls: "c1=Explore,c2=Plan"},
	{agent: "a", model: "m", messages: said("first", 2)},
	{agent: "b", model: "small", messages: said("second", 2)},
	{agent: "a", model: "m", messages: said("first", 4), calls: "c3=mine"},
	{agent: "c", parent: "a", model: "m", messages: said("third", 3)},
	{agent: "b", model: "small", messages: said("second", 5)},
	{agent: "a", model: "m", messages: said("first", 6), results: []string{"c3"}},
	{model: "m", messages: said("main", 4), results: []string{"c1", "c2"}},
	{model: "small", messages: said("title", 1)}, // no subagent is at work: it is the main agent's
	{model: "m", messages: said("main", 2)},      // a rewind
	{model: "m", messages: said("compacted", 3)}, // a compaction
}

// play sends the run, and returns who asked what: a line for the main agent, and one for each subagent.
func play(t *testing.T, by string) string {
	r := start(t, http.HandlerFunc(calling), nil)
	for _, q := range run {
		system := "You are an agent."
		header := []string{"X-Claude-Code-Session-Id", "one", "X-Calls", q.calls}
		switch {
		case by == "headers" && q.agent != "":
			header = append(header, "X-Claude-Code-Agent-Id", q.agent, "X-Claude-Code-Parent-Agent-Id", q.parent)
		case by == "marks" && q.agent != "":
			system = "x-anthropic-billing-header: cc_version=2; cc_is_subagent=true;"
		}
		if q.agent != "" {
			system += "\nYou are the helper for " + q.messages[0]
		}
		var messages []any
		for _, text := range q.messages {
			messages = append(messages, map[string]any{"role": "user", "content": text})
		}
		for _, id := range q.results {
			messages = append(messages, map[string]any{"role": "user", "content": []any{map[string]any{"type": "tool_result", "tool_use_id": id, "content": "done"}}})
		}
		body, err := json.Marshal(map[string]any{"model": q.model, "max_tokens": 9, "stream": true, "system": system, "messages": messages})
		require.NoError(t, err)
		status, reply := r.post("/v1/messages", string(body), header...)
		require.Equal(t, http.StatusOK, status, reply)
	}
	summary, traces := r.end()
	require.Equal(t, []int{1, len(run)}, []int{summary.Traces, summary.Recorded}, "%+v", summary)
	var lines []string
	for _, trace := range traces {
		main := "main:"
		for _, entry := range trace["requests"].([]any) {
			entry := entry.(map[string]any)
			if entry["type"] != "subagent" {
				main += fmt.Sprint(" ", entry["model"], len(entry["hash_ids"].([]any)))
				continue
			}
			line := fmt.Sprint(entry["subagent_type"], " ", entry["status"], ":")
			for _, q := range entry["requests"].([]any) {
				line += fmt.Sprint(" ", q.(map[string]any)["model"])
			}
			lines = append(lines, line)
		}
		lines = append(lines, main)
	}
	return strings.Join(lines, "\n")
}

// A run has the same agents whether headers, marks or calls tell of them.
//
// Covers C-31, C-32.
func TestOneRunThreeWays(t *testing.T) {
	const want = "Explore completed: m m m\nPlan completed: small small\ncustom completed: m\nmain: "
	headers := play(t, "headers")
	require.Equal(t, want, headers[:min(len(want), len(headers))], headers)
	require.Equal(t, 6, len(strings.Fields(headers[strings.LastIndex(headers, "main: "):])), headers)
	require.Equal(t, headers, play(t, "marks"))
	require.Equal(t, headers, play(t, "linkage"))
}
