package render

import (
	"fmt"
	"math"
	"slices"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/timeline"
)

// planner makes the plan of one trace.
type planner struct {
	*Renderer
	trace    *text.Trace
	plan     *mmapcache.Plan
	calls    calls
	nodes    []node // of the trace
	segments map[segmentKey]int32
	totals   []uint32 // tokens from the first segment to each
	open     []int32
}

// node is what becomes of a node of a trace.
type node struct {
	written bool
	apart   bool // it and all before it are system messages: the system prompt
	role    mmapcache.Role
	number  uint32 // of its message
	start   int32  // the segment that the last prompts with it began with, plus 2; 0: it is in none yet
	segment int32  // its segment there
}

// Plan writes the messages of a trace that prompts have, and returns its plan. The name of the trace is of this dataset, not of the log.
func (r *Renderer) Plan(t *text.Trace, name string) (*mmapcache.Plan, error) {
	p := &planner{Renderer: r, trace: t, plan: &mmapcache.Plan{Trace: mmapcache.Trace{ID: name, Scope: mmapcache.ScopeText, BlockSize: 1}},
		calls: calls{numbers: map[text.Text]int{}, waiting: map[int32][]int{}}, nodes: make([]node, len(t.Nodes)), segments: map[segmentKey]int32{}}
	for k := range t.Sessions {
		p.session(k)
	}
	p.countTokens()
	p.countHits()
	if r.err == nil {
		r.err = r.sizes.Err()
	}
	return p.plan, r.err
}

// session plans a session.
func (p *planner) session(k int) {
	s := &p.trace.Sessions[k]
	e := mmapcache.Session{ID: p.plan.Trace.ID, Parent: mmapcache.None, SpawnTurn: mmapcache.None, JoinTurn: mmapcache.None,
		FirstTurn: uint32(len(p.plan.Turns)), Turns: uint32(len(s.Turns)), Start: math.NaN(), End: math.NaN()}
	if k > 0 {
		e.Agent = fmt.Sprintf("agent_%03d", k)
		e.ID += "::" + e.Agent
		e.Kind = mmapcache.Subagent
		if s.Kind == text.Branch {
			e.Kind = mmapcache.Flat
		}
	}
	start := p.start(s)
	for n := range s.Turns {
		p.turn(k, n, start)
	}
	if k > 0 {
		p.place(&e, s)
	}
	p.plan.Sessions = append(p.plan.Sessions, e)
}

// place says when a session begins, and which turn of the root waits for it. That of a subagent of a subagent is a child of the root.
func (p *planner) place(e *mmapcache.Session, s *text.Session) {
	root := &p.trace.Sessions[0]
	turns := p.plan.Turns[e.FirstTurn:]
	end := math.Inf(-1)
	for _, u := range turns {
		end = max(end, u.T+timeline.Duration(u.APITime)/1000)
	}
	e.Parent, e.SpawnTurn, e.JoinTurn = 0, s.SpawnTurn, s.JoinTurn
	if s.Parent != 0 {
		e.SpawnTurn, e.JoinTurn = text.None, text.None
	}
	if len(turns) > 0 {
		e.Start, e.End = turns[0].T, end
	}
	if e.SpawnTurn == text.None { // the last turn of the root that had begun
		e.SpawnTurn = 0
		for n := range root.Turns {
			if p.plan.Turns[n].T <= e.Start {
				e.SpawnTurn = int32(n)
			}
		}
	}
	if e.JoinTurn != text.None && e.JoinTurn <= e.SpawnTurn {
		e.JoinTurn = text.None
	}
	e.Clock = "log/start"
	e.Outer = uint32(len(root.Turns))
	if at := p.plan.Turns[e.SpawnTurn]; len(turns) > 0 {
		e.Outer = at.Outer
		e.SpawnFrom, e.SpawnOffset = timeline.SpawnOffset(at.T, at.APITime, e.Start)
	}
}

