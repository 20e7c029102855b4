package mmapcache

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"unsafe"

	mmap "github.com/edsrzf/mmap-go"

	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache/internal/cachedir"
)

// mapping is one mapped file.
type mapping struct {
	path string
	data mmap.MMap
}

// maps are the mapped files of a cache.
type maps struct {
	mu   sync.Mutex
	list []*mapping
}

func (m *maps) add(file *mapping) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = append(m.list, file)
}

// all returns the files that are mapped now.
func (m *maps) all() []*mapping {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clip(m.list)
}

// close unmaps all files.
func (m *maps) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, file := range m.list {
		errs = append(errs, file.data.Unmap())
	}
	m.list = nil
	return errors.Join(errs...)
}

// openMapping maps a file, which must have the size that its manifest gives.
func (d disk) openMapping(dir string, want manifest.File) (m *mapping, err error) {
	path := filepath.Join(dir, want.Name)
	err = d.with(path, want.Size, func(f fs.File) error { // the map outlives it
		data, err := mmap.Map(f.(*os.File), mmap.RDONLY, 0)
		if err != nil {
			return fmt.Errorf("%s: map: %w", path, err)
		}
		m = &mapping{path, data}
		return nil
	})
	return m, err
}

// load reads a file, which must have the size that its manifest gives, into memory.
func (d disk) load(dir string, want manifest.File) (data []byte, err error) {
	path := filepath.Join(dir, want.Name)
	err = d.with(path, want.Size, func(f fs.File) error {
		data = make([]byte, want.Size)
		_, err := io.ReadFull(f, data)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return fmt.Errorf("%s: %w: it was cut while it was read", path, manifest.ErrDamaged)
		}
		return err
	})
	return data, err
}

// with calls use with an open file, which must have a size above 0.
func (d disk) with(path string, size int64, use func(fs.File) error) error {
	err := d.Reopen(path, func() error {
		f, n, err := d.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if n != size || n == 0 {
			return fmt.Errorf("%s: %w: %d bytes, the manifest says %d", path, manifest.ErrDamaged, n, size)
		}
		return use(f)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w: %w", path, manifest.ErrDamaged, cachedir.ErrMissing)
	}
	return err
}

// holds reports whether an address lies in the map.
func (m *mapping) holds(addr uintptr) bool {
	if len(m.data) == 0 {
		return false
	}
	start := uintptr(unsafe.Pointer(&m.data[0]))
	return addr >= start && addr-start < uintptr(len(m.data))
}

// cut is the error of a map whose file has become shorter.
func (m *mapping) cut() error {
	return fmt.Errorf("%s: %w: the file was cut or became unreadable while it was in use", m.path, manifest.ErrDamaged)
}

// Guard runs f, which reads the cache, and turns a page fault into an error that wraps ErrDamaged and names the file: it
// was cut or became unreadable under the map. Other panics go on.
func (c *Cache) Guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = c.fault(r)
		}
	}()
	return f()
}

// fault returns the error for a recovered page fault in one of the maps, and panics again with anything else.
func (c *Cache) fault(r any) error {
	var at interface{ Addr() uintptr }
	if e, ok := r.(error); ok && errors.As(e, &at) {
		for _, m := range c.maps.all() {
			if m.holds(at.Addr()) {
				return m.cut()
			}
		}
	}
	panic(r)
}
