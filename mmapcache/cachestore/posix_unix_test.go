//go:build unix

package cachestore

import (
	"os"
	"syscall"
	"testing"
)

// mkfifo makes a named pipe.
func mkfifo(_ *testing.T, path string) error { return syscall.Mkfifo(path, 0o666) }

// umasked runs f under a umask.
func umasked(_ *testing.T, mask os.FileMode, f func() error) error {
	defer syscall.Umask(syscall.Umask(int(mask)))
	return f()
}
