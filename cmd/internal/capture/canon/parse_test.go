package canon

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/internal/endpoint"
)

// requireOracle compares a body with the oracle, in every format.
func requireOracle(t require.TestingT, body []byte) {
	for f := Chat; f <= Completions; f++ {
		want, wantErr := oracleStream(f, body)
		got, err := Parse(f, body)
		if wantErr != nil {
			require.Error(t, err, "%s %q", f, body)
			var own *Error
			require.ErrorAs(t, err, &own)
			continue
		}
		require.NoError(t, err, "%s %q", f, body)
		require.Equal(t, want, words(got.Segments), "%s %q", f, body)
		require.LessOrEqual(t, got.Tools, got.Head)
		require.LessOrEqual(t, got.Head, got.System)
		require.LessOrEqual(t, got.System, len(got.Segments))
	}
}

// keys and texts are what bodies are drawn from: all that canon looks at, spelled in several ways.
var (
	drawnKeys = func() (list []string) {
		for n := range keys {
			list = append(list, n)
		}
		return append(list, "cache_control", "signature", "status", "detail", `cache\u005fcontrol`, `t\u0079pe`)
	}()
	drawnTexts = []string{
		"", "text", "input_text", "output_text", "refusal", "tool_use", "tool_result", "thinking", "redacted_thinking", "image", "image_url",
		"input_image", "document", "file", "input_file", "audio", "input_audio", "message", "function_call", "custom_tool_call", "reasoning",
		"function_call_output", "custom_tool_call_output", "item_reference", "web_search_call", "shell_call_output", "server_tool_use",
		"system", "developer", "user", "assistant", "tool", "function", "a\nb", `é\ud800x`, `\ud83d\ude42`, "data:image/gif;base64,R0lGODlhCgAUAAAAACw=",
		"R0lGODlhCgAUAAAAACw=", "https://a/b.png", "x-anthropic-billing-header: a", `x-anthropic-billing-header: cc_is_subagent=true;\nrest`,
	}
)

// genValue draws JSON of some depth.
func genValue(depth int) *rapid.Generator[string] {
	space := rapid.SampledFrom([]string{"", "", " ", "\n\t"})
	scalar := rapid.OneOf(
		rapid.Map(rapid.SampledFrom(drawnTexts), func(s string) string {
			return `"` + strings.ReplaceAll(s, "\n", `\n`) + `"`
		}),
		rapid.SampledFrom([]string{"null", "true", "false", "12", "-1.50e3", "[1, 2,3]", "[[7,8]]", `["a"]`, "[]", "{}"}),
	)
	if depth == 0 {
		return scalar
	}
	return rapid.Custom(func(t *rapid.T) string {
		var parts []string
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return scalar.Draw(t, "scalar")
		case 1:
			for range rapid.IntRange(0, 3).Draw(t, "elements") {
				parts = append(parts, space.Draw(t, "space")+genValue(depth-1).Draw(t, "element"))
			}
			return "[" + strings.Join(parts, ",") + "]"
		}
		for range rapid.IntRange(0, 6).Draw(t, "members") {
			key := rapid.SampledFrom(drawnKeys).Draw(t, "key")
			parts = append(parts, space.Draw(t, "space")+`"`+key+`"`+space.Draw(t, "space")+":"+genValue(depth-1).Draw(t, key))
		}
		return "{" + strings.Join(parts, ",") + "}"
	})
}

// genDetail draws an object such as the source of an image or the function of a call.
var genDetail = rapid.Custom(func(t *rapid.T) string {
	var list []string
	for range rapid.IntRange(0, 3).Draw(t, "members") {
		key := rapid.SampledFrom([]string{"data", "url", "type", "content", "file_data", "file_url", "file_id", "id", "name", "arguments", "input"}).Draw(t, "key")
		list = append(list, fmt.Sprintf("%q: %s", key, genValue(1).Draw(t, key)))
	}
	return "{" + strings.Join(list, ",") + "}"
})

