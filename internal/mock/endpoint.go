package mock

// endpoint is one of the endpoints of inference: where its requests have the prompt, and how its answers are written.
type endpoint struct {
	api
	promptKey  string // where a request has its prompt
	systemKey  string // where it has a system prompt apart; "": nowhere
	messages   bool   // the prompt is a list of messages
	text       bool   // the prompt is one text
	needsLimit bool   // of the tokens to generate
}

// api writes answers as the endpoints of one API have them. Most of its methods append to exchange.out.
type api interface {
	begin(x *exchange)              // of a stream, before the first token
	token(x *exchange, text string) // an event
	end(x *exchange)                // of a stream, behind the last token
	whole(x *exchange)              // an answer that is not streamed
	nothing(x *exchange)            // the beginning of an event that says nothing, an open object

	countKeys() (prompt, output string)           // in a usage
	failure(status int, e apiError) []byte        // a JSON document
	overflow(tokens int, promptKey string) []byte // the same, to a prompt that is too long
	errorEvent() string                           // an event named error
	errorPayload() string                         // an event whose data is an error, and the end of the stream
}

// words are the tokens of an answer, repeated in this order. Each is one token of the usual vocabularies, and JSON escapes
// nothing in them.
var words = [...]string{" the", " of", " and", " to", " in", " is", " for", " that"}

func word(i int) string { return words[i%len(words)] }

// What stands around the words of an answer that is the call of a tool: its arguments, as JSON in a JSON string.
const (
	argumentsOpen = `{\"text\":\"`
	argumentsShut = `\"}`
)

// argument returns what the token that was made last adds to the arguments of a call.
func (x *exchange) argument(text string) string {
	if x.produced == 1 {
		text = argumentsOpen + text
	}
	if x.produced == x.outputTokens {
		text += argumentsShut
	}
	return text
}

// appendArguments appends the arguments of a whole call.
func (x *exchange) appendArguments() {
	x.out = append(x.out, argumentsOpen...)
	x.appendWords()
	x.out = append(x.out, argumentsShut...)
}

// appendWords appends all tokens of the answer.
func (x *exchange) appendWords() {
	for i := range x.outputTokens {
		x.out = append(x.out, word(i)...)
	}
}
