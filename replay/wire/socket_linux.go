package wire

import (
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT, which package syscall does not name.
const tcpUserTimeout = 0x12

// limitUnacknowledged makes the kernel break a connection whose peer has not acknowledged what was sent for that long.
func limitUnacknowledged(c syscall.RawConn, within time.Duration) (err error) {
	if e := c.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(within.Milliseconds()))
	}); e != nil {
		return e
	}
	return err
}
