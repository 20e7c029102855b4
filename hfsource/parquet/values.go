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

// values reads the values of one page, in order.
type values struct {
	leaf     *leaf
	hold     func(bytes int64) error // sets how many bytes are decoded of the page, before they are allocated
	source   valueSource
	data     []byte // fromPage: the values that were not read yet
	dict     *dictionary
	indices  hybrid            // fromDictionary: indices into dict
	decoded  dictionary        // fromDecoded: all values of the page
	at       int               // fromDecoded: values that were read
	interned map[string]string // texts seen before
}

// valueSource says where the values of a page are read from.
type valueSource uint8

const (
	fromPage       valueSource = iota // plain values, one after the other
	fromDictionary                    // a dictionary, by index
	fromDecoded                       // the whole page, decoded at once: its encoding cannot be read value by value
)

// open begins a page of n values.
func (v *values) open(data []byte, encoding format.Encoding, n int, dict *dictionary) error {
	v.dict, v.data, v.at, v.decoded = dict, data, 0, dictionary{}
	switch encoding {
	case format.Plain:
		v.source = fromPage
		return nil
	//lint:ignore SA1019 writers of version 1 of the format say so
	case format.PlainDictionary, format.RLEDictionary:
		return v.openIndices(data)
	case format.ByteStreamSplit:
		return v.joinBytes(data)
	case format.DeltaBinaryPacked:
		return v.decodeDeltas(data, n)
	case format.DeltaLengthByteArray:
		if isText(v.leaf.kind) {
			return v.decodeLengthTexts(data, n)
		}
	case format.DeltaByteArray:
		if isText(v.leaf.kind) {
			return v.decodePrefixTexts(data, n)
		}
	}
	return &UnsupportedError{fmt.Sprintf("encoding %v of %v", encoding, v.leaf.physical), hintEncoding}
}

// openIndices begins a page of indices into the dictionary.
func (v *values) openIndices(data []byte) error {
	if v.dict == nil {
		return errors.New("a page refers to a dictionary, and there is none")
	}
	v.source, v.indices = fromDictionary, hybrid{}
	if len(data) == 0 {
		return nil // a page of nulls alone
	}
	if data[0] > 32 {
		return errValues
	}
	v.indices = newHybrid(data[1:], int(data[0]))
	return nil
}

// decodedSize returns how many bytes open allocates for a page of n values. Texts of DELTA_BYTE_ARRAY take more, which
// decodePrefixTexts adds.
func (v *values) decodedSize(data []byte, encoding format.Encoding, n int) int64 {
	switch encoding {
	//lint:ignore SA1019 writers of version 1 of the format say so
	case format.Plain, format.PlainDictionary, format.RLEDictionary:
		return 0
	case format.ByteStreamSplit:
		return int64(len(data))
	}
	const lengths = 8 // two of 32 bits for each text, or a packed number of 32 bits
	return int64(n)*int64(sizeOf(v.leaf.kind)+lengths) + int64(len(data))
}

