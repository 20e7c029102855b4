package durable

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Options hold the lease, and the faults and clocks that tests inject. The zero value has neither.
type Options struct {
	// Step is called before every step that changes the disk, with its name and path. An error fails the step.
	Step func(name, path string) error
	// Sync forces an open file or directory to disk; nil is (*os.File).Sync.
	Sync func(*os.File) error
	// Heartbeat is the time between two heartbeats of a lease; 0 is DefaultHeartbeat.
	Heartbeat time.Duration
	// Lease is the lease under which directories are made: they can be published only while it is held. It may be nil.
	Lease *Lease
}

type optionsKey struct{}

// WithOptions returns a context that carries options to the functions that take a context.
func WithOptions(ctx context.Context, o Options) context.Context {
	return context.WithValue(ctx, optionsKey{}, o)
}

// OptionsOf returns the options of a context, the zero value where it has none. Under Lease.Context they hold the lease.
func OptionsOf(ctx context.Context) Options {
	o, _ := ctx.Value(optionsKey{}).(Options)
	return o
}

func (o Options) step(name, path string) error {
	if o.Step == nil {
		return nil
	}
	if err := o.Step(name, path); err != nil {
		return fmt.Errorf("%s %s: %w", name, path, err)
	}
	return nil
}

// sync forces a file or directory to disk.
func (o Options) sync(path string) error {
	if err := o.step("sync", path); err != nil {
		return err
	}
	f, err := openToSync(path)
	if err != nil || f == nil {
		return err
	}
	force := o.Sync
	if force == nil {
		force = (*os.File).Sync
	}
	return errors.Join(force(f), f.Close())
}

// SyncDir forces to disk which names a directory has.
func (o Options) SyncDir(path string) error { return o.sync(path) }

// MkdirAll creates a directory, root or below it, and the missing ones above it, and syncs the directory above each.
func MkdirAll(root, path string) error { return Options{}.mkdirAll(root, path) }

func (o Options) mkdirAll(root, path string) error {
	if err := o.step("mkdir", path); err != nil {
		return err
	}
	var missing []string
	for dir := filepath.Clean(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			break // any other error is that of os.MkdirAll
		}
		missing = append(missing, dir)
	}
	if err := os.MkdirAll(path, 0o777); err != nil {
		return err
	}
	for _, dir := range slices.Backward(missing) {
		if len(dir) > len(root) { // below it
			matchMode(filepath.Dir(dir), dir)
		}
	}
	for _, dir := range missing {
		if err := o.sync(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	return nil
}

// matchMode makes a directory or file that was just created as open to group and others as the directory above it. It
// follows no link, which could lead to any file of the user. Errors are ignored: another process may have created it
// meanwhile.
func matchMode(above, path string) {
	f, err := os.OpenFile(path, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return
	}
	matchFileMode(above, f)
	_ = f.Close()
}

// matchFileMode is matchMode for an open file.
func matchFileMode(above string, f *os.File) {
	like, err := os.Stat(above)
	if err != nil {
		return
	}
	info, err := f.Stat()
	if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
		return
	}
	perm := like.Mode().Perm()
	if !info.IsDir() {
		perm &= 0o666
	}
	if want := info.Mode()&^0o077 | perm&0o077; want != info.Mode() { // the owner's bits, and setgid, stay
		_ = f.Chmod(want)
	}
}
