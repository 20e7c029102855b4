package mock

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/agentx/agentx/internal/endpoint"
)

// served is one of the endpoints of inference, and how its answers are written.
type served struct {
	*api    // once addAPIs has run
	makeAPI func() *api
	endpoint.Endpoint
	messages   bool // the prompt is a list of messages
	text       bool // the prompt is one text
	needsLimit bool // of the tokens to generate
}

var (
	chatEndpoint      = served{Endpoint: endpoint.Chat, messages: true, makeAPI: chats}
	textEndpoint      = served{Endpoint: endpoint.Completions, text: true, makeAPI: texts}
	messagesEndpoint  = served{Endpoint: endpoint.Messages, messages: true, needsLimit: true, makeAPI: messages}
	responsesEndpoint = served{Endpoint: endpoint.Responses, messages: true, text: true, makeAPI: responses}

	endpoints = []*served{&chatEndpoint, &textEndpoint, &messagesEndpoint, &responsesEndpoint}
)

// addAPIs makes the answers of all endpoints, which a program without a server does without.
var addAPIs = sync.OnceFunc(func() {
	for _, e := range endpoints {
		e.api = e.makeAPI()
	}
})

// api has the answers of the endpoints of one API.
type api struct {
	words, call answers  // an answer in words, and one that is the call of a tool
	head        template // what chunks begin with, where they have <head>
	nothing     template // the beginning of an event that says nothing, an open object

	promptCount, outputCount string                                      // keys of a usage
	failure                  func(status int, e apiError) []byte         // a JSON document
	overflow                 func(tokens int, promptKey string) apiError // the error about a prompt that is too long
	errorEvent               string                                      // an event named error
	errorPayload             string                                      // an event whose data is an error, and the end of the stream
}

// answers are the parts of an answer.
type answers struct {
	begin template // of a stream, before the first token
	token template // an event
	same  bool     // events of one word are the same, unless they have a usage
	end   template // of a stream, behind the last token
	whole template // an answer that is not streamed
}

const eventEnd = "}\n\n"

// event is the template of an event whose data has its name as its type, and further members.
func event(name, members string) string {
	return "event: " + name + "\ndata: {\"type\":\"" + name + `"` + members + eventEnd
}

// answers returns the templates of the answer: a call where the request names a tool, else words.
func (x *exchange) answers() *answers {
	if x.request.tool != nil {
		return &x.endpoint.call
	}
	return &x.endpoint.words
}

// template is a text with values in it. A name in angle brackets stands for one of values; a name of conditions leaves out what follows,
// up to <end>, where the condition does not hold.
type template []piece

type piece struct {
	text  string
	value appender             // behind the text; nil: none
	holds func(*exchange) bool // behind the text; nil: there is no condition
	end   int                  // the piece behind what the condition leaves out
}

// appender appends what a name stands for.
type appender func(x *exchange, b []byte) []byte

// parse returns the template of a text whose names are in values or conditions.
func parse(text string) (t template) {
	for condition := 0; text != ""; {
		before, rest, _ := strings.Cut(text, "<")
		name, rest, _ := strings.Cut(rest, ">")
		if t = append(t, piece{text: before, value: values[name], holds: conditions[name]}); t[len(t)-1].holds != nil {
			condition = len(t) - 1
		}
		if name == "end" {
			t[condition].end = len(t)
		}
		text = rest
	}
	return t
}

// put appends a template to the answer, with the values of the exchange.
func (x *exchange) put(t template) {
	b := x.out
	for k := 0; k < len(t); k++ {
		p := &t[k]
		b = append(b, p.text...)
		if p.value != nil {
			b = p.value(x, b)
		} else if p.holds != nil && !p.holds(x) {
			k = p.end - 1
		}
	}
	x.out = b
}

