package parquet

import (
	"encoding/binary"

	"github.com/agentx/agentx/hfsource/column"
)

// dictionary is a list of values of one type; the other two lists are empty.
type dictionary struct {
	ints   []int64
	floats []float64
	texts  []string
}

func (d *dictionary) len() int { return max(len(d.ints), len(d.floats), len(d.texts)) }

// readDictionary reads a dictionary of n plain values.
func readDictionary(leaf *leaf, data []byte, n int) (*dictionary, error) {
	v := values{leaf: leaf, data: data}
	width := max(v.width(), 1)
	if isText(leaf.kind) {
		width = 4
	}
	if n > len(data)/width {
		return nil, errValues
	}
	c := column.Column{Kind: leaf.kind}
	if err := v.read(&c, n); err != nil && leaf.kind != column.None {
		return nil, err
	}
	if leaf.kind <= column.None || leaf.kind == column.Other {
		return &dictionary{}, nil
	}
	if len(v.data) != 0 {
		return nil, errValues
	}
	return &dictionary{c.Ints, c.Floats, c.Texts}, nil
}

// readIndexed reads values by their index in a dictionary.
func readIndexed[T any](v *values, to, dict []T, unpack func(h *hybrid, to, dict []T) bool) error {
	h := &v.indices
	for len(to) > 0 {
		if err := h.nextRun(); err != nil {
			return err
		}
		n := min(len(to), h.left)
		if !h.packed {
			if int(h.value) >= len(dict) {
				return errValues
			}
			x := dict[h.value]
			for k := range to[:n] {
				to[k] = x
			}
			h.left -= n
		} else if !unpack(h, to[:n], dict) {
			return errValues
		}
		to = to[n:]
	}
	return nil
}

// unpackIndexedInts is unpackIndexed for numbers, two from one word. Most of the time of reading goes here.
func unpackIndexedInts(h *hybrid, to, dict []int64) bool {
	if h.width > 28 {
		return unpackIndexed(h, to, dict)
	}
	p := h.bits[: len(h.bits)+padding : len(h.bits)+padding]
	bit, width, mask := uint(h.at*h.width), uint(h.width), uint64(1)<<h.width-1
	k := 0
	for ; k+1 < len(to); k += 2 {
		w := binary.LittleEndian.Uint64(p[bit>>3:]) >> (bit & 7)
		i, j := w&mask, w>>(width&63)&mask
		if i >= uint64(len(dict)) || j >= uint64(len(dict)) {
			return false
		}
		to[k], to[k+1] = dict[i], dict[j]
		bit += 2 * width
	}
	h.at += k
	h.left -= k
	return unpackIndexed(h, to[k:], dict)
}

// unpackIndexed reads values by indices that are packed by bits. It reports false where an index is outside dict.
func unpackIndexed[T any](h *hybrid, to, dict []T) bool {
	p := h.bits[: len(h.bits)+padding : len(h.bits)+padding]
	bit, width, mask := uint(h.at*h.width), uint(h.width), uint64(1)<<h.width-1
	for k := range to {
		i := binary.LittleEndian.Uint64(p[bit>>3:]) >> (bit & 7) & mask
		if i >= uint64(len(dict)) {
			return false
		}
		to[k] = dict[i]
		bit += width
	}
	h.at += len(to)
	h.left -= len(to)
	return true
}
