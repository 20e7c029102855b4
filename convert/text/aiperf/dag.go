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

// Members of sessions and turns of dag_jsonl.
var (
	dagMembers = []string{"session_id", "turns", "context_mode", "pre_session_spawns"}
	dagTurn    = []string{"messages", "model", "max_tokens", "tools", "extra", "forks", "spawns", "delay"}
)

// dagRow reads a row that is a session of a tree.
func (r *Reader) dagRow(row object, at text.Place) error {
	for _, name := range [...]string{"orchestrator", "rounds", "spawns"} {
		if row.of[name] != nil {
			return fmt.Errorf("%s: a session that sends no request and starts others, which agentx does not play: leave it out, and its children are sessions of their own", name)
		}
	}
	if err := row.only(dagMembers); err != nil {
		return err
	}
	id := row.of["session_id"]
	if !id.IsString() {
		return errors.New("session_id is missing: want a text")
	} else if r.byID[id.String()] != nil {
		return errors.New("session_id: another session has it already")
	}
	list, err := row.list("turns", "turns")
	if err != nil {
		return err
	}
	s, err := r.session(id, at)
	if err != nil {
		return err
	}
	switch mode := row.of["context_mode"].String(); mode {
	case "", "deltas_without_responses":
	case "message_array_with_responses":
		s.whole = true
	default:
		return errors.New("context_mode: want deltas_without_responses or message_array_with_responses")
	}
	if err := s.addEdges(row.of["pre_session_spawns"], edge{join: text.None, before: true}); err != nil {
		return fmt.Errorf("pre_session_spawns: %w", err)
	}
	for k, v := range list {
		o, err := read(v)
		if err == nil {
			err = r.dagTurn(s, o, int32(k), int32(len(list)))
		}
		if err != nil {
			return fmt.Errorf("turn %d: %w", k, err)
		}
	}
	return nil
}

// dagTurn reads turn k of so many.
func (r *Reader) dagTurn(s *session, o object, k, turns int32) error {
	if err := o.only(dagTurn); err != nil {
		return err
	}
	list, err := o.list("messages", "messages")
	if err != nil {
		return err
	}
	var q request
	if err := r.fill(&q, o); err != nil {
		return err
	}
	if n, err := o.count("max_tokens"); err != nil {
		return err
	} else if q.out == text.None {
		q.out = n
	}
	if o.of["model"] != nil {
		q.model = r.Text(o.of["model"])
	}
	if q.messages, err = r.messages(list); err != nil {
		return err
	}
	tools, err := r.Tools(o.of["tools"])
	if err != nil {
		return err
	}
	if q.tools = slices.Concat(tools, q.tools); len(q.tools) == 0 && k > 0 && !s.whole {
		q.tools = s.requests[k-1].tools // the latest that the conversation has
	}
	s.requests = append(s.requests, q)
	if err := s.addEdges(o.of["forks"], edge{turn: k, join: text.None, fork: true}); err != nil {
		return fmt.Errorf("forks: %w", err)
	}
	join := int32(text.None)
	if k+1 < turns {
		join = k + 1
	}
	if err := s.addEdges(o.of["spawns"], edge{turn: k, join: join}); err != nil {
		return fmt.Errorf("spawns: %w", err)
	}
	return nil
}

// addEdges adds the sessions that a list names: by their ids, or as objects {"child", "background"} or {"children", "join_at"}.
func (s *session) addEdges(v content.Raw, e edge) error {
	if v != nil && !v.IsArray() {
		return errors.New("want a list of session ids")
	}
	return v.Array(func(v content.Raw) error {
		e, children := e, []content.Raw{v}
		if o, err := read(v); err == nil {
			if children = []content.Raw{o.of["child"]}; !e.fork {
				if children, err = o.list("children", "session ids"); err != nil {
					return err
				}
			}
			if join := o.of["join_at"]; join != nil {
				n, ok := join.Int()
				if !ok || n <= int64(e.turn) {
					return errors.New("join_at: want a turn behind this one")
				}
				e.join = int32(min(n, maxTokens))
			}
		}
		for _, id := range children {
			if e.child = id.String(); e.child == "" {
				return errors.New("want a list of session ids")
			}
			s.edges = append(s.edges, e)
		}
		return nil
	})
}

// link checks the sessions that others start, which are no trees of their own.
func (r *Reader) link() error {
	for _, s := range r.sessions {
		for _, e := range s.edges {
			c := r.byID[e.child]
			switch {
			case c == nil:
				return fmt.Errorf("session %d of the input: a session that it starts is not there", r.place(s))
			case len(c.edges) > 0:
				return fmt.Errorf("session %d of the input: a session that it starts, the %dth, starts others: agentx plays trees of two levels", r.place(s), r.place(c))
			case e.join != text.None && int(e.join) >= len(s.requests):
				return fmt.Errorf("session %d of the input: join_at %d: it has %d turns, from 0", r.place(s), e.join, len(s.requests))
			case e.fork && c.whole:
				return fmt.Errorf("session %d of the input: context_mode: a session that begins with what its parent has said cannot have whole prompts", r.place(c))
			}
			c.child = true
		}
	}
	return nil
}

// place returns which session of the input one is, from 1.
func (r *Reader) place(s *session) int { return slices.Index(r.sessions, s) + 1 }

// addChild adds a session that a turn of the root starts.
func (r *Reader) addChild(t *text.Trace, parent *session, e edge) error {
	c, spawn := r.byID[e.child], &t.Sessions[0].Turns[e.turn]
	start := spawn.End
	if e.before {
		start = spawn.At
	}
	kind := text.Subagent
	if e.fork {
		kind, t.Live = text.Branch, true
	}
	t.Sessions = append(t.Sessions, text.Session{ID: c.id, Kind: kind, SpawnTurn: e.turn, JoinTurn: e.join, Lacks: text.None, Filler: text.None})
	if parent.whole && t.Live && len(parent.requests) > 1 {
		return errors.New("forks of a session whose requests have whole prompts: give it no context_mode")
	}
	for n := 0; e.fork && n < len(c.requests) && len(c.requests[n].tools) == 0; n++ {
		c.requests[n].tools = parent.requests[e.turn].tools // the latest that the conversation has
	}
	return r.build(t, len(t.Sessions)-1, c, start)
}
