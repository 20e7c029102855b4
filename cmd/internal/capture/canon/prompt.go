// Package canon turns bodies of requests to inference APIs into canonical streams of tokens: doc/spec/capture.md 5.
//
//	prompt, err := canon.Parse(canon.Chat, body)
//	for _, s := range prompt.Segments {
//		...
//	}
//
// A stream has segments: a tool, or one block of a message, with the role of the message before its first block. Structure
// is tokens above every vocabulary, text is tokenized part by part, so equal parts have equal tokens in every API and in
// every spelling of the JSON around them. If a client only appends to its messages, the stream only grows.
//
// Parse is a pure function and knows no tokenizer and no session. Package chain tokenizes the parts that a session has not
// had before, and cuts streams into blocks. A prompt refers to the body, which must not change while the prompt is in use.
package canon

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/internal/endpoint"
	"github.com/agentx/agentx/internal/jsonlex"
)

// Version names the rules by which streams are made. Other rules get another name.
const Version = "canon-1"

// Prompt is what canon reads from a request.
type Prompt struct {
	Segments []Segment // of the stream, in order
	Tools    int       // the first segments that define tools
	Head     int       // the first segments that are tools, or the field for the system prompt or the instructions
	System   int       // the first segments that are Head, or the first messages if these are of the system or the developer

	Model    string
	Stream   bool
	Previous string   // previous_response_id: the stream goes on behind another prompt and its output
	Subagent bool     // the header for billing says that a subagent asks
	UserID   string   // metadata.user_id
	CacheKey string   // prompt_cache_key
	Results  []string // ids of the calls whose results the prompt has, in order

	MediaTokens int // how many tokens stand for media

	// Of ParseBehind.
	KnownTools bool      // the segments of the tools are left out
	ToolsText  []byte    // the list of tools, where Segments has those of no others
	Prefix     Prefix    // messages behind the head whose segments are left out, and their Results
	Elements   []Element // the messages whose segments are there
	List       []byte    // the text of all messages
	ListStart  int       // where that begins, behind the bracket
}

// Segment is a part of a stream that is found again as a whole: a tool, or a block of a message with the role before the
// first of them. A message without blocks is a segment that is its role.
type Segment struct {
	Parts []Part
	Kinds journal.Kinds // of content
	Role  uint32        // token of the role of its message; 0 for tools and completions

	// Follows: the first part is a role that goes if the segment follows one of the assistant. It is set where a prompt
	// begins so, which does not have what is before it.
	Follows bool

	from, to int // its parts, while the prompt grows
}

// Part is what becomes tokens: one token of structure, a text, media, or token ids.
type Part struct {
	Kind  PartKind
	Token uint32 // of a Structure
	Data  []byte // of a PlainText its UTF-8; of Media its base64 text, or what refers to it
	Count int    // tokens of Media

	Base64 bool     // Data is base64 text
	IDs    []uint32 // of TokenIDs
}

// PartKind is a kind of part.
type PartKind uint8

// Kinds of parts.
const (
	Structure PartKind = iota + 1
	PlainText
	MediaTokens
	TokenIDs
)

// builder writes the segments of a prompt.
type builder struct {
	*reader
	prompt *Prompt
	parts  []Part
	start  int    // the first part of the segment being written
	role   uint32 // of the message being written
	texts  []byte // texts that do not stand in the body as they are
}

// token appends a token of structure to the segment being written.
func (b *builder) token(t uint32) { b.parts = append(b.parts, Part{Kind: Structure, Token: t}) }

// text appends a text to the segment being written. An empty one has no tokens.
func (b *builder) text(text []byte) {
	if len(text) > 0 {
		b.parts = append(b.parts, Part{Kind: PlainText, Data: text})
	}
}

// beginMessage writes the role of a message.
func (b *builder) beginMessage(name []byte) {
	b.endMessage()
	token, known := roles[string(name)]
	if !known {
		token = roleOther
	}
	b.role = token
	b.token(token)
	if !known {
		b.text(name)
		b.token(sep)
	}
}

// endMessage ends the segment of a message without blocks.
func (b *builder) endMessage() {
	if len(b.parts) > b.start {
		b.cut(0)
	}
}

// cut ends the segment being written, which has content of these kinds.
func (b *builder) cut(kinds journal.Kinds) {
	b.prompt.Segments = append(b.prompt.Segments, Segment{Kinds: kinds, Role: b.role, from: b.start, to: len(b.parts)})
	b.start = len(b.parts)
}

// finish gives the segments their parts, and counts the first messages of the system.
func (b *builder) finish() error {
	b.endMessage()
	p := b.prompt
	for i := range p.Segments {
		s := &p.Segments[i]
		s.Parts = b.parts[s.from:s.to:s.to]
	}
	p.List, p.ListStart = b.listText(), b.list.start
	p.System = p.Head
	for p.System < len(p.Segments) && (p.Segments[p.System].Role == roleSystem || p.Segments[p.System].Role == roleDeveloper) {
		p.System++
	}
	if p.MediaTokens > maxMediaTokens {
		return oversize("the prompt has more than %d tokens of media", maxMediaTokens)
	}
	return nil
}

