package otel

import (
	"cmp"
	"errors"
	"slices"

	"github.com/agentx/agentx/convert/text"
)

// End makes sessions of the requests.
func (r *Reader) End() error {
	turns := r.turns()
	if r.Data.NeedText {
		all := len(turns)
		turns = slices.DeleteFunc(turns, func(k int32) bool { return r.requests[r.spans[k].request].turn.NoContent })
		if all > 0 && len(turns) == 0 {
			return errNoContent
		}
	}
	for _, g := range r.groups(turns) {
		r.trace(g)
	}
	return r.Err()
}

var errNoContent = errors.New("no request of the spans has its messages: set OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT in the programs that write them")

// turns counts what the spans were, and returns those that are turns.
func (r *Reader) turns() (list []int32) {
	for k := range r.spans {
		s := &r.spans[k]
		if s.operation >= invokeAgent {
			r.Data.Warn("ignored:" + operations[s.operation])
			continue
		}
		q := &r.requests[s.request]
		switch {
		case q.failed:
			r.Data.Warn("failed_span")
			continue
		case q.empty:
			r.Data.Warn("empty_prompt")
			continue
		}
		for _, of := range [...]struct {
			is   bool
			name string
		}{
			{q.turn.NoContent, "no_content"}, {q.choices, "choices"}, {q.turn.At == text.NoTime, "no_timestamp"},
			{q.turn.In == text.None && q.turn.Out == text.None, "no_usage"},
		} {
			if of.is {
				r.Data.Warn(of.name)
			}
		}
		list = append(list, int32(k))
	}
	slices.SortStableFunc(list, func(a, b int32) int {
		s, t := &r.requests[r.spans[a].request].turn, &r.requests[r.spans[b].request].turn
		return cmp.Or(cmp.Compare(s.At, t.At), cmp.Compare(s.End, t.End))
	})
	return list
}

// maxAround is how far above a span its agents are looked for.
const maxAround = 256

// around returns the agents above a span, the innermost first.
func (r *Reader) around(k int32) (agents []int32) {
	s := &r.spans[k]
	for range maxAround {
		n, known := r.numbers[s.parent]
		if !known {
			return agents
		}
		if s = &r.spans[n]; s.operation == invokeAgent {
			agents = append(agents, n)
		}
	}
	r.Data.Warn("cycle")
	return agents
}

// agentAmong returns the innermost of the agents around a span that is not the outermost. None is the main one.
func agentAmong(agents []int32) int32 {
	if len(agents) > 1 {
		return agents[0]
	}
	return text.None
}

// session returns the word of the session of a span, by the agents around it.
func (r *Reader) session(k int32, agents []int32) int32 {
	s := &r.spans[k]
	if s.own != 0 {
		return s.own
	}
	for _, n := range agents {
		if own := r.spans[n].own; own != 0 {
			return own
		}
	}
	return s.otherwise
}

// group is a root session with its subagents.
type group struct {
	word   int32
	agents []agent
}

// agent is a session of a group.
type agent struct {
	span  int32   // of the agent; None: the main one
	turns []int32 // spans
}

// groups puts turns, which are in the order of time, into sessions.
func (r *Reader) groups(turns []int32) (list []*group) {
	known := map[int32]*group{}
	places := map[[2]int32]int{} // in group.agents, by the words of the group and the span of the agent
	for _, k := range turns {
		agents := r.around(k)
		word, span := r.session(k, agents), agentAmong(agents)
		g := known[word]
		if g == nil {
			g = &group{word: word}
			known[word] = g
			list = append(list, g)
		}
		at, there := places[[2]int32{word, span}]
		if !there {
			at = len(g.agents)
			places[[2]int32{word, span}] = at
			g.agents = append(g.agents, agent{span: span})
		}
		g.agents[at].turns = append(g.agents[at].turns, k)
	}
	return list
}

