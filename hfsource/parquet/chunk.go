package parquet

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"

	"github.com/parquet-go/parquet-go/format"

	"github.com/agentx/agentx/hfsource/column"
)

const (
	maxPage   = 1 << 30 // bytes of a page, decompressed
	maxValues = 1 << 27 // values of a page, nulls included

	// readBuffer is the size of the buffer through which a chunk is read, unless a page header needs more.
	readBuffer = 1 << 16
)

// headerSizes are how many bytes are tried, in this order, until a page header is complete. A header repeats the smallest
// and the largest value of its page, which can be long texts.
var headerSizes = []int64{512, 1 << 16, 1 << 20, 32 << 20}

// chunk reads the pages of one column in one row group.
type chunk struct {
	file      *File
	leaf      *leaf
	codec     format.CompressionCodec
	source    *bufio.Reader
	remaining int64 // bytes of the chunk that were not read yet
	values    int64 // values of the pages behind the current one
	page      int   // number of the current page, from 1; dictionaries count
	dict      *dictionary

	pending                  int // values of the current page that were not taken yet, nulls included
	rep, def                 levels
	read                     values
	wanted                   bool // values are read; otherwise levels alone
	compressed, decompressed []byte

	// Bytes that file.held counts: of the largest page so far, of the dictionary, of what was decoded of the current page,
	// and of the read buffer beyond readBuffer.
	heldCompressed, heldDecompressed, heldDict, heldDecoded, heldSource int64
}

// hold sets how many bytes a part of the chunk occupies, before they are allocated.
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
	section := io.NewSectionReader(c.file.reader, chunkStart(m), m.TotalCompressedSize)
	if c.source == nil {
		c.source = bufio.NewReaderSize(section, readBuffer)
	} else {
		c.source.Reset(section)
	}
	c.codec, c.remaining, c.values = m.Codec, m.TotalCompressedSize, m.NumValues
	c.dict, c.page, c.pending = nil, 0, 0
	c.file.held -= c.heldDict + c.heldDecoded
	c.heldDict, c.heldDecoded = 0, 0
}

// next opens the next data page that has values. It returns io.EOF after the last page.
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
		default: // an index page, which has no use here
			continue
		}
		if err != nil || c.pending > 0 {
			return err
		}
	}
}

// header reads and checks the header of the next page.
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
	_, _ = c.source.Discard(n) // peeked bytes can be discarded
	c.remaining -= int64(n)
	c.file.countRead(n)
	switch {
	case int64(h.compressed) > c.remaining:
		return h, fmt.Errorf("a page of %d bytes, of which %d remain", h.compressed, c.remaining)
	case h.size > maxPage || h.values > maxValues:
		return h, fmt.Errorf("a page of %d bytes and %d values: more than %d and %d", h.size, h.values, maxPage, maxValues)
	case c.codec == format.Uncompressed && h.size != h.compressed:
		return h, fmt.Errorf("a page of %d bytes, whose header states %d", h.compressed, h.size)
	}
	return h, nil
}

// peek returns the next n bytes of the chunk, or fewer where the file ends. A larger read buffer, if n needs one, counts as
// held memory.
func (c *chunk) peek(n int64) ([]byte, error) {
	if n > int64(c.source.Size()) {
		if err := c.hold(&c.heldSource, n); err != nil {
			return nil, err
		}
		c.source = bufio.NewReaderSize(c.source, int(n))
	}
	head, err := c.source.Peek(int(n))
	if err != nil && len(head) == 0 {
		return nil, explainEOF(err)
	}
	return head, nil
}

// body reads a page, still compressed, and compares it with its checksum.
func (c *chunk) body(h pageHeader) ([]byte, error) {
	err := errors.Join(c.hold(&c.heldCompressed, max(c.heldCompressed, int64(h.compressed))),
		c.hold(&c.heldDecompressed, max(c.heldDecompressed, c.decompressedSize(h))))
	if err != nil {
		return nil, err
	}
	c.compressed = withRoom(c.compressed, int(h.compressed))
	if _, err := io.ReadFull(c.source, c.compressed); err != nil {
		return nil, explainEOF(err)
	}
	c.remaining -= int64(h.compressed)
	c.file.countRead(int(h.compressed))
	if h.kind == indexPage {
		return nil, nil
	}
	return c.compressed, c.file.checksum(h, c.compressed)
}

// decompressedSize returns how much memory a page takes in addition to its compressed form.
func (c *chunk) decompressedSize(h pageHeader) int64 {
	if c.codec == format.Uncompressed || h.kind == indexPage {
		return 0
	}
	return int64(h.size)
}

// decompress decompresses a page to exactly size bytes, which stay valid until the next page.
func (c *chunk) decompress(page []byte, size int) (_ []byte, err error) {
	if c.codec == format.Uncompressed {
		if len(page) != size {
			return nil, errSize
		}
		return page, nil
	}
	out, err := c.file.codecs.decompress(c.codec, page, c.decompressed, size)
	if err != nil {
		return nil, err
	}
	c.decompressed = out
	return out, nil
}

