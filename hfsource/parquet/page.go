package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/parquet-go/parquet-go/format"

	"github.com/agentx/agentx/hfsource/column"
)

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
