package mmapcache

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/agentx/agentx/manifest"
)

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