// membersOf has the keys that matter of blocks, items and messages of each type.
var membersOf = map[string][]string{
	"":     {"content", "reasoning_content", "refusal", "audio", "tool_calls", "function_call", "tool_call_id", "role"},
	"text": {"text"}, "input_text": {"text"}, "output_text": {"text"}, "refusal": {"refusal"},
	"tool_use": {"name", "input", "id", "cache_control"}, "tool_result": {"content", "is_error", "tool_use_id"},
	"thinking": {"thinking", "signature"}, "redacted_thinking": {"data"},
	"image": {"source", "image_url"}, "image_url": {"image_url"}, "input_image": {"image_url", "file_id"},
	"document": {"source"}, "file": {"file"}, "input_file": {"file_data", "file_url", "file_id"},
	"audio": {"source", "audio"}, "input_audio": {"input_audio"}, "message": {"content", "role", "id"},
	"function_call": {"name", "arguments"}, "custom_tool_call": {"name", "input"},
	"reasoning": {"summary", "content", "encrypted_content"}, "function_call_output": {"output", "call_id"}, "custom_tool_call_output": {"output"},
	"web_search_call": {"id", "status", "input", "call_id"}, "shell_call_output": {"call_id", "output"}, "server_tool_use": {"id", "input", "cache_control"},
	"function": {"function", "custom"},
}

// genMember draws a member that fits its key, mostly.
func genMember(t *rapid.T, key string, depth int) string {
	switch key {
	case "source", "image_url", "file", "input_audio", "audio", "function", "custom", "function_call":
		return rapid.OneOf(genDetail, genDetail, genValue(1)).Draw(t, key)
	case "content", "summary", "output", "tool_calls":
		if depth > 0 && rapid.IntRange(0, 3).Draw(t, "nested") > 0 {
			return genList(depth-1).Draw(t, key)
		}
	}
	return genValue(min(depth, 1)).Draw(t, key)
}

// genList draws a list of blocks, items or messages.
func genList(depth int) *rapid.Generator[string] {
	types := slices.Sorted(maps.Keys(membersOf))
	return rapid.Custom(func(t *rapid.T) string {
		var elements []string
		for range rapid.IntRange(0, 4).Draw(t, "elements") {
			kind := rapid.SampledFrom(types).Draw(t, "type")
			element := fmt.Sprintf(`"type":%q`, kind)
			if kind == "" || kind == "message" {
				element = fmt.Sprintf(`"role":%q`, rapid.SampledFrom([]string{"system", "developer", "user", "assistant", "assistant", "tool", "function"}).Draw(t, "role"))
			}
			for range rapid.IntRange(0, 5).Draw(t, "members") {
				key := rapid.SampledFrom(membersOf[kind]).Draw(t, "key")
				if key == "role" || rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
					key = rapid.SampledFrom(drawnKeys).Draw(t, "any key")
				}
				element += fmt.Sprintf(`,"%s": %s`, key, genMember(t, key, depth))
			}
			elements = append(elements, "{"+element+"}")
		}
		return "[" + strings.Join(elements, ", ") + "]"
	})
}

// genMessages draws a list whose elements have a role.
func genMessages(t *rapid.T) string {
	var messages []string
	for range rapid.IntRange(1, 4).Draw(t, "messages") {
		message := fmt.Sprintf(`"role":%q`, rapid.SampledFrom([]string{"system", "user", "assistant", "tool", "function"}).Draw(t, "role"))
		for range rapid.IntRange(0, 5).Draw(t, "members") {
			key := rapid.SampledFrom(membersOf[""][:7]).Draw(t, "key")
			message += fmt.Sprintf(`,"%s": %s`, key, genMember(t, key, 2))
		}
		messages = append(messages, "{"+message+"}")
	}
	return "[" + strings.Join(messages, ",") + "]"
}

