package wire

import (
	"context"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// What this machine has no more of is no fault of the server: the category is internal, and the message says what to do. Of a host
// with several addresses, a server that refuses says more than an address that this machine cannot reach.
//
// Covers T-91.
func TestLimitsOfThisMachine(t *testing.T) {
	dialled := func(call string, e syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError(call, e)}
	}
	refused := dialled("connect", syscall.ECONNREFUSED)
	for _, c := range []struct {
		errs    []error // of the addresses in turn
		want    Category
		message string
	}{
		{[]error{dialled("socket", tooManyFiles[0])}, Internal, "dial tcp: socket: " + tooManyFiles[0].Error() + ": this process may open no more: raise its limit (ulimit -n), or play fewer lanes"},
		{[]error{dialled("connect", noAddress[0])}, Internal, "dial tcp: connect: " + noAddress[0].Error() + ": this machine has no free port"},
		{[]error{dialled("connect", noBuffers[0])}, Internal, "dial tcp: connect: " + noBuffers[0].Error() + ": this machine has no memory for another connection"},
		{[]error{refused}, Connection, "dial tcp: connect: " + syscall.ECONNREFUSED.Error()},
		{[]error{refused, dialled("connect", noAddress[0])}, Connection, "dial tcp: connect: " + syscall.ECONNREFUSED.Error()},
		{[]error{dialled("connect", noAddress[0]), refused}, Connection, "dial tcp: connect: " + syscall.ECONNREFUSED.Error()},
		{[]error{&net.DNSError{Err: "dial udp: socket: " + tooManyFiles[0].Error(), Name: "h"}}, Internal, "lookup h: dial udp: socket: " + tooManyFiles[0].Error() + ": this process may open no more"},
		{[]error{&net.DNSError{Err: "no such host", Name: "h"}}, Connection, "lookup h: no such host"},
	} {
		client, err := New("http://h", Options{})
		require.NoError(t, err)
		client.resolver.lookup = func(context.Context, string, string) (list []netip.Addr, err error) {
			for k := range c.errs {
				list = append(list, netip.AddrFrom4([4]byte{10, 0, 0, byte(k + 1)}))
			}
			return list, nil
		}
		asked := 0
		client.connect = func(context.Context, netip.AddrPort) (net.Conn, error) {
			asked++
			return nil, c.errs[asked-1]
		}
		res := post(client)
		require.Equal(t, c.want, res.Err.Category, "%v", c)
		require.Contains(t, res.Err.Message, c.message)
		require.Equal(t, c.want == Internal, res.Limited)
		require.Equal(t, len(c.errs), asked)
		asked = 0
		_, f := client.Get(t.Context(), "/v1/models")
		require.Equal(t, res.Err, f)
	}
}

// A machine that has no more buffers fails a write on a kept connection, too, and the request is not sent again for it.
func TestLimitOnAKeptConnection(t *testing.T) {
	client, err := New("http://h", Options{})
	require.NoError(t, err)
	x := &call{Client: client, ctx: t.Context(), res: &Result{}}
	f := x.failureOf(&net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", noBuffers[0])})
	require.Equal(t, Internal, f.Category)
	require.True(t, x.res.Limited)
	require.False(t, peerClosed(noBuffers[0]))
}
