package text

// Tokenizer encodes texts as ordinary text: what looks like a special token is none.
type Tokenizer interface {
	Encode(text string) []uint32
}

// Sizes counts tokens of messages and prompts. Each distinct text is encoded once, when it is first asked for.
type Sizes struct {
	data      *Dataset
	tokenizer Tokenizer
	counts    []int32           // of texts, plus 1; 0: not counted yet
	messages  []int32           // canonical length, plus 1
	kept      map[Text][]uint32 // tokens that were counted and not asked for yet
	room      int               // for so many more
	buf       []byte
	err       error

	CountedPrompts, CountedAnswers int // turns whose lengths Complete counted
}

// NewSizes returns the counts of a dataset under a tokenizer.
func NewSizes(d *Dataset, t Tokenizer) *Sizes {
	return &Sizes{data: d, tokenizer: t, counts: make([]int32, d.Store.Count()), messages: make([]int32, len(d.Messages))}
}

// Err returns the first error of the store.
func (s *Sizes) Err() error { return s.err }

// keptIDs is how many tokens KeepIDs keeps, 32 MB of them.
const keptIDs = 8 << 20

// KeepIDs keeps tokens that are counted until IDs asks for them, so that most texts are encoded once though a caller wants both.
func (s *Sizes) KeepIDs() { s.kept, s.room = map[Text][]uint32{}, keptIDs }

// Text returns how many tokens a text has.
func (s *Sizes) Text(t Text) int {
	if s.counts[t] == 0 {
		if ids := s.encode(t); s.kept != nil && len(ids) <= s.room {
			s.kept[t] = ids
			s.room -= len(ids)
		}
	}
	return int(s.counts[t] - 1)
}

// IDs returns the tokens of a text, and counts them.
func (s *Sizes) IDs(t Text) []uint32 {
	ids, ok := s.kept[t]
	if !ok {
		return s.encode(t)
	}
	delete(s.kept, t)
	s.room += len(ids)
	return ids
}

func (s *Sizes) encode(t Text) (ids []uint32) {
	if t != 0 {
		b, err := s.data.Store.Append(s.buf[:0], t)
		if err != nil && s.err == nil {
			s.err = err
		}
		s.buf = b
		ids = s.tokenizer.Encode(string(b))
	}
	s.counts[t] = int32(len(ids)) + 1
	return ids
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

// Complete counts what the log does not say: outputs, and the tokens of the prefix that it lacks (doc/spec/text.md 4.6 and 4.7). It encodes
// the first prompt of each such session, and answers whose recorded length is missing or cannot be true.
func (s *Sizes) Complete() error {
	for _, t := range s.data.Traces {
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
