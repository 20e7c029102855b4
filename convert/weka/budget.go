package weka

// memoryBudget reserves memory, a MiB at a time, before it is allocated: a few bytes of JSON can need far more memory. A nil
// budget, and one without reserve, have no limit.
type memoryBudget struct {
	reserve Reserve
	pending int64 // bytes to reserve with the next call of reserve
	err     error // of reserve; nothing is granted after it
}

// reserveStep is how many pending bytes make a budget call reserve.
const reserveStep = 1 << 20

// Bytes that the parts of a trace take, with room to grow.
const (
	requestBytes  = 512 // a request, and its turn
	subagentBytes = 1024
	nameBytes     = 64 // besides the bytes of the name
	runBytes      = 16
	pageBytes     = 768 // of block numbers, and what is kept for each of them
	blockBytes    = 96  // a run of blocks
	spanBytes     = 24
	segmentBytes  = 64
)

// SetReserve makes MakePlan call reserve for the memory that the plan of the trace takes. nil sets no limit.
func (t *Trace) SetReserve(reserve Reserve) { t.budget = &memoryBudget{reserve: reserve} }

// need requests n bytes and reports whether they are granted.
func (b *memoryBudget) need(n int) bool {
	if b == nil || b.reserve == nil {
		return true
	}
	if b.pending += int64(n); b.pending < reserveStep {
		return b.err == nil
	}
	return b.flush()
}

// flush reserves the pending bytes and reports whether they are granted.
func (b *memoryBudget) flush() bool {
	if b == nil || b.reserve == nil {
		return true
	}
	if b.err == nil {
		b.err = b.reserve(b.pending)
	}
	b.pending = 0
	return b.err == nil
}

// exceeded reports whether memory was refused.
func (b *memoryBudget) exceeded() bool { return b != nil && b.err != nil }

// refused returns the error about a trace whose memory was refused, nil where none was.
func (b *memoryBudget) refused() *Error {
	if !b.exceeded() {
		return nil
	}
	return &Error{Kind: TooLarge, Problem: b.err.Error(), Hint: hintSplit}
}
