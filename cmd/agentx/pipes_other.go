//go:build !unix

package main

// noBrokenPipes does nothing: on this system a write to a pipe that nobody reads is an error anyway.
func noBrokenPipes() {}
