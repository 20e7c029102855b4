package reply

import (
	"bytes"
	"math"
	"slices"
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

// keep appends to the text of a part.
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

// adds returns what reads a string and adds it to a part.
func (a *answer) adds(key int, kind journal.Kinds) func(*jsonlex.Lexer) error {
	return func(l *jsonlex.Lexer) error {
		words, err := text(l)
		a.add(key, kind, words)
		return err
	}
}

// reason reads why an answer ended.
func (a *answer) reason(l *jsonlex.Lexer) error {
	word, err := text(l)
	if len(word) > 0 {
		a.word = string(word)
	}
	return err
}

// failure reads an error that an API reports.
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
