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
	messages map[int32]entry // by the last node of each; results that no log has by ^n, of the calls of the message that ends with node n
	nodes    []placed        // of the trace
	segments map[segmentKey]int32
	origins  []origin // of segments
	totals   []uint32 // tokens from the first segment to each
	path     []int32
}

// placed is where a node of a trace stands with which a message ends.
type placed struct {
	start   int32 // the segment that the last prompts with it began with, plus 2; 0: it is in none yet
	segment int32 // its segment there
	apart   bool  // all before it, and it, are system messages: the system prompt
}

// origin is what a segment was made from: messages of the log up to a node, short ones that no log has, definitions of tools, messages that
// stand in front of all prompts of a session.
type origin struct {
	last, nodes int32
	short       int
	tools       []text.Text
	front       []int32 // messages
}

// Plan writes the messages of a trace that prompts have, and returns its plan. The name of the trace is of this dataset, not of the log.
func (r *Renderer) Plan(t *text.Trace, name string) (*mmapcache.Plan, error) {
	p := &planner{Renderer: r, trace: t, plan: &mmapcache.Plan{Trace: mmapcache.Trace{ID: name, Scope: mmapcache.ScopeText, BlockSize: 1}},
		calls: calls{numbers: map[text.Text]int{}, waiting: map[int32][]int{}}, messages: map[int32]entry{}, nodes: make([]placed, len(t.Nodes)),
		segments: map[segmentKey]int32{}}
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
	start := p.start(s, s.Tools, 0)
	for n := range s.Turns {
		own := start
		if turn := &s.Turns[n]; turn.Members != 0 || turn.Tools != nil {
			own = p.start(s, turn.Tools, turn.Members)
		}
		p.turn(k, n, own)
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
	u := mmapcache.Turn{APITime: math.NaN(), ThinkTime: math.NaN(), Out: turn.Out, Last: start, Outer: uint32(len(p.plan.Turns)), Inner: mmapcache.None}
	if k > 0 {
		u.Inner = int32(len(p.plan.Turns))
	}
	if turn.Out == text.None {
		u.Out = mmapcache.NoLength
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
	u.Last = p.prompt(start, turn.Last)
	if last := u.Last; last != start {
		u.Input = mmapcache.UserInput
		if p.plan.Segments[last].Role == mmapcache.ToolRole {
			u.Input = mmapcache.ToolResult
		}
	}
	p.plan.Turns = append(p.plan.Turns, u)
}

// prompt returns the last segment of a prompt that ends with a node, whose messages stand behind the segment start. Of a prompt that begins as
// an earlier one does, only what is new is looked at.
func (p *planner) prompt(start, node int32) int32 {
	path := p.path[:0]
	for ; node != text.None; node = p.trace.Nodes[node].Parent {
		if p.nodes[node].start == start+2 && (len(path) == 0 || !p.joins(node, path[len(path)-1])) {
			break
		}
		path = append(path, node)
	}
	slices.Reverse(path)
	p.path = path
	last, before, apart := start, node, true // apart: the system prompt is what stands before the first other message
	if node != text.None {
		last, apart = p.nodes[node].segment, p.nodes[node].apart
	}
	for from, to := 0, 0; from < len(path); from = to {
		m := &p.data.Messages[p.trace.Nodes[path[from]].Message]
		for to = from + 1; to < len(path) && p.joins(path[to-1], path[to]); to++ {
		}
		apart = apart && m.Role == text.System
		end := path[to-1]
		e, known := p.messages[end]
		if !known {
			e = p.message(&p.calls, before, end, p.joined(path[from:to]), apart)
			p.messages[end] = e
		}
		if !e.answers && !p.trace.Verbatim {
			last = p.abort(last, before)
		}
		last = p.segment(last, mmapcache.Segment{Role: e.role, Flags: mmapcache.Recorded, First: e.number},
			origin{last: end, nodes: int32(to - from), short: e.aborted})
		p.nodes[end], before = placed{start + 2, last, apart}, end
	}
	if p.trace.Verbatim {
		return last
	}
	if apart {
		e, known := p.messages[alone]
		if !known {
			e = p.user()
			p.messages[alone] = e
		}
		return p.segment(last, mmapcache.Segment{Role: e.role, Flags: mmapcache.Recorded, First: e.number}, origin{last: text.None, short: 1})
	}
	return p.abort(last, before)
}

// alone is the key of the message behind a system prompt that has none.
const alone = math.MinInt32

// abort returns a segment behind another with results of all calls that wait behind a node, or that other where none does.
func (p *planner) abort(last, node int32) int32 {
	waiting := p.calls.waiting[node]
	if len(waiting) == 0 {
		return last
	}
	e, known := p.messages[^node]
	if !known {
		e = p.aborted(waiting)
		p.messages[^node] = e
	}
	return p.segment(last, mmapcache.Segment{Role: e.role, Flags: mmapcache.Recorded, First: e.number}, origin{last: text.None, short: e.aborted})
}

// joins reports whether APIs want the messages of two nodes as one: the second goes on with one of the assistant, or both have results.
func (p *planner) joins(a, b int32) bool {
	x, y := &p.data.Messages[p.trace.Nodes[a].Message], &p.data.Messages[p.trace.Nodes[b].Message]
	return !p.trace.Verbatim && (y.Continues && x.Role == text.Assistant || hasResults(x) && hasResults(y))
}

// joined returns the message that the nodes are.
func (p *planner) joined(nodes []int32) *text.Message {
	first := &p.data.Messages[p.trace.Nodes[nodes[0]].Message]
	if len(nodes) == 1 {
		return first
	}
	m := &text.Message{Role: first.Role}
	for _, node := range nodes {
		one := &p.data.Messages[p.trace.Nodes[node].Message]
		if m.Parts = append(m.Parts, one.Parts...); one.Role == text.User {
			m.Role = text.User
		}
	}
	return m
}

// start returns the last segment in front of prompts of a session: members of the body, tools, system messages, filler; None if it has none.
func (p *planner) start(s *text.Session, tools []text.Text, members text.Text) int32 {
	last := int32(mmapcache.None)
	put := func(role mmapcache.Role, chat, anthropic *pieces, tools []text.Text) {
		last = p.segment(last, mmapcache.Segment{Role: role, Flags: mmapcache.Recorded, First: p.number(role, chat, anthropic)}, origin{last: text.None, tools: tools})
	}
	if members != 0 {
		chat, anthropic := p.begin()
		chat.json(members)
		anthropic.json(members)
		put(mmapcache.Members, chat, anthropic, nil)
	}
	if len(tools) > 0 {
		chat, anthropic := p.tools(tools)
		put(mmapcache.Tools, chat, anthropic, tools)
	}
	for _, m := range s.Front {
		e := p.message(&p.calls, text.None, text.None, &p.data.Messages[m], true)
		last = p.segment(last, mmapcache.Segment{Role: e.role, Flags: mmapcache.Recorded, First: e.number}, origin{last: text.None, front: []int32{m}})
	}
	if s.Filler > 0 {
		last = p.segment(last, mmapcache.Segment{Role: mmapcache.System, Flags: mmapcache.Prefix, First: p.filler, Count: uint32(s.Filler)}, origin{last: text.None})
	}
	return last
}

// segment returns a segment behind another, made from something. Prompts that begin alike share it.
func (p *planner) segment(parent int32, s mmapcache.Segment, from origin) int32 {
	s.Parent = parent
	key := keyOf(parent, &s)
	n, ok := p.segments[key]
	if !ok {
		n = int32(len(p.plan.Segments))
		p.plan.Segments = append(p.plan.Segments, s)
		p.origins = append(p.origins, from)
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
	p.totals = make([]uint32, len(plan.Segments))
	for k := range plan.Segments {
		s := &plan.Segments[k]
		switch {
		case s.Flags&mmapcache.Recorded == 0:
		case recorded:
			s.Count = uint32(math.Round(perByte * float64(p.bytes[s.First])))
		default:
			s.Count = p.counted(&p.origins[k])
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

// counted returns how many tokens a segment has by the tokenizer.
func (p *planner) counted(from *origin) uint32 {
	n := p.sizes.Tools(from.tools) + from.short*shortTokens
	for _, m := range from.front {
		n += p.sizes.Message(m)
	}
	for at := from.last; from.nodes > 0; from.nodes-- {
		n += p.sizes.Message(p.trace.Nodes[at].Message)
		at = p.trace.Nodes[at].Parent
	}
	return uint32(n)
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
		p.path = p.path[:0]
		held := u.Last // the last segment that the cache has
		for ; held != mmapcache.None && nodes[held] == 0; held = p.plan.Segments[held].Parent {
			p.path = append(p.path, held)
		}
		node := int32(0)
		if held != mmapcache.None {
			node = nodes[held]
		}
		for _, s := range slices.Backward(p.path) {
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
