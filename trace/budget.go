package trace

// Reserve requests memory, in bytes, before it is allocated. An error refuses it: the current trace needs too much.
type Reserve func(bytes int64) error

// Budget reserves memory, a MiB at a time, before it is allocated: a few bytes of JSON can need far more memory. A nil Budget
// has no limit.
type Budget struct {
	reserve Reserve
	pending int64 // bytes to reserve with the next call of reserve
	err     error // of reserve; nothing is granted after it
}

// reserveStep is how many pending bytes make a budget call reserve.
const reserveStep = 1 << 20

// Bytes that the parts of a trace take, with room to grow.
const (
	RequestBytes  = 512 // a request, and its turn
	SubagentBytes = 1024
	NameBytes     = 64 // besides the bytes of the name
	RunBytes      = 16
)

// NewBudget returns a budget that asks reserve; nil where that is nil.
func NewBudget(reserve Reserve) *Budget {
	if reserve == nil {
		return nil
	}
	return &Budget{reserve: reserve}
}

// Need requests n bytes and reports whether they are granted.
func (b *Budget) Need(n int) bool {
	if b == nil {
		return true
	}
	if b.pending += int64(n); b.pending < reserveStep {
		return b.err == nil
	}
	return b.Flush()
}

// Flush reserves the pending bytes and reports whether they are granted.
func (b *Budget) Flush() bool {
	if b == nil {
		return true
	}
	if b.err == nil {
		b.err = b.reserve(b.pending)
	}
	b.pending = 0
	return b.err == nil
}

// Exceeded reports whether memory was refused.
func (b *Budget) Exceeded() bool { return b != nil && b.err != nil }

// Refused returns the error about a trace whose memory was refused, nil where none was.
func (b *Budget) Refused() *Error {
	if !b.Exceeded() {
		return nil
	}
	return &Error{Kind: TooLarge, Problem: b.err.Error(), Hint: "split the trace into several of fewer requests, or --skip-invalid, which leaves it out"}
}
