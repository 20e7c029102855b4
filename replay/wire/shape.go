package wire

import "bytes"

// API is how a server writes its answers.
type API uint8

// The APIs.
const (
	OpenAI      API = iota // chat completions and completions
	MessagesAPI            // Anthropic's Messages: POST /v1/messages
)

// dataOf returns the payload of a message of one data line. A message of the Messages API has its name in a line before. Of any
// other message, and of an event named error, it is not sure.
func (d *decoder) dataOf(raw []byte) (payload []byte, sure bool) {
	if d.api == MessagesAPI {
		if name, ok := bytes.CutPrefix(raw, []byte("event: ")); ok {
			end := 0
			for end < len(name) && (name[end] == '_' || name[end]-'a' < 26) {
				end++
			}
			if end == len(name) || name[end] != '\n' || string(name[:end]) == "error" {
				return nil, false
			}
			raw = name[end+1:]
		}
	}
	return bytes.CutPrefix(raw, []byte("data:"))
}

// A shape says which members of an object are read. Of two that tell what is told once, the one that stands first counts.
type shape []member

// member is one member of an object.
type member struct {
	name  string
	says  meaning
	in    shape // of an object; of the elements of an array
	each  bool  // the value is an array
	ours  bool  // AIPerf 0.13.0 does not read it
	count int   // of a tokenCount: which
}

// index returns which member has a name, -1 where none has it.
func (s shape) index(name []byte, aiperf bool) int {
	for i := range s {
		if string(name) == s[i].name && !(aiperf && s[i].ours) {
			return i
		}
	}
	return -1
}

// meaning is what the value of a member says.
type meaning uint32

// What a text says that is not empty, with how other values say the same.
const (
	content meaning = 1 << iota
	reasoning
	toolCall
	failure
	errorText // with errorCode it is an error, where there are no choices
	errorCode

	blank    // an empty text says that it is one
	orObject // so does an object that is not empty; AIPerf does not see it
	anyValue // so does any value that is neither null, false, zero nor empty

	texts = 1<<iota - 1
)

// What is told otherwise.
const (
	someChoices meaning = 1 << (iota + 16)
	choiceNumber
	finishReason
	usageObject
	tokenCount
	objectName // error says namedError
	eventName  // so it does, and message_stop says lastEvent
	namedError
	lastEvent
)

// eventShapes are the payloads of the APIs. A choice has its text under delta (a chunk of a chat), message (a complete chat answer) or
// text (a completion). Of the Messages API a payload is an event of a stream or a complete message; the types of events and blocks say
// nothing, but for message_stop: the member that a text stands in says what it is.
var eventShapes = [...]shape{
	OpenAI: {
		{name: "usage", says: usageObject},
		{name: "choices", says: someChoices, each: true, in: shape{
			choiceIndex[0],
			{name: "finish_reason", says: finishReason},
			{name: "text", says: content | blank},
			{name: "delta", in: message},
			{name: "message", in: message},
			{name: "usage", says: usageObject, ours: true},
		}},
		{name: "error", says: failure | anyValue},
		{name: "object", says: objectName},
		{name: "type", says: objectName},
		{name: "message", says: errorText},
		{name: "code", says: errorCode | anyValue},
	},
	MessagesAPI: {
		{name: "type", says: eventName},
		{name: "content_block", in: block(0)},
		{name: "delta", in: block(blank)},
		{name: "message", says: errorText, in: wholeAnswer},
		wholeAnswer[0], wholeAnswer[1], wholeAnswer[2],
		{name: "error", says: failure | anyValue},
		{name: "object", says: objectName},
		{name: "code", says: errorCode | anyValue},
		{name: "choices", says: someChoices},
	},
}

// choiceIndex is all that tells which choice one is.
var choiceIndex = shape{{name: "index", says: choiceNumber}}

// message is the message or delta of a choice. Its content is a text, or a list of texts and of parts.
var message = shape{
	{name: "content", says: content | blank, each: true, in: shape{{name: "text", says: content}, {name: "thinking", says: reasoning | anyValue}}},
	{name: "reasoning_content", says: reasoning | blank},
	{name: "reasoning", says: reasoning | blank},
	{name: "tool_calls", each: true, in: shape{{name: "function", in: function}}},
	{name: "refusal", says: content, ours: true},
	{name: "function_call", in: function, ours: true},
	{name: "reasoning_details", each: true, ours: true, in: shape{
		{name: "text", says: reasoning}, {name: "summary", says: reasoning}, {name: "data", says: reasoning},
	}},
}

// function is what a tool call calls.
var function = shape{{name: "name", says: toolCall}, {name: "arguments", says: toolCall | orObject}}

// wholeAnswer is a complete message of the Messages API, or its start.
var wholeAnswer = shape{
	{name: "usage", says: usageObject},
	{name: "stop_reason", says: finishReason},
	{name: "content", each: true, in: block(0)},
}

// block returns the shape of a block of content of the Messages API, or of what is added to one. The name of a tool counts, as its
// arguments do. An empty text says something with blank alone: the start of a block is always empty.
func block(blank meaning) shape {
	return shape{
		{name: "text", says: content | blank},
		{name: "thinking", says: reasoning | blank},
		{name: "partial_json", says: toolCall},
		{name: "name", says: toolCall},
		{name: "stop_reason", says: finishReason},
	}
}

// The counts of a usage object: those of Usage, and what Cached is where the ones before are not known.
const (
	countPrompt = iota
	countCompletion
	countReasoning
	countCacheWrite
	countCacheMiss
	countTotal
	countCached
	numCounts = countCached + 5
)

// usageShapes are the usage objects of the APIs.
var usageShapes = [...]shape{
	OpenAI: {
		{name: "prompt_tokens", says: tokenCount, count: countPrompt},
		{name: "completion_tokens", says: tokenCount, count: countCompletion},
		{name: "total_tokens", says: tokenCount, count: countTotal},
		{name: "cache_creation_input_tokens", says: tokenCount, count: countCacheWrite},
		{name: "prompt_cache_miss_tokens", says: tokenCount, count: countCacheMiss},
		{name: "completion_tokens_details", in: shape{{name: "reasoning_tokens", says: tokenCount, count: countReasoning}}},
		{name: "prompt_tokens_details", in: shape{{name: "cached_tokens", says: tokenCount, count: countCached}}},
		{name: "input_tokens_details", in: shape{{name: "cached_tokens", says: tokenCount, count: countCached + 1}}},
		{name: "cache_read_input_tokens", says: tokenCount, count: countCached + 2},
		{name: "prompt_cache_hit_tokens", says: tokenCount, count: countCached + 3},
		{name: "cached_tokens", says: tokenCount, count: countCached + 4},
	},
	MessagesAPI: {
		{name: "input_tokens", says: tokenCount, count: countPrompt},
		{name: "output_tokens", says: tokenCount, count: countCompletion},
		{name: "cache_read_input_tokens", says: tokenCount, count: countCached},
		{name: "cache_creation_input_tokens", says: tokenCount, count: countCacheWrite},
	},
}
