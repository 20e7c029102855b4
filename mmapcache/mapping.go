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
func (d disk) openMapping(dir string, want manifest.File) (m *mapping, err error) {
	path := filepath.Join(dir, want.Name)
	err = d.anew(path, func() error {
		f, size, err := d.open(path)
		if err != nil {
			return err
		}
		defer f.Close() // the map outlives it
		if size != want.Size || size == 0 {
			return fmt.Errorf("%s: %w: %d bytes, the manifest says %d", path, manifest.ErrDamaged, size, want.Size)
		}
		data, err := mmap.Map(f.(*os.File), mmap.RDONLY, 0)
		if err != nil {
			return fmt.Errorf("%s: map: %w", path, err)
		}
		m = &mapping{path, data}
		return nil
	})
	return m, err
}

// holds reports whether an address lies in the map.
func (m *mapping) holds(addr uintptr) bool {
	if len(m.data) == 0 {
		return false
	}
	start := uintptr(unsafe.Pointer(&m.data[0]))
	return addr >= start && addr-start < uintptr(len(m.data))
}

// cut is the error of a map that its file does not fill any more.
func (m *mapping) cut() error {
	return fmt.Errorf("%s: %w: the file was cut or became unreadable while it was in use", m.path, manifest.ErrDamaged)
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
				return m.cut()
			}
		}
	}
	panic(r)
}
