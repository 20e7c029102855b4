//go:build !unix

package measure

// ReadProcessUsage returns zeros: it is not implemented for this system.
func ReadProcessUsage() ProcessUsage { return ProcessUsage{} }
