//go:build unix

package mmapcache

import (
	"syscall"
	"testing"
)

// mkfifo makes a named pipe.
func mkfifo(_ *testing.T, path string) error { return syscall.Mkfifo(path, 0o666) }
