// Package faultdisk provides disks that fail as network file systems do, for tests.
package faultdisk

import (
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/agentx/agentx/mmapcache/internal/cachedir"
)

// Client is an NFS client that remembers names as missing until it reads the directory above. Every first attempt to read a
// directory fails with ESTALE.
type Client struct {
	Missing map[string]bool // paths
	Lists   int             // attempts to read a directory
}

// knows reports whether nothing on the way to a path is remembered as missing.
func (c *Client) knows(path string) bool {
	for ; path != filepath.Dir(path); path = filepath.Dir(path) {
		if c.Missing[path] {
			return false
		}
	}
	return true
}

// Disk returns the real disk as this client sees it.
func (c *Client) Disk() cachedir.Disk {
	missing := func(path string) error {
		if c.knows(path) {
			return nil
		}
		return &fs.PathError{Op: "open", Path: path, Err: syscall.ENOENT}
	}
	return disk(missing, func(dir string) error {
		if c.Lists++; c.Lists%2 == 1 {
			return &fs.PathError{Op: "open", Path: dir, Err: syscall.ESTALE}
		}
		if err := missing(dir); err != nil {
			return err
		}
		for path := range c.Missing {
			if filepath.Dir(path) == dir {
				delete(c.Missing, path)
			}
		}
		return nil
	})
}

// disk returns the real disk, whose calls fail where a function gives an error for their path.
func disk(file, list func(path string) error) cachedir.Disk {
	d := cachedir.NewDisk()
	return cachedir.Disk{
		Open: func(path string) (fs.File, int64, error) {
			if err := file(path); err != nil {
				return nil, 0, err
			}
			return d.Open(path)
		},
		Stat: func(path string) (fs.FileInfo, error) {
			if err := file(path); err != nil {
				return nil, err
			}
			return d.Stat(path)
		},
		ReadDir: func(dir string) ([]fs.DirEntry, error) {
			if err := list(dir); err != nil {
				return nil, err
			}
			return d.ReadDir(dir)
		},
	}
}

// Stale makes calls to a disk fail.
type Stale struct {
	Calls int                  // so far
	Fails func(call int) error // the error of a call, from 1; nil: it succeeds
}

// Fail counts a call and returns its error.
func (s *Stale) Fail(path string) error {
	s.Calls++
	if err := s.Fails(s.Calls); err != nil {
		return &fs.PathError{Op: "reach", Path: path, Err: err}
	}
	return nil
}

// StaleFile is a file whose reads count as calls and fail like them.
type StaleFile struct {
	fs.File
	*Stale
}

func (f StaleFile) Read(p []byte) (int, error) {
	if err := f.Fail("what was opened"); err != nil {
		return 0, err
	}
	return f.File.Read(p)
}

// Disk returns the real disk with these faults. Mapped says that tables are mapped, not read.
func (s *Stale) Disk(mapped bool) cachedir.Disk {
	d := disk(s.Fail, s.Fail)
	open := d.Open
	d.Open = func(path string) (fs.File, int64, error) {
		f, size, err := open(path)
		if err == nil && !(mapped && filepath.Ext(path) != ".json" || filepath.Base(path) == "text.json") {
			f = StaleFile{f, s}
		}
		return f, size, err
	}
	return d
}