// Bodies of every shape have the streams of an oracle that reads them with encoding/json.
func TestStreamsAreThoseOfTheOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := "{"
		for _, key := range []string{"messages", "input", "tools", "system", "instructions", "prompt", "previous_response_id", "conversation", "functions"} {
			if key != "messages" && key != "input" && rapid.IntRange(0, 3).Draw(t, "rare") > 0 {
				continue
			}
			value := rapid.OneOf(genList(2), rapid.Custom(genMessages), rapid.Custom(genMessages), genValue(3)).Draw(t, key)
			body += fmt.Sprintf("%q: %s,", key, value)
		}
		requireOracle(t, []byte(body+`"model":"m"}`))
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"messages":[{"role":"user","content":"a"}],"model":"m","stream":true}`,
		`{"system":[{"type":"text","text":"x-anthropic-billing-header: a\nb"}],"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","data":"iVBORw0KGgo="}},{"type":"tool_result","content":[{"type":"text","text":"a"},{"type":"image"}],"is_error":true}]}]}`,
		`{"input":[{"type":"reasoning","summary":[{"text":"a"}],"encrypted_content":"gAAA"},{"type":"function_call","name":"f","arguments":"{}"}],"tools":[{"a" : [1, 2 ],"cache_control":{}}]}`,
		`{"prompt":[1,2,3]}`, `{"prompt":[[1]]}`, `{"prompt":["a"]}`, `{"messages":[],"messages":[{"role":"user","role":"tool","content":null}]}`, `[`, "{\"a\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) { requireOracle(t, body) })
}

// What has no stream says why, and nothing of what it contains.
func TestErrorsNameTheReason(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for body, want := range map[string]string{
		`{"messages":[],}`:            "parse_request: the body is malformed JSON at byte 15",
		`{"messages":[]} x`:           "parse_request: the body is malformed JSON at byte 16",
		`[]`:                          "parse_request: the body is not a JSON object",
		``:                            "parse_request: the body is malformed JSON at byte 0",
		"{\"secret\":\"\xff\"}":       "parse_request: the body is not UTF-8",
		`{"a":` + deep(1000) + `}`:    "parse_request: the body is malformed JSON at byte 1004",
		`{"messages":"secret"}`:       "unhashable: messages is missing, or not a list",
		`{"messages":[]}`:             "unhashable: the prompt is empty",
		`{"messages":["secret"]}`:     "unhashable: a message is not an object",
		`{"messages":[{}]}`:           "unhashable: a message has no role",
		`{"messages":[],"tools":"a"}`: "unhashable: tools is not a list",
		`{"messages":[` + strings.Repeat(`{"role":"user","content":[{}]},`, maxValues/4+1) + `{}]}`:                       "oversize: the body has more than 1048576 values",
		`{"messages":[{"role":"user","content":[` + strings.Repeat(`{"type":"image"},`, maxMediaTokens/1000+1) + `""]}]}`: "oversize: the prompt has more than 16777216 tokens of media",
	} {
		_, err := Parse(Chat, []byte(body))
		require.EqualError(t, err, want)
	}
	_, err := Parse(Chat, []byte(`{"a":`+deep(999)+`,"messages":[{"role":"user"}]}`))
	require.NoError(t, err)
	for body, want := range map[string]string{
		`{"input":"a","conversation":{"id":"c"}}`:        "unhashable: a part of the prompt is on the server, to which conversation or prompt refers",
		`{"input":"a","prompt":{"id":"p"}}`:              "unhashable: a part of the prompt is on the server, to which conversation or prompt refers",
		`{"input":[{"type":"item_reference","id":"i"}]}`: "unhashable: an item of the prompt is on the server, to which an item_reference refers",
		`{"input":7}`:                            "unhashable: the input is neither text nor a list",
		`{"input":[7]}`:                          "unhashable: an item of the input is not an object",
		`{"input":"a","previous_response_id":7}`: "unhashable: previous_response_id is empty, or not a text",
		`{"input":"a","instructions":7}`:         "unhashable: the system prompt is neither text nor a list",
		`{"conversation":null,"prompt":null,"instructions":null}`: "unhashable: the prompt is empty",
	} {
		_, err := Parse(Responses, []byte(body))
		require.EqualError(t, err, want)
	}
	for body, want := range map[string]string{
		`{}`:                      "unhashable: the prompt is neither text nor a list",
		`{"prompt":[]}`:           "unhashable: the prompt is empty",
		`{"prompt":["a","b"]}`:    "unhashable: the request has more than one prompt",
		`{"prompt":[[1],[2]]}`:    "unhashable: the request has more than one prompt",
		`{"prompt":[1,"secret"]}`: "unhashable: prompt is neither one text nor a list of token ids",
		`{"prompt":[2684354561]}`: "unhashable: prompt is neither one text nor a list of token ids", // would be structure
	} {
		_, err := Parse(Completions, []byte(body))
		require.EqualError(t, err, want)
	}
}

// What else a proxy needs to know stands in the prompt.
func TestWhatABodySaysBesideThePrompt(t *testing.T) {
	p := parse(t, Messages, `{"model":"m\u002d1","stream":true,"metadata":{"user_id":"user_a_session_b"},"prompt_cache_key":"k",
		"system":[{"type":"text","text":"x-anthropic-billing-header: cc_is_subagent=true; cch=1;"},{"type":"text","text":"a"}],
		"tools":[{"name":"t"},{"name":"u"}],
		"messages":[{"role":"system","content":"b"},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1"},{"type":"tool_result","tool_use_id":"toolu_2"}]}]}`)
	require.Equal(t, []any{"m-1", true, "user_a_session_b", "k", true, []string{"toolu_1", "toolu_2"}, 2, 3, 4},
		[]any{p.Model, p.Stream, p.UserID, p.CacheKey, p.Subagent, p.Results, p.Tools, p.Head, p.System})
	require.False(t, parse(t, Chat, `{"stream":"true","messages":[{"role":"user"}]}`).Stream)
	require.Equal(t, "resp_1", parse(t, Responses, `{"previous_response_id":"resp_1"}`).Previous)
	require.False(t, parse(t, Messages, `{"messages":[{"role":"user","content":"cc_is_subagent=true"}]}`).Subagent)
}

// What looks like the header for billing is text in the third block, behind other text, and in another API.
func TestOnlyTheHeaderForBillingGoes(t *testing.T) {
	const header = `{"type":"text","text":"x-anthropic-billing-header: a\nb"}`
	for body, want := range map[string]string{
		`{"system":[` + header + `],"messages":[]}`:                                                       `A0000002 A0000010 "b" A000001F |`,
		`{"system":[{"type":"text","text":"c"},{"type":"text","text":"d"},` + header + `],"messages":[]}`: `A0000002 A0000010 "c" A000001F | A0000010 "d" A000001F | A0000010 "x-anthropic-billing-header: a\nb" A000001F |`,
		`{"system":" x-anthropic-billing-header: a","messages":[]}`:                                       `A0000002 A0000010 " x-anthropic-billing-header: a" A000001F |`,
	} {
		require.Equal(t, want, words(parse(t, Messages, body).Segments), body)
	}
	require.Equal(t, `A0000002 A0000010 "x-anthropic-billing-header: a\nb" A000001F |`, words(parse(t, Responses, `{"instructions":[`+header+`]}`).Segments))
}

// Items that no rule knows lack what links them; other keys stay.
func TestItemsThatNoRuleKnows(t *testing.T) {
	p := parse(t, Responses, `{"input":[{"type":"web_search_call","id":"ws_1","status":"completed","call_id":"c","action":{"id":1,"status":2},"cache_control":{}},
		{"id":"o_1","type":"computer_call_output","status":"s","call_id":"c","output":[1]}]}`)
	require.Equal(t, `A0000005 A0000017 "{\"type\":\"web_search_call\",\"action\":{\"id\":1,\"status\":2}}" A000001F | `+
		`A0000006 A0000017 "{\"type\":\"computer_call_output\",\"output\":[1]}" A000001F |`, words(p.Segments))
	require.Equal(t, []journal.Kinds{journal.ToolUse, journal.ToolResult}, []journal.Kinds{p.Segments[0].Kinds, p.Segments[1].Kinds})
}

// Kinds of content have the bits of the journal.
func TestKindsOfSegments(t *testing.T) {
	p := parse(t, Messages, `{"tools":[{}],"system":"a","messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image"},{"type":"tool_result"},{"type":"web_search_tool_result"}]},
		{"role":"assistant","content":[{"type":"thinking"},{"type":"redacted_thinking"},{"type":"tool_use"},{"type":"server_tool_use"},{"type":"new"}]},{"role":"user","content":[]}]}`)
	var kinds []journal.Kinds
	for _, s := range p.Segments {
		kinds = append(kinds, s.Kinds)
	}
	require.Equal(t, []journal.Kinds{0, 1, 1, 1, 2, 2, 8, 8, 4, 4, 1, 0}, kinds)
}

func TestFormatsByPath(t *testing.T) {
	for _, e := range endpoint.All { // one without a format would pass unrecorded
		f, ok := FormatOf("POST", "/base"+e.Path)
		require.True(t, ok, e.Path)
		require.Equal(t, e, dialects[f].Endpoint)
	}
	for path, want := range map[string]Format{
		"/v1/chat/completions": Chat, "/x/v1/messages": Messages, "/v1/responses": Responses, "/v1/completions": Completions,
		"/v1/messages/count_tokens": 0, "/v1/models": 0, "/v1/responses/r_1": 0,
	} {
		f, ok := FormatOf("POST", path)
		require.Equal(t, want, f, path)
		require.Equal(t, want != 0, ok, path)
	}
	_, ok := FormatOf("GET", "/v1/messages")
	require.False(t, ok)
}

// A prompt is of its body alone: the readers that prompts share keep nothing.
func TestParsesDoNotMix(t *testing.T) {
	first := parse(t, Chat, `{"messages":[{"role":"user","content":"a\nb"}]}`)
	want := words(first.Segments)
	for range 10 {
		parse(t, Chat, `{"messages":[{"role":"user","content":"c\nd"},{"role":"tool","content":[{"type":"text","text":"\u0041"}]}]}`)
	}
	require.Equal(t, want, words(first.Segments))
}
