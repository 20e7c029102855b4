package reply

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/internal/jsonlex"
)

// dialect is how an API answers.
type dialect struct {
	event func(a *answer, data []byte)            // reads an event of a stream
	whole func(a *answer, l *jsonlex.Lexer) error // reads a reply that is no stream
	usage []string                                // names of the counts of tokens: of the prompt, the output, and of prompts apart
}

// dialects are those of the formats.
var dialects = map[canon.Format]*dialect{canon.Chat: &completions, canon.Completions: &completions, canon.Messages: &messages, canon.Responses: &responses}

// answer is what was read so far.
type answer struct {
	*dialect
	stream bool
	at     int64        // of the event that is being read
	open   map[int]bool // parts that have begun, and may be added to

	terminals int
	failed    bool
	first     int64
	counts    counts
	early     bool // the usage is that of the beginning of a stream
	unasked   bool // the API counts only when asked to, and a stream without counts is as it should be
	word      string
	output    journal.Kinds
	marks     journal.Mark
	lost      journal.Reason

	parts []*part
	texts int // bytes of all parts
	room  int // bytes of memory for them
	id    string
	items []byte
}

// part is one part of the output: a text, some thinking, or the call of a tool.
type part struct {
	key  int // of the part in its API; each counts on its own
	kind journal.Kinds
	text []byte
	call Call
}

// part returns the part of a key and a kind, and makes it if there is none.
func (a *answer) part(key int, kind journal.Kinds) *part {
	for _, p := range a.parts {
		if p.key == key && p.kind == kind {
			return p
		}
	}
	if len(a.parts) == maxParts {
		return a.parts[maxParts-1]
	}
	p := &part{key: key, kind: kind}
	a.parts = append(a.parts, p)
	a.room += partRoom
	return p
}

// partRoom is the memory of a part beside its text.
const partRoom = 128

// maxParts bounds the parts of an answer that are told apart.
const maxParts = 4096

// add adds output to a part.
func (a *answer) add(key int, kind journal.Kinds, text []byte) {
	if len(text) == 0 {
		return
	}
	a.outputs(kind)
	p := a.part(key, kind)
	if keep := min(len(text), maxText-a.texts); keep > 0 {
		a.keep(p, text[:keep])
		a.texts += keep
	}
}

// keep appends to the text of a part, and counts the memory that it takes.
func (a *answer) keep(p *part, text []byte) {
	a.room -= cap(p.text)
	p.text = append(p.text, text...)
	a.room += cap(p.text)
}

// outputs notes that there was output of a kind.
func (a *answer) outputs(kind journal.Kinds) {
	a.output |= kind
	a.begin()
}

// begin notes the instant of the first output of a stream.
func (a *answer) begin() {
	if a.first < 0 && a.stream {
		a.first = a.at
	}
}

// parse reads one JSON text. A failure, and bytes that are not UTF-8, become the mark. Half a surrogate pair is none: a server that cuts
// its output by UTF-16 writes an emoji as two deltas.
func (a *answer) parse(text []byte, mark journal.Mark, read func(l *jsonlex.Lexer) error) {
	l := jsonlex.New(text)
	l.MaxDepth = maxDepth
	err := read(l)
	if err == nil {
		err = l.End()
	}
	if err != nil || !utf8.Valid(text) {
		a.marks |= mark
	}
}

// member is a member of an object that is read, and where its value goes: a string to *[]byte or *string, the text as it stands to *rawText,
// the place of a part to *int; a function reads any other value.
type member struct {
	name string
	to   any
}

// rawText is the text of a JSON value as it stands.
type rawText []byte

// read reads the value of the member to where that goes.
func (m member) read(l *jsonlex.Lexer) (err error) {
	switch to := m.to.(type) {
	case *[]byte:
		*to, err = text(l)
	case *string:
		var value []byte
		value, err = text(l)
		*to = string(value)
	case *rawText:
		*to, err = raw(l)
	case *int:
		*to, err = natural(l)
	case func(*jsonlex.Lexer) error:
		err = to(l)
	}
	return err
}

// object reads members of an object, and skips the others. Anything else is a fault of the shape.
func (a *answer) object(l *jsonlex.Lexer, members []member) error {
	if l.Kind() != jsonlex.Object {
		a.marks |= journal.MarkReplyShape
		return l.Skip()
	}
	return l.Object(func(key []byte) error {
		for _, m := range members {
			if m.name == string(key) {
				return m.read(l)
			}
		}
		return l.Skip()
	})
}

