//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// noBrokenPipes makes a write to a pipe that nobody reads an error, in place of the end of the process.
func noBrokenPipes() { signal.Ignore(syscall.SIGPIPE) }
