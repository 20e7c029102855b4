package text

// Prefix says what stands in front of prompts whose beginning the log lacks (Trace.HiddenPrefix). The zero value is a filler of as many
// tokens as lack: doc/spec/text.md 4.7.
type Prefix struct {
	None   bool   `json:"none,omitempty"`   // nothing: prompts are shorter than they were
	SHA256 string `json:"sha256,omitempty"` // of Text, in hexadecimal
	Text   []byte `json:"-"`                // a body with tools and a system prompt, or the system prompt; the filler stands for what still lacks
}

// Give gives tools and system messages to the sessions whose log lacks them.
func (d *Dataset) Give(tools []Text, front []int32) {
	for _, t := range d.Traces {
		for k := range t.Sessions {
			if s := &t.Sessions[k]; t.HiddenPrefix {
				if len(s.Tools) == 0 {
					s.Tools = tools
				}
				if !d.hasSystem(t, s) {
					s.Front = front
				}
			}
		}
	}
}

// hasSystem reports whether the first prompt of a session begins with a system message.
func (d *Dataset) hasSystem(t *Trace, s *Session) bool {
	for k := range s.Turns {
		if last := s.Turns[k].Last; last != None {
			return d.Messages[t.Nodes[t.Path(nil, last)[0]].Message].Role == System
		}
	}
	return false
}

// Recorded returns the recorded length of a prompt as it is sent, None where none is known: without the tokens that the log lacks and for
// which nothing stands.
func (s *Session) Recorded(turn *Turn) int32 {
	if turn.In == None {
		return None
	}
	if in := turn.In - max(s.Lacks, 0) + max(s.Filler, 0); in > 0 {
		return in
	}
	return None
}