// optional reads an object, or null.
func (a *answer) optional(l *jsonlex.Lexer, members []member) error {
	if l.Kind() == jsonlex.Null {
		return l.Skip()
	}
	return a.object(l, members)
}

// list reads the elements of a list by their indexes, and skips what is none.
func list(l *jsonlex.Lexer, element func(k int) error) error {
	if l.Kind() != jsonlex.Array {
		return l.Skip()
	}
	k := -1
	return l.Array(func() error { k++; return element(k) })
}

// adds returns a function that reads a string and adds it to a part.
func (a *answer) adds(key int, kind journal.Kinds) func(*jsonlex.Lexer) error {
	return func(l *jsonlex.Lexer) error {
		words, err := text(l)
		a.add(key, kind, words)
		return err
	}
}

// reason reads the word with which the API says why an answer ended.
func (a *answer) reason(l *jsonlex.Lexer) error {
	word, err := text(l)
	if len(word) > 0 {
		a.word = string(word)
	}
	return err
}

// failure notes whether a member named error holds one.
func (a *answer) failure(l *jsonlex.Lexer) error {
	failed, err := set(l)
	a.failed = a.failed || failed
	return err
}

// text reads a string and gives its value; anything else is skipped.
func text(l *jsonlex.Lexer) ([]byte, error) {
	if l.Kind() != jsonlex.String {
		return nil, l.Skip()
	}
	return l.AppendString(nil)
}

// raw returns the text of the next value as it stands.
func raw(l *jsonlex.Lexer) ([]byte, error) {
	l.Peek() // behind white space
	from := l.Pos
	err := l.Skip()
	return l.Data[from:l.Pos], err
}

// set reports whether the next value is there, and not null, false or empty, and skips it.
func set(l *jsonlex.Lexer) (bool, error) {
	value, err := raw(l)
	switch string(value) {
	case "null", "false", `""`, "{}":
		return false, err
	}
	return true, err
}

// facts returns what was read.
func (a *answer) facts() *Facts {
	f := &Facts{
		Whole: a.terminals > 0, HasOutput: a.output != 0, First: a.first, Failed: a.failed,
		Prompt: -1, Out: -1, Word: journal.StopWord(a.word), Output: a.output, ID: a.id, Items: a.items,
	}
	if prompt, ok := a.counts.total(); ok {
		f.Prompt, f.Out = prompt, a.counts.tokens[1]
		if a.early && !f.Whole {
			f.Out = -1
		}
	} else if f.Whole && !a.failed && !(a.unasked && !a.counts.seen) {
		a.marks |= journal.MarkReplyUsage
	}
	f.Marks = a.marks
	if a.marks != 0 {
		f.Prompt, f.Out = -1, -1 // counted by the observer
	}
	f.Stop = stopOf(f.Word)
	if !f.Whole {
		f.Stop, f.Word = journal.StopNone, ""
	}
	for _, p := range a.parts {
		if p.kind == journal.ToolUse {
			p.call.Type = subagentType(p)
			f.Calls = append(f.Calls, p.call)
		}
		if text := string(bytes.ToValidUTF8(p.text, []byte(string(utf8.RuneError)))); text != "" {
			f.Texts = append(f.Texts, text)
		}
	}
	return f
}

// stopOf returns the stop of a trace for the word of an API.
func stopOf(word string) journal.Stop {
	switch word {
	case "tool_use", "tool_calls", "function_call":
		return journal.StopToolUse
	case "end_turn", "stop_sequence", "stop", "completed":
		return journal.StopEndTurn
	}
	return journal.StopNone
}

// subagentType returns which subagent a call asks for.
func subagentType(p *part) (kind string) {
	if !p.call.MakesSubagent() {
		return ""
	}
	l := jsonlex.New(p.text[min(len(p.call.Name), len(p.text)):])
	l.MaxDepth = maxDepth
	_ = new(answer).object(l, []member{{"subagent_type", &kind}}) // a call that was cut off has what came before
	return kind
}

// Facts are what a reply says. None of its texts belongs on a disk, but the words of closed lists.
type Facts struct {
	Whole     bool  // its terminal mark was read, or the whole body of a reply that is no stream
	HasOutput bool  // text, thinking or a call of a tool
	First     int64 // instant of the first output of a stream; -1: none
	Failed    bool  // the API reported an error, under status 200

	Prompt int64 // tokens, as the API counted them; -1: it did not say, or not credibly
	Out    int64 // the same for the output
	Stop   journal.Stop
	Word   string // the API's own word for why it stopped
	Output journal.Kinds
	Marks  journal.Mark   // reply_*
	Lost   journal.Reason // why nothing can be said of it: HoleEncoding, HoleOversize; "" otherwise

	Calls []Call
	Texts []string // the output that was seen, a text for each of its parts, to be counted where Out is not known
	ID    string   // of a response, to go on from
	Items []byte   // JSON list of the output of a response with an ID; nil otherwise
}

