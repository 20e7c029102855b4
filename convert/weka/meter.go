package weka

// meter asks for memory before it is taken, a MiB at a time: lists of a few bytes can mean many. The nil meter, and one
// without ask, gives all.
type meter struct {
	ask func(bytes int64) error
	due int64
	err error // of ask; nothing is given from then on
}

// Bytes that the parts of a trace take, with room to grow.
const (
	requestBytes = 512 // a request, and its turn
	markerBytes  = 1024
	nameBytes    = 64 // besides its own
	runBytes     = 16
	pageBytes    = 768 // of block numbers, and what is kept for each of them
	blockBytes   = 96  // a run of blocks
	spanBytes    = 24
	segmentBytes = 64
)

// needs asks for n bytes and reports whether there are that many.
func (m *meter) needs(n int) bool {
	if m == nil || m.ask == nil {
		return true
	}
	if m.due += int64(n); m.due < 1<<20 {
		return m.err == nil
	}
	return m.settle()
}

// settle asks for what is due.
func (m *meter) settle() bool {
	if m.err == nil {
		m.err = m.ask(m.due)
	}
	m.due = 0
	return m.err == nil
}

// over reports whether more was needed than there is.
func (m *meter) over() bool { return m != nil && m.err != nil }

// refused is the error about a trace that takes more memory than there is for it, nil where it does not.
func (m *meter) refused() *Error {
	if !m.over() {
		return nil
	}
	return &Error{Kind: TooLarge, Problem: m.err.Error(), Hint: trySplit}
}
