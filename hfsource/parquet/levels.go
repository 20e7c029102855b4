package parquet

import (
	"encoding/binary"
	"math"
)

// padding is how many bytes can be read behind encoded bytes, so that a word can be loaded at the last of them.
const padding = 8

// hybrid reads levels and indices in the RLE/bit-packing hybrid encoding: runs of one value, and runs of packed groups of
// eight numbers.
type hybrid struct {
	b      []byte // the runs that follow
	width  int    // bits of a number, at most 32
	left   int    // numbers of the current run that were not taken yet
	packed bool   // the current run is packed
	value  uint32 // else: its value
	bits   []byte // of a packed run
	at     int    // of a packed run: numbers taken
}

func newHybrid(b []byte, width int) hybrid { return hybrid{b: b, width: width} }

// nextRun opens runs until the current one has a number.
func (h *hybrid) nextRun() error {
	for h.left == 0 {
		head, n := binary.Uvarint(h.b)
		if n <= 0 || head>>1 > math.MaxInt32/8 {
			return errLevels
		}
		h.b = h.b[n:]
		count := int(head >> 1)
		if h.packed = head&1 == 1; h.packed {
			h.openPacked(count)
		} else if err := h.openRepeated(count); err != nil {
			return err
		}
	}
	return nil
}

// openPacked opens a run of packed groups.
func (h *hybrid) openPacked(groups int) {
	size := min(groups*h.width, len(h.b)) // writers may cut the last group
	h.left = groups * 8
	if size < groups*h.width {
		h.left = size * 8 / h.width
	}
	h.bits, h.b, h.at = h.b[:size], h.b[size:], 0
}

// openRepeated opens a run of count times one value.
func (h *hybrid) openRepeated(count int) error {
	size := (h.width + 7) / 8
	if len(h.b) < size {
		return errLevels
	}
	h.value = 0
	for k := range size {
		h.value |= uint32(h.b[k]) << (8 * k)
	}
	if uint64(h.value)>>h.width != 0 {
		return errLevels
	}
	h.b, h.left = h.b[size:], count
	return nil
}

// maxFill is how many numbers may follow the last one in its packed run. The format allows less than a group. DuckDB writes
// 256 numbers at a time, and leaves what its buffer held behind the last one.
const maxFill = 256

// done reports whether only the fill of the last run and empty runs follow. parquet-go writes an empty run for a page without
// numbers.
func (h *hybrid) done() bool {
	if h.left > 0 && !(h.packed && h.at > 0 && h.left < maxFill) {
		return false
	}
	for len(h.b) > 0 {
		head, n := binary.Uvarint(h.b)
		if n <= 0 || head > 1 {
			return false
		}
		if head == 0 {
			n += (h.width + 7) / 8
		}
		h.b = h.b[min(n, len(h.b)):]
	}
	return true
}

// holds reports whether exactly n numbers follow, and then only the fill of their run.
func (h hybrid) holds(n int) bool {
	for n > 0 {
		if h.nextRun() != nil {
			return false
		}
		k := min(n, h.left)
		h.left -= k
		h.at += k
		n -= k
	}
	return h.done()
}

// unpack writes the next len(to) numbers of a packed run.
func (h *hybrid) unpack(to []uint32) {
	p := h.bits[: len(h.bits)+padding : len(h.bits)+padding]
	bit, width, mask := h.at*h.width, h.width, uint64(1)<<h.width-1
	for k := range to {
		to[k] = uint32(binary.LittleEndian.Uint64(p[bit>>3:]) >> (bit & 7) & mask)
		bit += width
	}
	h.at += len(to)
	h.left -= len(to)
}

// levels reads repetition or definition levels as runs of equal ones.
type levels struct {
	hybrid
	max   int // the largest level; if it is 0, none are written
	cache [64]uint32
	at, n int // the levels of cache that were not taken yet
}

func (l *levels) reset(b []byte, max, width int) {
	l.hybrid, l.max, l.at, l.n = newHybrid(b, width), max, 0, 0
}

// run returns the next level, and how many times it repeats, at least once.
func (l *levels) run() (level, n int, err error) {
	if l.max == 0 {
		return 0, math.MaxInt, nil
	}
	if l.at == l.n {
		if err := l.nextRun(); err != nil {
			return 0, 0, err
		}
		if !l.packed {
			return int(l.value), l.left, l.check(l.value)
		}
		l.at, l.n = 0, min(l.left, len(l.cache))
		l.unpack(l.cache[:l.n])
	}
	v := l.cache[l.at]
	n = 1
	for l.at+n < l.n && l.cache[l.at+n] == v {
		n++
	}
	return int(v), n, l.check(v)
}

// check refuses a level above the largest.
func (l *levels) check(v uint32) error {
	if int(v) > l.max {
		return errLevels
	}
	return nil
}

// count returns how many of n levels are max. It fails unless exactly n follow, none larger.
func (l levels) count(n int) (largest int, err error) {
	if l.max == 0 {
		return n, nil
	}
	for n > 0 {
		level, k, err := l.run()
		if err != nil {
			return 0, err
		}
		k = min(k, n)
		if level == l.max {
			largest += k
		}
		l.take(k)
		n -= k
	}
	if !l.done() {
		return 0, errLevels
	}
	return largest, nil
}

// take skips n levels of the current run.
func (l *levels) take(n int) {
	switch {
	case l.max == 0:
	case l.at < l.n:
		l.at += n
	default:
		l.hybrid.left -= n
	}
}

// done reports whether only the fill of the last run follows.
func (l *levels) done() bool {
	return l.max == 0 || l.n-l.at+l.left < maxFill && l.hybrid.done()
}