var values = map[string]appender{
	"head":     func(x *exchange, b []byte) []byte { return append(b, x.head...) },
	"word":     func(x *exchange, b []byte) []byte { return append(b, word(x.produced-1)...) },
	"words":    (*exchange).appendWords,
	"argument": (*exchange).appendArgument,
	"model":    func(x *exchange, b []byte) []byte { return append(b, x.request.model...) },
	"tool":     func(x *exchange, b []byte) []byte { return append(b, x.request.tool...) },
	"reason":   func(x *exchange, b []byte) []byte { return append(b, x.request.finishReason()...) },
	"status":   func(x *exchange, b []byte) []byte { return append(b, x.request.status()...) },
	"why":      func(x *exchange, b []byte) []byte { return append(b, incompleteDetails[x.request.status()]...) },
	"number":   number(func(x *exchange) int { return int(x.number) }),
	"created":  number(func(x *exchange) int { return int(x.start.Unix()) }),
	"event":    number(func(x *exchange) int { x.events++; return x.events - 1 }),
	"prompt":   number(func(x *exchange) int { return x.promptTokens }),
	"cached":   number(func(x *exchange) int { return x.cachedTokens }),
	"written":  number(func(x *exchange) int { return x.writtenTokens }),
	"input":    number(func(x *exchange) int { return x.promptTokens - x.cachedTokens - x.writtenTokens }), // neither had nor took the prefix cache
	"output":   number(func(x *exchange) int { return x.produced }),
	"first":    number(func(x *exchange) int { return min(1, x.outputTokens) }), // of the output, with the beginning of a message
	"total":    number(func(x *exchange) int { return x.promptTokens + x.produced }),
}

var conditions = map[string]func(*exchange) bool{
	"if tokens":     func(x *exchange) bool { return x.outputTokens > 0 },
	"if usage":      func(x *exchange) bool { return x.request.includeUsage },
	"if continuous": func(x *exchange) bool { return x.request.continuousUsage },
}

// number returns the appender of a number.
func number(of func(*exchange) int) appender {
	return func(x *exchange, b []byte) []byte { return strconv.AppendInt(b, int64(of(x)), 10) }
}

// words are the tokens of an answer, repeated in this order. Each is one token of the usual vocabularies, and JSON escapes
// nothing in them.
var words = [...]string{" the", " of", " and", " to", " in", " is", " for", " that"}

func word(i int) string { return words[i%len(words)] }

// What stands around the words of an answer that is the call of a tool: its arguments, as JSON in a JSON string.
const (
	argumentsOpen = `{\"text\":\"`
	argumentsShut = `\"}`
	allArguments  = argumentsOpen + "<words>" + argumentsShut
)

// appendArgument appends what the token that was made last adds to the arguments of a call.
func (x *exchange) appendArgument(b []byte) []byte {
	if x.produced == 1 {
		b = append(b, argumentsOpen...)
	}
	b = append(b, word(x.produced-1)...)
	if x.produced == x.outputTokens {
		b = append(b, argumentsShut...)
	}
	return b
}

// appendWords appends all tokens of the answer.
func (x *exchange) appendWords(b []byte) []byte {
	for i := range x.outputTokens {
		b = append(b, word(i)...)
	}
	return b
}

// OpenAI's API of completions, of chats and of texts.
func chats() *api {
	return completions(`{"id":"chatcmpl-<number>","object":"chat.completion`, ".chunk", chunk(`"delta":{"role":"assistant","content":""}`, "null"),
		`"delta":{"content":"<word>"}`, `"delta":{}`, `"message":{"role":"assistant","content":"<words>"}`)
}

func texts() *api {
	return completions(`{"id":"cmpl-<number>","object":"text_completion`, "", "", `"text":"<word>"`, `"text":""`, `"text":"<words>"`)
}

const (
	completionsBody  = `","created":<created>,"model":<model>,"choices":[`
	completionsUsage = `,"usage":{"prompt_tokens":<prompt>,"completion_tokens":<output>,"total_tokens":<total>,"prompt_tokens_details":{"cached_tokens":<cached>}}`
	completionsCall  = `{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_<number>","type":"function","function":{"name":<tool>,"arguments":"`
	completionsEnd   = "<if usage><head>]" + completionsUsage + eventEnd + "<end>data: [DONE]\n\n"
)

