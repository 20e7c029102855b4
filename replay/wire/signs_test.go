package wire

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// gap is the time between the messages of an answer in the tests of signs.
const gap = 50 * time.Millisecond

// answerOf decodes an answer whose messages come a gap apart, the first at 0. Messages behind a blank come with the one before.
func answerOf(r responseState, messages ...string) Result {
	res := newResult(0)
	r.res, r.events = &res, true
	var d decoder
	d.reset(r)
	at := time.Duration(0)
	for _, m := range messages {
		if !strings.HasPrefix(m, " ") {
			at += gap
		}
		if d.feed([]byte(strings.TrimPrefix(m, " ")), at-gap) != nil {
			panic(m)
		}
	}
	if category, text := d.finish(); category != "" {
		res.Err = &Failure{Category: category, Message: text}
	}
	return res
}

// delta is a message with a delta, a finish reason and a usage, as JSON; "": none.
func delta(delta, finish, usage string) string {
	m := `{"choices":[{"index":0,"delta":{` + delta + `},"finish_reason":null}]`
	if finish != "" {
		m = strings.Replace(m, "null", `"`+finish+`"`, 1)
	}
	if usage != "" {
		m += `,"usage":` + usage
	}
	return "data: " + m + "}\n\n"
}

// counted is a usage of completion tokens.
func counted(n int) string { return fmt.Sprintf(`{"prompt_tokens":700,"completion_tokens":%d}`, n) }

// silentAnswer is an answer of ten tokens, those from a first to a last one with a text; usage is in every message, or in the last.
func silentAnswer(first, last int, usage bool) (list []string) {
	told := func(n int) string {
		if usage {
			return counted(n)
		}
		return ""
	}
	list = append(list, " "+delta(`"role":"assistant","content":""`, "", told(0)))
	for k := 1; k <= 10; k++ {
		text := `"content":""`
		if k >= first && k <= last {
			text = `"content":"x"`
		}
		list = append(list, delta(text, "", told(k)))
	}
	return append(list, delta("", "stop", told(10)), ` data: {"choices":[],"usage":`+counted(10)+"}\n\n", " "+doneEvent)
}

// The last token of an answer is the last message that tells of one, with a text or without. TextTokens has those with a text.
//
// Covers T-201.
func TestTokensWithoutText(t *testing.T) {
	for name, c := range map[string]struct {
		messages    []string
		first, last int // gaps since the request was sent
		chunks      int
		silent      int
		textFirst   int // the same of TextTokens
		textLast    int
		textSilent  int
	}{
		"all with text":       {silentAnswer(1, 10, false), 0, 9, 10, 0, 0, 9, 0},
		"behind the text":     {silentAnswer(1, 3, false), 0, 9, 10, 0, 0, 2, 70},
		"the same with usage": {silentAnswer(1, 3, true), 0, 9, 10, 0, 0, 2, 70},
		"before the text":     {silentAnswer(9, 10, false), 8, 9, 2, 80, 8, 9, 80},
		"usage tells":         {silentAnswer(9, 10, true), 0, 9, 10, 0, 8, 9, 80},
		"in the middle":       {silentAnswer(10, 10, true), 0, 9, 10, 0, 9, 9, 90},
	} {
		t.Run(name, func(t *testing.T) {
			for _, textOnly := range []bool{false, true} {
				first, last, silent := c.first, c.last, c.silent
				if textOnly {
					first, last, silent = c.textFirst, c.textLast, c.textSilent
				}
				res := answerOf(responseState{textOnly: textOnly}, c.messages...)
				require.Nil(t, res.Err)
				require.Equal(t, time.Duration(first)*gap, res.FirstToken)
				require.Equal(t, time.Duration(last)*gap, res.LastToken)
				require.Equal(t, silent, res.Silent)
				require.Equal(t, res.Chunks, res.Contents.Len())
				if !textOnly {
					require.Equal(t, c.chunks, res.Chunks)
				}
			}
		})
	}
}

