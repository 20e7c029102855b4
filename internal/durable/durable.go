// Package durable makes files and directories appear whole or not at all, on local disks and on NFS, and says who may
// make them.
//
// The order is always the same: everything is written under a staging name, every file is synced, the staging
// directory is synced, one rename puts it under its final name, and the directory above is synced. A crash at any
// instant leaves the final name absent or complete. What a crash leaves of the staging directory is never read, and swept
// (sweep.go).
//
// Where many processes want the same, one holds a lease and makes it while the others wait (lease.go). Who only reads
// leaves a note that it is there if it may (use.go), and then waits for nobody but one who is just removing the same
// (removal.go).
//
// What is made below a root is as open to group and others as the directory that it is made in, whatever the umask: a
// root that its owner has opened for a group stays usable for the group.
package durable

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// StagingDir is the directory below a root in which unfinished directories live.
const StagingDir = ".staging"

// Options are the parts of the world that tests replace. The zero value is the real one.
type Options struct {
	// Step is called before every step that touches the disk, with its name and path; an error fails the step.
	Step func(name, path string) error
	// Sync forces an open file or directory to disk; nil is (*os.File).Sync. Tests that build much leave it out.
	Sync func(*os.File) error
	// Heartbeat is the time between two heartbeats of a lease; 0 is DefaultHeartbeat.
	Heartbeat time.Duration
	// Lease is the claim under which directories are made: they can be published only as long as it is held. It may be nil.
	Lease *Lease
}

type optionsKey struct{}

// WithOptions returns a context under which NewBuilder, Acquire and what else takes its options from the context find o:
// tests put faults and heartbeats in.
func WithOptions(ctx context.Context, o Options) context.Context {
	return context.WithValue(ctx, optionsKey{}, o)
}

// OptionsOf returns the options of a context, the zero value where it has none. Under a lease's Context they hold that
// lease.
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

// mkdirAll creates a directory, root or below it, and those above it, and syncs the directory above each that was not
// there.
func (o Options) mkdirAll(root, path string) error {
	if err := o.step("mkdir", path); err != nil {
		return err
	}
	var missing []string
	for dir := filepath.Clean(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			break // what is wrong with it MkdirAll will say
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

// matchMode makes a directory or file that was just created as open to group and others as the directory it is in. It is
// best effort: what another process has created meanwhile is that process's business. It follows no link, which could
// lead to any file of whoever runs this.
func matchMode(above, path string) {
	f, err := os.OpenFile(path, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return
	}
	matchFileMode(above, f)
	_ = f.Close()
}

// matchFileMode is openLike for a file that is open.
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

// Dir is a directory under construction.
type Dir struct {
	root string // the final name lies below it
	path string // the staging directory
	opts Options
}

// NewDir creates a staging directory below root, which is created if need be. Its name tells host, boot and process
// apart, so that no two builders ever share one and a person, or Sweep, can tell whose it is.
func NewDir(root string, opts Options) (*Dir, error) {
	root = filepath.Clean(root)
	staging := filepath.Join(root, StagingDir)
	if l := opts.Lease; l != nil && l.root != root {
		return nil, fmt.Errorf("%s: the lease on %s is for %s", root, l.name, l.root)
	} else if l != nil {
		staging = l.path
	} else if err := opts.mkdirAll(root, staging); err != nil {
		return nil, err
	}
	d := &Dir{root: root, path: filepath.Join(staging, newOwner().fileName()), opts: opts}
	if err := opts.step("mkdir", d.path); err != nil {
		return nil, err
	}
	if err := os.Mkdir(d.path, 0o777); err != nil {
		return nil, opts.Lease.asLost(err)
	}
	matchMode(staging, d.path)
	return d, nil
}

// Path returns the path of a file inside the staging directory.
func (d *Dir) Path(name string) string { return filepath.Join(d.path, name) }

// Create creates a file in the directory, for reading and writing. The caller closes it before Publish.
func (d *Dir) Create(name string) (*os.File, error) {
	if err := d.opts.step("create", d.Path(name)); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(d.Path(name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, d.opts.Lease.asLost(err)
	}
	matchFileMode(d.path, f)
	return f, nil
}

// Write writes a whole small file.
func (d *Dir) Write(name string, data []byte) error {
	f, err := d.Create(name)
	if err != nil {
		return err
	}
	err = d.opts.step("write", d.Path(name))
	if err == nil {
		_, err = f.Write(data)
	}
	return errors.Join(err, f.Close())
}

// Root returns the directory below which the final name lies.
func (d *Dir) Root() string { return d.root }

// Publish makes the directory appear as name, a slash-separated path below the root. If that name is taken, it stays
// as it is, existed is true, and the staging directory is left for Replace or Discard. Either way the name is on disk when it returns.
func (d *Dir) Publish(name string) (existed bool, err error) {
	final := filepath.Join(d.root, filepath.FromSlash(name))
	parent := filepath.Dir(final)
	if err := d.opts.mkdirAll(d.root, parent); err != nil {
		return false, err
	}
	if err := d.syncAll(); err != nil {
		return false, d.opts.Lease.asLost(err)
	}
	if err := d.opts.step("rename", final); err != nil {
		return false, err
	}
	if err := rename(d.path, final); err != nil {
		// EEXIST or ENOTEMPTY: a directory of that name; ENOTDIR: a file. On Windows ENOTDIR also says that a path is gone.
		if isGone(err) || !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTDIR) {
			return false, d.opts.Lease.asLost(err)
		}
		existed = true // perhaps by a builder that has not synced it yet
	}
	for dir := parent; ; dir = filepath.Dir(dir) {
		if err := d.opts.sync(dir); err != nil {
			return false, err
		}
		if dir == d.root || len(dir) <= len(d.root) {
			return existed, nil
		}
	}
}

// Replace is Publish for a name that may hold a damaged directory, or a file, which is put aside first and then removed. Readers
// that have its files open keep them. It is put aside beside the staging directory: who has lost the lease cannot do that.
func (d *Dir) Replace(name string) error {
	final := filepath.Join(d.root, filepath.FromSlash(name))
	trash := filepath.Join(filepath.Dir(d.path), newOwner().fileName())
	if err := d.opts.step("rename", trash); err != nil {
		return err
	}
	if err := rename(final, trash); errors.Is(err, fs.ErrNotExist) {
		if err := d.opts.Lease.asLost(err); errors.Is(err, ErrLost) {
			return err
		}
	} else if err != nil {
		return err
	}
	_, err := d.Publish(name)
	return errors.Join(err, removeAll(trash))
}

// Discard removes the staging directory. After Publish it does nothing.
func (d *Dir) Discard() error { return removeAll(d.path) }

func (d *Dir) syncAll() error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := d.opts.sync(d.Path(e.Name())); err != nil {
			return err
		}
	}
	return d.opts.sync(d.path)
}

// WriteFile makes a single file appear whole under path, replacing what was there.
func WriteFile(path string, data []byte) error { return Options{}.writeFile(path, data) }

func (o Options) writeFile(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := o.step("create", path); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = o.sync(f.Name())
	}
	if err == nil {
		err = o.step("rename", path)
	}
	if err == nil {
		err = move(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return o.sync(dir)
}
