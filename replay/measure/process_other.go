//go:build !unix

package measure

// ReadProcessUsage returns zeros: this system does not tell.
func ReadProcessUsage() ProcessUsage { return ProcessUsage{} }