// turn plans turn n of session k, whose prompts begin with the segment start.
func (p *planner) turn(k, n int, start int32) {
	s := &p.trace.Sessions[k]
	turn := &s.Turns[n]
	u := mmapcache.Turn{APITime: math.NaN(), ThinkTime: math.NaN(), Out: max(0, turn.Out), Last: start, Outer: uint32(len(p.plan.Turns)), Inner: mmapcache.None}
	if k > 0 {
		u.Inner = int32(len(p.plan.Turns))
	}
	if turn.At != text.NoTime {
		u.T = float64(turn.At-p.trace.Start) / 1000
	}
	if turn.At != text.NoTime && turn.End != text.NoTime {
		u.APITime = float64(turn.End-turn.At) / 1000
	}
	if turn.Gap != text.None {
		u.ThinkTime = float64(turn.Gap) / 1000
	}
	u.Model = p.data.Store.String(turn.Model)
	u.In = uint32(max(0, s.Recorded(turn)))
	if u.Last = p.path(turn.Last, start); turn.Last != text.None {
		u.Input = mmapcache.UserInput
		if p.nodes[turn.Last].role == mmapcache.ToolRole {
			u.Input = mmapcache.ToolResult
		}
	}
	p.plan.Turns = append(p.plan.Turns, u)
}

// start returns the last segment in front of all prompts of a session: tools, system messages, filler; None if it has none.
func (p *planner) start(s *text.Session) int32 {
	last := int32(mmapcache.None)
	if len(s.Tools) > 0 {
		chat, anthropic := p.tools(s.Tools)
		last = p.segment(last, mmapcache.Segment{Role: mmapcache.Tools, Flags: mmapcache.Recorded, First: p.number(mmapcache.Tools, chat, anthropic)})
	}
	for _, m := range s.Front {
		number := p.message(&p.calls, text.None, text.None, &p.data.Messages[m], true)
		last = p.segment(last, mmapcache.Segment{Role: roleOf(&p.data.Messages[m]), Flags: mmapcache.Recorded, First: number})
	}
	if s.Filler > 0 {
		last = p.segment(last, mmapcache.Segment{Role: mmapcache.System, Flags: mmapcache.Prefix, First: p.filler, Count: uint32(s.Filler)})
	}
	return last
}

// path returns the segment of a node in prompts that begin with the segment start. It writes messages that are not written yet.
func (p *planner) path(last, start int32) int32 {
	p.open = p.open[:0]
	for ; last != text.None && p.nodes[last].start != start+2; last = p.trace.Nodes[last].Parent {
		p.open = append(p.open, last)
	}
	segment, apart := start, true
	if last != text.None {
		segment, apart = p.nodes[last].segment, p.nodes[last].apart
	}
	for _, k := range slices.Backward(p.open) {
		n, at := &p.nodes[k], p.trace.Nodes[k]
		if !n.written {
			m := &p.data.Messages[at.Message]
			n.written, n.apart, n.role = true, apart && m.Role == text.System, roleOf(m)
			n.number = p.message(&p.calls, k, at.Parent, m, n.apart)
		}
		segment, apart = p.segment(segment, mmapcache.Segment{Role: n.role, Flags: mmapcache.Recorded, First: n.number}), n.apart
		n.start, n.segment = start+2, segment
	}
	return segment
}

// segment returns a segment behind another. Prompts that begin alike share it.
func (p *planner) segment(parent int32, s mmapcache.Segment) int32 {
	s.Parent = parent
	key := keyOf(parent, &s)
	n, ok := p.segments[key]
	if !ok {
		n = int32(len(p.plan.Segments))
		p.plan.Segments = append(p.plan.Segments, s)
		p.segments[key] = n
	}
	return n
}

