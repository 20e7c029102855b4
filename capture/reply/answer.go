package reply

import (
	"bytes"
	"unicode/utf8"

	"github.com/agentx/agentx/capture/canon"
	"github.com/agentx/agentx/capture/journal"
	"github.com/agentx/agentx/internal/jsonlex"
)

// decoder reads what one API answers, into an answer.
type decoder interface {
	event(name, data []byte) // of a stream
	whole(body []byte)       // a reply that is no stream
}

func decoderOf(f canon.Format, a *answer) decoder {
	switch f {
	case canon.Messages:
		return &messages{answer: a}
	case canon.Responses:
		return &responses{answer: a}
	}
	return &completions{answer: a}
}

// answer is what was read so far.
type answer struct {
	stream bool
	at     int64 // of the event that is being read

	terminals int
	failed    bool
	first     int64
	usage     usage
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

// object reads an object. Anything else is a fault of the shape.
func (a *answer) object(l *jsonlex.Lexer, member func(key []byte) error) error {
	if l.Kind() != jsonlex.Object {
		a.marks |= journal.MarkReplyShape
		return l.Skip()
	}
	return l.Object(member)
}

// optional reads an object, or null.
func (a *answer) optional(l *jsonlex.Lexer, member func(key []byte) error) error {
	if l.Kind() == jsonlex.Null {
		return l.Skip()
	}
	return a.object(l, member)
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
	if prompt, ok := a.usage.total(); ok {
		f.Prompt, f.Out = prompt, a.usage.output
		if a.early && !f.Whole {
			f.Out = -1
		}
	} else if f.Whole && !a.failed && !(a.unasked && !a.usage.seen) {
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
	if l.Kind() != jsonlex.Object {
		return ""
	}
	_ = l.Object(func(key []byte) (err error) { // a call that was cut off has what came before
		if string(key) == "subagent_type" && l.Kind() == jsonlex.String {
			kind, err = l.Text()
			return err
		}
		return l.Skip()
	})
	return kind
}
