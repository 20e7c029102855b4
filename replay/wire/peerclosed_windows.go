package wire

import (
	"errors"
	"syscall"
)

// connectionAborted is WSAECONNABORTED, the error of a connection that the peer has closed.
const connectionAborted = syscall.Errno(10053)

// peerClosed reports whether a write failed because the peer had closed or reset the connection.
func peerClosed(err error) bool {
	return errors.Is(err, connectionAborted) || errors.Is(err, syscall.WSAECONNRESET)
}
