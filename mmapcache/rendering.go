package mmapcache

// rendering is the prompt corpus in one encoding.
type rendering struct {
	data    []byte
	offsets []uint32 // first byte of token i; one more than tokens
}

// window returns the size in bytes of n tokens from token start on, taken modulo the length of the corpus. It is not ok
// where the offsets do not ascend.
func (r *rendering) window(start, n uint32) (size uint64, ok bool) {
	corpus := uint32(len(r.offsets) - 1)
	total := uint64(len(r.data))
	size = total * uint64(n/corpus)
	from, end := uint64(r.offsets[start]), uint64(start)+uint64(n%corpus)
	if end <= uint64(corpus) {
		to := uint64(r.offsets[end])
		return size + to - from, from <= to && to <= total
	}
	rest := uint64(r.offsets[end-uint64(corpus)])
	return size + total - from + rest, from <= total && rest <= total
}

// append appends size bytes from byte at on, taken modulo the length of the rendering.
func (r *rendering) append(dst []byte, at, size uint64) []byte {
	for total := uint64(len(r.data)); size > 0; at = 0 {
		n := min(size, total-at)
		dst = append(dst, r.data[at:at+n]...)
		size -= n
	}
	return dst
}
