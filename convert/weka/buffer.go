package weka

import (
	"fmt"

	"github.com/agentx/agentx/mmapcache"
)

// promptShape is how a prompt divides into blocks and filler: doc/spec/reconstruction.md 3.1.
type promptShape struct {
	Full    int // whole blocks in the prompt
	Covered int // of them, blocks that have a hash id
	Filler  int // tokens that no hash id covers
}

// shapeOf divides a prompt of in tokens with n hash ids.
func shapeOf(blockSize, n, in int) promptShape {
	s := promptShape{Full: in / blockSize}
	s.Covered = min(n, s.Full)
	s.Filler = in - s.Covered*blockSize
	return s
}

// span is a stretch of consecutive blocks of a trace.
type span struct{ first, n uint32 }

// cut appends to dst the part of a list of spans from block index lo up to hi.
func cut(dst, list []span, lo, hi int) []span {
	at := 0
	for _, s := range list {
		from, to := max(lo-at, 0), min(hi-at, int(s.n))
		if from < to {
			dst = append(dst, span{s.first + uint32(from), uint32(to - from)})
		}
		at += int(s.n)
	}
	return dst
}

// buffer is the list of messages that a conversation's current prompt consists of: doc/spec/reconstruction.md 4. The plan
// stores them as segments of a tree. A cut leaves old segments to the turns that used them and adds new ones beside them.
type buffer struct {
	blockSize int
	repaired  bool
	plan      *mmapcache.Plan
	shaped    bool   // tool results are marked
	turn      uint32 // in the conversation
	emitted   int    // messages of the turn before
	messages  []message
	path      []int32 // the plan's segments from the root of the tree to the end of the prompt
	budget    *memoryBudget
}

// message is one message of the prompt.
type message struct {
	role   mmapcache.Role
	start  int // first block
	count  int // blocks
	tokens int // count blocks and, in the last message, filler
	node   int // index into path of its first part
}

// last returns the plan's segment that ends the prompt.
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

// tail says what the tokens behind the last covered block are: the filler of a turn, or the head of a block.
type tail struct {
	part  mmapcache.Part
	first uint32 // the turn within the trace, or the block
}

// push appends a message of blocks and, behind them, n tokens of a tail.
func (b *buffer) push(role mmapcache.Role, start int, blocks []span, n int, behind tail) {
	s := message{role: role, start: start, node: len(b.path)}
	part := mmapcache.Segment{Role: role}
	for _, sp := range blocks {
		part.First, part.Count = sp.first, sp.n
		b.extend(part)
		part.Part = mmapcache.Continues
		s.count += int(sp.n)
	}
	if n > 0 || len(blocks) == 0 {
		part.Part |= behind.part
		part.First, part.Count = behind.first, uint32(n)
		b.extend(part)
	}
	s.tokens = s.count*b.blockSize + n
	b.messages = append(b.messages, s)
}

// extend appends one part to the plan and to the path.
func (b *buffer) extend(part mmapcache.Segment) {
	b.budget.need(segmentBytes)
	part.Parent = b.last()
	b.path = append(b.path, int32(len(b.plan.Segments)))
	b.plan.Segments = append(b.plan.Segments, part)
}

// init makes the prompt of turn 0: section 4.2. blocks are those of the list that are covered.
func (b *buffer) init(g promptShape, ids int, blocks []span, declared declared, behind tail) *Error {
	prefix := 0
	if sum := declared.tool + declared.system; (declared.tool > 0 || declared.system > 0) && sum > 0 {
		prefix = int((sum + int64(b.blockSize) - 1) / int64(b.blockSize))
		if prefix > ids {
			return &Error{Kind: PrefixTooLong, Problem: fmt.Sprintf("declared tools and system prompt of %d tokens need %d blocks, the first request has %d", sum, prefix, ids)}
		}
		prefix = min(prefix, g.Covered)
	}
	if prefix > 0 {
		b.push(mmapcache.System, 0, cut(nil, blocks, 0, prefix), 0, tail{})
	}
	if rest := g.Covered - prefix; rest > 0 || g.Filler > 0 || len(b.messages) == 0 {
		b.push(mmapcache.User, prefix, cut(nil, blocks, prefix, g.Covered), g.Filler, behind)
	}
	b.emitted = len(b.messages)
	return nil
}