// Call is the call of a tool.
type Call struct {
	ID   string
	Name string
	Type string // argument subagent_type of a tool that makes a subagent, "" for others
}

// MakesSubagent reports whether a call begins a subagent.
func (c Call) MakesSubagent() bool { return c.Name == "Task" || c.Name == "Agent" }

// counts are what an API counted, by the usage of its dialect.
type counts struct {
	seen   bool // there was an object
	bad    bool // of the counts one is none
	tokens [4]int64
}

// count reads a count: absent for null, bad for anything that is no whole number from 0 to 2^31-1 without a fraction.
func (c *counts) count(l *jsonlex.Lexer, to *int64) error {
	if l.Kind() == jsonlex.Null {
		return l.Skip()
	}
	n, err := natural(l)
	if c.bad = c.bad || n < 0; n >= 0 {
		*to = int64(n)
	}
	return err
}

// natural reads a whole number up to 2^31-1; -1 for anything else.
func natural(l *jsonlex.Lexer) (int, error) {
	mark := l.Mark()
	n, err := l.Natural(math.MaxInt32)
	if err != nil {
		l.Reset(mark)
		return -1, l.Skip()
	}
	return int(n), nil
}

// used reads a usage. Counts of an earlier one stay where this one has none.
func (a *answer) used(l *jsonlex.Lexer) error {
	c := &a.counts
	if kind := l.Kind(); kind != jsonlex.Object {
		c.seen, c.bad = c.seen || kind != jsonlex.Null, c.bad || kind != jsonlex.Null
		return l.Skip()
	}
	c.seen = true
	return l.Object(func(key []byte) error {
		if k := slices.Index(a.usage, string(key)); k >= 0 {
			return c.count(l, &c.tokens[k])
		}
		return l.Skip()
	})
}

// total returns the tokens of the prompt, and whether both counts are there.
func (c *counts) total() (prompt int64, ok bool) {
	if c.bad || c.tokens[0] < 0 || c.tokens[1] < 0 {
		return -1, false
	}
	return c.tokens[0] + max(0, c.tokens[2]) + max(0, c.tokens[3]), true
}

// completions is how OpenAI's chats and completions answer.
var completions = dialect{(*answer).chunk, (*answer).completion, []string{"prompt_tokens", "completion_tokens"}}

// partsOfChoice is how many keys of parts a choice has: its text, its thinking, and its calls.
const partsOfChoice = 1 << 12

// chunk reads an event of a stream of completions; [DONE] ends an answer that said why it ended.
func (a *answer) chunk(data []byte) {
	a.unasked = true
	if bytes.Equal(bytes.TrimSpace(data), []byte("[DONE]")) {
		if a.word != "" { // some servers say [DONE] behind an error
			a.terminals++
		}
		return
	}
	a.parse(data, journal.MarkReplyStream, a.completion)
}

// completion reads an answer, or a chunk of one.
func (a *answer) completion(l *jsonlex.Lexer) error {
	choices := 0
	err := a.object(l, []member{
		{"choices", func(l *jsonlex.Lexer) error {
			return list(l, func(k int) error { choices++; return a.choice(l, k) })
		}},
		{"usage", a.used}, {"error", a.failure},
	})
	if choices == 0 && !a.stream {
		a.marks |= journal.MarkReplyShape
	}
	return err
}

// choice reads one of the answers of a request. In a chunk it may name its place.
func (a *answer) choice(l *jsonlex.Lexer, place int) error {
	message := false
	var content rawText // what comes before the place is known
	var words []byte
	inside := func(l *jsonlex.Lexer) (err error) {
		message = l.Kind() == jsonlex.Object
		content, err = raw(l)
		return err
	}
	err := a.object(l, []member{
		{"index", &place}, {"message", inside}, {"delta", inside}, {"finish_reason", a.reason},
		{"text", func(l *jsonlex.Lexer) (err error) {
			message = true
			words, err = text(l)
			return err
		}},
	})
	if !message && !a.stream {
		a.marks |= journal.MarkReplyShape
	}
	key := place * partsOfChoice
	a.add(key, journal.Text, words)
	if message && len(content) > 0 {
		a.parse(content, journal.MarkReplyJSON, func(l *jsonlex.Lexer) error { return a.chatMessage(l, key) })
	}
	return err
}

