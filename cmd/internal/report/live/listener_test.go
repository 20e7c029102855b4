package live

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// A connection above the limit is closed, and one that ends makes room for another.
func TestLimitedListener(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &limitedListener{Listener: inner, limit: 2}
	accepted := make(chan net.Conn)
	go func() {
		defer close(accepted)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", inner.Addr().String())
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		return c
	}
	dial()
	first := <-accepted
	dial()
	second := <-accepted

	_, err = dial().Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)

	require.NoError(t, first.Close())
	_ = first.Close()
	dial()
	third := <-accepted
	_, err = dial().Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)

	require.NoError(t, l.Close())
	for range accepted {
	}
	second.Close()
	third.Close()
}
