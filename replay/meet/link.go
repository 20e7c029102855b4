package meet

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Limits of a connection.
const (
	silence      = 10 * time.Second // without a message the other part counts as lost: each sends one a second
	writeTimeout = 5 * time.Second
	closeTimeout = 2 * time.Second // for the other side to read what was sent last
	outbox       = 64              // messages that may wait to be sent
)

// link is the connection to another part. One goroutine writes, one reads.
type link struct {
	conn  net.Conn
	clock func() time.Time

	mu     sync.Mutex
	out    chan *message
	closed bool // nothing more is sent
}

func newLink(conn net.Conn, clock func() time.Time) *link {
	return &link{conn: conn, clock: clock, out: make(chan *message, outbox)}
}

// send queues a message. A part that does not read, so that messages pile up, loses the connection.
func (l *link) send(m *message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	select {
	case l.out <- m:
	default:
		l.closed = true
		close(l.out)
		_ = l.conn.Close()
	}
}

// close ends the connection when everything is sent.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		close(l.out)
	}
}

// write sends what is queued until close. The stamps of a clock are those of its sending.
func (l *link) write() {
	var err error
	for m := range l.out {
		if err != nil {
			continue
		}
		if m.Kind == clock && m.T1 == 0 {
			m.T1 = l.clock().UnixNano()
		} else if m.Kind == clock {
			m.T3 = l.clock().UnixNano()
		}
		_ = l.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
		if err = writeMessage(l.conn, m); err != nil {
			_ = l.conn.Close() // which the reader tells
		}
	}
	endConn(l.conn)
}

// endConn says that nothing more is sent. The reader closes the connection: what the other side sends until it has read all would
// else take back what it has not read.
func endConn(conn net.Conn) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_ = conn.SetReadDeadline(time.Now().Add(closeTimeout))
		return
	}
	_ = conn.Close()
}

// read calls handle for every message until the connection ends, and closes it. The error says why it ended; at is when the
// message came.
func (l *link) read(handle func(m *message, at time.Time) error) (err error) {
	for err == nil {
		l.expect()
		var m *message
		if m, err = readMessage(l.conn, maxMessage); err == nil {
			err = handle(m, l.clock())
		}
	}
	_ = l.conn.Close()
	return describe(err)
}

// expect bounds the wait for the next message. The end of a connection has a bound of its own.
func (l *link) expect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		_ = l.conn.SetReadDeadline(time.Now().Add(silence))
	}
}

// describe says in words why a connection has ended.
func describe(err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrClosedPipe), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return errors.New("its connection ended")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("it was silent for %v", silence)
	}
	return err
}
