package durable

import (
	"os"
	"syscall"
)

// umasked runs f under a umask.
func umasked(mask os.FileMode, f func() error) error {
	defer syscall.Umask(syscall.Umask(int(mask)))
	return f()
}
