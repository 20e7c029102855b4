package durable

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

// noFollow opens a link in the place of a file as itself, which is not a regular file. No file waits like a pipe here.
const noFollow = syscall.FILE_FLAG_OPEN_REPARSE_POINT

// processEnded reports false: Windows names neither boots nor process namespaces, so a number says nothing. The claim of a
// dead process is taken over after three heartbeats.
func processEnded(int) bool { return false }

// openToSync opens a file to force it to disk, for writing, as Windows demands. For a directory it returns nil: Windows
// cannot sync one, and its file system keeps a journal of names.
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

// move renames a file or directory. Where something has the name of a directory's target, the error wraps fs.ErrExist.
// While another process has a file open, Windows renames neither it nor the directories above it: move waits up to a
// second, because a process that only reads closes it soon.
func move(from, to string) (err error) {
	was, err := os.Lstat(from)
	if err != nil {
		return err // Windows would report an existing target first
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

// foreignOwner returns "": who may do what is not told from owners there.
func foreignOwner(string) string { return "" }

func mayTakeAway(string) bool { return true }

// IsOpen reports false: modes do not say who may write there.
func IsOpen(fs.FileInfo) bool { return false }

// FreeBytes returns the free space of the disk of a directory, in bytes; ok is false if it is unknown.
func FreeBytes(dir string) (n int64, ok bool) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, false
	}
	var free uint64
	err = windows.GetDiskFreeSpaceEx(name, &free, nil, nil)
	return int64(min(free, 1<<62)), err == nil
}