// countTokens sets how many tokens each recorded message has: so many for each byte as the recorded lengths of prompts say, where all are
// recorded, else by the tokenizer. The second sets In of turns without one.
func (p *planner) countTokens() {
	plan := p.plan
	sizes := make([]int64, len(plan.Segments)) // bytes of recorded messages from the first to this
	fixed := make([]int64, len(plan.Segments)) // tokens of fillers
	for k := range plan.Segments {
		s := &plan.Segments[k]
		if s.Parent != mmapcache.None {
			sizes[k], fixed[k] = sizes[s.Parent], fixed[s.Parent]
		}
		if s.Flags&mmapcache.Recorded != 0 {
			sizes[k] += int64(p.bytes[s.First])
		} else {
			fixed[k] += int64(s.Count)
		}
	}
	recorded, tokens, bytes := true, int64(0), int64(0)
	for _, u := range plan.Turns {
		if recorded = recorded && u.In > 0; u.Last != mmapcache.None {
			tokens, bytes = tokens+max(0, int64(u.In)-fixed[u.Last]), bytes+sizes[u.Last]
		}
	}
	perByte := float64(tokens) / float64(max(1, bytes))
	counted := p.counted(recorded)
	p.totals = make([]uint32, len(plan.Segments))
	for k := range plan.Segments {
		s := &plan.Segments[k]
		switch {
		case s.Flags&mmapcache.Recorded == 0:
		case recorded:
			s.Count = uint32(math.Round(perByte * float64(p.bytes[s.First])))
		default:
			s.Count = counted[int32(k)]
		}
		if p.totals[k] = s.Count; s.Parent != mmapcache.None {
			p.totals[k] += p.totals[s.Parent]
		}
	}
	for k := range plan.Turns {
		u := &plan.Turns[k]
		if u.Last != mmapcache.None {
			u.HashIDs = p.totals[u.Last]
		}
		if u.In == 0 {
			u.In = u.HashIDs
		}
	}
}

// counted returns the tokens of each segment by the tokenizer; none where the recorded lengths say them.
func (p *planner) counted(recorded bool) map[int32]uint32 {
	if recorded {
		return nil
	}
	counts := map[int32]uint32{}
	for k := range p.trace.Sessions {
		s := &p.trace.Sessions[k]
		at := p.start(s)
		if s.Filler > 0 {
			at = p.plan.Segments[at].Parent
		}
		for _, m := range slices.Backward(s.Front) {
			counts[at] = uint32(p.sizes.Message(m))
			at = p.plan.Segments[at].Parent
		}
		if len(s.Tools) > 0 {
			counts[at] = uint32(p.sizes.Tools(s.Tools))
		}
		first := int(p.plan.Sessions[k].FirstTurn)
		for n := range s.Turns {
			path := p.trace.Path(nil, s.Turns[n].Last)
			at := p.plan.Turns[first+n].Last
			for _, node := range slices.Backward(path) {
				counts[at] = uint32(p.sizes.Message(p.trace.Nodes[node].Message))
				at = p.plan.Segments[at].Parent
			}
		}
	}
	return counts
}

// countHits sets how many tokens of each prompt an unlimited prefix cache would have held, in the order in which turns began, those of
// earlier traces before.
func (p *planner) countHits() {
	order := make([]int, len(p.plan.Turns))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch x, y := p.plan.Turns[a].T, p.plan.Turns[b].T; {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	nodes := make([]int32, len(p.plan.Segments)) // of the trie; 0: none of this trace yet
	for _, k := range order {
		u := &p.plan.Turns[k]
		p.open = p.open[:0]
		held := u.Last // the last segment that the cache has
		for ; held != mmapcache.None && nodes[held] == 0; held = p.plan.Segments[held].Parent {
			p.open = append(p.open, held)
		}
		node := int32(0)
		if held != mmapcache.None {
			node = nodes[held]
		}
		for _, s := range slices.Backward(p.open) {
			key := keyOf(node, &p.plan.Segments[s])
			next, seen := p.trie[key]
			if seen {
				held = s
			} else { // and so are all behind it
				next = int32(len(p.trie) + 1)
				p.trie[key] = next
			}
			node, nodes[s] = next, next
		}
		if held != mmapcache.None {
			u.CacheHits = p.totals[held]
		}
	}
}
