package parquet

import (
	"fmt"

	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/format"
)

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
