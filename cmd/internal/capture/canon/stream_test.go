package canon

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/tokenizer"
)

// stream writes the tokens of segments as the specification does: structure in hexadecimal, text as ids. Media are M and
// their number.
func stream(tk *tokenizer.Tokenizer, segments []Segment) string {
	var words []string
	for _, s := range segments {
		for _, p := range s.Parts {
			switch p.Kind {
			case Structure:
				words = append(words, fmt.Sprintf("%08X", p.Token))
			case PlainText:
				for _, id := range tk.Encode(string(p.Data)) {
					words = append(words, fmt.Sprint(id))
				}
			case MediaTokens:
				words = append(words, fmt.Sprintf("M%d", p.Count))
			case TokenIDs:
				for _, id := range p.IDs {
					words = append(words, fmt.Sprint(id))
				}
			}
		}
	}
	return strings.Join(words, " ")
}

// parse parses a body that has to be right.
func parse(t testing.TB, f Format, body string) *Prompt {
	t.Helper()
	require.True(t, json.Valid([]byte(body)), body)
	p, err := Parse(f, []byte(body))
	require.NoError(t, err, body)
	return p
}

const (
	firstPrompt = "A0000002 A0000010 3575 553 261 25120 36894 13 A000001F A0000004 A0000010 36119 290 42650 1746 306 14216 32812 11 4843 13 A000001F"
	continued   = firstPrompt + " A0000005 A0000010 44425 480 13 A000001F A0000011 1293 A000001E 10848 4189 7534 13297 32812 4294 1137 1243 4689 92 A000001F A0000006 A0000012 5652 8420 416 2915 354 A000001F"
)

// The streams that the specification computed: the same of every API, whatever stands around the prompt.
//
// Covers C-1.
func TestStreamsOfTheSpecification(t *testing.T) {
	const (
		system = `You are a careful engineer.`
		user   = `{"role":"user","content":"Fix the failing test in parser.go, please."}`
		call   = `{"role":"assistant","content":"Reading it.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{\"path\":\"parser.go\",\"line\":42}"}}]}`
		items  = `{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Reading it.","annotations":[]}]},
			{"type":"function_call","id":"fc_1","call_id":"call_1","status":"completed","name":"read","arguments":"{\"path\":\"parser.go\",\"line\":42}"},
			{"type":"function_call_output","call_id":"call_1","output":"func parse() error {"}`
		uses = `{"role":"assistant","content":[{"type":"text","text":"Reading it."},{"type":"tool_use","id":"toolu_1","name":"read","input":{ "path": "parser.go", "line": 42 }}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"func parse() error {"}]}`
		billing = `{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.36.b2c; cc_entrypoint=cli; cch=0a1b2;"}`
	)
	o200k, err := tokenizer.Load("o200k_base")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		format Format
		body   string
		want   string
	}{
		"anthropic":                 {Messages, `{"system":"` + system + `","messages":[` + user + `]}`, firstPrompt},
		"anthropic, blocks":         {Messages, `{"messages":[{"content":[{"text":"Fix the failing test in parser.go, please.","type":"text"}],"role":"user"}],"system":[{"type":"text","text":"` + system + `"}]}`, firstPrompt},
		"anthropic, billing":        {Messages, `{"system":[` + billing + `,{"type":"text","text":"` + system + `","cache_control":{"type":"ephemeral"}}],"messages":[` + user + `]}`, firstPrompt},
		"anthropic, billing second": {Messages, `{"system":[{"type":"text","text":"` + system + `"},` + billing + `],"messages":[` + user + `]}`, firstPrompt},
		"chat":                      {Chat, `{"messages":[{"role":"system","content":"` + system + `"},` + user + `]}`, firstPrompt},
		"responses":                 {Responses, `{"instructions":"` + system + `","input":"Fix the failing test in parser.go, please."}`, firstPrompt},
		"responses, items":          {Responses, `{"instructions":"` + system + `","input":[` + user + `]}`, firstPrompt},
		"anthropic, continued":      {Messages, `{"system":"` + system + `","messages":[` + user + `,` + uses + `]}`, strings.Replace(continued, "A0000006", "A0000004", 1)},
		"chat, continued":           {Chat, `{"messages":[{"role":"system","content":"` + system + `"},` + user + `,` + call + `,{"role":"tool","tool_call_id":"call_1","content":"func parse() error {"}]}`, continued},
		"responses, continued":      {Responses, `{"instructions":"` + system + `","input":[` + user + `,` + items + `]}`, continued},
		"call":                      {Messages, `{"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"f","input":{"a":1}}]}]}`, "A0000005 A0000011 69 A000001E 10848 64 1243 16 92 A000001F"},
		"call, cache_control":       {Messages, `{"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"f","input":{"a":1},"cache_control":{"type":"ephemeral"}}]}]}`, "A0000005 A0000011 69 A000001E 10848 64 1243 16 92 A000001F"},
		"call, cache_control in it": {Messages, `{"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"f","input":{"a":1,"cache_control":{"type":"ephemeral"}}}]}]}`, "A0000005 A0000011 69 A000001E 10848 64 1243 16 3532 18949 29981 70649 2493 7534 1027 123484 57612 A000001F"},
		"special token":             {Completions, `{"prompt":"<|endoftext|>"}`, "A0000010 27 91 419 1440 919 91 29 A000001F"},
		"characters":                {Completions, `{"prompt":"na\u00efve 日本"}`, "A0000010 1503 9954 737 17428 A000001F"},
	} {
		require.Equal(t, c.want, stream(o200k, parse(t, c.format, c.body).Segments), name)
	}
}
