// Package endpoint lists the endpoints of inference APIs that agentx sends to, serves and records.
package endpoint

// Endpoint is where an API takes prompts.
type Endpoint struct {
	Path   string // below the root of a server
	API    string // whose form requests and answers have: OpenAI or Anthropic
	Prompt string // member of a request that has the prompt
	System string // member that has a system prompt apart from it; "": none
}

// The APIs.
const (
	OpenAI    = "openai"
	Anthropic = "anthropic"
)

// The endpoints.
var (
	Chat        = Endpoint{"/v1/chat/completions", OpenAI, "messages", ""}
	Completions = Endpoint{"/v1/completions", OpenAI, "prompt", ""}
	Messages    = Endpoint{"/v1/messages", Anthropic, "messages", "system"}
	Responses   = Endpoint{"/v1/responses", OpenAI, "input", "instructions"}

	All = []Endpoint{Chat, Completions, Messages, Responses}
)
