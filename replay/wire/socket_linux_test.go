package wire

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// socketOptions returns options of the socket of a kept connection.
func socketOptions(t *testing.T, cn *conn, names ...[2]int) (values []int) {
	t.Helper()
	raw, err := cn.raw.(syscall.Conn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		for _, name := range names {
			v, err := syscall.GetsockoptInt(int(fd), name[0], name[1])
			require.NoError(t, err)
			values = append(values, v)
		}
	}))
	return values
}

// A connection has the socket options of doc/spec/replay.md 1.5, and the size of its buffers is left to the system.
func TestSocketOptions(t *testing.T) {
	fresh, err := net.Dial("tcp", sinkAddress(t))
	require.NoError(t, err)
	defer fresh.Close()
	buffers := [][2]int{{syscall.SOL_SOCKET, syscall.SO_RCVBUF}}
	for timeout, want := range map[time.Duration]int{0: 30_000, 900 * time.Second: 900_000, -1: 0} {
		c := newClient(t, "http://"+sinkAddress(t), Options{UserTimeout: timeout})
		require.Nil(t, post(c).Err)
		cn := c.idle.pop("")
		defer cn.Close()
		require.Equal(t, []int{want, 1, 1, 60, 30, 1}, socketOptions(t, cn,
			[2]int{syscall.IPPROTO_TCP, tcpUserTimeout}, [2]int{syscall.IPPROTO_TCP, syscall.TCP_NODELAY}, [2]int{syscall.SOL_SOCKET, syscall.SO_KEEPALIVE},
			[2]int{syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE}, [2]int{syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL}, [2]int{syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT}))
		require.Equal(t, socketOptions(t, &conn{raw: fresh}, buffers...), socketOptions(t, cn, buffers...))
	}
}
