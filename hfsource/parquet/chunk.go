package parquet

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"

	"github.com/agentx/agentx/hfsource/column"
)

// maxPage bounds one page, in bytes, unpacked: a larger one is an error before it is memory.
const maxPage = 1 << 30

// maxValues bounds the values of one page, nulls included.
const maxValues = 1 << 27

// headerSizes are how many bytes of a page header are read, one after the other until it is whole. A header repeats the
// smallest and the largest value of its page, which can be long texts.
var headerSizes = []int64{512, 1 << 16, 1 << 20, 32 << 20}

// sourceSize is the size of the buffer that a chunk is read through, unless a header needs more.
const sourceSize = 1 << 16

// chunk reads the pages of one column of one row group, and from them its rows.
type chunk struct {
	file      *File
	leaf      *leaf
	codec     format.CompressionCodec
	source    *bufio.Reader
	remaining int64 // bytes of the chunk to come
	values    int64 // values to come, behind the page at hand
	page      int   // number of the page at hand, from 1, the dictionary among them
	dict      *dictionary

	pending          int // values of the page at hand, nulls included
	rep, def         levels
	read             values
	wanted           bool // values are wanted; else levels alone
	packed, unpacked []byte

	// Bytes that are counted in file.held: of the largest page so far, packed and unpacked, of the dictionary, and of what
	// is decoded of the page at hand.
	heldPacked, heldUnpacked, heldDict, heldDecoded int64
	heldSource                                      int64 // of the buffer, beyond sourceSize
}

// hold counts memory before it is there, in the place of what a part of it was before.
func (c *chunk) hold(part *int64, n int64) error {
	c.file.held += n - *part
	*part = n
	if c.file.held > c.file.maxHeld {
		return &UnsupportedError{fmt.Sprintf("pages that take more than %d MiB together", c.file.maxHeld>>20), "write the file again with smaller pages, or as JSON lines"}
	}
	return nil
}

// open begins a chunk.
func (c *chunk) open(m *format.ColumnMetaData) {
	start := chunkStart(m)
	section := io.NewSectionReader(c.file.reader, start, m.TotalCompressedSize)
	if c.source == nil {
		c.source = bufio.NewReaderSize(section, sourceSize)
	} else {
		c.source.Reset(section)
	}
	c.codec, c.remaining, c.values = m.Codec, m.TotalCompressedSize, m.NumValues
	c.dict, c.page, c.pending = nil, 0, 0
	c.file.held -= c.heldDict + c.heldDecoded
	c.heldDict, c.heldDecoded = 0, 0
}

func chunkStart(m *format.ColumnMetaData) int64 {
	if d := m.DictionaryPageOffset; d > 0 && (d < m.DataPageOffset || m.DataPageOffset == 0) { // 0: there is no data page
		return d
	}
	return m.DataPageOffset
}

// next opens the next data page. It returns io.EOF behind the last.
func (c *chunk) next() error {
	for {
		if c.pending != 0 {
			return errors.New("a page was left in the middle")
		}
		if c.remaining == 0 {
			if c.values != 0 {
				return fmt.Errorf("%d values are missing", c.values)
			}
			return io.EOF
		}
		c.page++
		h, err := c.header()
		if err != nil {
			return err
		}
		data, err := c.body(h)
		if err != nil {
			return err
		}
		switch h.kind {
		case dictionaryPage:
			err = c.dictionary(h, data)
		case dataPage:
			err = c.version1(h, data)
		case dataPageV2:
			err = c.version2(h, data)
		default: // an index, which nobody uses
			continue
		}
		if err != nil || c.pending > 0 {
			return err
		}
	}
}

func (c *chunk) header() (h pageHeader, err error) {
	n := 0
	for _, size := range headerSizes {
		var head []byte
		if head, err = c.peek(min(size, c.remaining)); err != nil {
			return h, err
		}
		if h, n, err = readPageHeader(head); err == nil || int64(len(head)) < size {
			break
		}
	}
	if err != nil {
		return h, err
	}
	_, _ = c.source.Discard(n) // what was peeked can be discarded
	c.remaining -= int64(n)
	c.file.count(n)
	switch {
	case int64(h.packed) > c.remaining:
		return h, fmt.Errorf("a page of %d bytes, of which %d are there", h.packed, c.remaining)
	case h.size > maxPage || h.values > maxValues:
		return h, fmt.Errorf("a page of %d bytes and %d values: more than %d and %d", h.size, h.values, maxPage, maxValues)
	case c.codec == format.Uncompressed && h.size != h.packed:
		return h, fmt.Errorf("a page of %d bytes, where it says %d", h.packed, h.size)
	}
	return h, nil
}

