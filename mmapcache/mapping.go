package mmapcache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"syscall"
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

// prefaultWindow is how many bytes are populated at once: enough to read the disk in large pieces, few enough to stop
// soon after the context ends.
const prefaultWindow = 4 << 20

// Prefault opens all shards, and brings the whole cache into memory and into the page tables of this process. No page fault then stops
// a goroutine that sends. After every 4 MiB it calls progress, which may be nil, with the bytes done and their total. When
// memory is short the kernel may drop pages, and reads them from disk when they are touched.
//
// The error is that of ctx, or wraps ErrDamaged and names a file that was cut or became unreadable.
func (c *Cache) Prefault(ctx context.Context, progress func(done, total int64)) error {
	return c.prefault(ctx, populate, progress)
}

// prefault is Prefault with another call that populates a window.
func (c *Cache) prefault(ctx context.Context, populate func(window []byte) error, progress func(done, total int64)) error {
	err := c.eachAtOnce(runtime.GOMAXPROCS(0), func(s *shard) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		_, err := c.take(s)
		return err
	})
	if err != nil {
		return err
	}
	var done, total int64
	maps := c.maps.all()
	for _, m := range maps {
		total += int64(len(m.data))
	}
	for _, m := range maps {
		for rest := []byte(m.data); len(rest) > 0; {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := min(len(rest), prefaultWindow)
			if err := c.fetch(m, rest[:n], populate); err != nil {
				return err
			}
			rest = rest[n:]
			if done += int64(n); progress != nil {
				progress(done, total)
			}
		}
	}
	return nil
}

// fetch populates a window of a map, or touches its pages where the kernel has no such call.
func (c *Cache) fetch(m *mapping, window []byte, populate func([]byte) error) error {
	switch err := populate(window); {
	case errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS):
		return c.Guard(func() error { touch(window); return nil })
	case errors.Is(err, syscall.EFAULT) || errors.Is(err, syscall.EIO):
		return m.cut()
	case err != nil:
		return fmt.Errorf("%s: prefault: %w", m.path, err)
	}
	return nil
}

// touch reads a byte of every page.
//
//go:noinline
func touch(window []byte) (sum byte) {
	for k := 0; k < len(window); k += os.Getpagesize() {
		sum += window[k]
	}
	return sum
}
