package mock

import (
	"slices"
	"strconv"

	"github.com/agentx/agentx/internal/jsonlex"
)

// messagesEndpoint is Anthropic's Messages API. Its answers are written here.
var messagesEndpoint = endpoint{promptKey: "messages", id: "msg_"}

const (
	deltaOpen   = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\""
	deltaShut   = "\"}}\n\n"
	blockStart  = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
	blockStop   = "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
	ping        = "event: ping\ndata: {\"type\":\"ping\"}\n\n"
	messageStop = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
)

// parseSystem reads the system prompt, a string or a list of blocks, as the first message, wherever it stands in the body.
func (p *prompt) parseSystem(l *jsonlex.Lexer) error {
	if l.Null() {
		return nil
	}
	from := len(p.stream)
	p.stream = append(p.stream, "system"...)
	if err := p.parseContent(l, false); err != nil {
		return err
	}
	size := len(p.stream) - from
	if from > 0 {
		system := slices.Clone(p.stream[from:])
		copy(p.stream[size:], p.stream[:from])
		copy(p.stream, system)
	}
	for k := range p.contents {
		p.contents[k].from += size
		p.contents[k].to += size
	}
	p.contents = slices.Insert(p.contents, 0, span{len("system"), size})
	return nil
}

// appendMessage appends a message up to its content.
func (x *exchange) appendMessage() {
	x.out = append(x.out, `{"id":"`...)
	x.out = append(x.out, x.endpoint.id...)
	x.out = strconv.AppendUint(x.out, x.number, 10)
	x.out = append(x.out, `","type":"message","role":"assistant","model":`...)
	x.out = append(x.out, x.request.model...)
	x.out = append(x.out, `,"content":[`...)
}

// appendBilled appends the usage, whose input_tokens are those that the prefix cache neither had nor took.
func (x *exchange) appendBilled(output int) {
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

// beginMessage appends the events before the first token.
func (x *exchange) beginMessage() {
	x.out = append(x.out, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":"...)
	x.appendMessage()
	x.out = append(x.out, `],"stop_reason":null,"stop_sequence":null,`...)
	x.appendBilled(min(1, x.outputTokens))
	x.out = append(x.out, "}}\n\n"+blockStart+ping...)
}

// delta appends the event of one token.
func (x *exchange) delta(text string) {
	x.out = append(x.out, deltaOpen...)
	x.out = append(x.out, text...)
	x.out = append(x.out, deltaShut...)
}

// endMessage appends the events behind the last token. The usage there has the output alone, as Anthropic's.
func (x *exchange) endMessage() {
	x.out = append(x.out, blockStop...)
	x.out = append(x.out, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"max_tokens\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":"...)
	x.out = strconv.AppendInt(x.out, int64(x.produced), 10)
	x.out = append(x.out, "}}\n\n"+messageStop...)
}

// wholeMessage appends an answer that is not streamed.
func (x *exchange) wholeMessage() {
	x.appendMessage()
	if x.outputTokens > 0 {
		x.out = append(x.out, partOpen...)
		for i := range x.outputTokens {
			x.out = append(x.out, word(i)...)
		}
		x.out = append(x.out, `"}`...)
	}
	x.out = append(x.out, `],"stop_reason":"max_tokens","stop_sequence":null,`...)
	x.appendBilled(x.outputTokens)
	x.out = append(x.out, '}')
}

const partOpen = `{"type":"text","text":"`

// messagesErrors are the types of errors by status; others are api_error.
var messagesErrors = map[int]string{
	400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
	413: "request_too_large", 429: "rate_limit_error", 529: "overloaded_error",
}

// messagesError returns the JSON document of an error.
func messagesError(status int, message string) []byte {
	kind, ok := messagesErrors[status]
	if !ok {
		kind = "api_error"
	}
	return mustJSON(map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": message}})
}

// fail answers with an error, as the endpoint writes it.
func (x *exchange) fail(status int, e apiError) {
	if x.endpoint == &messagesEndpoint {
		writeBody(x.w, status, "application/json", messagesError(status, e.Message))
		return
	}
	writeError(x.w, status, e)
}
