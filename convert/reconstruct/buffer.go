package reconstruct

import (
	"fmt"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/trace"
)

// buffer is the list of messages that a conversation's current prompt consists of: doc/spec/reconstruction.md 4. The plan
// stores them as segments of a tree. A cut leaves old segments to the turns that used them and adds new ones beside them.
type buffer struct {
	blockSize int
	repaired  bool
	plan      *mmapcache.Plan
	shaped    bool   // mark tool results
	turn      uint32 // number of the turn in the conversation
	sent      int    // messages of the prompt of the turn before
	messages  []message
	path      []int32 // the plan's segments from the root of the tree to the end of the prompt
	budget    *trace.Budget
	spans     []span // of the last slice
}

// message is one message of the prompt.
type message struct {
	role   mmapcache.Role
	count  int // blocks
	tokens int // count blocks and, in the last message, filler
	node   int // index into path of its first segment
}

// last returns the plan's segment with which the prompt ends.
func (b *buffer) last() int32 {
	if len(b.path) == 0 {
		return mmapcache.None
	}
	return b.path[len(b.path)-1]
}

// blocks returns the number of blocks in the buffer.
func (b *buffer) blocks() int {
	n := 0
	for _, s := range b.messages {
		n += s.count
	}
	return n
}

// ending says what the tokens after the last covered block are: the filler of a turn, or the head of a block.
type ending struct {
	part  mmapcache.SegmentFlags
	first uint32 // the turn within the trace, or the block
}

// slice returns a part of a list of spans, valid until the next.
func (b *buffer) slice(list []span, lo, hi int) []span {
	b.spans = sliceSpans(b.spans[:0], list, lo, hi)
	return b.spans
}

// push appends a message: blocks and, after them, the n tokens that end describes.
func (b *buffer) push(role mmapcache.Role, blocks []span, n int, end ending) {
	s := message{role: role, node: len(b.path)}
	part := mmapcache.Segment{Role: role}
	for _, sp := range blocks {
		part.First, part.Count = sp.first, sp.n
		b.extend(part)
		part.Flags = mmapcache.Continues
		s.count += int(sp.n)
	}
	if n > 0 || len(blocks) == 0 {
		part.Flags |= end.part
		part.First, part.Count = end.first, uint32(n)
		b.extend(part)
	}
	s.tokens = s.count*b.blockSize + n
	b.messages = append(b.messages, s)
}

// extend appends one segment to the plan and to the path.
func (b *buffer) extend(part mmapcache.Segment) {
	b.budget.Need(segmentBytes)
	part.Parent = b.last()
	b.path = append(b.path, int32(len(b.plan.Segments)))
	b.plan.Segments = append(b.plan.Segments, part)
}

// init builds the prompt of turn 0: doc/spec/reconstruction.md 4.2. blocks are the covered ones of its list, ids is the length
// of the list.
func (b *buffer) init(g promptShape, ids int, blocks []span, prefix prefixSizes, end ending) *trace.Error {
	system := prefix.blocks(b.blockSize)
	if system > ids {
		return &trace.Error{Kind: trace.PrefixTooLong, Problem: fmt.Sprintf("declared tools and system prompt of %d tokens need %d blocks, the first request has %d", prefix.tool+prefix.system, system, ids)}
	}
	if system = min(system, g.Covered); system > 0 {
		b.push(mmapcache.System, b.slice(blocks, 0, system), 0, ending{})
	}
	if rest := g.Covered - system; rest > 0 || g.Filler > 0 || len(b.messages) == 0 {
		b.push(mmapcache.User, b.slice(blocks, system, g.Covered), g.Filler, end)
	}
	b.sent = len(b.messages)
	return nil
}

// advanceStep is what advance needs of a turn besides its blocks.
type advanceStep struct {
	common  int   // ids that its list shares with the list before
	prevOut int64 // recorded completion of the turn before, tokens
	cap     int   // most blocks of the assistant's message, mmapcache.None for no limit
	end     ending
	tool    bool // the new input is a tool result
}

// advance builds the prompt of the next turn: doc/spec/reconstruction.md 4.3. blocks are the covered ones of its list.
func (b *buffer) advance(g promptShape, blocks []span, st advanceStep) {
	shared := st.common
	if b.repaired {
		shared = min(shared, b.blocks(), g.Covered)
	}
	fresh := max(0, g.Covered-shared)
	window := b.sent // first message that this turn adds or changes
	if b.truncate(shared) {
		window = 0
	}
	b.turn++
	assistant := b.assistantBlocks(st, fresh, g.Filler)
	if assistant > 0 {
		b.push(mmapcache.Assistant, b.slice(blocks, shared, shared+assistant), 0, ending{})
	}
	if fresh > assistant || g.Filler > 0 {
		b.push(mmapcache.User, b.slice(blocks, shared+assistant, g.Covered), g.Filler, st.end)
		if k := len(b.messages) - 1; b.shaped && st.tool && k > window && b.messages[k-1].role == mmapcache.Assistant {
			b.plan.Tools = append(b.plan.Tools, mmapcache.Tool{Segment: b.path[b.messages[k].node], Turn: b.turn})
		}
	}
	b.sent = len(b.messages)
}

