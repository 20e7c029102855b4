//go:build !linux

package cachedir

// IsLocal reports whether a directory is on a file system that only this machine sees. On this system that is unknown.
func IsLocal(string) bool { return false }
