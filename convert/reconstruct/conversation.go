package reconstruct

import (
	"fmt"
	"math"
	"slices"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/timeline"
	"github.com/agentx/agentx/trace"
)

// conversation is what the planner knows while it plans the turns of one session.
type conversation struct {
	number  int // of the session in the plan
	turns   []turn
	common  []int // by turn: ids that its list shares with the list before
	shapes  []promptShape
	caps    []int // by turn: most blocks of its assistant message
	prefix  prefixSizes
	numbers *numbering
	blocks  []span // of the current turn's hash_ids
	covered []span // of them, those that its prompt has whole
	buffer  buffer
}

// planSession plans one conversation: its turns, and the segments of their prompts.
func (p *planner) planSession(s mmapcache.Session, scope string, turns []turn, prefix prefixSizes) *trace.Error {
	s.FirstTurn, s.Turns = uint32(len(p.plan.Turns)), uint32(len(turns))
	p.plan.Sessions = append(p.plan.Sessions, s)
	c := conversation{number: len(p.plan.Sessions) - 1, turns: turns, prefix: prefix, numbers: p.numbering(scope)}
	c.common, c.shapes = make([]int, len(turns)), make([]promptShape, len(turns))
	for k, t := range turns {
		c.shapes[k] = shapeOf(p.blockSize, t.IDs.Len, int(t.In))
		if k > 0 {
			c.common[k] = trace.CommonPrefix(turns[k-1].IDs, t.IDs)
		}
	}
	p.plan.Turns, p.queries = slices.Grow(p.plan.Turns, len(turns)), slices.Grow(p.queries, len(turns))
	repaired := p.rules.LengthRule == "repaired"
	c.caps = assistantCaps(c.common, c.shapes, repaired)
	c.buffer = buffer{blockSize: p.blockSize, repaired: repaired, shaped: p.rules.ToolShaped, plan: p.plan, budget: p.budget}
	for k := range turns {
		if err := p.planTurn(&c, k); err != nil {
			err.Where = fmt.Sprintf("session %q", s.ID)
			return err
		}
	}
	return nil
}

// planTurn plans turn k of a conversation.
func (p *planner) planTurn(c *conversation, k int) *trace.Error {
	t, row := c.turns[k], len(p.plan.Turns)
	c.blocks = p.numberBlocks(c.numbers, c.blocks, t.IDs, c.common[k])
	if p.budget.Need(trace.RequestBytes); p.budget.Exceeded() {
		return p.budget.Refused()
	}
	input := inputKind(c.turns, k)
	if err := p.planPrompt(c, k, row, input); err != nil {
		return err
	}
	p.plan.Turns = append(p.plan.Turns, mmapcache.Turn{
		T: t.t, APITime: orMissing(t.APITime), ThinkTime: orMissing(t.ThinkTime),
		In: uint32(t.In), Out: int32(t.Out), HashIDs: uint32(t.IDs.Len), Last: c.buffer.last(),
		Outer: uint32(t.outer), Inner: int32(t.inner), Model: p.tr.Models[t.Model], Input: input,
	})
	p.queries = append(p.queries, CacheQuery{
		Start: t.t, end: t.end(), row: row, ids: t.IDs, blocks: c.blocks, order: [3]int{t.outer, c.number, k},
	})
	return nil
}

// planPrompt puts the prompt of turn k, which becomes the given row of the plan, into the buffer.
func (p *planner) planPrompt(c *conversation, k, row int, input mmapcache.InputKind) *trace.Error {
	t, shape := c.turns[k], c.shapes[k]
	c.covered = sliceSpans(c.covered[:0], c.blocks, 0, shape.Covered)
	end := ending{mmapcache.Filler, uint32(row)}
	if n := shape.Covered; p.tr.TailIDs && t.IDs.Len > n && shape.Filler > 0 {
		end = ending{mmapcache.Head, sliceSpans(nil, c.blocks, n, n+1)[0].first}
	}
	if p.tr.Live {
		c.buffer.truncate(0)
	}
	if k == 0 || p.tr.Live {
		return c.buffer.init(shape, t.IDs.Len, c.covered, c.prefix, end)
	}
	c.buffer.advance(shape, c.covered, advanceStep{
		common: c.common[k], prevOut: c.turns[k-1].Out, cap: c.caps[k],
		end: end, tool: input == mmapcache.ToolResult,
	})
	return nil
}

