//go:build unix

package wire

import (
	"errors"
	"syscall"
)

// peerClosed reports whether a write failed because the peer had closed or reset the connection.
func peerClosed(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}
