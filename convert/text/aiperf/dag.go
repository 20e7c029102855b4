package aiperf

import (
	"errors"
	"fmt"
	"slices"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/content"
)

// edge says that a turn starts another session.
type edge struct {
	child      string
	turn, join int32 // join: the turn that waits for it; text.None
	fork       bool  // it begins with what its parent has said and heard
	before     bool  // it begins with the turn, else behind it
}

func isDAG(row object) bool {
	turn := row.first("turns")
	return turn.of["messages"].IsArray() || turn.of["forks"] != nil || turn.of["spawns"] != nil
}

// begin reads what a session of a tree says besides its turns.
func (s *session) begin(row object) error {
	switch row.of["context_mode"].String() {
	case "", "deltas_without_responses":
	case "message_array_with_responses":
		s.whole = true
	default:
		return errors.New("context_mode: want deltas_without_responses or message_array_with_responses")
	}
	return s.start(row, "pre_session_spawns", edge{join: text.None, before: true})
}

// turn reads what the latest turn of a tree starts.
func (s *session) turn(o object) error {
	k := int32(len(s.requests) - 1)
	if q := s.requests; k > 0 && !s.whole && len(q[k].tools) == 0 {
		q[k].tools = q[k-1].tools // the latest that the conversation has
	}
	if err := s.start(o, "forks", edge{turn: k, join: text.None, fork: true}); err != nil {
		return err
	}
	return s.start(o, "spawns", edge{turn: k, join: k + 1})
}

// start reads a list of sessions that a turn starts: their ids, or objects {"child", "background"} or {"children", "join_at"}.
func (s *session) start(o object, list string, e edge) error {
	v := o.of[list]
	if v != nil && !v.IsArray() {
		return fmt.Errorf("%s: want a list of session ids", list)
	}
	return v.Array(func(v content.Raw) error {
		e, children := e, []content.Raw{v}
		if o, err := read(v); err == nil {
			if children = []content.Raw{o.of["child"]}; !e.fork {
				if children, err = o.list("children", "session ids"); err != nil {
					return fmt.Errorf("%s: %w", list, err)
				}
			}
			if join := o.of["join_at"]; join != nil {
				n, ok := join.Int()
				if e.join = int32(min(n, maxTokens)); !ok || n <= int64(e.turn) {
					return fmt.Errorf("%s: join_at: want a turn behind this one", list)
				}
			}
		}
		for _, id := range children {
			if e.child = id.String(); e.child == "" {
				return fmt.Errorf("%s: want a list of session ids", list)
			}
			s.edges = append(s.edges, e)
		}
		return nil
	})
}

// link checks the sessions that others start, which are no trees of their own.
func (r *Reader) link() error {
	for n, s := range r.sessions {
		for k := range s.edges {
			e := &s.edges[k]
			c := r.byID[e.child]
			switch {
			case c == nil:
				return fmt.Errorf("session %d of the input: a session that it starts is not there", n+1)
			case len(c.edges) > 0:
				return fmt.Errorf("session %d of the input: a session that it starts starts others: agentx plays trees of two levels", n+1)
			case e.fork && c.whole:
				return fmt.Errorf("session %d of the input: context_mode: a session that begins with what another has said cannot have whole prompts", slices.Index(r.sessions, c)+1)
			case int(e.join) == len(s.requests) && e.join == e.turn+1: // behind the last turn nothing waits
				e.join = text.None
			case int(e.join) >= len(s.requests):
				return fmt.Errorf("session %d of the input: join_at %d: it has %d turns, from 0", n+1, e.join, len(s.requests))
			}
			c.child = true
		}
	}
	return nil
}

// addChild adds a session that a turn of the root starts.
func (r *Reader) addChild(t *text.Trace, parent *session, e edge) error {
	c, spawn := r.byID[e.child], &t.Sessions[0].Turns[e.turn]
	start, kind := spawn.End, text.Subagent
	if e.before {
		start = spawn.At
	}
	if e.fork {
		kind, t.Live = text.Branch, true
	}
	t.Sessions = append(t.Sessions, text.Session{ID: c.id, Kind: kind, SpawnTurn: e.turn, JoinTurn: e.join, Lacks: text.None, Filler: text.None})
	if parent.whole && t.Live && len(parent.requests) > 1 {
		return errors.New("forks of a session whose requests have whole prompts: give it no context_mode")
	}
	for n := 0; e.fork && n < len(c.requests) && len(c.requests[n].tools) == 0; n++ {
		c.requests[n].tools = parent.requests[e.turn].tools
	}
	return r.build(t, len(t.Sessions)-1, c, start)
}
