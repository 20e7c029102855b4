package mock

import (
	"fmt"
	"net/http"
	"strconv"
)

// completions is OpenAI's API of completions, of chats and of texts.
type completions struct {
	id          string // what ids begin with
	object      string // of an answer that is not streamed
	chunkObject string // of a chunk of a stream
	role        string // in the choice of a stream's first chunk; "" for no such chunk
	open, shut  string // around the text in the choice of a chunk
	last        string // in the choice of the chunk with the finish reason
	wholeOpen   string // around the text in the choice of an answer that is not streamed
	wholeShut   string
}

var chatEndpoint = endpoint{promptKey: "messages", messages: true, api: &completions{
	id:          "chatcmpl-",
	object:      "chat.completion",
	chunkObject: "chat.completion.chunk",
	role:        `"delta":{"role":"assistant","content":""}`,
	open:        `"delta":{"content":"`,
	shut:        `"}`,
	last:        `"delta":{}`,
	wholeOpen:   `"message":{"role":"assistant","content":"`,
	wholeShut:   `"}`,
}}

var textEndpoint = endpoint{promptKey: "prompt", text: true, api: &completions{
	id:          "cmpl-",
	object:      "text_completion",
	chunkObject: "text_completion",
	open:        `"text":"`,
	shut:        `"`,
	last:        `"text":""`,
	wholeOpen:   `"text":"`,
	wholeShut:   `"`,
}}

const (
	callOpen = `"tool_calls":[{"index":0,"id":"call_`
	moreOpen = `"delta":{"tool_calls":[{"index":0,"function":{"arguments":"`
	moreShut = `"}}]}`
)

func (c *completions) begin(x *exchange) {
	x.head = append(x.head[:0], "data: "...)
	x.head = c.appendHead(x.head, x, c.chunkObject)
	switch {
	case x.request.tool != nil:
		c.chunk(x, `"delta":{"role":"assistant","content":null,`+string(c.appendCall(nil, x)), "", `"}}]}`, "null")
	case c.role != "":
		c.chunk(x, c.role, "", "", "null")
	}
}

// appendCall appends the call of a tool up to its arguments.
func (c *completions) appendCall(b []byte, x *exchange) []byte {
	b = append(b, callOpen...)
	b = strconv.AppendUint(b, x.number, 10)
	b = append(b, `","type":"function","function":{"name":`...)
	b = append(b, x.request.tool...)
	return append(b, `,"arguments":"`...)
}

func (c *completions) token(x *exchange, text string) {
	if x.request.tool != nil {
		c.chunk(x, moreOpen, x.argument(text), moreShut, "null")
		return
	}
	c.chunk(x, c.open, text, c.shut, "null")
}

func (c *completions) end(x *exchange) {
	c.chunk(x, c.last, "", "", x.request.finishReason())
	if x.request.includeUsage {
		x.out = append(x.out, x.head...)
		x.out = append(x.out, ']')
		x.out = appendUsage(x.out, x.promptTokens, x.cachedTokens, x.produced)
		x.out = append(x.out, "}\n\n"...)
	}
	x.out = append(x.out, "data: [DONE]\n\n"...)
}

func (c *completions) nothing(x *exchange) { x.out = append(append(x.out, x.head...), ']') }

// chunk appends an event with one choice, with its text between open and shut.
func (c *completions) chunk(x *exchange, open, text, shut, reason string) {
	x.out = append(x.out, x.head...)
	x.out = append(x.out, `{"index":0,`...)
	x.out = append(x.out, open...)
	x.out = append(x.out, text...)
	x.out = append(x.out, shut...)
	x.out = appendFinish(x.out, reason)
	if x.request.continuousUsage {
		x.out = appendUsage(x.out, x.promptTokens, x.cachedTokens, x.produced)
	}
	x.out = append(x.out, "}\n\n"...)
}

func (c *completions) whole(x *exchange) {
	x.out = c.appendHead(x.out, x, c.object)
	x.out = append(x.out, `{"index":0,`...)
	if x.request.tool != nil {
		x.out = append(x.out, `"message":{"role":"assistant","content":null,`...)
		x.out = c.appendCall(x.out, x)
		x.appendArguments()
		x.out = append(x.out, `"}}]}`...)
	} else {
		x.out = append(x.out, c.wholeOpen...)
		x.appendWords()
		x.out = append(x.out, c.wholeShut...)
	}
	x.out = appendFinish(x.out, x.request.finishReason())
	x.out = appendUsage(x.out, x.promptTokens, x.cachedTokens, x.outputTokens)
	x.out = append(x.out, '}')
}

// appendHead appends the beginning of a chunk, or of an answer that is not streamed, up to the list of choices.
func (c *completions) appendHead(b []byte, x *exchange, object string) []byte {
	b = append(b, `{"id":"`...)
	b = append(b, c.id...)
	b = strconv.AppendUint(b, x.number, 10)
	b = append(b, `","object":"`...)
	b = append(b, object...)
	b = append(b, `","created":`...)
	b = strconv.AppendInt(b, x.start.Unix(), 10)
	b = append(b, `,"model":`...)
	b = append(b, x.request.model...)
	return append(b, `,"choices":[`...)
}

// appendFinish appends the end of a choice and of the list of choices. reason is JSON.
func appendFinish(b []byte, reason string) []byte {
	b = append(b, `,"logprobs":null,"finish_reason":`...)
	b = append(b, reason...)
	return append(b, `}]`...)
}

func appendUsage(b []byte, prompt, cached, output int) []byte {
	b = append(b, `,"usage":{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(prompt), 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, int64(output), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(prompt+output), 10)
	b = append(b, `,"prompt_tokens_details":{"cached_tokens":`...)
	b = strconv.AppendInt(b, int64(cached), 10)
	return append(b, `}}`...)
}

// finishReason returns, as JSON, why the answer to q ends: its length, unless q sets none and lets the model stop.
func (q *request) finishReason() string {
	switch {
	case q.tool != nil:
		return `"tool_calls"`
	case q.limit() == 0 && !q.ignoreEOS:
		return `"stop"`
	}
	return `"length"`
}

func (*completions) countKeys() (prompt, output string) { return "prompt_tokens", "completion_tokens" }

func (*completions) failure(_ int, e apiError) []byte { return e.body() }

func (*completions) overflow(tokens int, promptKey string) []byte {
	code := "context_length_exceeded"
	return apiError{
		Message: fmt.Sprintf("This model's maximum context length is %d tokens. However, your prompt has %d tokens.", max(0, tokens-1), tokens),
		Type:    "invalid_request_error",
		Param:   &promptKey,
		Code:    &code,
	}.body()
}

func (*completions) errorEvent() string {
	return "event: error\n: " + faultMessage + "\ndata: {\"message\":\"" + faultMessage + "\"}\n\n"
}

func (c *completions) errorPayload() string {
	return "data: " + string(c.failure(http.StatusOK, faultError)) + "\n\ndata: [DONE]\n\n"
}
