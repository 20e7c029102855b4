package wire

import (
	"errors"
	"syscall"
)

// Errors of Winsock, which package syscall does not name.
var (
	tooManyFiles      = []syscall.Errno{10024}
	tooManyFilesOfAll = []syscall.Errno(nil)
	noAddress         = []syscall.Errno{10048, 10049} // no port, no address
	noBuffers         = []syscall.Errno{10055}
)

// connectionAborted is WSAECONNABORTED, the error of a connection that the peer has closed.
const connectionAborted = syscall.Errno(10053)

// peerClosed reports whether a write failed because the peer had closed or reset the connection.
func peerClosed(err error) bool {
	return errors.Is(err, connectionAborted) || errors.Is(err, syscall.WSAECONNRESET)
}

// alive always reports true: this system offers no look at a socket without reading from it. A closed connection is
// noticed by the request that uses it, which is then sent again.
func (cn *conn) alive() bool { return true }
