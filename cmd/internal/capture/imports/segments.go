package imports

import (
	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/content"
)

// stream makes canonical segments of the tools and messages of a dataset: those that canon.Parse makes of a body that has them.
type stream struct {
	data  *text.Dataset
	sizes *text.Sizes
	err   error // of the store
}

// roles has the token of each role but the one that has a name of its own.
var roles = [...]uint32{text.System: canon.RoleSystem, text.Developer: canon.RoleDeveloper, text.User: canon.RoleUser, text.Assistant: canon.RoleAssistant,
	text.Tool: canon.RoleTool, text.OtherRole: canon.RoleOther}

func token(t uint32) canon.Part { return canon.Part{Kind: canon.Structure, Token: t} }

// text appends the tokens of a text. An empty one has none.
func (s *stream) text(parts []canon.Part, t text.Text) []canon.Part {
	if ids := s.sizes.IDs(t); len(ids) > 0 {
		parts = append(parts, canon.Part{Kind: canon.TokenIDs, IDs: ids})
	}
	return parts
}

// bytes returns the bytes of a text.
func (s *stream) bytes(t text.Text) []byte {
	b, err := s.data.Store.Append(nil, t)
	if err != nil && s.err == nil {
		s.err = err
	}
	return b
}

// head appends what stands in front of all prompts of a session: its tools, messages of the system, and the filler.
func (s *stream) head(list []canon.Segment, session *text.Session) []canon.Segment {
	for _, t := range session.Tools {
		list = append(list, canon.Segment{Parts: append(s.text([]canon.Part{token(canon.Tool)}, t), token(canon.End))})
	}
	for _, m := range session.Front {
		list = s.message(list, &s.data.Messages[m])
	}
	if n := fillerOf(session); n > 0 {
		list = append(list, canon.Segment{Role: canon.RoleSystem, Kinds: journal.Text, Parts: []canon.Part{
			token(canon.RoleSystem), token(canon.Other), {Kind: canon.MediaTokens, Data: []byte("filler"), Count: n - fillerStructure}, token(canon.End),
		}})
	}
	return list
}

// fillerStructure is how many tokens of a filler are its role, its kind and its end.
const fillerStructure = 3

// fillerOf returns how many tokens stand in front of the prompts of a session, 0 for none.
func fillerOf(s *text.Session) int {
	if s.Filler <= fillerStructure {
		return 0
	}
	return int(s.Filler)
}

// message appends the segments of a message: one for each part, the role in front of the first; one of the role where there is no part.
func (s *stream) message(list []canon.Segment, m *text.Message) []canon.Segment {
	role := roles[m.Role]
	var before []canon.Part
	if !m.Continues {
		before = append(before, token(role))
		if m.Role == text.OtherRole {
			before = append(s.text(before, m.Name), token(canon.Sep))
		}
		if len(m.Parts) == 0 {
			return append(list, canon.Segment{Role: role, Parts: before})
		}
	}
	for k := range m.Parts {
		p := &m.Parts[k]
		list = append(list, canon.Segment{Role: role, Kinds: s.kinds(p), Parts: s.part(before, p)})
		before = nil
	}
	return list
}

// part appends a part of a message. What a result has stands inside of it, texts bare.
func (s *stream) part(to []canon.Part, p *text.Part) []canon.Part {
	switch p.Kind {
	case text.Plain:
		to = s.text(append(to, token(canon.Text)), p.Text)
	case text.Thinking:
		to = s.text(append(to, token(canon.Thinking)), p.Text)
	case text.Other:
		to = s.text(append(to, token(canon.Other)), p.Text)
	case text.Redacted:
		to = s.media(append(to, token(canon.Thinking)), p)
	case text.Image:
		to = s.media(append(to, token(canon.Image)), p)
	case text.Document:
		to = s.media(append(to, token(canon.Document)), p)
	case text.Audio:
		to = s.media(append(to, token(canon.Audio)), p)
	case text.Call:
		to = append(s.text(append(to, token(canon.ToolCall)), p.Name), token(canon.Sep))
		to = s.text(to, p.Text)
	case text.Result:
		to = append(to, token(canon.ToolResult))
		for k := range p.Parts {
			if inner := &p.Parts[k]; inner.Kind == text.Plain {
				to = s.text(to, inner.Text)
			} else {
				to = s.part(to, inner)
			}
		}
		if p.Failed {
			to = append(to, token(canon.Sep))
		}
	}
	return append(to, token(canon.End))
}

// media appends the tokens that stand for media.
func (s *stream) media(to []canon.Part, p *text.Part) []canon.Part {
	if p.Tokens == 0 {
		return to
	}
	return append(to, canon.Part{Kind: canon.MediaTokens, Data: s.bytes(p.Text), Count: int(p.Tokens)})
}

// kinds returns the kind of content that a part is.
func (s *stream) kinds(p *text.Part) journal.Kinds {
	switch p.Kind {
	case text.Thinking, text.Redacted:
		return journal.Thinking
	case text.Call:
		return journal.ToolUse
	case text.Result:
		return journal.ToolResult
	case text.Other:
		return s.otherKinds(p.Text)
	}
	return journal.Text
}

// otherKinds returns the kind of content that a block is by the name of its type.
func (s *stream) otherKinds(t text.Text) journal.Kinds {
	kind := ""
	_ = content.Raw(s.bytes(t)).Object(func(key []byte, v content.Raw) error { // it was read before
		if string(key) == "type" {
			kind = v.String()
		}
		return nil
	})
	return canon.KindsOf(kind)
}

// outputKinds returns the kinds of content of an answer, and how many tools it calls.
func (s *stream) outputKinds(messages []int32) (kinds journal.Kinds, calls int) {
	for _, m := range messages {
		parts := s.data.Messages[m].Parts
		for k := range parts {
			kind := s.kinds(&parts[k])
			kinds |= kind
			if kind == journal.ToolUse {
				calls++
			}
		}
	}
	return kinds, calls
}

// mediaTokens returns how many tokens of a prompt stand for media.
func mediaTokens(parts []text.Part) (n int) {
	for k := range parts {
		switch p := &parts[k]; p.Kind {
		case text.Image, text.Document, text.Audio, text.Redacted:
			n += int(p.Tokens)
		case text.Result:
			n += mediaTokens(p.Parts)
		}
	}
	return n
}