// checksum compares a page with its checksum. Where other pages have one, a page without has the checksum 0: some writers
// leave out a field that is 0.
func (f *File) checksum(h pageHeader, data []byte) error {
	if !h.hasCRC {
		f.withoutChecksum = true
		if !f.checksumOmitted {
			f.checksumOmitted = crc32.ChecksumIEEE(data) != 0
		}
	} else {
		f.withChecksum = true
		if crc32.ChecksumIEEE(data) != h.crc {
			return errors.New("a page does not match its checksum")
		}
	}
	if f.withChecksum && f.checksumOmitted {
		return errors.New("some pages have a checksum and others have none")
	}
	return nil
}

// explainEOF replaces the end of the file by an error, because the footer states more bytes.
func explainEOF(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errors.New("it ends too early")
	}
	return err
}

// dictionary reads a dictionary page.
func (c *chunk) dictionary(h pageHeader, page []byte) error {
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
	data, err := c.decompress(page, int(h.size))
	if err != nil {
		return err
	}
	c.dict, err = readDictionary(c.leaf, data, int(h.values))
	return err
}

// version1 opens a data page of version 1: levels, each behind its length, and values, compressed together.
func (c *chunk) version1(h pageHeader, page []byte) error {
	data, err := c.decompress(page, int(h.size))
	if err != nil {
		return err
	}
	if data, err = c.rep.cutFrom(data, c.leaf.maxRep, h.repLevel); err != nil {
		return err
	}
	if data, err = c.def.cutFrom(data, c.leaf.maxDef, h.defLevel); err != nil {
		return err
	}
	return c.begin(data, h)
}

// cutFrom takes the levels at the beginning of a page of version 1 and returns the rest of the page.
func (l *levels) cutFrom(data []byte, max int, encoding int32) ([]byte, error) {
	if max == 0 {
		l.reset(nil, 0, 0)
		return data, nil
	}
	if format.Encoding(encoding) != format.RLE {
		return nil, &UnsupportedError{fmt.Sprintf("levels with encoding %v", format.Encoding(encoding)), hintEncoding}
	}
	if len(data) < 4 {
		return nil, errLevels
	}
	n := binary.LittleEndian.Uint32(data)
	if uint64(n) > uint64(len(data)-4) {
		return nil, errLevels
	}
	l.reset(data[4:4+n], max, width(max))
	return data[4+n:], nil
}

// version2 opens a data page of version 2: levels, whose lengths are in the header, and values, which alone are compressed.
func (c *chunk) version2(h pageHeader, page []byte) error {
	n, m := int(h.repBytes), int(h.defBytes)
	if n > len(page) || m > len(page)-n || n > 0 && c.leaf.maxRep == 0 || m > 0 && c.leaf.maxDef == 0 || n+m > int(h.size) {
		return errLevels
	}
	c.rep.reset(page[:n], c.leaf.maxRep, width(c.leaf.maxRep))
	c.def.reset(page[n:n+m], c.leaf.maxDef, width(c.leaf.maxDef))
	data, err := page[n+m:], error(nil)
	if !h.uncompressed && len(data) > 0 {
		data, err = c.decompress(data, int(h.size)-n-m)
	} else if len(data) != int(h.size)-n-m {
		err = errSize
	}
	if err != nil {
		return err
	}
	return c.begin(data, h)
}

// width returns the bits of a level that is at most max.
func width(max int) int { return bits.Len(uint(max)) }

// begin makes a data page the current one.
func (c *chunk) begin(data []byte, h pageHeader) error {
	if int64(h.values) > c.values {
		return fmt.Errorf("%d values more than the footer states", int64(h.values)-c.values)
	}
	c.values -= int64(h.values)
	c.pending = int(h.values)
	return c.openValues(data, h)
}

// maxEmpty is how many bytes a page without values may have: what encodings write before the first value.
const maxEmpty = 16

// openValues checks that the page has as many values as its levels state, before the first value is used.
func (c *chunk) openValues(data []byte, h pageHeader) error {
	n := int(h.values)
	if _, err := c.rep.count(n); err != nil {
		return err
	}
	present, err := c.def.count(n)
	if err != nil {
		return err
	}
	c.read.leaf = c.leaf
	switch {
	case h.kind == dataPageV2 && n-present != int(h.nulls):
		return fmt.Errorf("%w: %d of %d are null, the header states %d", errValues, n-present, n, h.nulls)
	case !c.decodesValues():
		if present == 0 && len(data) > maxEmpty || present > 0 && len(data) == 0 {
			return errAmount
		}
		return nil
	}
	if err := c.hold(&c.heldDecoded, c.read.decodedSize(data, format.Encoding(h.encoding), present)); err != nil {
		return err
	}
	if err := c.read.open(data, format.Encoding(h.encoding), present, c.dict); err != nil {
		return err
	}
	if !c.read.holds(present) {
		return errAmount
	}
	return nil
}

// decodesValues reports whether values are read, and not levels alone.
func (c *chunk) decodesValues() bool {
	return c.wanted && c.leaf.kind != column.Other && c.leaf.kind != column.None
}

// take skips n values of the current page, which were used.
func (c *chunk) take(n int) {
	c.rep.take(n)
	c.def.take(n)
	c.pending -= n
}
