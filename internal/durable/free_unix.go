//go:build unix

package durable

import "syscall"

// FreeBytes returns the free space of the disk of a directory, in bytes; ok is false if it is unknown.
func FreeBytes(dir string) (n int64, ok bool) {
	var stat syscall.Statfs_t
	if syscall.Statfs(dir, &stat) != nil || stat.Bsize <= 0 {
		return 0, false
	}
	return int64(min(uint64(stat.Bavail), 1<<62/uint64(stat.Bsize))) * int64(stat.Bsize), true
}
