package mmapcache

import (
	"encoding/binary"
	"fmt"

	"github.com/agentx/agentx/manifest"
)

const placementFile = "starts.bin"

// startWidth is the size of a start in bytes. Three hold a place in any corpus of up to 16 M tokens, and starts are more
// than half of a cache.
func startWidth(corpusTokens int) int {
	if corpusTokens <= 1<<24 {
		return 3
	}
	return 4
}

// placementTable is the mapped table of starts.
type placementTable struct {
	packed []byte
	width  int
}

// readPlacement finds the table in a mapped file. Errors wrap manifest.ErrDamaged.
func readPlacement(data []byte) (t placementTable, err error) {
	if len(data) < headerSize {
		return t, fmt.Errorf("%w: no header", manifest.ErrDamaged)
	}
	t.width = int(binary.LittleEndian.Uint32(data[12:]))
	if t.width != 3 && t.width != 4 {
		return t, fmt.Errorf("%w: starts of %d bytes", manifest.ErrDamaged, t.width)
	}
	t.packed, err = flatBody(data, kindPlacement, t.width)
	return t, err
}

func (t placementTable) len() int { return len(t.packed) / max(1, t.width) }

// at returns start i.
func (t placementTable) at(i int) uint32 {
	b := t.packed[i*t.width:]
	v := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
	if t.width == 4 {
		v |= uint32(b[3]) << 24
	}
	return v
}
