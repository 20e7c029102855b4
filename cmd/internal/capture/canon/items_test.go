package canon

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	logs "github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/content"
)

// byteTokens is a tokenizer whose tokens are bytes.
type byteTokens struct{}

func (byteTokens) AppendIDs(ids []uint32, s string) []uint32 {
	return append(ids, make([]uint32, len(s))...)
}

// Items that a log has are as long as those that a capture sees: one stream, doc/spec/capture.md 5.2.
func TestItemsOfLogs(t *testing.T) {
	items := rapid.SampledFrom([]string{
		`{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"},{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}`,
		`{"role":"developer","content":"rules"}`, `{"type":"message","role":"critic","content":null}`, `{"type":"message","role":"assistant","id":"m","status":"completed","content":[{"type":"output_text","text":"a"},{"type":"refusal","refusal":"no"}]}`,
		`{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"hm"}],"content":null,"encrypted_content":"gAAAA"}`, `{"type":"reasoning","summary":[],"encrypted_content":"gAAAAgAAAA"}`,
		`{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"so"}]}`, `{"type":"reasoning","summary":[]}`,
		`{"type":"function_call","id":"f","call_id":"c","name":"sh","arguments":"{\"a\": 1}"}`, `{"type":"custom_tool_call","call_id":"c","name":"patch","input":"*** Begin\n"}`, `{"type":"function_call","call_id":"c","arguments":{"a": [1, 2]}}`,
		`{"type":"function_call_output","call_id":"c","output":"done"}`, `{"type":"custom_tool_call_output","call_id":"c","output":[{"type":"input_text","text":"x"},{"type":"input_image","image_url":"https://a/b"}]}`,
		`{"type":"web_search_call","id":"w","status":"completed","action":{"type": "search","query":"q"}}`, `{"type":"local_shell_call","call_id":"c","status":"x","action":{"command":["ls"]}}`,
		`{"type":"tool_search_output","call_id":"c","tools":[ ]}`,
	})
	rapid.Check(t, func(t *rapid.T) {
		list := "["
		for k, item := range rapid.SliceOfN(items, 1, 12).Draw(t, "items") {
			if k > 0 {
				list += ","
			}
			list += item
		}
		list += "]"
		prompt, err := ParseOutput([]byte(list))
		require.NoError(t, err)
		want := 0
		for _, s := range prompt.Segments {
			for _, p := range s.Parts {
				switch p.Kind {
				case Structure:
					want++
				case PlainText:
					want += len(p.Data)
				case MediaTokens:
					want += p.Count
				}
			}
		}

		d := logs.NewDataset(logs.NewStore(""))
		r := content.Reader{Data: d}
		var messages []int32
		behind := false
		r.Items(content.Raw(list), func(i content.Item) {
			i.Message.Continues = i.Follows && behind
			behind = i.Message.Role == logs.Assistant
			messages = append(messages, d.Message(i.Message))
		})
		sizes, got := logs.NewSizes(d, byteTokens{}), 0
		for _, m := range messages {
			got += sizes.Message(m)
		}
		require.Equal(t, want, got, list)
	})
}
