package replay

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/mmapcache"
)

// TestFieldsOfABody: what follows the prompt, and which members of the extra body give way.
func TestFieldsOfABody(t *testing.T) {
	const stream, usage = `,"stream":true`, `,"stream_options":{"include_usage":true}`
	for name, c := range map[string]struct {
		form      mmapcache.Encoding
		fields    Fields
		want      string
		conflicts []string
	}{
		"chat":       {want: stream + `,"max_completion_tokens":7` + usage + `,"ignore_eos":true`},
		"ids":        {form: mmapcache.IDs, want: stream + `,"max_tokens":7` + usage + `,"ignore_eos":true`},
		"bare":       {fields: Fields{MaxTokens: MaxTokensField, NoIgnoreEOS: true, NoStreamOptions: true}, want: stream + `,"max_tokens":7`},
		"no length":  {fields: Fields{MaxTokens: NoMaxTokens}, want: stream + usage},
		"no usage":   {form: mmapcache.IDs, fields: Fields{MaxTokens: MaxCompletionTokens, NoStreamOptions: true}, want: stream + `,"max_completion_tokens":7,"ignore_eos":true`},
		"more":       {fields: Fields{Extra: json.RawMessage(` {"top_k": 1, "a<b": {"x": [1e400, "é\u00e9"]}} `)}, want: stream + `,"max_completion_tokens":7` + usage + `,"ignore_eos":true,"top_k":1,"a\u003cb":{"x":[1e400,"é\u00e9"]}`},
		"nothing":    {fields: Fields{Extra: json.RawMessage(`{}`)}, want: stream + `,"max_completion_tokens":7` + usage + `,"ignore_eos":true`},
		"no quarrel": {fields: Fields{Extra: json.RawMessage(`{"stream":true,"ignore_eos":true}`)}, want: stream + `,"max_completion_tokens":7` + usage + `,"ignore_eos":true`},
		"usage of their own": {fields: Fields{Extra: json.RawMessage(`{"stream_options":{"continuous_usage_stats":true},"z":1}`)},
			want: stream + `,"max_completion_tokens":7,"stream_options":{"continuous_usage_stats":true,"include_usage":true},"ignore_eos":true,"z":1`},
		"usage refused": {fields: Fields{Extra: json.RawMessage(`{"stream_options":{"include_usage":false}}`)},
			want: stream + `,"max_completion_tokens":7,"stream_options":{"include_usage":false},"ignore_eos":true`},
		"theirs alone": {fields: Fields{MaxTokens: NoMaxTokens, NoStreamOptions: true, Extra: json.RawMessage(`{"stream_options":null,"max_tokens":5,"ignore_eos":false}`)},
			want: stream + `,"stream_options":null,"max_tokens":5,"ignore_eos":false`},
		"conflicts": {fields: Fields{Extra: json.RawMessage(`{"messages":[],"model":"x","stream":false,"ignore_eos":false,"max_tokens":5,"seed":1}`)},
			want: stream + `,"max_completion_tokens":7` + usage + `,"ignore_eos":true,"seed":1`,
			conflicts: []string{
				`--extra-body: "messages" is not sent: the recording has the prompt`,
				`--extra-body: "model" is not sent: --model names the model`,
				`--extra-body: "stream" is not sent: times of tokens need a stream`,
				`--extra-body: "ignore_eos" is not sent: answers of the recorded length need it: see --no-ignore-eos`,
				`--extra-body: "max_tokens" is not sent: max_completion_tokens has the recorded length: see --max-tokens-field`,
			}},
	} {
		t.Run(name, func(t *testing.T) {
			tail, conflicts, err := newTail(c.form, "m", c.fields)
			require.NoError(t, err)
			require.Equal(t, c.conflicts, conflicts)
			body := string(tail.append(nil, 7))
			require.Equal(t, `],"model":"m"`+c.want+`}`, body)
			require.True(t, json.Valid([]byte(`{"messages":[`+body)))
		})
	}
}

