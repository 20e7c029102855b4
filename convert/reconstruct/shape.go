package reconstruct

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

// sliceSpans appends to dst the part of a list of spans from block index lo up to hi.
func sliceSpans(dst, list []span, lo, hi int) []span {
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
