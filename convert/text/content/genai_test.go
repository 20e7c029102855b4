package content

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/text"
)

// Parts of OpenTelemetry's conventions become parts, in their order.
func TestGenAI(t *testing.T) {
	d := text.NewDataset(text.NewStore(t.TempDir()))
	r := Reader{Data: d}
	of := func(s string) text.Text {
		n, err := d.Store.Add([]byte(s))
		require.NoError(t, err)
		return n
	}
	said := func(s string) []text.Part { return []text.Part{{Kind: text.Plain, Text: of(s)}} }
	for raw, want := range map[string]text.Part{
		`{"type":"text","content":"hi"}`:                                                  {Kind: text.Plain, Text: of("hi")},
		`{"type":"text","content":"no","content":"hi"}`:                                   {Kind: text.Plain, Text: of("hi")},
		`{"type":"text"}`:                                                                 {Kind: text.Plain},
		`{"type":"text","content":null}`:                                                  {Kind: text.Plain},
		`"hi"`:                                                                            {Kind: text.Plain, Text: of("hi")},
		`{"type":"reasoning","content":"hm"}`:                                             {Kind: text.Thinking, Text: of("hm")},
		`{"type":"text","content":{"a": 1}}`:                                              {Kind: text.Other, Text: of(`{"type":"text","content":{"a":1}}`)},
		`{"type":"tool_call","id":"c","name":"sh"}`:                                       {Kind: text.Call, ID: of("c"), Name: of("sh")},
		`{"type":"tool_call","arguments":{"a": 1}}`:                                       {Kind: text.Call, Text: of(`{"a":1}`)},
		`{"type":"tool_call","id":null,"arguments":"{ }"}`:                                {Kind: text.Call, Text: of(`{ }`)},
		`{"type":"tool_call_response","id":"c","response":"a","result":"b"}`:              {Kind: text.Result, ID: of("c"), Parts: said("a")},
		`{"type":"tool_call_response","response":null,"result":{"n": 1},"content":"c"}`:   {Kind: text.Result, Parts: said(`{"n":1}`)},
		`{"type":"tool_call_response","content":""}`:                                      {Kind: text.Result, Parts: said("")},
		`{"type":"tool_call_response"}`:                                                   {Kind: text.Result},
		`{"type":"blob","modality":"image","content":"AAAA"}`:                             {Kind: text.Image, Text: of("AAAA"), Tokens: 1000},
		`{"type":"blob","mime_type":"audio/wav","content":"AAAA"}`:                        {Kind: text.Audio, Text: of("AAAA"), Tokens: 1},
		`{"type":"blob","modality":"video","content":"AAAA"}`:                             {Kind: text.Document, Text: of("AAAA"), Tokens: 1},
		`{"type":"uri","modality":"image","uri":"https://a/b.png"}`:                       {Kind: text.Image, Text: of("https://a/b.png"), Tokens: 1000},
		`{"type":"uri","mime_type":"image/png","uri":"data:application/pdf;base64,AAAA"}`: {Kind: text.Image, Text: of("AAAA"), Tokens: 1000},
		`{"type":"file","file_id":"f1"}`:                                                  {Kind: text.Document, Text: of("f1"), Tokens: 1000},
		`{"type":"file"}`:                                                                 {Kind: text.Other, Text: of(`{"type":"file"}`)},
		`{"type":"server_tool_call","id":"c","name":"web", "x": [1, 2]}`:                  {Kind: text.Other, Text: of(`{"type":"server_tool_call","name":"web","x":[1,2]}`)},
		`7`: {Kind: text.Other, Text: of("7")},
	} {
		assert.Equal(t, []text.Part{want}, r.GenAIParts(Raw("["+raw+"]")), raw)
	}
	require.NoError(t, r.Err())
}

func TestGenAIMessages(t *testing.T) {
	d := text.NewDataset(text.NewStore(t.TempDir()))
	r := Reader{Data: d}
	for raw, want := range map[string]string{
		`{"role":"user","parts":[{"type":"tool_call_response"}]}`:                               "tool",
		`{"role":"user","parts":[{"type":"tool_call_response"},{"type":"tool_call_response"}]}`: "tool",
		`{"role":"user","parts":[{"type":"tool_call_response"},{"type":"text"}]}`:               "user",
		`{"role":"user","parts":[]}`:                                   "user",
		`{"role":"critic","parts":[]}`:                                 "other",
		`{"role":"tool","content":"in the shape of chat completions"}`: "tool",
		`{"role":"assistant","tool_calls":[{"id":"a"}]}`:               "assistant",
	} {
		m, err := r.GenAI(Raw(raw))
		require.NoError(t, err)
		assert.Equal(t, want, m.Role.String(), raw)
	}
	for _, raw := range []string{`{"parts":[]}`, `{"role":null,"parts":[]}`, `{"role":5,"parts":[]}`, `{}`, `7`, `"canary"`, `[]`} {
		_, err := r.GenAI(Raw(raw))
		require.ErrorIs(t, err, ErrNoRole, raw)
	}
}
