package payload

import "github.com/agentx/agentx/mmapcache"

// Endpoint is the OpenAI endpoint that requests go to. It decides how a prompt is written.
type Endpoint uint8

// The endpoints.
const (
	ChatCompletions Endpoint = iota // a list of messages
	Completions                     // one list of token ids
)

// Path returns the path of the endpoint below the root of a server.
func (e Endpoint) Path() string {
	if e == Completions {
		return "/v1/completions"
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