// inputKind says what the new input of turn k is: doc/spec/reconstruction.md 4.7.
func inputKind(turns []turn, k int) mmapcache.InputKind {
	switch t := turns[k]; {
	case t.Input == trace.InputTool:
		return mmapcache.ToolResult
	case t.Input == trace.InputUser:
		return mmapcache.UserInput
	case k == 0 || turns[k-1].Stop == trace.StopUnknown:
		return mmapcache.InputUnknown
	case turns[k-1].Stop == trace.StopTool:
		return mmapcache.ToolResult
	}
	return mmapcache.UserInput
}

// prefixSizes are the sizes that a trace or subagent declares for its prefix, in tokens.
type prefixSizes struct{ tool, system int64 }

// planSubagents plans the sessions of all subagents, in document order.
func (p *planner) planSubagents() *trace.Error {
	p.agents, p.tops = map[string]bool{}, map[int]*trace.Links{}
	for k := range p.tr.Entries {
		if m := p.tr.Entries[k].Subagent; m != nil {
			if err := p.planSubagent(m, k); err != nil {
				return err
			}
		}
	}
	return nil
}

// planSubagent plans the sessions of one subagent: doc/spec/reconstruction.md 5.5 to 5.7 and 6.7.
func (p *planner) planSubagent(m *trace.Subagent, outer int) *trace.Error {
	spawn, join := p.links(m, outer)
	if m.Links == nil {
		spawn = timeline.SpawnTurn(p.mainTurns, outer)
	}
	if spawn == none {
		p.notes.Dropped = append(p.notes.Dropped, m.AgentID)
		p.oddities.Add(trace.OddityDropped, "%s: agent_id %q", requestPath(outer), m.AgentID)
		return nil
	}
	if p.agents[m.AgentID] {
		return &trace.Error{Kind: trace.DuplicateID, Where: requestPath(outer), Problem: fmt.Sprintf("a second subagent with agent_id %q", m.AgentID)}
	}
	p.agents[m.AgentID] = true
	times := agent{m}.times(p.rules)
	if times.guessed {
		p.notes.Ambiguous++
	}
	list := make([]turn, len(m.Requests))
	for k := range m.Requests {
		list[k] = turn{&m.Requests[k], times.requests[k], outer, k}
	}
	rules := p.rules
	rules.SplitAgents = rules.SplitAgents && !p.tr.Linked
	a := splitAgents(list, false, rules)
	p.noteSplit(a)
	if m.Links == nil {
		var err *trace.Error
		if join, err = p.joinTurn(outer, times.end, spawn); err != nil {
			return err
		}
	}
	s := mmapcache.Session{
		ID: p.tr.ID + "::sa:" + m.AgentID, Agent: m.AgentID, Kind: mmapcache.Subagent, Outer: uint32(outer),
		SpawnTurn: int32(spawn), JoinTurn: int32(join), Start: times.start, End: times.end,
		Clock: times.basis + "/" + times.meaning,
	}
	return p.planSubagentSessions(s, m, a, list)
}

// links returns the main turn behind which a subagent begins, and the one that waits for it; none where there is none, and where the
// recording does not say. A cache has children of the main conversation alone: one that hangs on another subagent hangs on the turn from
// which that one comes, at its own time, and no turn waits for it.
func (p *planner) links(m *trace.Subagent, outer int) (spawn, join int) {
	l := m.Links
	if l == nil {
		return none, none
	}
	before := l.Before
	if l.Parent != none {
		l, before = p.tops[l.Parent], none
	}
	p.tops[outer] = l
	spawn, join = p.mainTurn(l.After), none
	if before != none {
		join = p.mainTurn(before)
	}
	if join <= spawn {
		join = none
	}
	return spawn, join
}

// mainTurn returns the last turn of the main conversation whose entry is not behind an entry of the trace; none: there is none.
func (p *planner) mainTurn(outer int) int {
	at := none
	for k, t := range p.main {
		if t.outer <= outer {
			at = k
		}
	}
	return at
}

