package parquet

import (
	"encoding/binary"
	"math"
)

// padding is how many bytes behind any encoded bytes can be read, so that a word may be loaded at the last of them.
const padding = 8

// hybrid reads numbers as Parquet writes levels and indices: runs of one value, and groups of eight packed by bits.
type hybrid struct {
	b      []byte // runs to come
	width  int    // bits of a number, at most 32
	left   int    // numbers of the run at hand
	packed bool
	value  uint32 // of a run of one value
	bits   []byte // of a packed run
	at     int    // numbers taken of it
}

func newHybrid(b []byte, width int) hybrid { return hybrid{b: b, width: width} }

// nextRun makes sure that there is a run at hand.
func (h *hybrid) nextRun() error {
	for h.left == 0 {
		head, n := binary.Uvarint(h.b)
		if n <= 0 || head>>1 > math.MaxInt32/8 {
			return errLevels
		}
		h.b = h.b[n:]
		count := int(head >> 1)
		if h.packed = head&1 == 1; h.packed {
			size := min(count*h.width, len(h.b)) // the last group may be cut
			if count *= 8; size < count/8*h.width {
				count = size * 8 / h.width
			}
			h.bits, h.b, h.at = h.b[:size], h.b[size:], 0
		} else {
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
			h.b = h.b[size:]
		}
		h.left = count
	}
	return nil
}

// maxFill is how many numbers may follow the last in its packed run. The format knows less than a group; DuckDB writes
// 256 numbers at a time, and what it had there before behind the last.
const maxFill = 256

// done reports whether nothing is left but what fills up the run of the last number, and runs of no number, of which
// parquet-go writes one where there is none.
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

// holds reports whether n numbers are left, and no more than what fills up a group.
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
	max   int // the largest that there can be; nothing is written where it is 0
	cache [64]uint32
	at, n int // of what was unpacked
}

func (l *levels) reset(b []byte, max, width int) {
	l.hybrid, l.max, l.at, l.n = newHybrid(b, width), max, 0, 0
}

// run returns the next level and how many times it comes, at least once.
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

func (l *levels) check(v uint32) error {
	if int(v) > l.max {
		return errLevels
	}
	return nil
}

// count returns how many of n levels are the largest, and fails unless there are n, none larger.
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

// take passes over n levels of the run.
func (l *levels) take(n int) {
	switch {
	case l.max == 0:
	case l.at < l.n:
		l.at += n
	default:
		l.hybrid.left -= n
	}
}

// done reports whether no level is left, but for what fills up the last group.
func (l *levels) done() bool {
	return l.max == 0 || l.n-l.at+l.left < maxFill && l.hybrid.done()
}
