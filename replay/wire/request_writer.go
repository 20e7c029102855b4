package wire

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"runtime/debug"
)

// requestWriter is the sending side of a connection: the io.Writer that a Body writes itself to.
type requestWriter struct {
	conn  net.Conn
	head  []byte // not sent yet; is sent with the first piece of the body
	left  int64  // bytes of the body that are not written yet
	sent  int64  // bytes since the connection was made
	err   error  // first error of the connection
	pair  [2][]byte
	queue net.Buffers // pair, as WriteTo wants it
}

// send writes head and body. It returns errors of the connection as they are, errors of the body as *bodyError.
func (cn *conn) send(head []byte, b Body) error {
	s := &cn.out
	s.head, s.left, s.err = head, b.Size(), nil
	err := s.copy(b)
	var own *bodyError
	switch {
	case errors.As(err, &own):
		return own
	case s.err != nil:
		return s.err
	case err != nil:
		return &bodyError{fmt.Errorf("request body: %w", err)}
	case s.left > 0:
		return &bodyError{fmt.Errorf("request body ended %d bytes early", s.left)}
	case len(s.head) > 0: // an empty body never called Write
		_, err = s.Write(nil)
	}
	return err
}

// copy lets the body write itself. A panic becomes a *bodyError, a fault on mapped memory too: the file may have been
// truncated.
func (s *requestWriter) copy(b Body) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = &bodyError{panicError(p)}
		}
	}()
	_, err = b.WriteTo(s)
	return err
}

func panicError(p any) error {
	var fault interface {
		runtime.Error
		Addr() uintptr
	}
	if err, ok := p.(error); ok && errors.As(err, &fault) {
		return fmt.Errorf("request body: memory fault at %#x: was a mapped file cut?", fault.Addr())
	}
	return fmt.Errorf("request body: panic: %v", p)
}

// Write sends a piece of the body. The head is sent with the first piece, in one system call.
func (s *requestWriter) Write(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if int64(len(p)) > s.left {
		return 0, &bodyError{errors.New("request body is longer than it announced")}
	}
	n, err := s.write(p)
	s.left -= int64(n)
	if err != nil {
		s.err = err
	}
	return n, err
}

func (s *requestWriter) write(p []byte) (int, error) {
	if len(s.head) == 0 {
		n, err := s.conn.Write(p)
		s.sent += int64(n)
		return n, err
	}
	s.pair = [2][]byte{s.head, p}
	s.queue = s.pair[:]
	n, err := s.queue.WriteTo(s.conn)
	s.sent += n
	n = max(0, n-int64(len(s.head)))
	s.head, s.pair = nil, [2][]byte{}
	return int(n), err
}