// joinBytes decodes numbers as BYTE_STREAM_SPLIT: all first bytes, then all second ones, and so on.
func (v *values) joinBytes(data []byte) error {
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

// width returns the bytes of a plain value, 0 where they vary.
func (v *values) width() int {
	switch v.leaf.physical {
	case format.Int32, format.Float:
		return 4
	case format.Int64, format.Double:
		return 8
	}
	return 0
}

// widen extends a number of 32 bits, by its sign unless the column is unsigned.
func (v *values) widen(x uint32) int64 {
	if v.leaf.unsigned {
		return int64(x)
	}
	return int64(int32(x))
}

// maxInterned bounds the texts that a column keeps, and maxInternedText the length of each in bytes.
const (
	maxInterned     = 1 << 12
	maxInternedText = 64
)

// intern returns the bytes as a string. Short texts that come again share their memory.
func (v *values) intern(b []byte) string {
	if s, ok := v.interned[string(b)]; ok {
		return s
	}
	s := string(b)
	if len(b) <= maxInternedText && len(v.interned) < maxInterned {
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
		return errors.New("a value in a column of type null")
	}
	return nil
}

// isText reports whether values of a kind are texts.
func isText(k column.Kind) bool { return k == column.Text || k == column.JSON }

// appendZero appends the zero that stands for a null.
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

// readInts reads the next numbers, from wherever the values of the page come.
func (v *values) readInts(to []int64) error {
	switch v.source {
	case fromDictionary:
		return readIndexed(v, to, v.dict.ints, unpackIndexedInts)
	case fromDecoded:
		return copyDecoded(v, to, v.decoded.ints)
	}
	return v.readPlainInts(to)
}

// readPlainInts reads numbers of 32 or 64 bits that stand one after the other.
func (v *values) readPlainInts(to []int64) error {
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

// copyInts reads numbers of 64 bits, four at a time, and returns the bytes behind them.
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

// readFloats reads the next floating point numbers, of 32 or 64 bits.
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

// readTexts reads the next texts. In a plain page each stands behind its length.
func (v *values) readTexts(to []string) error {
	switch v.source {
	case fromDictionary:
		return readIndexed(v, to, v.dict.texts, unpackIndexed)
	case fromDecoded:
		return copyDecoded(v, to, v.decoded.texts)
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

// copyDecoded copies the next values of a page that was decoded as a whole.
func copyDecoded[T any](v *values, to, list []T) error {
	if len(list)-v.at < len(to) {
		return errValues
	}
	v.at += copy(to, list[v.at:])
	return nil
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
	for range n { // each text follows its length
		if len(at) < 4 || uint64(binary.LittleEndian.Uint32(at)) > uint64(len(at)-4) {
			return false
		}
		at = at[4+binary.LittleEndian.Uint32(at):]
	}
	return len(at) == 0
}

// decodeDeltas decodes a page of numbers as DELTA_BINARY_PACKED.
func (v *values) decodeDeltas(data []byte, n int) error {
	if v.leaf.physical != format.Int32 && v.leaf.physical != format.Int64 {
		return errValues
	}
	bits := 8 * v.width()
	end, err := packedEnd(data, n, bits)
	if err != nil {
		return err
	}
	v.source = fromDecoded
	if bits == 64 {
		v.decoded.ints, err = new(delta.BinaryPackedEncoding).DecodeInt64(nil, data[:end])
		return err
	}
	list, err := new(delta.BinaryPackedEncoding).DecodeInt32(nil, data[:end])
	v.decoded.ints = make([]int64, len(list))
	for k, x := range list {
		v.decoded.ints[k] = v.widen(uint32(x))
	}
	return err
}

// decodeLengthTexts decodes a page of n texts as DELTA_LENGTH_BYTE_ARRAY: their lengths, and then all bytes.
func (v *values) decodeLengthTexts(data []byte, n int) error {
	lengths, data, err := cutLengths(data, n)
	if err != nil {
		return err
	}
	v.source, v.decoded.texts = fromDecoded, make([]string, len(lengths))
	for k, length := range lengths {
		if int(length) > len(data) {
			return errValues
		}
		v.decoded.texts[k] = v.intern(data[:length])
		data = data[length:]
	}
	return nil
}

// decodePrefixTexts decodes a page of n texts as DELTA_BYTE_ARRAY: how many bytes each repeats of the one before, how many
// follow, and then the bytes that follow. The texts can be far larger than the page, so they are added up first.
func (v *values) decodePrefixTexts(data []byte, n int) error {
	decoded := v.decodedSize(data, format.DeltaByteArray, n)
	prefixes, data, err := cutLengths(data, n)
	if err != nil {
		return err
	}
	suffixes, data, err := cutLengths(data, n)
	if err != nil {
		return err
	}
	if len(prefixes) != len(suffixes) {
		return fmt.Errorf("%w: %d prefixes and %d suffixes", errValues, len(prefixes), len(suffixes))
	}
	for k := range prefixes {
		decoded += int64(prefixes[k]) + int64(suffixes[k])
	}
	if err := v.hold(decoded); err != nil {
		return err
	}
	v.source, v.decoded.texts = fromDecoded, make([]string, len(prefixes))
	var text []byte
	for k, suffix := range suffixes {
		if int(prefixes[k]) > len(text) || int(suffix) > len(data) {
			return errValues
		}
		text = append(text[:prefixes[k]], data[:suffix]...)
		v.decoded.texts[k] = v.intern(text)
		data = data[suffix:]
	}
	return nil
}

// cutLengths decodes at most n lengths, packed as differences, and returns what follows them. None is negative.
func cutLengths(data []byte, n int) (lengths []int32, rest []byte, err error) {
	if n == 0 && len(data) == 0 {
		return nil, nil, nil
	}
	end, err := packedEnd(data, n, 32)
	if err != nil {
		return nil, nil, err
	}
	lengths, err = new(delta.BinaryPackedEncoding).DecodeInt32(nil, data[:end])
	if err != nil {
		return nil, nil, err
	}
	for _, length := range lengths {
		if length < 0 {
			return nil, nil, errValues
		}
	}
	return lengths, data[end:], nil
}

// packedEnd returns where numbers of some bits end that are packed as differences at the beginning of data. It checks what
// their headers state before the library allocates by it: at most n numbers, in blocks that lie inside the page.
func packedEnd(data []byte, n, bits int) (int, error) {
	p := thrift{b: data} // whose numbers are written alike
	block, minis, total := p.uvarint(), p.uvarint(), p.uvarint()
	p.uvarint() // the first number
	if p.err != nil || block == 0 || block > 1<<16 || block%128 != 0 || minis == 0 || block%minis != 0 || block/minis%32 != 0 || total > uint64(n) {
		return 0, errValues
	}
	mini := int(block / minis) // numbers of a miniblock
	for left := int(total) - 1; left > 0 && p.err == nil; {
		p.uvarint() // the smallest difference
		from := p.i
		p.skipBytes(minis)
		for _, width := range data[from:p.i] {
			if left <= 0 { // the other miniblocks of the last block have no bytes
				break
			}
			if int(width) > bits {
				return 0, errValues
			}
			p.skipBytes(uint64(min(mini*int(width)/8, len(data)-p.i))) // writers may cut the last miniblock
			left -= mini
		}
	}
	if p.err != nil {
		return 0, errValues
	}
	return p.i, nil
}

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
