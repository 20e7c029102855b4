package codex

import (
	"cmp"
	"slices"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/content"
)

// End makes sessions of the threads.
func (r *Reader) End() error {
	for _, t := range r.threads {
		if t.name == "" {
			r.register(t)
		}
	}
	made := map[string]*history{}
	var list []*history
	for _, t := range r.threads {
		if t.dropped {
			continue
		}
		if h := r.history(t); h != nil {
			made[t.name] = h
			list = append(list, h)
		}
	}
	slices.SortStableFunc(list, func(a, b *history) int {
		return cmp.Or(cmp.Compare(a.turns[0].At, b.turns[0].At), cmp.Compare(a.thread.name, b.thread.name))
	})
	for _, h := range list {
		if h.parent = made[h.thread.parent]; h.parent == nil && h.thread.parent != "" {
			r.Data.Warn("parent_missing")
		}
	}
	moved := map[*text.Trace]bool{}
	for _, h := range list {
		if root := h.top(); root != h {
			h.move(root.trace)
			moved[h.trace] = true
		}
	}
	for _, h := range list {
		if h.session > 0 {
			h.link(&h.top().trace.Sessions[h.session])
		}
	}
	r.Data.Traces = slices.DeleteFunc(r.Data.Traces, func(t *text.Trace) bool { return moved[t] })
	return r.Err()
}

// history plays a thread. It is nil for one without a reply, or without the thread whose items its prompts begin with.
func (r *Reader) history(t *thread) *history {
	h := &history{Reader: r, thread: t, reply: text.None, total: tokens{-2}}
	base, ok := r.baseOf(t)
	if !ok {
		r.Data.Warn("parent_missing")
		return nil
	}
	h.trace = r.Data.NewTrace(t.name)
	h.trace.HiddenPrefix, h.trace.OwnIDs = true, true
	if t.system != text.None {
		h.push(event{at: text.NoTime, value: t.system})
		h.base = 1
	}
	h.copying = true
	h.play(base)
	events, head := t.events, t.head
	if head == text.None {
		head = len(events)
	}
	if t.parent != "" && t.base == "" && (t.foreign || slices.ContainsFunc(events[:head], made)) {
		h.play(events[:head])
		events = events[head:]
	}
	h.copying = false
	h.play(events)
	for k := range h.turns {
		turn := &h.turns[k]
		if turn.Counted = text.Whole; turn.In == text.None && turn.Out == text.None {
			r.Data.Warn("no_usage")
		}
	}
	h.trace.Sessions[0].Turns, h.list = h.turns, nil
	if len(h.turns) == 0 {
		r.Data.Warn("no_turn")
		return nil
	}
	return h
}

// made reports whether an event is an item of a model or of a tool.
func made(e event) bool {
	kind := content.ItemKind(e.flags & kindMask)
	return e.kind == anItem && (kind == content.OutputItem || kind == content.ResultItem)
}

// maxBases is how many threads may stand behind each other's beginnings.
const maxBases = 100

// baseOf returns the events with which the prompts of a thread begin. It is false where a thread is not there.
func (r *Reader) baseOf(t *thread) (events []event, ok bool) {
	for range maxBases {
		if t.base == "" {
			return events, true
		}
		base := r.names[t.base]
		if base == nil {
			return nil, false
		}
		var before []event
		for _, e := range base.events {
			if e.ordinal < t.baseEnd {
				before = append(before, e)
			}
		}
		events = append(before, events...)
		t = base
	}
	return nil, false
}

// top returns the root of a history. A circle ends where it is met.
func (h *history) top() *history {
	switch {
	case h.root != nil:
	case h.parent == nil:
		h.root = h
	case h.met:
		h.Data.Warn("cycle")
		h.root, h.parent = h, nil
	default:
		h.met = true
		if root := h.parent.top(); h.root == nil {
			h.root = root
		}
	}
	return h.root
}

// move makes a history a session of another trace.
func (h *history) move(to *text.Trace) {
	s := h.trace.Sessions[0]
	s.Kind = h.thread.kind
	places := make([]int32, len(h.trace.Nodes))
	for k, n := range h.trace.Nodes {
		if n.Parent != text.None {
			n.Parent = places[n.Parent]
		}
		places[k] = to.Child(n.Parent, n.Message)
	}
	for k := range s.Turns {
		if last := &s.Turns[k].Last; *last != text.None {
			*last = places[*last]
		}
	}
	h.session = int32(len(to.Sessions))
	to.Sessions = append(to.Sessions, s)
}

// link sets the parent of a session, which of its turns starts it, and which waits for it.
func (h *history) link(s *text.Session) {
	s.Parent = h.parent.session
	end := int64(text.NoTime)
	for k := range h.turns {
		end = max(end, h.turns[k].End)
	}
	for k := range h.parent.turns {
		switch turn := &h.parent.turns[k]; {
		case h.parent.spawned[k] && turn.End <= h.turns[0].At:
			s.SpawnTurn = int32(k)
		case turn.LastResult != text.NoTime && turn.At >= end && s.JoinTurn == text.None:
			s.JoinTurn = int32(k)
		}
	}
}
