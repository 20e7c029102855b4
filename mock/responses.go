package mock

import "fmt"

// responses is OpenAI's Responses API.
var responses = &api{
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

// Which item of the output an event is of, and which part of a message.
const (
	messagePlace = `,"item_id":"msg_<number>","output_index":0,"content_index":0`
	callPlace    = `,"item_id":"fc_<number>","output_index":0`
)

// step is an event of a response.
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

// response is a response that is over.
func response(status, why, item string) string {
	return responseObject(status, why, "<if tokens>"+item+"<end>", `{"input_tokens":<prompt>,"input_tokens_details":{"cached_tokens":<cached>},`+
		`"output_tokens":<output>,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":<total>}`)
}

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
