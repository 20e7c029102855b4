package reconstruct

import (
	"fmt"

	"github.com/agentx/agentx/mmapcache"
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
	covered := sliceSpans(nil, c.blocks, 0, shape.Covered)
	end := ending{mmapcache.Filler, uint32(row)}
	if n := shape.Covered; p.tr.TailIDs && t.IDs.Len > n && shape.Filler > 0 {
		end = ending{mmapcache.Head, sliceSpans(nil, c.blocks, n, n+1)[0].first}
	}
	if p.tr.Live {
		c.buffer.truncate(0)
	}
	if k == 0 || p.tr.Live {
		return c.buffer.init(shape, t.IDs.Len, covered, c.prefix, end)
	}
	c.buffer.advance(shape, covered, advanceStep{
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
