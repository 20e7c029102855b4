package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/format"

	"github.com/agentx/agentx/hfsource/column"
)

var errValues = errors.New("values are damaged")

// values reads the values of one page, in order.
type values struct {
	leaf     *leaf
	dict     *dictionary
	indices  hybrid     // into the dictionary
	data     []byte     // one behind the other
	decoded  dictionary // all of the page, where an encoding cannot be read bit by bit
	at       int        // in decoded
	source   uint8
	interned map[string]string // texts seen before
}

const (
	fromPage uint8 = iota
	fromDictionary
	fromDecoded
)

// dictionary is a list of values.
type dictionary struct {
	ints   []int64
	floats []float64
	texts  []string
}

func (d *dictionary) len() int { return max(len(d.ints), len(d.floats), len(d.texts)) }

// open begins a page of n values, or of at most n where that is not known.
func (v *values) open(data []byte, encoding format.Encoding, n int, dict *dictionary) error {
	v.dict, v.data, v.at, v.decoded = dict, data, 0, dictionary{}
	switch encoding {
	case format.Plain:
		v.source = fromPage
		return nil
	//lint:ignore SA1019 writers of version 1 of the format say so
	case format.PlainDictionary, format.RLEDictionary:
		if dict == nil {
			return errors.New("a page refers to a dictionary, and there is none")
		}
		v.source, v.indices = fromDictionary, hybrid{}
		if len(data) == 0 {
			return nil // of nulls alone
		}
		if data[0] > 32 {
			return errValues
		}
		v.indices = newHybrid(data[1:], int(data[0]))
		return nil
	case format.ByteStreamSplit:
		return v.split(data)
	case format.DeltaBinaryPacked:
		return v.deltas(data, n)
	}
	if isText(v.leaf.kind) && (encoding == format.DeltaLengthByteArray || encoding == format.DeltaByteArray) {
		return v.deltaTexts(data, encoding, n)
	}
	return &UnsupportedError{fmt.Sprintf("encoding %v of %v", encoding, v.leaf.physical), tryEncoding}
}

// decodes is how many bytes open takes for a page of n values, besides the page itself.
func (v *values) decodes(data []byte, encoding format.Encoding, n int) int64 {
	switch encoding {
	//lint:ignore SA1019 writers of version 1 of the format say so
	case format.Plain, format.PlainDictionary, format.RLEDictionary:
		return 0
	case format.ByteStreamSplit:
		return int64(len(data))
	}
	return int64(n)*int64(sizeOf(v.leaf.kind)) + int64(len(data)) // packed differences
}

// split reads numbers whose bytes stand apart: all first bytes, all second ones.
func (v *values) split(data []byte) error {
	width := v.width()
	if width == 0 || len(data)%width != 0 {
		return errValues
	}
	n := len(data) / width
	joined := make([]byte, len(data))
	for k := range n {
		for i := range width {
			joined[k*width+i] = data[i*n+k]
		}
	}
	v.source, v.data = fromPage, joined
	return nil
}

// width returns the bytes of a value that stands plainly, 0 where they differ.
func (v *values) width() int {
	switch v.leaf.physical {
	case format.Int32, format.Float:
		return 4
	case format.Int64, format.Double:
		return 8
	}
	return 0
}

// checkDelta bounds what packed differences say that they are, before anyone believes it: the values of the page, which
// are known, in blocks that take some bytes each.
func checkDelta(data []byte, n int) error {
	block, a := binary.Uvarint(data)
	if a <= 0 {
		return errValues
	}
	minis, b := binary.Uvarint(data[a:])
	if b <= 0 {
		return errValues
	}
	total, c := binary.Uvarint(data[a+b:])
	if c <= 0 || block == 0 || block > 1<<16 || block%128 != 0 || minis == 0 || block%minis != 0 || block/minis%32 != 0 ||
		total > uint64(n) || total > 1+uint64(len(data))*block/(minis+1) {
		return errValues
	}
	return nil
}

func (v *values) deltas(data []byte, n int) error {
	if err := checkDelta(data, n); err != nil {
		return err
	}
	v.source = fromDecoded
	switch v.leaf.physical {
	case format.Int64:
		list, err := new(delta.BinaryPackedEncoding).DecodeInt64(nil, data)
		v.decoded.ints = list
		return err
	case format.Int32:
		list, err := new(delta.BinaryPackedEncoding).DecodeInt32(nil, data)
		for _, x := range list {
			v.decoded.ints = append(v.decoded.ints, v.widen(uint32(x)))
		}
		return err
	}
	return errValues
}

func (v *values) deltaTexts(data []byte, encoding format.Encoding, n int) (err error) {
	if err := checkDelta(data, n); err != nil {
		return err
	}
	var bytes []byte
	var offsets []uint32
	if encoding == format.DeltaByteArray { // what it unpacks to is not bounded by what it is: prefixes are repeated
		return &UnsupportedError{fmt.Sprintf("encoding %v", encoding), tryEncoding}
	}
	bytes, offsets, err = new(delta.LengthByteArrayEncoding).DecodeByteArray(nil, data, nil)
	if err != nil {
		return err
	}
	v.source = fromDecoded
	for k := 1; k < len(offsets); k++ {
		if offsets[k] < offsets[k-1] || int(offsets[k]) > len(bytes) {
			return errValues
		}
		v.decoded.texts = append(v.decoded.texts, v.intern(bytes[offsets[k-1]:offsets[k]]))
	}
	return nil
}

func (v *values) widen(x uint32) int64 {
	if v.leaf.unsigned {
		return int64(x)
	}
	return int64(int32(x))
}

// maxInterned bounds the texts of a column that are kept to be used again.
const maxInterned = 1 << 12

