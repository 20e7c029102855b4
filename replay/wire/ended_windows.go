package wire

import (
	"errors"
	"syscall"
)

// connectionAborted is WSAECONNABORTED, as Windows says of a connection that the peer has ended.
const connectionAborted = syscall.Errno(10053)

// peerEnded reports whether an error says that the peer has ended the connection.
func peerEnded(err error) bool {
	return errors.Is(err, connectionAborted) || errors.Is(err, syscall.WSAECONNRESET)
}
