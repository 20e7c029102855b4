package payload

import (
	"fmt"

	"github.com/agentx/agentx/internal/endpoint"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/wire"
)

// Endpoint is the endpoint of an inference API that requests go to. It decides how a prompt is written.
type Endpoint uint8

// The endpoints.
const (
	ChatCompletions Endpoint = iota // OpenAI's: a list of messages
	Messages                        // Anthropic's: a list of messages, and the system prompt apart from it
	Completions                     // OpenAI's: one list of token ids
	TextCompletions                 // OpenAI's: one text, the contents of all messages with a newline between two
)

// endpointTable says all that differs between endpoints: a new one is a row, and a name above.
var endpointTable = [...]struct {
	name     string // the word of --payload
	prompts  string // what they are, for people
	at       endpoint.Endpoint
	aiperf   string             // the word of AIPerf's --endpoint-type; "": it has none
	encoding mmapcache.Encoding // of the prompt corpus in bodies
	recorded mmapcache.Encoding // of recorded messages; 0: it takes none
	api      wire.API           // how answers are written

	head      string // behind the brace of the body, before the first message that does not stand apart
	separator string // between two messages
	end       string // after the last message; the tail of the body follows
	apart     bool   // a system prompt is a member of its own, before head

	opening, closing func(m *mmapcache.Message, parts bool) string // around the content of a message

	lengths       []LengthField // fields that ask for a number of tokens, the default first
	streamOptions bool          // it takes stream_options
	liveAnswers   bool          // answers of the server can stand in later prompts
}{
	ChatCompletions: {
		name: "chat", prompts: "messages", at: endpoint.Chat, aiperf: "chat", encoding: mmapcache.Text, recorded: mmapcache.ChatMessages, api: wire.OpenAI,
		head: `"messages":[`, separator: `,`, end: `]`, opening: chatOpening, closing: chatClosing,
		lengths: []LengthField{MaxCompletionTokens, MaxTokens, NoLength}, streamOptions: true, liveAnswers: true,
	},
	Completions: {
		name: "ids", prompts: "token ids", at: endpoint.Completions, encoding: mmapcache.IDs, api: wire.OpenAI,
		head: `"prompt":[`, end: `]`, opening: nothing, closing: nothing, // every token id has a comma after it
		lengths: []LengthField{MaxTokens, MaxCompletionTokens, NoLength}, streamOptions: true,
	},
	Messages: {
		name: "anthropic", prompts: "messages", at: endpoint.Messages, aiperf: "messages", encoding: mmapcache.Text, recorded: mmapcache.AnthropicMessages, api: wire.MessagesAPI,
		head: `"messages":[`, separator: `,`, end: `]`, apart: true, opening: messagesOpening, closing: messagesClosing,
		lengths: []LengthField{MaxTokens},
	},
	TextCompletions: {
		name: "text", prompts: "one text", at: endpoint.Completions, aiperf: "completions", encoding: mmapcache.Text, api: wire.OpenAI,
		head: `"prompt":"`, separator: `\n`, end: `"`, opening: nothing, closing: nothing,
		lengths: []LengthField{MaxTokens, MaxCompletionTokens, NoLength}, streamOptions: true,
	},
}

// Endpoints are all endpoints.
func Endpoints() (all []Endpoint) {
	for e := range endpointTable {
		all = append(all, Endpoint(e))
	}
	return all
}

// String returns the word of --payload for the endpoint.
func (e Endpoint) String() string { return endpointTable[e].name }

// About tells people in a few words what goes where.
func (e Endpoint) About() string { return endpointTable[e].prompts + " to " + endpointTable[e].at.Path }

// Path returns the path of the endpoint below the root of a server.
func (e Endpoint) Path() string { return endpointTable[e].at.Path }

// Provider returns whose API it is: openai or anthropic.
func (e Endpoint) Provider() string { return endpointTable[e].at.API }

// AIPerf returns the word of AIPerf's --endpoint-type, "" where AIPerf has none.
func (e Endpoint) AIPerf() string { return endpointTable[e].aiperf }

// Length returns the field that asks for a number of tokens where nothing chooses one.
func (e Endpoint) Length() LengthField { return endpointTable[e].lengths[0] }

// Encoding returns the encoding of the prompt corpus in bodies for the endpoint.
func (e Endpoint) Encoding() mmapcache.Encoding { return endpointTable[e].encoding }

// EncodingOf returns the encoding of the prompts of a cache in bodies for the endpoint. The error says that the endpoint takes no recorded
// messages.
func (e Endpoint) EncodingOf(c *mmapcache.Cache) (mmapcache.Encoding, error) {
	row := &endpointTable[e]
	switch {
	case !c.HasTexts():
		return row.encoding, nil
	case row.recorded == 0:
		return 0, fmt.Errorf("the prompts of %s are recorded messages, and the payload %s has %s: want %s or %s", c.Path(), e, row.prompts, ChatCompletions, Messages)
	}
	return row.recorded, nil
}

// API returns how servers write their answers at the endpoint.
func (e Endpoint) API() wire.API { return endpointTable[e].api }

// LiveAnswers reports whether answers of the server can stand in later prompts.
func (e Endpoint) LiveAnswers() bool { return endpointTable[e].liveAnswers }

// Separates reports whether bodies have bytes of their own between two messages.
func (e Endpoint) Separates() bool { return endpointTable[e].separator != "" }

// Roles reports whether bodies tell the roles of messages.
func (e Endpoint) Roles() bool { return endpointTable[e].separator == "," }