// assistantBlocks returns how many of the fresh blocks are the assistant's.
func (b *buffer) assistantBlocks(st advanceStep, fresh, filler int) int {
	if st.prevOut <= 0 || !b.hasUser() {
		return 0
	}
	n := min(int((st.prevOut+int64(b.blockSize)-1)/int64(b.blockSize)), fresh)
	if st.cap != mmapcache.None {
		n = min(n, st.cap)
	}
	if filler == 0 && n == fresh && n > 0 {
		n-- // every turn ends with the user
	}
	return n
}

// hasUser reports whether the prompt has a message of the user.
func (b *buffer) hasUser() bool {
	for _, s := range b.messages {
		if s.role == mmapcache.User {
			return true
		}
	}
	return false
}

// truncate cuts the buffer back to target whole blocks: doc/spec/reconstruction.md 4.4. A target beyond the buffer, which only
// the upstream rule has, changes nothing, not even the filler at the end. It reports whether it changed anything.
func (b *buffer) truncate(target int) bool {
	if target <= 0 {
		changed := len(b.messages) > 0
		b.messages, b.path = b.messages[:0], b.path[:0]
		return changed
	}
	before := 0
	for i := range b.messages {
		s := &b.messages[i]
		if before+s.count < target {
			before += s.count
			continue
		}
		keep := target - before
		if keep == s.count && s.tokens == keep*b.blockSize && i+1 == len(b.messages) {
			return false
		}
		s.count = keep
		s.tokens = keep * b.blockSize
		b.messages = b.messages[:i+1]
		b.trim(s.node, keep)
		return true
	}
	return false
}

// trim keeps count blocks of the message whose first segment is path[from], and removes all after them.
func (b *buffer) trim(from, count int) {
	old := b.path[from:]
	b.path = b.path[:from]
	for k, id := range old {
		part := b.plan.Segments[id]
		if part.Flags&(mmapcache.Filler|mmapcache.Head) != 0 || count == 0 {
			return
		}
		if int(part.Count) > count {
			part.Count = uint32(count)
			b.extend(part)
			if k == 0 {
				b.keepMark(id)
			}
			return
		}
		b.path = append(b.path, id)
		count -= int(part.Count)
	}
}

// keepMark marks the last segment as a tool result where the segment that it replaces was one.
func (b *buffer) keepMark(old int32) {
	for _, m := range b.plan.Tools {
		if m.Segment == old {
			b.plan.Tools = append(b.plan.Tools, mmapcache.Tool{Segment: b.last(), Turn: m.Turn})
			return
		}
	}
}

// assistantCaps bounds the assistant's message of each turn, in blocks: doc/spec/reconstruction.md 4.6. A later turn may cut
// the prompt at a block boundary and add nothing; the block before the cut has to be the user's then. common[k] is the prefix
// that list k shares with list k-1. mmapcache.None is no limit.
func assistantCaps(common []int, shapes []promptShape, repaired bool) []int {
	o := owners{}
	caps := make([]int, len(shapes))
	kept := make([]int, len(shapes)) // by turn: blocks of the prompt before that it keeps
	for k, s := range shapes {
		caps[k] = mmapcache.None
		if k > 0 {
			kept[k] = min(common[k], o.total)
			if repaired {
				kept[k] = min(kept[k], s.Covered)
			}
		}
		o.truncate(kept[k])
		fresh := max(0, s.Covered-kept[k])
		if k > 0 && fresh == 0 && s.Filler == 0 && kept[k] >= 1 {
			if owner := o.last(); owner != 0 {
				lower(&caps[owner], kept[k]-1-kept[owner])
			}
		}
		o.push(k, fresh)
	}
	return caps
}

// lower sets a cap to a smaller limit. Limits below 0 do not count.
func lower(limit *int, to int) {
	if to >= 0 && (*limit == mmapcache.None || to < *limit) {
		*limit = to
	}
}

// owners are the turns that created the blocks of a prompt, in the order of the blocks.
type owners struct {
	list  []ownedBlocks
	total int // blocks
}

// ownedBlocks are n blocks in a row that a turn created.
type ownedBlocks struct{ turn, n int }

// push appends n blocks that a turn created.
func (o *owners) push(turn, n int) {
	if n > 0 {
		o.list = append(o.list, ownedBlocks{turn, n})
		o.total += n
	}
}

// truncate keeps the first n blocks.
func (o *owners) truncate(n int) {
	for o.total > n {
		top := &o.list[len(o.list)-1]
		drop := min(top.n, o.total-n)
		top.n -= drop
		o.total -= drop
		if top.n == 0 {
			o.list = o.list[:len(o.list)-1]
		}
	}
}

// last returns the turn that created the last block.
func (o *owners) last() int { return o.list[len(o.list)-1].turn }
