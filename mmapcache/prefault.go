package mmapcache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"
)

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
