//go:build unix

package wire

import (
	"errors"
	"net"
	"syscall"
)

var (
	tooManyFiles      = []syscall.Errno{syscall.EMFILE}
	tooManyFilesOfAll = []syscall.Errno{syscall.ENFILE}
	noAddress         = []syscall.Errno{syscall.EADDRNOTAVAIL}
	noBuffers         = []syscall.Errno{syscall.ENOBUFS, syscall.ENOMEM}
)

// peerClosed reports whether a write failed because the peer had closed or reset the connection.
func peerClosed(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// alive reports whether a kept connection is open and silent: the peer has neither closed it nor sent unrequested bytes.
func (cn *conn) alive() bool {
	tcp, ok := cn.raw.(*net.TCPConn) // by its type: so that the closure needs no allocation
	if !ok {
		return true // a pipe of a test
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	silent := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		silent = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
	})
	return err == nil && silent
}
