package durable

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// noFollow opens a link in the place of a file as itself, which is no regular file. No file waits like a pipe here.
const noFollow = syscall.FILE_FLAG_OPEN_REPARSE_POINT

// processEnded reports false: boots and namespaces of processes have no names here, so a number tells nothing. A claim of a
// dead process is taken over after three heartbeats.
func processEnded(int) bool { return false }

// openToSync opens a file that is to be forced to disk, for writing: no other can be. A directory cannot at all, and the
// file system has a journal of names; for one the file is nil.
func openToSync(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() {
		return nil, err
	}
	return os.OpenFile(path, os.O_RDWR, 0)
}

// Errors of Windows that package syscall does not name.
const (
	sharingViolation = syscall.Errno(32) // another process has the file open
	handleDiskFull   = syscall.Errno(39)
	diskFull         = syscall.Errno(112)
)

// move renames a file or directory. What is in the way of a directory is an error that wraps fs.ErrExist. While another process has a file or directory open, nothing can be renamed:
// what only looks goes away in moments, and is waited for.
func move(from, to string) (err error) {
	was, err := os.Lstat(from)
	if err != nil {
		return err // Windows looks at what is in the way first
	}
	if is, err := os.Lstat(to); err == nil && was.IsDir() && !is.IsDir() {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: fs.ErrExist}
	}
	for wait := time.Millisecond; wait < time.Second; wait *= 2 {
		err = os.Rename(from, to)
		if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, sharingViolation) {
			return err
		}
		if info, statErr := os.Lstat(to); statErr == nil && info.IsDir() {
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: fs.ErrExist}
		}
		time.Sleep(wait)
	}
	return err
}

// IsDiskFull reports whether an error says that there is no room left on a disk.
func IsDiskFull(err error) bool {
	return errors.Is(err, diskFull) || errors.Is(err, handleDiskFull) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
