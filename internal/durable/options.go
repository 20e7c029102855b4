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

// step calls the hook of tests before a step that changes the disk.
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
func MkdirAll(root, path string) error { return Options{}.mkdirAll(root, path, matchMode) }

// MkdirShared is MkdirAll for a directory in which every user of root has entries: what lies directly below root is as open as root. One
// that exists becomes sticky where everybody may write in it.
func MkdirShared(root, path string) error { return Options{}.mkdirShared(root, path) }

func (o Options) mkdirShared(root, path string) error {
	root = filepath.Clean(root)
	err := o.mkdirAll(root, path, func(above, dir string) {
		if above == root {
			shareMode(above, dir)
		} else {
			matchMode(above, dir)
		}
	})
	if info, statErr := os.Lstat(path); statErr == nil && IsOpen(info) && info.Mode()&fs.ModeSticky == 0 && filepath.Dir(path) == root {
		shareMode(root, path) // made before these were sticky, by this user or in vain
	}
	return err
}

// mkdirAll is MkdirAll that lets match set the mode of each directory it makes below root.
func (o Options) mkdirAll(root, path string, match func(above, dir string)) error {
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
			match(filepath.Dir(dir), dir)
		} else {
			setMode(filepath.Dir(dir), dir, rootMode)
		}
	}
	for _, dir := range missing {
		if err := o.sync(filepath.Dir(dir)); err != nil {
			return err
		}
	}
	return nil
}