// peek returns the next n bytes of the chunk, or fewer where the file ends before. A buffer that is too small for them is
// replaced by a larger one, which counts as memory.
func (c *chunk) peek(n int64) ([]byte, error) {
	if n > int64(c.source.Size()) {
		if err := c.hold(&c.heldSource, n); err != nil {
			return nil, err
		}
		c.source = bufio.NewReaderSize(c.source, int(n))
	}
	head, err := c.source.Peek(int(n))
	if err != nil && len(head) == 0 {
		return nil, c.file.explainEOF(err)
	}
	return head, nil
}

// body reads a page as it lies and checks it.
func (c *chunk) body(h pageHeader) ([]byte, error) {
	if err := errors.Join(c.hold(&c.heldPacked, max(c.heldPacked, int64(h.packed))), c.hold(&c.heldUnpacked, max(c.heldUnpacked, c.unpackedSize(h)))); err != nil {
		return nil, err
	}
	c.packed = room(c.packed, int(h.packed))
	if _, err := io.ReadFull(c.source, c.packed); err != nil {
		return nil, c.file.explainEOF(err)
	}
	c.remaining -= int64(h.packed)
	c.file.count(int(h.packed))
	if h.kind == indexPage {
		return nil, nil
	}
	return c.packed, c.file.checksum(h, c.packed)
}

// unpackedSize is how much memory a page takes unpacked, besides as it lies.
func (c *chunk) unpackedSize(h pageHeader) int64 {
	if c.codec == format.Uncompressed || h.kind == indexPage {
		return 0
	}
	return int64(h.size)
}

// room returns a slice of n bytes with padding behind them, b if it is large enough.
func room(b []byte, n int) []byte {
	if cap(b) >= n+padding {
		return b[:n]
	}
	return make([]byte, n, n+padding)
}

// unpack decompresses to exactly size bytes, which stay until the next page.
func (c *chunk) unpack(packed []byte, size int) ([]byte, error) {
	if c.codec == format.Uncompressed {
		if len(packed) != size {
			return nil, errSize
		}
		return packed, nil
	}
	var out []byte
	var err error
	switch c.codec {
	case format.Snappy:
		n, lenErr := snappy.DecodedLen(packed)
		if lenErr != nil || n != size || n > 64*len(packed) { // it packs 64 bytes into 3 at best
			return nil, errSize
		}
		c.unpacked = room(c.unpacked, size)
		out, err = snappy.Decode(c.unpacked, packed)
	case format.Zstd:
		c.unpacked = room(c.unpacked, size)
		out, err = c.file.zstd.DecodeAll(packed, c.unpacked[:0])
	case format.Gzip:
		out, err = c.gunzip(packed, size)
	}
	if err != nil {
		return nil, err
	}
	if len(out) != size {
		return nil, errSize
	}
	if cap(out) < size+padding {
		out = append(make([]byte, 0, size+padding), out...)
	}
	c.unpacked = out
	return out, nil
}

var errSize = errors.New("a page is not as long as it says")

func (c *chunk) gunzip(packed []byte, size int) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	out := bytes.NewBuffer(c.unpacked[:0]) // grows as bytes come
	if _, err := io.Copy(out, io.LimitReader(r, int64(size)+1)); err != nil {
		return nil, err
	}
	return out.Bytes(), r.Close()
}

func (c *chunk) dictionary(h pageHeader, packed []byte) error {
	if c.dict != nil {
		return errors.New("a second dictionary")
	}
	//lint:ignore SA1019 writers of version 1 of the format say so
	if e := format.Encoding(h.encoding); e != format.Plain && e != format.PlainDictionary {
		return fmt.Errorf("a dictionary with encoding %v", e)
	}
	if err := c.hold(&c.heldDict, int64(h.values)*int64(sizeOf(c.leaf.kind))+int64(h.size)); err != nil {
		return err
	}
	data, err := c.unpack(packed, int(h.size))
	if err != nil {
		return err
	}
	c.dict, err = readDictionary(c.leaf, data, int(h.values))
	return err
}

// width returns the bits of a level of which max is the largest.
func width(max int) int { return bits.Len(uint(max)) }