// trace makes a trace of a group. Its root is the main agent, or the first one where the main one has no turn.
func (r *Reader) trace(g *group) {
	if k := slices.IndexFunc(g.agents, func(a agent) bool { return a.span == text.None }); k >= 0 {
		main := g.agents[k]
		g.agents = slices.Insert(slices.Delete(g.agents, k, k+1), 0, main)
	} else {
		r.Data.Warn("parent_missing")
	}
	t := r.Data.NewTrace(r.words.Name(g.word))
	places := map[int32]int32{}
	for k, a := range g.agents {
		places[a.span] = int32(k)
		if k > 0 {
			t.Subagent(r.words.Name(r.spans[a.span].id))
		}
	}
	for k, a := range g.agents {
		s := &t.Sessions[k]
		r.fill(t, s, a.turns)
		r.follow(t, s)
	}
	for k, a := range g.agents[1:] {
		s := &t.Sessions[k+1]
		outer := r.around(a.span)
		for _, n := range outer[:len(outer)-1] {
			if place, known := places[n]; known {
				s.Parent = place
				break
			}
		}
		link(&t.Sessions[s.Parent], s)
	}
}

// fill appends turns to a session.
func (r *Reader) fill(t *text.Trace, s *text.Session, turns []int32) {
	tools := int32(0)
	var path []int32
	for _, k := range turns {
		q := &r.requests[r.spans[k].request]
		path = r.tree.Path(path[:0], q.turn.Last)
		q.turn.Last = text.None
		for _, n := range path {
			q.turn.Last = t.Child(q.turn.Last, r.tree.Nodes[n].Message)
		}
		s.Turns = append(s.Turns, q.turn)
		if q.tools == 0 || q.tools == tools {
			continue
		}
		if tools == 0 {
			s.Tools = r.tools[q.tools]
		} else if !slices.Equal(r.tools[tools], r.tools[q.tools]) {
			r.Data.Warn("tools_changed")
		}
		tools = q.tools
	}
}

// follow sets which reply each prompt of a session continues, and whether results alone are new in it.
func (r *Reader) follow(t *text.Trace, s *text.Session) {
	replies := map[text.Node]int32{} // turns, by the end of their prompt and their answer, or None
	for k := range s.Turns {
		turn := &s.Turns[k]
		if turn.NoContent {
			continue
		}
		results := 0 // messages behind the reply, all of them results; None: there is another
		for n := turn.Last; n != text.None && turn.Before == text.None; n = t.Nodes[n].Parent {
			message, parent := t.Nodes[n].Message, t.Nodes[n].Parent
			switch m := &r.Data.Messages[message]; {
			case m.Role == text.Assistant:
				before, known := replies[text.Node{Parent: parent, Message: message}]
				if !known {
					before, known = replies[text.Node{Parent: parent, Message: text.None}]
				}
				if known {
					turn.Before = before
				}
			case results >= 0 && m.Role == text.Tool:
				results++
			default:
				results = text.None
			}
		}
		if turn.Before != text.None && results > 0 {
			turn.LastResult = turn.At
		}
		replies[text.Node{Parent: turn.Last, Message: text.None}] = int32(k)
		if len(turn.Output) > 0 {
			replies[text.Node{Parent: turn.Last, Message: turn.Output[0]}] = int32(k)
		}
	}
}

// link sets which turn of the parent starts a subagent, and which waits for it: the last that ended before it, and the first that begins
// behind it.
func link(parent, s *text.Session) {
	begin, end := s.Turns[0].At, int64(text.NoTime)
	for k := range s.Turns {
		end = max(end, s.Turns[k].End)
	}
	if begin == text.NoTime {
		return
	}
	for k := range parent.Turns {
		switch turn := &parent.Turns[k]; {
		case turn.At == text.NoTime:
		case turn.End <= begin:
			s.SpawnTurn = int32(k)
		case turn.At >= end && s.JoinTurn == text.None:
			s.JoinTurn = int32(k)
		}
	}
}