// message reads the message of a choice, or what is added to it.
func (a *answer) chatMessage(l *jsonlex.Lexer, key int) error {
	words, thought := a.adds(key, journal.Text), a.adds(key, journal.Thinking)
	return a.object(l, []member{
		{"content", words}, {"refusal", words}, {"reasoning_content", thought}, {"reasoning", thought},
		{"tool_calls", func(l *jsonlex.Lexer) error {
			return list(l, func(k int) error { return a.call(l, key+1+k) })
		}},
		{"function_call", func(l *jsonlex.Lexer) error { return a.function(l, key+1, nil) }},
	})
}

// call reads the call of a tool. In a chunk it names its place.
func (a *answer) call(l *jsonlex.Lexer, key int) error {
	place := -1
	var id []byte
	var function rawText
	err := a.object(l, []member{{"index", &place}, {"id", &id}, {"function", &function}, {"custom", &function}})
	if place >= 0 {
		key = key/partsOfChoice*partsOfChoice + 1 + place%(partsOfChoice-1)
	}
	if len(function) > 0 {
		a.parse(function, journal.MarkReplyJSON, func(l *jsonlex.Lexer) error { return a.function(l, key, id) })
	}
	return err
}

// function reads the name of the tool that is called, and its arguments, into the part of a key.
func (a *answer) function(l *jsonlex.Lexer, key int, id []byte) error {
	var name, arguments []byte
	err := a.optional(l, []member{{"name", &name}, {"arguments", &arguments}, {"input", &arguments}})
	if len(name) > 0 {
		a.called(key, id, name)
		a.begin()
	}
	a.add(key, journal.ToolUse, arguments)
	return err
}

// messages is how Anthropic's Messages API answers.
var messages = dialect{
	(*answer).messagesEvent, (*answer).message, []string{"input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"},
}

// messagesEvent reads an event, which has its name in its data, too.
func (a *answer) messagesEvent(data []byte) {
	var kind string
	var place int
	var block, delta rawText
	a.parse(data, journal.MarkReplyStream, func(l *jsonlex.Lexer) error {
		return a.object(l, []member{
			{"type", &kind}, {"index", &place}, {"content_block", &block}, {"delta", &delta}, {"message", a.message},
			{"usage", func(l *jsonlex.Lexer) error {
				a.early = false
				return a.used(l)
			}},
		})
	})
	switch kind {
	case "content_block_start":
		a.open[place] = true
		a.parse(block, journal.MarkReplyStream, func(l *jsonlex.Lexer) error { return a.block(l, place) })
	case "content_block_delta":
		if !a.open[place] {
			a.marks |= journal.MarkReplyStream
		}
		a.begin()
		a.parse(delta, journal.MarkReplyStream, func(l *jsonlex.Lexer) error { return a.block(l, place) })
	case "content_block_stop":
		delete(a.open, place)
	case "message_delta":
		a.parse(delta, journal.MarkReplyStream, func(l *jsonlex.Lexer) error { return a.optional(l, []member{{"stop_reason", a.reason}}) })
	case "message_stop":
		a.terminals++
	case "error":
		a.failed = true
	}
}

// message reads a message, which at the beginning of a stream is empty.
func (a *answer) message(l *jsonlex.Lexer) error {
	content := false
	err := a.object(l, []member{
		{"stop_reason", a.reason}, {"error", a.failure},
		{"content", func(l *jsonlex.Lexer) error {
			content = l.Kind() == jsonlex.Array
			return list(l, func(k int) error { return a.block(l, k) })
		}},
		{"usage", func(l *jsonlex.Lexer) error {
			a.early = a.stream
			return a.used(l)
		}},
	})
	if !content && !a.stream {
		a.marks |= journal.MarkReplyShape
	}
	return err
}

// block reads a block of content, or what is added to one.
func (a *answer) block(l *jsonlex.Lexer, place int) error {
	var kind, id, name, words, thought, arguments []byte
	err := a.object(l, []member{
		{"type", &kind}, {"id", &id}, {"name", &name}, {"text", &words}, {"thinking", &thought}, {"partial_json", &arguments},
		{"input", func(l *jsonlex.Lexer) (err error) {
			if arguments, err = raw(l); string(arguments) == "{}" {
				arguments = nil // of a call that begins; the input follows
			}
			return err
		}},
	})
	a.add(place, journal.Text, words)
	a.add(place, journal.Thinking, thought)
	if len(name) > 0 {
		a.called(place, id, name)
	}
	a.add(place, journal.ToolUse, arguments)
	if string(kind) == "redacted_thinking" {
		a.outputs(journal.Thinking)
	}
	return err
}

