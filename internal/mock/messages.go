package mock

import (
	"fmt"
	"net/http"
	"strconv"
)

// messages is Anthropic's Messages API.
type messages struct{}

var messagesEndpoint = endpoint{promptKey: "messages", systemKey: "system", messages: true, needsLimit: true, api: messages{}}

const (
	deltaOpen   = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\""
	inputOpen   = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"input_json_delta\",\"partial_json\":\""
	deltaShut   = "\"}}\n\n"
	blockStart  = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":"
	blockStop   = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
	ping        = "event: ping\ndata: {\"type\":\"ping\"}\n\n"
	messageStop = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
)

// appendMessage appends a message up to its content.
func (messages) appendMessage(x *exchange) {
	x.out = append(x.out, `{"id":"msg_`...)
	x.out = strconv.AppendUint(x.out, x.number, 10)
	x.out = append(x.out, `","type":"message","role":"assistant","model":`...)
	x.out = append(x.out, x.request.model...)
	x.out = append(x.out, `,"content":[`...)
}

// appendCall appends the call of a tool up to its input.
func (messages) appendCall(x *exchange) {
	x.out = append(x.out, `{"type":"tool_use","id":"toolu_`...)
	x.out = strconv.AppendUint(x.out, x.number, 10)
	x.out = append(x.out, `","name":`...)
	x.out = append(x.out, x.request.tool...)
	x.out = append(x.out, `,"input":{`...)
}

// appendUsage appends the usage, whose input_tokens are those that the prefix cache neither had nor took.
func (messages) appendUsage(x *exchange, output int) {
	x.out = append(x.out, `"usage":{"input_tokens":`...)
	x.out = strconv.AppendInt(x.out, int64(x.promptTokens-x.cachedTokens-x.writtenTokens), 10)
	x.out = append(x.out, `,"cache_creation_input_tokens":`...)
	x.out = strconv.AppendInt(x.out, int64(x.writtenTokens), 10)
	x.out = append(x.out, `,"cache_read_input_tokens":`...)
	x.out = strconv.AppendInt(x.out, int64(x.cachedTokens), 10)
	x.out = append(x.out, `,"output_tokens":`...)
	x.out = strconv.AppendInt(x.out, int64(output), 10)
	x.out = append(x.out, '}')
}

func (m messages) begin(x *exchange) {
	x.out = append(x.out, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":"...)
	m.appendMessage(x)
	x.out = append(x.out, `],"stop_reason":null,"stop_sequence":null,`...)
	m.appendUsage(x, min(1, x.outputTokens))
	x.out = append(x.out, "}}\n\n"+blockStart...)
	if x.request.tool != nil {
		m.appendCall(x)
		x.out = append(x.out, "}}}\n\n"...)
	} else {
		x.out = append(x.out, "{\"type\":\"text\",\"text\":\"\"}}\n\n"...)
	}
	x.out = append(x.out, ping...)
}

func (messages) token(x *exchange, text string) {
	if x.request.tool != nil {
		x.out = append(x.out, inputOpen...)
		x.out = append(x.out, x.argument(text)...)
	} else {
		x.out = append(x.out, deltaOpen...)
		x.out = append(x.out, text...)
	}
	x.out = append(x.out, deltaShut...)
}

// end appends the events behind the last token. The usage there has the output alone, as Anthropic's.
func (m messages) end(x *exchange) {
	x.out = append(x.out, blockStop...)
	x.out = append(x.out, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":"...)
	x.out = append(x.out, m.stopReason(x)...)
	x.out = append(x.out, ",\"stop_sequence\":null},\"usage\":{\"output_tokens\":"...)
	x.out = strconv.AppendInt(x.out, int64(x.produced), 10)
	x.out = append(x.out, "}}\n\n"+messageStop...)
}

func (messages) stopReason(x *exchange) string {
	if x.request.tool != nil {
		return `"tool_use"`
	}
	return `"max_tokens"`
}

func (m messages) whole(x *exchange) {
	m.appendMessage(x)
	switch {
	case x.request.tool != nil:
		m.appendCall(x)
		x.out = append(x.out, `"text":"`...)
		x.appendWords()
		x.out = append(x.out, `"}}`...)
	case x.outputTokens > 0:
		x.out = append(x.out, `{"type":"text","text":"`...)
		x.appendWords()
		x.out = append(x.out, `"}`...)
	}
	x.out = append(x.out, `],"stop_reason":`...)
	x.out = append(x.out, m.stopReason(x)...)
	x.out = append(x.out, `,"stop_sequence":null,`...)
	m.appendUsage(x, x.outputTokens)
	x.out = append(x.out, '}')
}

func (messages) nothing(x *exchange) {
	x.out = append(x.out, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{}"...)
}

func (messages) countKeys() (prompt, output string) { return "input_tokens", "output_tokens" }

// messagesErrors are the types of errors by status; others are api_error.
var messagesErrors = map[int]string{
	400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
	413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
}

func (messages) failure(status int, e apiError) []byte {
	kind, ok := messagesErrors[status]
	if !ok {
		kind = "api_error"
	}
	return mustJSON(map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": e.Message}})
}

func (m messages) overflow(tokens int, _ string) []byte {
	return m.failure(http.StatusBadRequest, apiError{Message: fmt.Sprintf("prompt is too long: %d tokens > %d maximum", tokens, max(0, tokens-1))})
}

func (m messages) errorEvent() string {
	return fmt.Sprintf("event: error\ndata: %s\n\n", m.failure(529, faultError))
}

// errorPayload has no name of the event.
func (m messages) errorPayload() string {
	return fmt.Sprintf("data: %s\n\n%s", m.failure(http.StatusInternalServerError, faultError), messageStop)
}
