package mock

import (
	"fmt"
	"strconv"
)

// responses is OpenAI's Responses API.
type responses struct{}

var responsesEndpoint = endpoint{promptKey: "input", systemKey: "instructions", messages: true, text: true, api: responses{}}

// event appends the beginning of an event, an open object.
func (responses) event(x *exchange, name string) {
	x.out = append(x.out, "event: "...)
	x.out = append(x.out, name...)
	x.out = append(x.out, "\ndata: {\"type\":\""...)
	x.out = append(x.out, name...)
	x.out = append(x.out, `","sequence_number":`...)
	x.out = strconv.AppendInt(x.out, int64(x.events), 10)
	x.events++
}

const eventEnd = "}\n\n"

// place appends which item of the output an event is of.
func (r responses) place(x *exchange) {
	x.out = append(x.out, `,"item_id":"`...)
	r.itemID(x)
	x.out = append(x.out, `","output_index":0`...)
}

func (responses) itemID(x *exchange) {
	if x.request.tool != nil {
		x.out = append(x.out, "fc_"...)
	} else {
		x.out = append(x.out, "msg_"...)
	}
	x.out = strconv.AppendUint(x.out, x.number, 10)
}

// item appends the only item of the output, with so many tokens. An item that goes on has none.
func (r responses) item(x *exchange, status string, whole bool) {
	x.out = append(x.out, `{"id":"`...)
	r.itemID(x)
	x.out = append(x.out, `","status":"`...)
	x.out = append(x.out, status...)
	if x.request.tool != nil {
		x.out = append(x.out, `","type":"function_call","call_id":"call_`...)
		x.out = strconv.AppendUint(x.out, x.number, 10)
		x.out = append(x.out, `","name":`...)
		x.out = append(x.out, x.request.tool...)
		x.out = append(x.out, `,"arguments":"`...)
		if whole {
			x.appendArguments()
		}
		x.out = append(x.out, `"}`...)
		return
	}
	x.out = append(x.out, `","type":"message","role":"assistant","content":[`...)
	if whole {
		r.part(x, true)
	}
	x.out = append(x.out, `]}`...)
}

// part appends the only part of a message.
func (responses) part(x *exchange, whole bool) {
	x.out = append(x.out, `{"type":"output_text","annotations":[],"logprobs":[],"text":"`...)
	if whole {
		x.appendWords()
	}
	x.out = append(x.out, `"}`...)
}

// response appends the object of a response. One that is over has its output and its usage.
func (r responses) response(x *exchange, over bool, tokens int) {
	x.out = append(x.out, `{"id":"resp_`...)
	x.out = strconv.AppendUint(x.out, x.number, 10)
	x.out = append(x.out, `","object":"response","created_at":`...)
	x.out = strconv.AppendInt(x.out, x.start.Unix(), 10)
	x.out = append(x.out, `,"status":"`...)
	status, why := "in_progress", "null"
	if over {
		status = "completed"
		if x.request.limit() != 0 && x.request.tool == nil {
			status, why = "incomplete", `{"reason":"max_output_tokens"}`
		}
	}
	x.out = append(x.out, status...)
	x.out = append(x.out, `","error":null,"incomplete_details":`...)
	x.out = append(x.out, why...)
	x.out = append(x.out, `,"instructions":null,"metadata":{},"parallel_tool_calls":true,"temperature":1,"tool_choice":"auto","tools":[],"top_p":1,"model":`...)
	x.out = append(x.out, x.request.model...)
	x.out = append(x.out, `,"output":[`...)
	if over && x.outputTokens > 0 {
		r.item(x, status, true)
	}
	x.out = append(x.out, `],"usage":`...)
	if over {
		r.appendUsage(x, tokens)
	} else {
		x.out = append(x.out, "null"...)
	}
	x.out = append(x.out, '}')
}

