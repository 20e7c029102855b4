package mock

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
)

const (
	messageOpen  = `{"id":"msg_<number>","type":"message","role":"assistant","model":<model>,"content":[`
	messageUsage = `"usage":{"input_tokens":<input>,"cache_creation_input_tokens":<written>,"cache_read_input_tokens":<cached>,"output_tokens":`
	toolUse      = `{"type":"tool_use","id":"toolu_<number>","name":<tool>,"input":{`
)

var messageStop = event("message_stop", "")

// messages is Anthropic's Messages API.
var messages = &api{
	words:       messageAnswers(`{"type":"text","text":""}`, `{"type":"text_delta","text":"<word>"}`, "max_tokens", `<if tokens>{"type":"text","text":"<words>"}<end>`),
	call:        messageAnswers(toolUse+"}}", `{"type":"input_json_delta","partial_json":"<argument>"}`, "tool_use", toolUse+`"text":"<words>"}}`),
	nothing:     parse("event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{}"),
	promptCount: "input_tokens", outputCount: "output_tokens",
	failure: messagesFailure,
	overflow: func(tokens int, _ string) apiError {
		return apiError{Message: fmt.Sprintf("prompt is too long: %d tokens > %d maximum", tokens, max(0, tokens-1))}
	},
	errorEvent:   fmt.Sprintf("event: error\ndata: %s\n\n", messagesFailure(529, faultError)),
	errorPayload: fmt.Sprintf("data: %s\n\n%s", messagesFailure(http.StatusInternalServerError, faultError), messageStop), // without the name of the event
}

// messageAnswers are those with one block: how it begins, what a token adds to it, why it ends, and the block as a whole. The usage behind
// the last token has the output alone, as Anthropic's.
func messageAnswers(block, delta, reason, whole string) answers {
	return answers{
		begin: parse(event("message_start", `,"message":`+messageOpen+`],"stop_reason":null,"stop_sequence":null,`+messageUsage+`<first>}}`) +
			event("content_block_start", `,"index":0,"content_block":`+block) + event("ping", "")),
		token: parse(event("content_block_delta", `,"index":0,"delta":`+delta)), same: strings.Contains(delta, "<word>"),
		end: parse(event("content_block_stop", `,"index":0`) +
			event("message_delta", `,"delta":{"stop_reason":"`+reason+`","stop_sequence":null},"usage":{"output_tokens":<output>}`) + messageStop),
		whole: parse(messageOpen + whole + `],"stop_reason":"` + reason + `","stop_sequence":null,` + messageUsage + `<output>}}`),
	}
}

// messagesErrors are the types of errors by status; others are api_error.
var messagesErrors = map[int]string{
	400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
	413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
}

func messagesFailure(status int, e apiError) []byte {
	kind := cmp.Or(messagesErrors[status], "api_error")
	return mustJSON(map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": e.Message}})
}
