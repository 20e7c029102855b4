package mmapcache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/agentx/agentx/manifest"
)

// placementFile holds the starts: where in the prompt corpus every block and filler begins.
const placementFile = "starts.bin"

// startWidth is the size of a start in bytes. Three are enough for a corpus of up to 2^24 tokens, and starts are
// more than half of a cache.
func startWidth(corpusTokens int) int {
	if corpusTokens <= 1<<24 {
		return 3
	}
	return 4
}

// Placement is a table of starts that is being written, in any order and from several goroutines.
type Placement struct {
	b     *Builder
	f     *os.File
	n     int
	width int // bytes of a start
}

// NewPlacement begins the table of n starts, of blocks and then of fillers, in a corpus of the given length.
func (b *Builder) NewPlacement(n, corpusTokens int) (*Placement, error) {
	f, err := b.dir.Create(placementFile)
	if err != nil {
		return nil, err
	}
	p := &Placement{b, f, n, startWidth(corpusTokens)}
	if _, err := f.WriteAt(flatHeader(kindPlacement, p.width, n), 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return p, nil
}

// Put stores the starts from index first on.
func (p *Placement) Put(first int, starts []uint32) error {
	packed := make([]byte, 0, 4*len(starts))
	for _, v := range starts {
		packed = binary.LittleEndian.AppendUint32(packed, v)[:len(packed)+p.width]
	}
	_, err := p.f.WriteAt(packed, int64(headerSize+p.width*first))
	return err
}

// Abort gives up a table that cannot be finished.
func (p *Placement) Abort() { _ = p.f.Close() } // its directory will be discarded

// SetFacts sets what the manifest says about the placement.
func (p *Placement) SetFacts(f PlacementFacts) error { return p.b.setFacts(f) }

// Close ends the table after every start has been put. It reads the file back for its digest.
func (p *Placement) Close(ctx context.Context) error {
	size := int64(headerSize + p.width*p.n)
	sum := sha256.New()
	n, err := io.Copy(sum, io.NewSectionReader(p.f, 0, size))
	if err == nil && n != size {
		err = fmt.Errorf("%d of %d bytes written", n, size)
	}
	if err := errors.Join(err, p.f.Close(), ctx.Err()); err != nil {
		return fmt.Errorf("write %s: %w", p.b.dir.Path(placementFile), err)
	}
	p.b.addFile(placementFile, size, sum.Sum(nil))
	return nil
}

// placementTable is the mapped table of starts.
type placementTable struct {
	packed []byte
	width  int // bytes of a start
}

// readPlacement finds the table in a mapped file. Errors wrap ErrDamaged.
func readPlacement(data []byte) (t placementTable, err error) {
	if len(data) < headerSize {
		return t, fmt.Errorf("%w: %d bytes, the header has %d", manifest.ErrDamaged, len(data), headerSize)
	}
	t.width = int(binary.LittleEndian.Uint32(data[12:]))
	if t.width != 3 && t.width != 4 {
		return t, fmt.Errorf("%w: starts of %d bytes, want 3 or 4", manifest.ErrDamaged, t.width)
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

// headerSize is the size of the header of a flat file, in bytes. Its layout is in format.go.
const headerSize = 64

var flatMagic = [8]byte{'a', 'g', 'e', 'n', 't', 'x', 'F', '1'}

// flatHeader returns the header of a flat file of n elements of elementSize bytes.
func flatHeader(kind string, elementSize, n int) []byte {
	h := make([]byte, headerSize)
	copy(h, flatMagic[:])
	copy(h[8:12], kind)
	binary.LittleEndian.PutUint32(h[12:], uint32(elementSize))
	binary.LittleEndian.PutUint64(h[16:], uint64(n))
	return h
}

// writeFlat writes a whole flat file.
func writeFlat[T uint8 | uint32](w io.Writer, kind string, data []T) error {
	var zero T
	if _, err := w.Write(flatHeader(kind, binary.Size(zero), len(data))); err != nil {
		return err
	}
	_, err := w.Write(arrow.GetBytes(data))
	return err
}

// flatBody returns what follows the header of a flat file of elements of size bytes. Errors wrap ErrDamaged.
func flatBody(data []byte, kind string, size int) ([]byte, error) {
	if len(data) < headerSize || string(data[8:12]) != kind {
		return nil, fmt.Errorf("%w: no header of kind %s", manifest.ErrDamaged, kind)
	}
	n := binary.LittleEndian.Uint64(data[16:])
	if n > uint64(len(data)) || headerSize+int(n)*size != len(data) || !bytes.Equal(data[:headerSize], flatHeader(kind, size, int(n))) {
		return nil, fmt.Errorf("%w: the header does not match the size of %d bytes", manifest.ErrDamaged, len(data))
	}
	return data[headerSize:], nil
}

// readFlat returns the elements of a flat file, a view of data. Errors wrap ErrDamaged.
func readFlat[T uint8 | uint32](data []byte, kind string) ([]T, error) {
	var zero T
	body, err := flatBody(data, kind, binary.Size(zero))
	return arrow.GetData[T](body), err
}

// flatFile is the flat file of a slice.
func flatFile[T uint8 | uint32](name, kind string, list *[]T) file {
	return file{
		name:  name,
		read:  func(data []byte) (err error) { *list, err = readFlat[T](data, kind); return err },
		write: func(w io.Writer) error { return writeFlat(w, kind, *list) },
	}
}