// planSubagentSessions plans the session of a subagent's agent, s, and those of its side chains.
func (p *planner) planSubagentSessions(s mmapcache.Session, m *trace.Subagent, a agents, list []turn) *trace.Error {
	scope := p.tr.Scope.Context(p.tr.ID, m.AgentID, p.blockSize)
	own := prefixSizes{m.ToolTokens, m.SystemTokens}
	if err := p.planChild(s, scope, pick(list, a.main), own); err != nil {
		return err
	}
	base := firstIDs(list, a.main, a.preamble)
	for _, w := range a.workers {
		worker := s
		worker.ID += ":" + w.suffix
		inherited := own.inherit(p.blockSize, base, firstIDs(list, w.requests, none))
		if err := p.planChild(worker, scope, pick(list, w.requests), inherited); err != nil {
			return err
		}
	}
	return nil
}

// planSideChains plans the sessions of the side chains of the trace's own list.
func (p *planner) planSideChains(a agents, top []turn, scope string) *trace.Error {
	base := firstIDs(top, a.main, a.preamble)
	own := prefixSizes{p.tr.ToolTokens, p.tr.SystemTokens}
	for _, w := range a.workers {
		inherited := own.inherit(p.blockSize, base, top[w.requests[0]].IDs)
		if err := p.planSideChain(pick(top, w.requests), w.suffix, scope, inherited); err != nil {
			return err
		}
	}
	return nil
}

// planSideChain plans the session of one side chain, with the main turns that spawn and join it.
func (p *planner) planSideChain(turns []turn, suffix, scope string, prefix prefixSizes) *trace.Error {
	outer := turns[0].outer
	spawn := max(0, timeline.SpawnTurn(p.mainTurns, outer))
	end := math.Inf(-1)
	for _, t := range turns {
		end = max(end, t.end())
	}
	join, err := p.joinTurn(outer, end, spawn)
	if err != nil {
		return err
	}
	s := mmapcache.Session{
		ID: p.tr.ID + "::" + suffix, Kind: mmapcache.Flat, Outer: uint32(outer),
		SpawnTurn: int32(spawn), JoinTurn: int32(join), Start: turns[0].t, End: end,
	}
	return p.planChild(s, scope, turns, prefix)
}

// planChild plans a session that a turn of the main conversation spawns.
func (p *planner) planChild(s mmapcache.Session, scope string, turns []turn, prefix prefixSizes) *trace.Error {
	if len(turns) > 0 {
		at := p.main[s.SpawnTurn]
		s.SpawnFrom, s.SpawnOffset = timeline.SpawnOffset(at.t, orMissing(at.APITime), turns[0].t)
	}
	return p.planSession(s, scope, turns, prefix)
}

// joinTurn returns the main turn that waits for a child, or none. outer is the child's index in the trace's list, end its
// end, and spawn the turn that spawns it.
func (p *planner) joinTurn(outer int, end float64, spawn int) (int, *trace.Error) {
	join, err := timeline.JoinTurn(p.mainTurns, outer, end, spawn, p.rules.Refusals == "error")
	if err != nil {
		return none, &trace.Error{Kind: trace.JoinBeforeSpawn, Where: requestPath(outer), Problem: err.Error()}
	}
	return join, nil
}

// inherit returns the declared sizes that a side chain has at its turn 0: those of the main chain where both begin with the
// declared prefix, proven by their ids, else none. base and first are the first lists of the two.
func (d prefixSizes) inherit(blockSize int, base, first trace.IDs) prefixSizes {
	n := d.blocks(blockSize)
	if n == 0 || n > base.Len || n > first.Len || trace.CommonPrefix(base, first) < n {
		return prefixSizes{}
	}
	return d
}

// blocks returns how many blocks the declared prefix takes, the last one possibly in part.
func (d prefixSizes) blocks(blockSize int) int {
	sum, size := d.tool+d.system, int64(blockSize)
	return int(max(0, (sum+size-1)/size))
}

// firstIDs returns the first list of ids among some positions that is not empty. It ignores position except.
func firstIDs(list []turn, positions []int, except int) trace.IDs {
	for _, at := range positions {
		if at != except && list[at].IDs.Len > 0 {
			return list[at].IDs
		}
	}
	return trace.IDs{}
}

func requestPath(outer int) string { return trace.Place{Outer: outer, Inner: none}.String() }
