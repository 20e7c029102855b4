package payload

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The fields after the prompt are those that were chosen, and members of Extra that conflict are named.
//
// Covers T-40, A-13.
func TestFieldsOfABody(t *testing.T) {
	const stream, eos, usage = `,"stream":true`, `,"ignore_eos":true`, `,"stream_options":{"include_usage":true}`
	for name, c := range map[string]struct {
		endpoint  Endpoint
		fields    Fields
		want      string
		conflicts []string
	}{
		"chat":      {want: stream + `,"max_completion_tokens":7` + eos + usage},
		"ids":       {endpoint: Completions, want: stream + `,"max_tokens":7` + eos + usage},
		"bare":      {fields: Fields{Length: MaxTokens, OmitIgnoreEOS: true, OmitStreamOptions: true}, want: stream + `,"max_tokens":7`},
		"no length": {fields: Fields{Length: NoLength}, want: stream + usage},
		"no usage":  {endpoint: Completions, fields: Fields{Length: MaxCompletionTokens, OmitStreamOptions: true}, want: stream + `,"max_completion_tokens":7,"ignore_eos":true`},
		"more":      {fields: Fields{Extra: json.RawMessage(` {"top_k": 1, "a<b": {"x": [1e400, "é\u00e9"]}} `)}, want: stream + `,"max_completion_tokens":7,"top_k":1,"a\u003cb":{"x":[1e400,"é\u00e9"]}` + eos + usage},
		"in their order": {fields: Fields{Extra: json.RawMessage(`{"stream_options":{},"seed":1,"ignore_eos":true,"temperature":0.5}`)},
			want: stream + `,"max_completion_tokens":7` + usage + `,"seed":1` + eos + `,"temperature":0.5`},
		"length first": {fields: Fields{Extra: json.RawMessage(`{"ignore_eos":true,"temperature":0.5}`)}, want: stream + `,"max_completion_tokens":7` + eos + `,"temperature":0.5` + usage},
		"nothing":      {fields: Fields{Extra: json.RawMessage(`{}`)}, want: stream + `,"max_completion_tokens":7` + eos + usage},
		"no quarrel":   {fields: Fields{Extra: json.RawMessage(`{"stream":true,"ignore_eos":true}`)}, want: stream + `,"max_completion_tokens":7` + eos + usage},
		"usage of their own": {fields: Fields{Extra: json.RawMessage(`{"stream_options":{"continuous_usage_stats":true},"z":1}`)},
			want: stream + `,"max_completion_tokens":7,"stream_options":{"continuous_usage_stats":true,"include_usage":true},"z":1` + eos},
		"usage in every message": {fields: Fields{PerChunkUsage: true},
			want: stream + `,"max_completion_tokens":7,"ignore_eos":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`},
		"not in every message": {fields: Fields{PerChunkUsage: true, Extra: json.RawMessage(`{"stream_options":{"continuous_usage_stats":false}}`)},
			want: stream + `,"max_completion_tokens":7,"stream_options":{"continuous_usage_stats":false,"include_usage":true},"ignore_eos":true`},
		"usage refused": {fields: Fields{Extra: json.RawMessage(`{"stream_options":{"include_usage":false}}`)},
			want: stream + `,"max_completion_tokens":7,"stream_options":{"include_usage":false},"ignore_eos":true`},
		"theirs alone": {fields: Fields{Length: NoLength, OmitStreamOptions: true, Extra: json.RawMessage(`{"stream_options":null,"max_tokens":5,"ignore_eos":false}`)},
			want: stream + `,"stream_options":null,"max_tokens":5,"ignore_eos":false`},
		"conflicts": {fields: Fields{Extra: json.RawMessage(`{"messages":[],"model":"x","stream":false,"ignore_eos":false,"max_tokens":5,"seed":1}`)},
			want: stream + `,"max_completion_tokens":7` + eos + `,"seed":1` + usage,
			conflicts: []string{
				`--extra-body: "messages" is not sent: the recording has the prompt`,
				`--extra-body: "model" is not sent: --model names the model`,
				`--extra-body: "stream" is not sent: times of tokens need a stream`,
				`--extra-body: "ignore_eos" is not sent: answers of the recorded length need it: see --no-ignore-eos`,
				`--extra-body: "max_tokens" is not sent: max_completion_tokens has the recorded length: see --max-tokens-field`,
			}},
		"messages": {endpoint: Messages, want: stream + `,"max_tokens":7,"ignore_eos":true`},
		"messages, more": {endpoint: Messages, fields: Fields{OmitIgnoreEOS: true, Extra: json.RawMessage(`{"cache_control":{"type":"ephemeral"},"stream_options":{},"system":"x","max_tokens":5}`)},
			want: stream + `,"max_tokens":7,"cache_control":{"type":"ephemeral"},"stream_options":{}`,
			conflicts: []string{
				`--extra-body: "system" is not sent: the recording has the prompt`,
				`--extra-body: "max_tokens" is not sent: max_tokens has the recorded length: see --max-tokens-field`,
			}},
		"system of a chat": {fields: Fields{Extra: json.RawMessage(`{"system":"x"}`)}, want: stream + `,"max_completion_tokens":7,"system":"x"` + eos + usage},
		"text":             {endpoint: TextCompletions, want: stream + `,"max_tokens":7` + eos + usage},
	} {
		t.Run(name, func(t *testing.T) {
			tail, conflicts, err := newTail(c.endpoint, "m", c.fields)
			require.NoError(t, err)
			require.Equal(t, c.conflicts, conflicts)
			body := string(tail.append(nil, 7))
			frame := endpointTable[c.endpoint]
			require.Equal(t, frame.end+`,"model":"m"`+c.want+`}`, body)
			require.True(t, json.Valid([]byte("{"+frame.head+body)))
		})
	}
}

