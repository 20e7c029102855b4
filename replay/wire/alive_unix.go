//go:build unix

package wire

import "syscall"

// alive reports whether the peer has neither closed the kept connection nor sent something that nobody asked for.
func (cn *conn) alive() bool {
	raw, err := cn.tcp.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
	})
	return err == nil && quiet
}
