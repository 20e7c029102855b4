//go:build unix

package manifest

import (
	"syscall"
	"testing"
)

// mkfifo makes a named pipe.
func mkfifo(_ *testing.T, path string) error { return syscall.Mkfifo(path, 0o666) }

// posix begins a test that needs what Windows does not have.
func posix(*testing.T, string) {}