func (c *chunk) begin(h pageHeader) error {
	if int64(h.values) > c.values {
		return fmt.Errorf("%d values more than there should be", int64(h.values)-c.values)
	}
	c.values -= int64(h.values)
	c.pending = int(h.values)
	return nil
}

func (c *chunk) version1(h pageHeader, packed []byte) error {
	data, err := c.unpack(packed, int(h.size))
	if err != nil {
		return err
	}
	part := func(l *levels, max int, encoding int32) error {
		if max == 0 {
			l.reset(nil, 0, 0)
			return nil
		}
		if format.Encoding(encoding) != format.RLE {
			return &UnsupportedError{fmt.Sprintf("levels with encoding %v", format.Encoding(encoding)), tryEncoding}
		}
		if len(data) < 4 {
			return errLevels
		}
		n := binary.LittleEndian.Uint32(data)
		if uint64(n) > uint64(len(data)-4) {
			return errLevels
		}
		l.reset(data[4:4+n], max, width(max))
		data = data[4+n:]
		return nil
	}
	if err := part(&c.rep, c.leaf.maxRep, h.repLevel); err != nil {
		return err
	}
	if err := part(&c.def, c.leaf.maxDef, h.defLevel); err != nil {
		return err
	}
	if err := c.begin(h); err != nil {
		return err
	}
	return c.openValues(data, h)
}

func (c *chunk) version2(h pageHeader, packed []byte) error {
	n, m := int(h.repBytes), int(h.defBytes)
	if n > len(packed) || m > len(packed)-n || n > 0 && c.leaf.maxRep == 0 || m > 0 && c.leaf.maxDef == 0 || n+m > int(h.size) {
		return errLevels
	}
	c.rep.reset(packed[:n], c.leaf.maxRep, width(c.leaf.maxRep))
	c.def.reset(packed[n:n+m], c.leaf.maxDef, width(c.leaf.maxDef))
	data, err := packed[n+m:], error(nil)
	if !h.uncompressed && len(data) > 0 {
		data, err = c.unpack(data, int(h.size)-n-m)
	} else if len(data) != int(h.size)-n-m {
		err = errSize
	}
	if err != nil {
		return err
	}
	if err := c.begin(h); err != nil {
		return err
	}
	return c.openValues(data, h)
}

// openValues checks, before any row is made of it, that the page holds as many values as its levels say.
func (c *chunk) openValues(data []byte, h pageHeader) error {
	n := int(h.values)
	if _, err := c.rep.count(n); err != nil {
		return err
	}
	there, err := c.def.count(n)
	if err != nil {
		return err
	}
	c.read.leaf = c.leaf
	switch {
	case h.kind == dataPageV2 && n-there != int(h.nulls):
		return fmt.Errorf("%w: %d of %d are null, where %d should be", errValues, n-there, n, h.nulls)
	case !c.decodes():
		if there == 0 && len(data) > 2 || there > 0 && len(data) == 0 {
			return errAmount
		}
		return nil
	}
	if err := c.hold(&c.heldDecoded, c.read.decodes(data, format.Encoding(h.encoding), there)); err != nil {
		return err
	}
	if err := c.read.open(data, format.Encoding(h.encoding), there, c.dict); err != nil {
		return err
	}
	if !c.read.holds(there) {
		return errAmount
	}
	return nil
}

var errAmount = fmt.Errorf("%w: not as many as there should be", errValues)

// decodes reports whether values are read, and not levels alone.
func (c *chunk) decodes() bool {
	return c.wanted && c.leaf.kind != column.Other && c.leaf.kind != column.None
}

// take passes over n values that have been used.
func (c *chunk) take(n int) {
	c.rep.take(n)
	c.def.take(n)
	c.pending -= n
}

// checksum holds a page to its checksum. In a file with checksums, one that is not written is that of 0.
func (f *File) checksum(h pageHeader, data []byte) error {
	if !h.hasCRC {
		f.unsummed = true
		if !f.nonzero {
			f.nonzero = crc32.ChecksumIEEE(data) != 0
		}
	} else {
		f.summed = true
		if crc32.ChecksumIEEE(data) != h.crc {
			return errors.New("a page does not have its checksum")
		}
	}
	if f.summed && f.nonzero {
		return errors.New("some pages have a checksum and others have none")
	}
	return nil
}

var zstdOptions = []zstd.DOption{zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPage), zstd.WithDecoderMaxWindow(1 << 27)}