// What is a sign of a token, and what is none.
//
// Covers T-201.
func TestSigns(t *testing.T) {
	text, blank, role := delta(`"content":"x"`, "", ""), delta(`"content":""`, "", ""), delta(`"role":"assistant"`, "", "")
	end := delta("", "stop", "")
	usage := ` data: {"choices":[],"usage":` + counted(10) + "}\n\n"
	for name, c := range map[string]struct {
		messages            []string
		first, last, silent int
	}{
		"a role is none":                    {[]string{role, text, end, usage}, 1, 1, 100},
		"a role between":                    {[]string{text, role, " " + end}, 0, 0, 0},
		"the finish reason is the last":     {[]string{text, blank, delta(`"content":""`, "length", ""), blank, usage}, 0, 2, 0},
		"usage behind it is none":           {[]string{text, " " + end, usage, doneEvent}, 0, 0, 0},
		"usage that grows without text":     {[]string{delta("", "", counted(0)), delta("", "", counted(1)), delta("", "", counted(3)), end}, 1, 2, 0},
		"the same count again":              {[]string{delta(`"content":"x"`, "", counted(1)), delta("", "", counted(1)), " " + end}, 0, 0, 0},
		"a count that falls":                {[]string{delta(`"content":"x"`, "", counted(5)), delta("", "", counted(1)), " " + end}, 0, 0, 0},
		"the first count, without anything": {[]string{text, delta("", "", counted(5)), " " + end}, 0, 0, 100},
		"growth with the finish reason":     {[]string{delta(`"content":"x"`, "", counted(1)), delta("", "stop", counted(2))}, 0, 1, 0},
		"the only count, with it":           {[]string{text, delta("", "stop", counted(1))}, 0, 0, 0},
		"silence before the finish reason":  {[]string{text, text, text, role, role, role, end, usage}, 0, 2, 66},
		"silence of no counted token":       {[]string{text, role, role, end, ` data: {"choices":[],"usage":` + counted(1) + "}\n\n"}, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			res := answerOf(responseState{}, append(c.messages, " "+doneEvent)...)
			require.Nil(t, res.Err)
			require.Equal(t, time.Duration(c.first)*gap, res.FirstToken)
			require.Equal(t, time.Duration(c.last)*gap, res.LastToken)
			require.Equal(t, c.silent, res.Silent)
		})
	}
	require.NotNil(t, answerOf(responseState{}, role, blank, blank, end, usage).Err, "neither text nor usage has told of a token")
	require.Equal(t, NoContent, answerOf(responseState{textOnly: true}, delta("", "", counted(1)), delta("", "", counted(2)), end).Err.Category)
}

// The Messages API begins with a usage, and ends with one: neither is growth. One in every message is.
//
// Covers T-201.
func TestSignsOfMessages(t *testing.T) {
	event := func(name, rest string) string {
		return "event: " + name + "\ndata: {\"type\":\"" + name + "\"" + rest + "}\n\n"
	}
	start := event("message_start", `,"message":{"content":[],"usage":{"input_tokens":700,"output_tokens":1}}`)
	block := " " + event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)
	text := func(text, usage string) string {
		return event("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":"`+text+`"}`+usage)
	}
	count := func(n int) string { return fmt.Sprintf(`,"usage":{"output_tokens":%d}`, n) }
	end := event("message_delta", `,"delta":{"stop_reason":"end_turn"}`+count(10))
	stop := " " + event("message_stop", "")
	for name, c := range map[string]struct {
		messages    []string
		first, last int
	}{
		"as they are":           {[]string{start, block, text("x", ""), text("x", ""), end, stop}, 1, 2},
		"without text":          {[]string{start, block, text("x", ""), text("", ""), end, stop}, 1, 2},
		"usage in every delta":  {[]string{start, block, text("", count(2)), text("x", count(3)), text("", count(4)), end, stop}, 1, 4},
		"the start of a block":  {[]string{start, block, text("x", ""), event("content_block_start", `,"index":1,"content_block":{"type":"text","text":""}`), end, stop}, 1, 1},
		"an empty first of all": {[]string{start, block, text("", ""), text("x", ""), end, stop}, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			res := answerOf(responseState{api: MessagesAPI}, c.messages...)
			require.Nil(t, res.Err)
			require.Equal(t, time.Duration(c.first)*gap, res.FirstToken)
			require.Equal(t, time.Duration(c.last)*gap, res.LastToken)
		})
	}
}
