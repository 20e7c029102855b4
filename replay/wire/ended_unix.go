//go:build unix

package wire

import (
	"errors"
	"syscall"
)

// peerEnded reports whether an error says that the peer has ended the connection.
func peerEnded(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}
