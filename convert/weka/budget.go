package weka

// memoryBudget reserves memory before it is allocated, a MiB at a time: lists of a few bytes can mean many. The nil budget,
// and one without reserve, have no limit.
type memoryBudget struct {
	reserve Reserve
	due     int64 // bytes to reserve with the next call of reserve
	err     error // of reserve; nothing is granted after it
}

// reserveStep is how much a budget lets come due before it calls reserve, in bytes.
const reserveStep = 1 << 20

// Bytes that the parts of a trace take, with room to grow.
const (
	requestBytes  = 512 // a request, and its turn
	subagentBytes = 1024
	nameBytes     = 64 // besides its own
	runBytes      = 16
	pageBytes     = 768 // of block numbers, and what is kept for each of them
	blockBytes    = 96  // a run of blocks
	spanBytes     = 24
	segmentBytes  = 64
)

// SetReserve makes MakePlan call reserve for the memory that the plan of the trace takes. nil sets no limit.
func (t *Trace) SetReserve(reserve Reserve) { t.budget = &memoryBudget{reserve: reserve} }

// need asks for n bytes and reports whether they are granted.
func (b *memoryBudget) need(n int) bool {
	if b == nil || b.reserve == nil {
		return true
	}
	if b.due += int64(n); b.due < reserveStep {
		return b.err == nil
	}
	return b.flush()
}

// flush reserves what is due and reports whether it is granted.
func (b *memoryBudget) flush() bool {
	if b == nil || b.reserve == nil {
		return true
	}
	if b.err == nil {
		b.err = b.reserve(b.due)
	}
	b.due = 0
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
