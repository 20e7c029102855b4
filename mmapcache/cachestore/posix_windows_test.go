package cachestore

import (
	"os"
	"testing"
)

// mkfifo skips the test: Windows has no pipes among its files.
func mkfifo(t *testing.T, _ string) error {
	t.Skip("no pipes among files on Windows")
	return nil
}

// umasked skips the test: Windows has neither umasks nor permissions of groups.
func umasked(t *testing.T, _ os.FileMode, _ func() error) error {
	t.Skip("no umask on Windows")
	return nil
}
