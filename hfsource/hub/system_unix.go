//go:build unix

package hub

import "syscall"

// unreachableErrors are errors of a network that does not lead to a host.
var unreachableErrors = []error{syscall.ECONNREFUSED, syscall.ENETUNREACH, syscall.EHOSTUNREACH}

// checkWritable returns why nothing can be written in a directory, as far as its permissions tell.
func checkWritable(dir string) error { return syscall.Access(dir, 2) }
