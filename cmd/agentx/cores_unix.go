//go:build unix

package main

import "syscall"

// noCores keeps the system from writing the memory of this process to disk when it crashes.
func noCores() {
	_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}) // it can always be lowered
}
