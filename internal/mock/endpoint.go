package mock

import (
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/endpoint"
)

// served is one of the endpoints of inference, and how its answers are written.
type served struct {
	*api
	endpoint.Endpoint
	messages   bool // the prompt is a list of messages
	text       bool // the prompt is one text
	needsLimit bool // of the tokens to generate
}

var (
	chatEndpoint      = served{Endpoint: endpoint.Chat, messages: true, api: chats}
	textEndpoint      = served{Endpoint: endpoint.Completions, text: true, api: texts}
	messagesEndpoint  = served{Endpoint: endpoint.Messages, messages: true, needsLimit: true, api: messages}
	responsesEndpoint = served{Endpoint: endpoint.Responses, messages: true, text: true, api: responses}

	endpoints = []*served{&chatEndpoint, &textEndpoint, &messagesEndpoint, &responsesEndpoint}
)

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

// parse returns a template. Its names are known.
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

// put appends a template.
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