// choice is the only choice of an answer, and the end of the list of choices. reason is JSON.
func choice(content, reason string) string {
	return `{"index":0,` + content + `,"logprobs":null,"finish_reason":` + reason + `}]`
}

// chunk is an event of a stream.
func chunk(content, reason string) string {
	return "<head>" + choice(content, reason) + "<if continuous>" + completionsUsage + "<end>" + eventEnd
}

// completions is one of the two APIs: what an answer begins with, what its object has more in a stream, the first chunk, and the contents
// of the choices of a token, of the last chunk and of an answer that is not streamed.
func completions(open, inStream, first, token, last, whole string) *api {
	body := open + completionsBody
	return &api{
		head: parse("data: " + open + inStream + completionsBody),
		words: answers{
			begin: parse(first),
			token: parse(chunk(token, "null")), same: true,
			end:   parse(chunk(last, "<reason>") + completionsEnd),
			whole: parse(body + choice(whole, "<reason>") + completionsUsage + "}"),
		},
		call: answers{
			begin: parse(chunk(`"delta":`+completionsCall+`"}}]}`, "null")),
			token: parse(chunk(`"delta":{"tool_calls":[{"index":0,"function":{"arguments":"<argument>"}}]}`, "null")),
			end:   parse(chunk(last, `"tool_calls"`) + completionsEnd),
			whole: parse(body + choice(`"message":`+completionsCall+allArguments+`"}}]}`, `"tool_calls"`) + completionsUsage + "}"),
		},
		nothing:     parse("<head>]"),
		promptCount: "prompt_tokens", outputCount: "completion_tokens",
		failure: openaiFailure, overflow: openaiOverflow,
		errorEvent:   "event: error\n: " + faultMessage + "\ndata: {\"message\":\"" + faultMessage + "\"}\n\n",
		errorPayload: "data: " + string(openaiFailure(0, faultError)) + "\n\ndata: [DONE]\n\n",
	}
}

// finishReason returns, as JSON, why the answer to q ends: its length, unless q sets none and lets the model stop.
func (q *request) finishReason() string {
	if q.limit() == 0 && !q.ignoreEOS {
		return `"stop"`
	}
	return `"length"`
}

// openaiFailure is an error of OpenAI's APIs.
func openaiFailure(_ int, e apiError) []byte { return mustJSON(map[string]apiError{"error": e}) }

// openaiOverflow is OpenAI's error about a prompt that is too long for the model.
func openaiOverflow(tokens int, promptKey string) apiError {
	code := "context_length_exceeded"
	return apiError{
		Message: fmt.Sprintf("This model's maximum context length is %d tokens. However, your prompt has %d tokens.", max(0, tokens-1), tokens),
		Type:    "invalid_request_error",
		Param:   &promptKey,
		Code:    &code,
	}
}

const (
	messageOpen  = `{"id":"msg_<number>","type":"message","role":"assistant","model":<model>,"content":[`
	messageUsage = `"usage":{"input_tokens":<input>,"cache_creation_input_tokens":<written>,"cache_read_input_tokens":<cached>,"output_tokens":`
	toolUse      = `{"type":"tool_use","id":"toolu_<number>","name":<tool>,"input":{`
)

var messageStop = event("message_stop", "")

