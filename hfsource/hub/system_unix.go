//go:build unix

package hub

import "syscall"

// noWay are the errors of connections that cannot be made at all.
var noWay = []error{syscall.ECONNREFUSED, syscall.ENETUNREACH, syscall.EHOSTUNREACH}

// writable returns why nothing can be written in a directory, as far as its permissions tell.
func writable(dir string) error { return syscall.Access(dir, 2) }

// freeBytes returns the bytes that can be written to the disk of a directory; ok is false where nobody knows.
func freeBytes(dir string) (n int64, ok bool) {
	var stat syscall.Statfs_t
	if syscall.Statfs(dir, &stat) != nil || stat.Bsize <= 0 {
		return 0, false
	}
	return int64(min(uint64(stat.Bavail), 1<<62/uint64(stat.Bsize))) * int64(stat.Bsize), true
}
