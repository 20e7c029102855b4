// Package durable makes files and directories appear whole or not at all, on local disks and on NFS.
//
// The order is always the same: everything is written under a staging name, every file is synced, the staging
// directory is synced, one rename puts it under its final name, and the directory above is synced. A crash at any
// instant leaves the final name absent or complete. What a crash leaves of the staging directory is never read.
package durable

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// StagingDir is the directory below a root in which unfinished directories live.
const StagingDir = ".staging"

// Options are the parts of the world that tests replace. The zero value is the real one.
type Options struct {
	// Step is called before every step that touches the disk, with its name and path; an error fails the step.
	Step func(name, path string) error
	// Sync forces an open file or directory to disk; nil is (*os.File).Sync. Tests that build much leave it out.
	Sync func(*os.File) error
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
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	force := o.Sync
	if force == nil {
		force = (*os.File).Sync
	}
	return errors.Join(force(f), f.Close())
}

// mkdirAll creates a directory and those above it, and syncs the directory above each that was not there.
func (o Options) mkdirAll(path string) error {
	if err := o.step("mkdir", path); err != nil {
		return err
	}
	var above []string
	for dir := filepath.Clean(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			break // what is wrong with it MkdirAll will say
		}
		above = append(above, filepath.Dir(dir))
	}
	if err := os.MkdirAll(path, 0o777); err != nil {
		return err
	}
	for _, dir := range above {
		if err := o.sync(dir); err != nil {
			return err
		}
	}
	return nil
}

// Dir is a directory under construction.
type Dir struct {
	root string // the final name lies below it
	path string // the staging directory
	opts Options
}

// NewDir creates a staging directory below root, which is created if need be. Its name tells host, boot and process
// apart, so that no two builders ever share one and a person can tell whose it is: what a killed build leaves stays until
// it is removed by hand.
func NewDir(root string, opts Options) (*Dir, error) {
	root = filepath.Clean(root)
	staging := filepath.Join(root, StagingDir)
	if err := opts.mkdirAll(staging); err != nil {
		return nil, err
	}
	path := filepath.Join(staging, stagingName())
	if err := opts.step("mkdir", path); err != nil {
		return nil, err
	}
	if err := os.Mkdir(path, 0o777); err != nil {
		return nil, err
	}
	return &Dir{root: root, path: path, opts: opts}, nil
}

// stagingName is host, boot id, pid and a random part.
func stagingName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		boot = []byte("unknown")
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // crypto/rand never fails
	clean := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r == '/' || r == '_' || r < ' ' {
				return '-'
			}
			return r
		}, strings.TrimSpace(s))
	}
	return fmt.Sprintf("%s_%s_%d_%s", clean(host), clean(string(boot)), os.Getpid(), hex.EncodeToString(random[:]))
}

// Path returns the path of a file inside the staging directory.
func (d *Dir) Path(name string) string { return filepath.Join(d.path, name) }

// Create creates a file in the directory, for reading and writing. The caller closes it before Publish.
func (d *Dir) Create(name string) (*os.File, error) {
	if err := d.opts.step("create", d.Path(name)); err != nil {
		return nil, err
	}
	return os.OpenFile(d.Path(name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
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
	if err := d.opts.mkdirAll(parent); err != nil {
		return false, err
	}
	if err := d.syncAll(); err != nil {
		return false, err
	}
	if err := d.opts.step("rename", final); err != nil {
		return false, err
	}
	if err := os.Rename(d.path, final); err != nil {
		if !errors.Is(err, fs.ErrExist) { // EEXIST or ENOTEMPTY: a directory of that name
			return false, err
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

// Replace is Publish for a name that may hold a damaged directory, which is put aside first and then removed. Readers
// that have its files open keep them.
func (d *Dir) Replace(name string) error {
	final := filepath.Join(d.root, filepath.FromSlash(name))
	trash := d.path + "_old"
	if err := d.opts.step("rename", trash); err != nil {
		return err
	}
	if err := os.Rename(final, trash); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, err := d.Publish(name)
	return errors.Join(err, os.RemoveAll(trash))
}

// Discard removes the staging directory. After Publish it does nothing.
func (d *Dir) Discard() error { return os.RemoveAll(d.path) }

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
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return o.sync(dir)
}

// Remove removes the directory name below root: it is renamed away first, so that nobody opens it half removed, and that
// is on disk before anything is removed for good.
func Remove(root, name string) error {
	d, err := NewDir(root, Options{})
	if err != nil {
		return err
	}
	path := filepath.Join(root, filepath.FromSlash(name))
	err = os.Rename(path, d.Path("removed"))
	if err == nil {
		err = d.opts.sync(filepath.Dir(path))
	}
	return errors.Join(err, d.Discard())
}
