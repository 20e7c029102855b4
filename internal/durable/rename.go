package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// isGone reports whether an error says that a file or directory no longer exists: on NFS also by the name of a handle.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESTALE) }

// rename is os.Rename for a file system that may lose the answer: it then finds the rename already done.
func rename(from, to string) error {
	was, statErr := os.Lstat(from)
	err := move(from, to)
	if err != nil && isGone(err) && statErr == nil {
		if now, statErr := os.Lstat(to); statErr == nil && os.SameFile(was, now) {
			return nil
		}
	}
	return err
}

// removeThrough renames a directory into another one, so that its old name is free at once, and removes it there. A missing
// directory is no error.
func removeThrough(path, into string, opts Options) error {
	trash := filepath.Join(into, newOwner().fileName())
	err := opts.step("rename", path)
	if err == nil {
		err = rename(path, trash)
	}
	switch {
	case isGone(err):
		return nil
	case errors.Is(err, syscall.EXDEV):
		trash = path // of a lower layer of overlayfs: no live process has made it there
	case err != nil:
		return asForeign(path, err)
	}
	return asForeign(trash, removeAll(trash)) // the owner of a sticky directory may rename what others have in it, and no more
}

// removeAll removes a directory and what is in it. It tries several times, because a slow process may still write into its
// claim. Files .nfs*, which an NFS client keeps while a process on it has the removed file open, may stay: Sweep removes
// them when that process has ended.
func removeAll(path string) (err error) {
	for range 10 {
		if err = os.RemoveAll(path); err == nil || hasOnlyNFSFiles(path) {
			return nil
		}
		if !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return err
}

// hasOnlyNFSFiles reports whether a directory holds files that an NFS client keeps, and no others.
func hasOnlyNFSFiles(path string) bool {
	files := 0
	err := filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			if files++; !strings.HasPrefix(e.Name(), ".nfs") {
				return fs.ErrExist
			}
		}
		return err
	})
	return err == nil && files > 0
}