func TestExtraBodyIsChecked(t *testing.T) {
	for extra, want := range map[string]string{
		`[]`: "want a JSON object", `x`: "want a JSON object", `{"a"`: "want a JSON object", `{"a":}`: `"a"`, `{"a":1,`: "want a JSON object",
		`{"a":1} {}`: "nothing behind it", `{"a":1,"b":2,"a":3}`: `"a" stands there twice`, `{"stream_options":7}`: "stream_options: want a JSON object",
	} {
		require.ErrorContains(t, Fields{Extra: json.RawMessage(extra)}.Check(), want, extra)
	}
	require.NoError(t, Fields{}.Check())
}

// TestEveryOptionalFieldHasAFlag: with the flag that a field names, the field is gone or has another name.
func TestEveryOptionalFieldHasAFlag(t *testing.T) {
	for _, form := range []mmapcache.Encoding{mmapcache.Text, mmapcache.IDs} {
		f := Fields{Extra: json.RawMessage(`{"top_k":1}`)}
		for _, field := range fieldsOf(t, form, f) {
			flag := f.flagFor(field)
			if field == "model" || field == "stream" {
				require.Empty(t, flag)
				continue
			}
			g := f
			switch {
			case flag == "--no-ignore-eos":
				g.NoIgnoreEOS = true
			case flag == "--no-stream-options":
				g.NoStreamOptions = true
			case flag == "--extra-body without top_k":
				g.Extra = nil
			case strings.HasPrefix(flag, "--max-tokens-field "):
				g.MaxTokens = MaxTokens(strings.Fields(flag)[1])
			}
			require.NotContains(t, fieldsOf(t, form, g), field)
		}
	}
}

func fieldsOf(t *testing.T, form mmapcache.Encoding, f Fields) (names []string) {
	t.Helper()
	tail, _, err := newTail(form, "m", f)
	require.NoError(t, err)
	list, err := membersOf([]byte(`{"p":[` + string(tail.append(nil, 1))))
	require.NoError(t, err)
	for _, m := range list[1:] {
		names = append(names, m.name)
	}
	return names
}

// TestFieldsArrive: the preflight's body and those of the run have the fields that were chosen.
func TestFieldsArrive(t *testing.T) {
	var mu sync.Mutex
	var bodies []map[string]any
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if json.NewDecoder(r.Body).Decode(&body) == nil {
			delete(body, "prompt")
			mu.Lock()
			bodies = append(bodies, body)
			mu.Unlock()
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	o := optionsFor(t, demoCache(t), url)
	o.Form, o.Requests, o.Preflight, o.Concurrency = mmapcache.IDs, 3, true, 1 // one lane: bodies and records in one order
	o.Fields = Fields{MaxTokens: MaxCompletionTokens, NoIgnoreEOS: true, NoStreamOptions: true, Extra: json.RawMessage(`{"top_k":1}`)}
	p := play(t, t.Context(), o)
	require.Equal(t, 3, p.Completed)
	require.Len(t, bodies, 4)
	for k, body := range bodies {
		want := map[string]any{"model": o.Model, "stream": true, "top_k": 1.0, "max_completion_tokens": 1.0}
		if k > 0 {
			want["max_completion_tokens"] = float64(p.records[k-1].MaxTokens)
		}
		require.Equal(t, want, body)
	}
}

// TestUsageOfTheFirstMessage: it says how many tokens came at once where it was asked for, and nothing where it was not.
func TestUsageOfTheFirstMessage(t *testing.T) {
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"text\":\"abc\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3}}\n\n"+
			"data: {\"choices\":[{\"text\":\"d\",\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4}}\n\ndata: [DONE]\n\n")
	}))
	for extra, want := range map[string]int64{``: 0, `{"stream_options":{"continuous_usage_stats":false}}`: 0, `{"stream_options":{"continuous_usage_stats":true}}`: 3} {
		o := optionsFor(t, demoCache(t), url)
		o.Requests, o.Fields.Extra = 3, json.RawMessage(extra)
		for _, r := range play(t, t.Context(), o).records {
			require.Equal(t, want, r.FirstChunkTokens, extra)
		}
	}
}
