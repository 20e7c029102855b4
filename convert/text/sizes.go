package text

import (
	"cmp"
	"errors"
	"slices"
)

// Tokenizer encodes texts as ordinary text: what looks like a special token is none.
type Tokenizer interface {
	AppendIDs(ids []uint32, text string) []uint32
}

// Sizes counts tokens of messages and prompts. Each distinct text is encoded once, when it is first asked for.
type Sizes struct {
	data      *Dataset
	tokenizer func() (Tokenizer, error)
	counts    []int32 // of texts, plus 1; 0: not counted yet
	messages  []int32 // canonical length, plus 1

	kept, older map[Text][]uint32 // tokens of the latest texts; nil: none are kept
	keep, room  int               // how many tokens kept has at most, and room for

	buf []byte
	ids []uint32
	err error

	CountedPrompts, CountedAnswers int // turns whose lengths Complete counted
}

// NewSizes returns the counts of a dataset under a tokenizer.
func NewSizes(d *Dataset, t Tokenizer) *Sizes {
	return LateSizes(d, func() (Tokenizer, error) { return t, nil })
}

// LateSizes is NewSizes with a tokenizer that is loaded when a text is to be encoded: each time load is called. Err returns its error.
func LateSizes(d *Dataset, load func() (Tokenizer, error)) *Sizes {
	return &Sizes{data: d, tokenizer: load, counts: make([]int32, d.Store.Count()), messages: make([]int32, len(d.Messages))}
}

// Err returns the first error of the store, or of loading the tokenizer.
func (s *Sizes) Err() error { return s.err }

// KeepIDs keeps the tokens of the latest texts, n tokens to twice as many, so that most texts are encoded once though a caller counts
// them, and asks for their tokens again.
func (s *Sizes) KeepIDs(n int) { s.kept, s.keep, s.room = map[Text][]uint32{}, n, n }

// Text returns how many tokens a text has.
func (s *Sizes) Text(t Text) int {
	switch {
	case s.counts[t] != 0:
	case s.kept != nil:
		s.IDs(t)
	default:
		s.encode(t)
	}
	return int(s.counts[t] - 1)
}

// IDs returns the tokens of a text, which the caller may not change, and counts them.
func (s *Sizes) IDs(t Text) []uint32 {
	ids, ok := s.kept[t]
	if ok || t == 0 {
		s.counts[t] = int32(len(ids)) + 1
		return ids
	}
	if ids, ok = s.older[t]; !ok {
		ids = slices.Clone(s.encode(t))
	}
	if s.kept == nil {
		return ids
	}
	if s.room -= len(ids); s.room < 0 {
		s.older, s.kept, s.room = s.kept, map[Text][]uint32{}, s.keep-len(ids)
	}
	s.kept[t] = ids
	return ids
}

// encode returns the tokens of a text until the next call, and counts them.
func (s *Sizes) encode(t Text) []uint32 {
	var err error
	s.buf, err = s.data.Store.Append(s.buf[:0], t)
	tok, failed := s.tokenizer()
	if err = errors.Join(err, failed); err != nil {
		s.err = cmp.Or(s.err, err)
		return nil
	}
	s.ids = tok.AppendIDs(s.ids[:0], string(s.buf))
	s.counts[t] = int32(len(s.ids)) + 1
	return s.ids
}

// Message returns the length of a message in the canonical stream: doc/spec/capture.md 5.2.
func (s *Sizes) Message(m int32) int {
	if s.messages[m] == 0 {
		s.messages[m] = int32(s.message(&s.data.Messages[m], true)) + 1
	}
	return int(s.messages[m] - 1)
}

func (s *Sizes) message(m *Message, role bool) (n int) {
	if role && !m.Continues {
		n++
		if m.Role == OtherRole {
			n += s.Text(m.Name) + 1
		}
	}
	for k := range m.Parts {
		n += s.part(&m.Parts[k])
	}
	return n
}

