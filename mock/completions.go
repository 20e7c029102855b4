package mock

import "fmt"

// OpenAI's API of completions, of chats and of texts.
var (
	chats = completions(`{"id":"chatcmpl-<number>","object":"chat.completion`, ".chunk", chunk(`"delta":{"role":"assistant","content":""}`, "null"),
		`"delta":{"content":"<word>"}`, `"delta":{}`, `"message":{"role":"assistant","content":"<words>"}`)
	texts = completions(`{"id":"cmpl-<number>","object":"text_completion`, "", "", `"text":"<word>"`, `"text":""`, `"text":"<words>"`)
)

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

func openaiOverflow(tokens int, promptKey string) apiError {
	code := "context_length_exceeded"
	return apiError{
		Message: fmt.Sprintf("This model's maximum context length is %d tokens. However, your prompt has %d tokens.", max(0, tokens-1), tokens),
		Type:    "invalid_request_error",
		Param:   &promptKey,
		Code:    &code,
	}
}