func (responses) appendUsage(x *exchange, output int) {
	x.out = append(x.out, `{"input_tokens":`...)
	x.out = strconv.AppendInt(x.out, int64(x.promptTokens), 10)
	x.out = append(x.out, `,"input_tokens_details":{"cached_tokens":`...)
	x.out = strconv.AppendInt(x.out, int64(x.cachedTokens), 10)
	x.out = append(x.out, `},"output_tokens":`...)
	x.out = strconv.AppendInt(x.out, int64(output), 10)
	x.out = append(x.out, `,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":`...)
	x.out = strconv.AppendInt(x.out, int64(x.promptTokens+output), 10)
	x.out = append(x.out, '}')
}

func (r responses) begin(x *exchange) {
	x.events = 0
	for _, name := range []string{"response.created", "response.in_progress"} {
		r.event(x, name)
		x.out = append(x.out, `,"response":`...)
		r.response(x, false, 0)
		x.out = append(x.out, eventEnd...)
	}
	if x.outputTokens == 0 {
		return
	}
	r.event(x, "response.output_item.added")
	x.out = append(x.out, `,"output_index":0,"item":`...)
	r.item(x, "in_progress", false)
	x.out = append(x.out, eventEnd...)
	if x.request.tool == nil {
		r.contentPart(x, "response.content_part.added", false)
	}
}

// contentPart appends an event with the part of the message.
func (r responses) contentPart(x *exchange, name string, whole bool) {
	r.event(x, name)
	r.place(x)
	x.out = append(x.out, `,"content_index":0,"part":`...)
	r.part(x, whole)
	x.out = append(x.out, eventEnd...)
}

func (r responses) token(x *exchange, text string) {
	if x.request.tool != nil {
		r.event(x, "response.function_call_arguments.delta")
		r.place(x)
		text = x.argument(text)
	} else {
		r.event(x, "response.output_text.delta")
		r.place(x)
		x.out = append(x.out, `,"content_index":0,"logprobs":[]`...)
	}
	x.out = append(x.out, `,"delta":"`...)
	x.out = append(x.out, text...)
	x.out = append(x.out, `"`+eventEnd...)
}

func (r responses) end(x *exchange) {
	if x.outputTokens > 0 {
		r.endItem(x)
	}
	name := "response.completed"
	if x.request.limit() != 0 && x.request.tool == nil {
		name = "response.incomplete"
	}
	r.event(x, name)
	x.out = append(x.out, `,"response":`...)
	r.response(x, true, x.produced)
	x.out = append(x.out, eventEnd...)
}

// endItem appends the events that repeat what the deltas have said.
func (r responses) endItem(x *exchange) {
	if x.request.tool != nil {
		r.event(x, "response.function_call_arguments.done")
		r.place(x)
		x.out = append(x.out, `,"name":`...)
		x.out = append(x.out, x.request.tool...)
		x.out = append(x.out, `,"arguments":"`...)
		x.appendArguments()
		x.out = append(x.out, `"`+eventEnd...)
	} else {
		r.event(x, "response.output_text.done")
		r.place(x)
		x.out = append(x.out, `,"content_index":0,"logprobs":[],"text":"`...)
		x.appendWords()
		x.out = append(x.out, `"`+eventEnd...)
		r.contentPart(x, "response.content_part.done", true)
	}
	r.event(x, "response.output_item.done")
	x.out = append(x.out, `,"output_index":0,"item":`...)
	r.item(x, "completed", true)
	x.out = append(x.out, eventEnd...)
}

func (r responses) whole(x *exchange) { r.response(x, true, x.outputTokens) }

func (r responses) nothing(x *exchange) { r.event(x, "response.in_progress") }

func (responses) countKeys() (prompt, output string) { return "input_tokens", "output_tokens" }

func (responses) failure(_ int, e apiError) []byte { return e.body() }

func (responses) overflow(tokens int, promptKey string) []byte {
	return (*completions)(nil).overflow(tokens, promptKey)
}

func (responses) errorEvent() string {
	return fmt.Sprintf("event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":%q,\"param\":null}\n\n", faultMessage)
}

func (responses) errorPayload() string {
	return fmt.Sprintf("event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"object\":\"response\",\"status\":\"failed\",\"error\":{\"code\":\"server_error\",\"message\":%q}}}\n\n", faultMessage)
}