// called names the tool of the call at a place, unless an earlier event has.
func (a *answer) called(place int, id, name []byte) {
	p := a.part(place, journal.ToolUse)
	if p.call.Name == "" {
		p.call = Call{ID: string(id), Name: string(name)}
		a.room += len(id) + len(name)
		a.keep(p, name)
	}
	a.output |= journal.ToolUse
}

// responses is how OpenAI's Responses API answers.
var responses = dialect{(*answer).responsesEvent, (*answer).response, []string{"input_tokens", "output_tokens"}}

// responsesEvent reads an event of a stream of the Responses API, whose last one has the whole response.
func (a *answer) responsesEvent(data []byte) {
	var kind string
	var place int
	var item, response rawText
	var delta []byte
	a.parse(data, journal.MarkReplyStream, func(l *jsonlex.Lexer) error {
		return a.object(l, []member{{"type", &kind}, {"output_index", &place}, {"item", &item}, {"response", &response}, {"delta", &delta}})
	})
	switch kind {
	case "response.output_item.added":
		a.open[place] = true
		a.parse(item, journal.MarkReplyStream, func(l *jsonlex.Lexer) error { return a.item(l, place) })
	case "response.completed", "response.incomplete", "response.failed":
		a.terminals++
		a.failed = a.failed || kind == "response.failed"
		a.parts, a.texts, a.room = nil, 0, 0 // the whole response follows, and repeats the output so far
		a.parse(response, journal.MarkReplyStream, a.response)
		if a.word == "" {
			a.word = strings.TrimPrefix(kind, "response.")
		}
	case "error":
		a.failed = true
	default:
		a.added(kind, place, delta)
	}
}

// added adds the delta of an event, if it has one.
func (a *answer) added(kind string, place int, delta []byte) {
	if !strings.HasSuffix(kind, ".delta") {
		return
	}
	if !a.open[place] {
		a.marks |= journal.MarkReplyStream
	}
	a.begin()
	switch {
	case strings.Contains(kind, "reasoning"):
		a.add(place, journal.Thinking, delta)
	case strings.Contains(kind, "arguments"), strings.Contains(kind, "_call_"):
		a.add(place, journal.ToolUse, delta)
	default:
		a.add(place, journal.Text, delta)
	}
}

// response reads a whole response.
func (a *answer) response(l *jsonlex.Lexer) error {
	output := false
	var status, why string
	err := a.object(l, []member{
		{"id", &a.id}, {"status", &status}, {"error", a.failure},
		{"incomplete_details", func(l *jsonlex.Lexer) error { return a.optional(l, []member{{"reason", &why}}) }},
		{"output", func(l *jsonlex.Lexer) error {
			output = l.Kind() == jsonlex.Array
			value, err := raw(l)
			if err == nil && output {
				a.items = bytes.Clone(value)
				a.parse(value, journal.MarkReplyShape, func(l *jsonlex.Lexer) error {
					return list(l, func(k int) error { return a.item(l, k) })
				})
			}
			return err
		}},
		{"usage", a.used},
	})
	if !output {
		a.marks |= journal.MarkReplyShape
	}
	a.word = status
	if why != "" {
		a.word = why
	}
	if status == "completed" && a.output&journal.ToolUse != 0 {
		a.word = "function_call"
	}
	return err
}

// item reads an item of the output.
func (a *answer) item(l *jsonlex.Lexer, place int) error {
	var kind, id, call, name, arguments []byte
	err := a.object(l, []member{
		{"type", &kind}, {"id", &id}, {"call_id", &call}, {"name", &name}, {"arguments", &arguments}, {"input", &arguments},
		{"content", a.content(place, journal.Text)}, {"summary", a.content(place, journal.Thinking)},
	})
	switch {
	case string(kind) == "reasoning":
		a.output |= journal.Thinking
	case strings.HasSuffix(string(kind), "_call"):
		if len(call) == 0 {
			call = id
		}
		if len(name) == 0 {
			name = kind
		}
		a.called(place, call, name)
		a.add(place, journal.ToolUse, arguments)
	}
	return err
}

// content returns a function that reads the parts of a message, or the summary of some thinking.
func (a *answer) content(place int, kind journal.Kinds) func(*jsonlex.Lexer) error {
	words := a.adds(place, kind)
	return func(l *jsonlex.Lexer) error {
		return list(l, func(int) error { return a.object(l, []member{{"text", words}, {"refusal", words}}) })
	}
}
