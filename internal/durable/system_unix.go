//go:build unix

package durable

import (
	"errors"
	"os"
	"syscall"
)

// noFollow opens a file without following a link in its place and without waiting for a pipe.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// processEnded reports whether no process has this number.
func processEnded(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// openToSync opens a file or directory to force it to disk.
func openToSync(path string) (*os.File, error) { return os.Open(path) }

// move renames a file or directory.
func move(from, to string) error { return os.Rename(from, to) }

// IsDiskFull reports whether an error says that there is no room left on a disk.
func IsDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
