package mmapcache

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"unsafe"

	mmap "github.com/edsrzf/mmap-go"

	"github.com/agentx/agentx/manifest"
)

// mapping is one mapped file.
type mapping struct {
	path string
	data mmap.MMap
}

// openMapping maps a file of the size that its manifest gives.
func openMapping(dir string, want manifest.File) (*mapping, error) {
	path := filepath.Join(dir, want.Name)
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the map outlives it
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() != want.Size {
		return nil, fmt.Errorf("%s: %w: %d bytes, the manifest says %d", path, manifest.ErrDamaged, info.Size(), want.Size)
	}
	data, err := mmap.Map(f, mmap.RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: map: %w", path, err)
	}
	return &mapping{path, data}, nil
}

// holds reports whether an address lies in the map.
func (m *mapping) holds(addr uintptr) bool {
	if len(m.data) == 0 {
		return false
	}
	start := uintptr(unsafe.Pointer(&m.data[0]))
	return addr >= start && addr-start < uintptr(len(m.data))
}

// Guard runs f, which reads the cache, and turns a page fault into an error that names the file: it was cut, removed or
// became unreadable under the map. Other panics go on.
func (c *Cache) Guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = c.fault(r)
		}
	}()
	return f()
}

// fault returns the error for a recovered page fault in one of the cache's maps and panics again with anything else.
func (c *Cache) fault(r any) error {
	var at interface{ Addr() uintptr }
	if e, ok := r.(error); ok && errors.As(e, &at) {
		for _, m := range c.maps {
			if m.holds(at.Addr()) {
				return fmt.Errorf("%s: %w: the file was cut or became unreadable while it was in use", m.path, manifest.ErrDamaged)
			}
		}
	}
	panic(r)
}