// messages is Anthropic's Messages API.
func messages() *api {
	return &api{
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

// messagesFailure is an error of Anthropic's API, whose type depends on the status.
func messagesFailure(status int, e apiError) []byte {
	kind := cmp.Or(messagesErrors[status], "api_error")
	return mustJSON(map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": e.Message}})
}

// responses is OpenAI's Responses API.
func responses() *api {
	return &api{
		words: answers{
			begin: parse(responseBegin(messageItem("in_progress", "")) + step("content_part.added", messagePlace+`,"part":`+messagePart("")) + "<end>"),
			token: parse(step("output_text.delta", messagePlace+`,"logprobs":[],"delta":"<word>"`)),
			end: parse("<if tokens>" + step("output_text.done", messagePlace+`,"logprobs":[],"text":"<words>"`) +
				step("content_part.done", messagePlace+`,"part":`+messagePart("<words>")) +
				responseEnd("<status>", "<why>", messageItem("completed", messagePart("<words>")), messageItem("<status>", messagePart("<words>")))),
			whole: parse(response("<status>", "<why>", messageItem("<status>", messagePart("<words>")))),
		},
		call: answers{
			begin: parse(responseBegin(callItem("in_progress", "")) + "<end>"),
			token: parse(step("function_call_arguments.delta", callPlace+`,"delta":"<argument>"`)),
			end: parse("<if tokens>" + step("function_call_arguments.done", callPlace+`,"name":<tool>,"arguments":"`+allArguments+`"`) +
				responseEnd("completed", "null", callItem("completed", allArguments), callItem("completed", allArguments))),
			whole: parse(response("completed", "null", callItem("completed", allArguments))),
		},
		nothing:     parse("event: response.in_progress\ndata: {\"type\":\"response.in_progress\",\"sequence_number\":<event>"),
		promptCount: "input_tokens", outputCount: "output_tokens",
		failure: openaiFailure, overflow: openaiOverflow,
		errorEvent: event("error", fmt.Sprintf(`,"code":"server_error","message":%q,"param":null`, faultMessage)),
		errorPayload: event("response.failed",
			fmt.Sprintf(`,"response":{"object":"response","status":"failed","error":{"code":"server_error","message":%q}}`, faultMessage)),
	}
}

// Which item of the output an event is of, and which part of a message.
const (
	messagePlace = `,"item_id":"msg_<number>","output_index":0,"content_index":0`
	callPlace    = `,"item_id":"fc_<number>","output_index":0`
)

// step is an event of the Responses API, with the sequence number of its place in the stream.
func step(name, members string) string {
	return event("response."+name, `,"sequence_number":<event>`+members)
}

// responseBegin are the events before the first token, the last of which are left out where there is none.
func responseBegin(item string) string {
	created := `,"response":` + responseObject("in_progress", "null", "", "null")
	return step("created", created) + step("in_progress", created) + "<if tokens>" + step("output_item.added", `,"output_index":0,"item":`+item)
}

// responseEnd are the events that repeat what the deltas have said: the item, and the response with it.
func responseEnd(status, why, item, inResponse string) string {
	return step("output_item.done", `,"output_index":0,"item":`+item) + "<end>" + step(status, `,"response":`+response(status, why, inResponse))
}

// messageItem and callItem are the only item of the output, and messagePart the only part of a message.
func messageItem(status, content string) string {
	return `{"id":"msg_<number>","status":"` + status + `","type":"message","role":"assistant","content":[` + content + `]}`
}

func callItem(status, arguments string) string {
	return `{"id":"fc_<number>","status":"` + status + `","type":"function_call","call_id":"call_<number>","name":<tool>,"arguments":"` + arguments + `"}`
}

func messagePart(text string) string {
	return `{"type":"output_text","annotations":[],"logprobs":[],"text":"` + text + `"}`
}

// response is a response that has ended, with its output and usage.
func response(status, why, item string) string {
	return responseObject(status, why, "<if tokens>"+item+"<end>", `{"input_tokens":<prompt>,"input_tokens_details":{"cached_tokens":<cached>},`+
		`"output_tokens":<output>,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":<total>}`)
}

// responseObject is a response in any state, with its output and usage as JSON.
func responseObject(status, why, output, usage string) string {
	return `{"id":"resp_<number>","object":"response","created_at":<created>,"status":"` + status + `","error":null,"incomplete_details":` + why +
		`,"instructions":null,"metadata":{},"parallel_tool_calls":true,"temperature":1,"tool_choice":"auto","tools":[],"top_p":1,"model":<model>,"output":[` +
		output + `],"usage":` + usage + `}`
}

// status says how the answer to q ends.
func (q *request) status() string {
	if q.limit() != 0 {
		return "incomplete"
	}
	return "completed"
}

var incompleteDetails = map[string]string{"incomplete": `{"reason":"max_output_tokens"}`, "completed": "null"}