// advanceStep is what advance needs to know of a turn beyond its blocks.
type advanceStep struct {
	common  int   // ids shared with the list before, of the raw lists
	prevOut int64 // recorded completion of the turn before
	cap     int   // most blocks the assistant may have, mmapcache.None for no limit
	behind  tail
	tool    bool // the new input is a tool result
}

// advance makes the prompt of the next turn: section 4.3. blocks are those of the list that are covered.
func (b *buffer) advance(g promptShape, blocks []span, st advanceStep) {
	shared := st.common
	if b.repaired {
		shared = min(shared, b.blocks(), g.Covered)
	}
	fresh := max(0, g.Covered-shared)
	window := b.emitted // first message that this turn sends anew
	if b.truncate(shared) {
		window = 0
	}
	b.turn++
	assistant := 0
	if st.prevOut > 0 {
		assistant = int((st.prevOut + int64(b.blockSize) - 1) / int64(b.blockSize))
	}
	if !b.hasUser() {
		assistant = 0
	}
	assistant = min(assistant, fresh)
	if st.cap != mmapcache.None {
		assistant = min(assistant, st.cap)
	}
	if g.Filler == 0 && assistant == fresh && assistant > 0 {
		assistant-- // every turn ends with the user
	}
	if assistant > 0 {
		b.push(mmapcache.Assistant, shared, cut(nil, blocks, shared, shared+assistant), 0, tail{})
	}
	if fresh > assistant || g.Filler > 0 {
		b.push(mmapcache.User, shared+assistant, cut(nil, blocks, shared+assistant, g.Covered), g.Filler, st.behind)
		if k := len(b.messages) - 1; b.shaped && st.tool && k > window && b.messages[k-1].role == mmapcache.Assistant {
			b.plan.Tools = append(b.plan.Tools, mmapcache.Tool{Segment: b.path[b.messages[k].node], Turn: b.turn})
		}
	}
	b.emitted = len(b.messages)
}

func (b *buffer) hasUser() bool {
	for _, s := range b.messages {
		if s.role == mmapcache.User {
			return true
		}
	}
	return false
}

// truncate cuts the buffer back to target whole blocks: section 4.4. A target beyond the buffer, which only the
// upstream rule has, changes nothing, not even the filler at the end. It reports whether it changed anything.
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

// trim keeps count blocks of the message whose first part is path[from], and nothing after them.
func (b *buffer) trim(from, count int) {
	old := b.path[from:]
	b.path = b.path[:from]
	for k, id := range old {
		part := b.plan.Segments[id]
		if part.Part&(mmapcache.Filler|mmapcache.Head) != 0 || count == 0 {
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

// keepMark marks the last part as the tool result that another part was, if it was one.
func (b *buffer) keepMark(old int32) {
	for _, m := range b.plan.Tools {
		if m.Segment == old {
			b.plan.Tools = append(b.plan.Tools, mmapcache.Tool{Segment: b.last(), Turn: m.Turn})
			return
		}
	}
}

// assistantCaps bounds the assistant's part of each turn so that a later cut to a block boundary that adds nothing still
// ends with the user: section 4.6. common[k] is the prefix that list k shares with list k-1.
func assistantCaps(common []int, g []promptShape, repaired bool) []int {
	type stretch struct{ turn, n int }
	var tile []stretch // owners of the blocks in the buffer
	total := 0
	caps := make([]int, len(g))
	kept := make([]int, len(g))
	for k := range g {
		caps[k] = mmapcache.None
		e := 0
		if k > 0 {
			e = min(common[k], total)
			if repaired {
				e = min(e, g[k].Covered)
			}
		}
		kept[k] = e
		for total > e {
			top := &tile[len(tile)-1]
			drop := min(top.n, total-e)
			top.n -= drop
			total -= drop
			if top.n == 0 {
				tile = tile[:len(tile)-1]
			}
		}
		fresh := max(0, g[k].Covered-e)
		if k > 0 && fresh == 0 && g[k].Filler == 0 && e >= 1 {
			if owner := tile[len(tile)-1].turn; owner != 0 {
				if limit := e - 1 - kept[owner]; limit >= 0 && (caps[owner] == mmapcache.None || limit < caps[owner]) {
					caps[owner] = limit
				}
			}
		}
		if fresh > 0 {
			tile = append(tile, stretch{k, fresh})
			total += fresh
		}
	}
	return caps
}
