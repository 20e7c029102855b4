package mock

import "strconv"

// endpoint is one of the endpoints of inference: where its requests have the prompt, and how its answers are written. Those of
// messagesEndpoint are written in messages.go.
type endpoint struct {
	promptKey   string // where a request has its prompt
	id          string // what ids begin with
	object      string // of an answer that is not streamed
	chunkObject string // of a chunk of a stream
	role        string // in the choice of a stream's first chunk; "" for no such chunk
	open, shut  string // around the text in the choice of a chunk
	last        string // in the choice of the chunk with the finish reason
	wholeOpen   string // around the text in the choice of an answer that is not streamed
	wholeShut   string
}

var chatEndpoint = endpoint{
	promptKey:   "messages",
	id:          "chatcmpl-",
	object:      "chat.completion",
	chunkObject: "chat.completion.chunk",
	role:        `"delta":{"role":"assistant","content":""}`,
	open:        `"delta":{"content":"`,
	shut:        `"}`,
	last:        `"delta":{}`,
	wholeOpen:   `"message":{"role":"assistant","content":"`,
	wholeShut:   `"}`,
}

var textEndpoint = endpoint{
	promptKey:   "prompt",
	id:          "cmpl-",
	object:      "text_completion",
	chunkObject: "text_completion",
	open:        `"text":"`,
	shut:        `"`,
	last:        `"text":""`,
	wholeOpen:   `"text":"`,
	wholeShut:   `"`,
}

// words are the tokens of an answer, repeated in this order. Each is one token of the usual vocabularies, and JSON escapes
// nothing in them.
var words = [...]string{" the", " of", " and", " to", " in", " is", " for", " that"}

func word(i int) string { return words[i%len(words)] }

// appendHead appends the beginning of a chunk, or of an answer that is not streamed, up to the list of choices.
func appendHead(b []byte, id string, number uint64, object string, created int64, model []byte) []byte {
	b = append(b, `{"id":"`...)
	b = append(b, id...)
	b = strconv.AppendUint(b, number, 10)
	b = append(b, `","object":"`...)
	b = append(b, object...)
	b = append(b, `","created":`...)
	b = strconv.AppendInt(b, created, 10)
	b = append(b, `,"model":`...)
	b = append(b, model...)
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