// intern makes a string, the same for the same bytes.
func (v *values) intern(b []byte) string {
	if s, ok := v.interned[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(b) <= 64 && len(v.interned) < maxInterned {
		if v.interned == nil {
			v.interned = map[string]string{}
		}
		v.interned[s] = s
	}
	return s
}

// read appends the next n values to a column.
func (v *values) read(to *column.Column, n int) error {
	switch v.leaf.kind {
	case column.Int, column.Uint:
		at := len(to.Ints)
		to.Ints = grow(to.Ints, n)
		return v.readInts(to.Ints[at:])
	case column.Float:
		at := len(to.Floats)
		to.Floats = grow(to.Floats, n)
		return v.readFloats(to.Floats[at:])
	case column.Text, column.JSON:
		at := len(to.Texts)
		to.Texts = grow(to.Texts, n)
		return v.readTexts(to.Texts[at:])
	case column.None:
		return errors.New("a value in a column that can hold none")
	}
	return nil
}

// isText reports whether values of a kind are isText.
func isText(k column.Kind) bool { return k == column.Text || k == column.JSON }

// appendZero appends what stands in the place of a null.
func appendZero(to *column.Column) {
	switch to.Kind {
	case column.Int, column.Uint:
		to.Ints = append(to.Ints, 0)
	case column.Float:
		to.Floats = append(to.Floats, 0)
	case column.Text, column.JSON:
		to.Texts = append(to.Texts, "")
	}
}

// grow makes a slice n longer.
func grow[T any](s []T, n int) []T {
	if len(s)+n <= cap(s) {
		return s[:len(s)+n]
	}
	return append(s, make([]T, n)...)
}

func (v *values) readInts(to []int64) error {
	switch v.source {
	case fromDictionary:
		return readIndexed(v, to, v.dict.ints, unpackInts)
	case fromDecoded:
		return take(v, to, v.decoded.ints)
	}
	if v.leaf.physical == format.Int64 {
		if len(v.data) < 8*len(to) {
			return errValues
		}
		v.data = copyInts(to, v.data)
		return nil
	}
	if len(v.data) < 4*len(to) {
		return errValues
	}
	for k := range to {
		to[k] = v.widen(binary.LittleEndian.Uint32(v.data[4*k:]))
	}
	v.data = v.data[4*len(to):]
	return nil
}

// copyInts reads numbers of 64 bits and returns what stands behind them.
func copyInts(to []int64, b []byte) []byte {
	for len(to) >= 4 && len(b) >= 32 {
		t, from := to[:4:4], b[:32:32]
		t[0] = int64(binary.LittleEndian.Uint64(from[0:]))
		t[1] = int64(binary.LittleEndian.Uint64(from[8:]))
		t[2] = int64(binary.LittleEndian.Uint64(from[16:]))
		t[3] = int64(binary.LittleEndian.Uint64(from[24:]))
		to, b = to[4:], b[32:]
	}
	for k := range to {
		to[k] = int64(binary.LittleEndian.Uint64(b[8*k:]))
	}
	return b[8*len(to):]
}

func (v *values) readFloats(to []float64) error {
	switch v.source {
	case fromDictionary:
		return readIndexed(v, to, v.dict.floats, unpackIndexed)
	case fromDecoded:
		return errValues
	}
	width := v.width()
	if len(v.data) < width*len(to) {
		return errValues
	}
	for k := range to {
		if width == 8 {
			to[k] = math.Float64frombits(binary.LittleEndian.Uint64(v.data[8*k:]))
		} else {
			to[k] = float64(math.Float32frombits(binary.LittleEndian.Uint32(v.data[4*k:])))
		}
	}
	v.data = v.data[width*len(to):]
	return nil
}

func (v *values) readTexts(to []string) error {
	switch v.source {
	case fromDictionary:
		return readIndexed(v, to, v.dict.texts, unpackIndexed)
	case fromDecoded:
		return take(v, to, v.decoded.texts)
	}
	for k := range to {
		if len(v.data) < 4 {
			return errValues
		}
		n := binary.LittleEndian.Uint32(v.data)
		if uint64(n) > uint64(len(v.data)-4) {
			return errValues
		}
		to[k] = v.intern(v.data[4 : 4+n])
		v.data = v.data[4+n:]
	}
	return nil
}

// take copies the next values of a page that was decoded as a whole.
func take[T any](v *values, to, list []T) error {
	if len(list)-v.at < len(to) {
		return errValues
	}
	v.at += copy(to, list[v.at:])
	return nil
}

// readIndexed reads values by their index in a dictionary.
func readIndexed[T any](v *values, to, dict []T, packed func(h *hybrid, to, dict []T) bool) error {
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
		} else if !packed(h, to[:n], dict) {
			return errValues
		}
		to = to[n:]
	}
	return nil
}

// unpackInts is lookPacked for numbers, two of them a word: most of the time goes here.
func unpackInts(h *hybrid, to, dict []int64) bool {
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

// unpackIndexed reads values by their packed indices.
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

// holds reports whether the page has exactly n values.
func (v *values) holds(n int) bool {
	switch v.source {
	case fromDictionary:
		return v.indices.holds(n)
	case fromDecoded:
		return v.decoded.len() == n
	}
	if width := v.width(); width > 0 {
		return len(v.data) == n*width
	}
	at := v.data
	for range n { // texts, each behind its length
		if len(at) < 4 || uint64(binary.LittleEndian.Uint32(at)) > uint64(len(at)-4) {
			return false
		}
		at = at[4+binary.LittleEndian.Uint32(at):]
	}
	return len(at) == 0
}

// readDictionary reads a dictionary of n values, which stand plainly.
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