// part returns the length of a segment: its kind, what it has, and its end.
func (s *Sizes) part(p *Part) int {
	n := 2
	switch p.Kind {
	case Plain, Thinking, Other:
		n += s.Text(p.Text)
	case Redacted, Image, Document, Audio:
		n += int(p.Tokens)
	case Call:
		n += s.Text(p.Name) + 1 + s.Text(p.Text)
	case Result:
		for k := range p.Parts {
			if inner := &p.Parts[k]; inner.Kind == Plain {
				n += s.Text(inner.Text)
			} else {
				n += s.part(inner)
			}
		}
		if p.Failed {
			n++
		}
	}
	return n
}

// Tools returns the length of definitions of tools in the canonical stream.
func (s *Sizes) Tools(list []Text) (n int) {
	for _, t := range list {
		n += 2 + s.Text(t)
	}
	return n
}

// Head returns the length of what stands in front of all prompts of a session in the canonical stream: tools and system messages, without
// the filler.
func (s *Sizes) Head(session *Session) int {
	n := s.Tools(session.Tools)
	for _, m := range session.Front {
		n += s.Message(m)
	}
	return n
}

// Prompt returns the length of the canonical stream of a turn's prompt, without a filler.
func (s *Sizes) Prompt(t *Trace, session, turn int) int {
	n := s.Head(&t.Sessions[session])
	for k := t.Sessions[session].Turns[turn].Last; k != None; k = t.Nodes[k].Parent {
		n += s.Message(t.Nodes[k].Message)
	}
	return n
}

// Texts returns how many tokens the texts of messages have: texts, thinking, names and arguments of calls, results; no structure and no
// media.
func (s *Sizes) Texts(messages []int32) (n int) {
	for _, m := range messages {
		n += s.texts(s.data.Messages[m].Parts)
	}
	return n
}

func (s *Sizes) texts(parts []Part) (n int) {
	for k := range parts {
		switch p := &parts[k]; p.Kind {
		case Plain, Thinking, Other:
			n += s.Text(p.Text)
		case Call:
			n += s.Text(p.Name) + s.Text(p.Text)
		case Result:
			n += s.texts(p.Parts)
		}
	}
	return n
}

// placeholder is the largest recorded output that may be one: what a stream says before its answer has ended.
const placeholder = 8

// Complete completes all traces.
func (s *Sizes) Complete() error {
	for _, t := range s.data.Traces {
		if err := s.CompleteTrace(t); err != nil {
			return err
		}
	}
	return nil
}

// CompleteTrace counts what the log does not say of a trace, once: outputs, and the tokens of the prefix that it lacks (doc/spec/text.md 4.6
// and 4.7). It encodes the first prompt of each such session, and answers whose recorded length is missing or cannot be true.
func (s *Sizes) CompleteTrace(t *Trace) error {
	for k := range t.Sessions {
		session := &t.Sessions[k]
		for n := range session.Turns {
			turn := &session.Turns[n]
			s.countOutput(turn)
			if turn.Counted == WholeRequest && turn.In == None && !turn.NoContent {
				turn.In = int32(s.Prompt(t, k, n))
				s.CountedPrompts++
			}
			if t.HiddenPrefix && session.Lacks == None && turn.In != None && !turn.NoContent {
				if session.Lacks = max(0, turn.In-int32(s.Prompt(t, k, n))); !s.data.Prefix.None {
					session.Filler = session.Lacks
				}
			}
		}
	}
	return s.err
}

func (s *Sizes) countOutput(turn *Turn) {
	switch {
	case turn.Counted == AsRecorded || len(turn.Output) == 0:
	case turn.Counted == Whole || turn.Counted == WholeRequest:
		if turn.Out == None {
			turn.Out = 0
			for _, m := range turn.Output {
				turn.Out += int32(s.Message(m))
			}
			s.CountedAnswers++
			s.data.Warn("out_counted")
		}
	case turn.Counted == WithStructure:
		turn.Out = 0
		for _, m := range turn.Output {
			turn.Out += int32(s.message(&s.data.Messages[m], false))
		}
		s.CountedAnswers++
	case turn.Out == None || turn.Stop == "" && turn.Out <= placeholder:
		if n := int32(s.Texts(turn.Output)); turn.Out == None || 2*turn.Out < n {
			turn.Out = n
			s.CountedAnswers++
			s.data.Warn("out_counted")
		}
	}
}