func TestExtraBodyIsChecked(t *testing.T) {
	for extra, want := range map[string]string{
		`[]`: "want a JSON object", `x`: "want a JSON object", `{"a"`: "want a JSON object", `{"a":}`: `"a"`, `{"a":1,`: "want a JSON object",
		`{"a":1} {}`: "nothing after it", `{"a":1,"b":2,"a":3}`: `"a" occurs twice`, `{"stream_options":7}`: "stream_options: want a JSON object",
	} {
		require.ErrorContains(t, ValidateExtra(json.RawMessage(extra)), want, extra)
	}
	require.NoError(t, Fields{}.Validate())
}

// The Messages API wants max_tokens.
func TestFieldsOfAnEndpoint(t *testing.T) {
	for _, test := range []struct {
		endpoint Endpoint
		fields   Fields
		want     string
	}{
		{Messages, Fields{}, ""}, {Messages, Fields{Length: MaxTokens, OmitStreamOptions: true}, ""},
		{ChatCompletions, Fields{Length: NoLength}, ""}, {TextCompletions, Fields{PerChunkUsage: true}, ""},
		{Messages, Fields{Length: NoLength}, "--max-tokens-field: --payload wants max_tokens"},
		{Messages, Fields{Length: MaxCompletionTokens}, "--max-tokens-field: --payload wants max_tokens"},
		{Messages, Fields{PerChunkUsage: true}, ""},
		{TextCompletions + 1, Fields{}, "endpoint 4: want 0 to 3"},
	} {
		err := Options{Endpoint: test.endpoint, Fields: test.fields}.Validate()
		if test.want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, test.want)
		}
	}
}

// The setting that SettingFor names removes or renames its field.
func TestEveryOptionalFieldHasAFlag(t *testing.T) {
	for _, endpoint := range endpoints {
		f := Fields{Extra: json.RawMessage(`{"top_k":1}`)}
		for _, field := range fieldsOf(t, endpoint, f) {
			flag := f.SettingFor(endpoint, field)
			if field == "model" || field == "stream" || field == "max_tokens" && endpoint == Messages {
				require.Empty(t, flag)
				continue
			}
			g := f
			switch {
			case flag == "--no-ignore-eos":
				g.OmitIgnoreEOS = true
			case flag == "--no-stream-options":
				g.OmitStreamOptions = true
			case flag == "--extra-body without top_k":
				g.Extra = nil
			case strings.HasPrefix(flag, "--max-tokens-field "):
				g.Length = LengthField(strings.Fields(flag)[1])
			}
			require.NotContains(t, fieldsOf(t, endpoint, g), field)
		}
	}
}

func fieldsOf(t *testing.T, endpoint Endpoint, f Fields) (names []string) {
	t.Helper()
	tail, _, err := newTail(endpoint, "m", f)
	require.NoError(t, err)
	list, err := membersOf([]byte(`{` + endpointTable[endpoint].head + string(tail.append(nil, 1))))
	require.NoError(t, err)
	for _, m := range list[1:] {
		names = append(names, m.name)
	}
	return names
}