// Format is a kind of request body: that of an endpoint that is recorded. 0 is none.
type Format uint8

// The formats, in the order of dialects.
const (
	Chat        Format = iota + 1 // OpenAI chat completions
	Messages                      // Anthropic Messages
	Responses                     // OpenAI Responses
	Completions                   // OpenAI completions
)

// dialect is how the requests of an endpoint are read.
type dialect struct {
	endpoint.Endpoint
	name string               // as metrics have it
	list string               // member with the list of messages; "": a prompt is no such list
	read func(*builder) error // writes the prompt
}

// dialects are those of the formats. A test says that each endpoint of internal/endpoint has one.
var dialects = [...]dialect{
	{name: "none", read: func(*builder) error { return unhashable("the format has no canonical stream") }},
	Chat:        {endpoint.Chat, "chat", endpoint.Chat.Prompt, (*builder).chat},
	Messages:    {endpoint.Messages, "messages", endpoint.Messages.Prompt, (*builder).anthropic},
	Responses:   {endpoint.Responses, "responses", endpoint.Responses.Prompt, (*builder).responses},
	Completions: {endpoint.Completions, "completions", "", (*builder).completions},
}

// dialect returns how the format is read. A number that is no format is read as none, with an error.
func (f Format) dialect() *dialect {
	if int(f) >= len(dialects) {
		f = 0
	}
	return &dialects[f]
}

func (f Format) String() string { return f.dialect().name }

// FormatOf returns the format of a request by its method and path, and false for requests that are never recorded.
func FormatOf(method, path string) (Format, bool) {
	for f, d := range dialects {
		if f > 0 && method == http.MethodPost && strings.HasSuffix(path, d.Path) {
			return Format(f), true
		}
	}
	return 0, false
}

// Tokens of structure: above every vocabulary, so that no text can look like them. Each counts as one token.
const (
	Tool uint32 = 0xA0000001 // begins the definition of a tool

	roleSystem    uint32 = 0xA0000002
	roleDeveloper uint32 = 0xA0000003
	RoleUser      uint32 = 0xA0000004
	RoleAssistant uint32 = 0xA0000005
	roleTool      uint32 = 0xA0000006
	roleOther     uint32 = 0xA0000007 // the name of the role and Sep follow

	Text       uint32 = 0xA0000010
	toolCall   uint32 = 0xA0000011
	toolResult uint32 = 0xA0000012
	thinking   uint32 = 0xA0000013
	Image      uint32 = 0xA0000014
	document   uint32 = 0xA0000015
	Audio      uint32 = 0xA0000016
	other      uint32 = 0xA0000017

	sep uint32 = 0xA000001E
	End uint32 = 0xA000001F

	Media     uint32 = 0xB0000000 // with 28 bits of a digest below
	MediaBits uint32 = 0x0FFFFFFF
)

// roles has the token of every role that has one of its own.
var roles = map[string]uint32{
	"system": roleSystem, "developer": roleDeveloper, "user": RoleUser, "assistant": RoleAssistant, "tool": roleTool,
}

// Bounds of a prompt.
const (
	maxDepth       = 1000
	maxBody        = 1 << 30
	maxValues      = 1 << 20 // JSON values that decide about the stream
	maxMediaTokens = 1 << 24
)

// Error is about a body without a canonical stream. It says nothing of what the body contains.
type Error struct {
	Reason  journal.Reason // HoleParse, HoleUnhashable or HoleOversize
	Problem string
}

var errNoObject = &Error{journal.HoleParse, "the body is not a JSON object"}

func (e *Error) Error() string { return string(e.Reason) + ": " + e.Problem }

// oversize returns the error about a prompt that exceeds a bound.
func oversize(format string, args ...any) error {
	return &Error{journal.HoleOversize, fmt.Sprintf(format, args...)}
}

// unhashable returns the error about a prompt that has no canonical stream.
func unhashable(format string, args ...any) error {
	return &Error{journal.HoleUnhashable, fmt.Sprintf(format, args...)}
}

// malformed returns the error about a body that is no JSON. The lexer's own text quotes a byte of the body, so it is left
// out.
func malformed(err error) error {
	if own := (*Error)(nil); errors.As(err, &own) {
		return err
	}
	if syntax := (*jsonlex.SyntaxError)(nil); errors.As(err, &syntax) {
		return &Error{journal.HoleParse, fmt.Sprintf("the body is malformed JSON at byte %d", syntax.Offset)}
	}
	return &Error{journal.HoleParse, "the body is malformed JSON"}
}
