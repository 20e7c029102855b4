//go:build unix

package hub

import "syscall"

// unreachableErrors are errors of a network that does not lead to a host.
var unreachableErrors = []error{syscall.ECONNREFUSED, syscall.ENETUNREACH, syscall.EHOSTUNREACH}

// checkWritable returns why nothing can be written in a directory, as far as its permissions tell.
func checkWritable(dir string) error { return syscall.Access(dir, 2) }

// freeBytes returns the free space of the disk of a directory, in bytes; ok is false if it is unknown.
func freeBytes(dir string) (n int64, ok bool) {
	var stat syscall.Statfs_t
	if syscall.Statfs(dir, &stat) != nil || stat.Bsize <= 0 {
		return 0, false
	}
	return int64(min(uint64(stat.Bavail), 1<<62/uint64(stat.Bsize))) * int64(stat.Bsize), true
}
