package payload

import "github.com/agentx/agentx/mmapcache"

// Endpoint is the endpoint of an inference API that requests go to. It decides how a prompt is written.
type Endpoint uint8

// The endpoints.
const (
	ChatCompletions Endpoint = iota // OpenAI's: a list of messages
	Completions                     // OpenAI's: one list of token ids
	Messages                        // Anthropic's: a list of messages, and the system prompt apart from it
	TextCompletions                 // OpenAI's: one text, the contents of all messages with a newline between two
)

// Path returns the path of the endpoint below the root of a server.
func (e Endpoint) Path() string {
	switch e {
	case Completions, TextCompletions:
		return "/v1/completions"
	case Messages:
		return "/v1/messages"
	}
	return "/v1/chat/completions"
}

// Encoding returns the encoding of the prompt corpus in bodies for the endpoint.
func (e Endpoint) Encoding() mmapcache.Encoding {
	if e == Completions {
		return mmapcache.IDs
	}
	return mmapcache.Text
}

// frame is what stands around the contents of a body's messages.
type frame struct {
	head      string // before the first message that does not stand apart
	separator string // between two messages
	end       string // after the last message; the tail of the body follows
}

var frames = [...]frame{
	ChatCompletions: {`{"messages":[`, `,`, `]`},
	Completions:     {`{"prompt":[`, ``, `]`}, // every token id has a comma after it
	Messages:        {`"messages":[`, `,`, `]`},
	TextCompletions: {`{"prompt":"`, `\n`, `"`},
}
