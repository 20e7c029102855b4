package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// Sizes of a connection's read buffer: thousands of connections wait at once, so it starts small, and it grows
// only where the server fills it.
const (
	minBuffer = 4 << 10
	maxBuffer = 32 << 10
)

var errLongLine = fmt.Errorf("response has a line of more than %d bytes", maxBuffer)

// reader is the receiving side of a connection: a buffer that knows when its newest bytes arrived.
type reader struct {
	conn net.Conn
	now  func() time.Duration

	buf        []byte
	start, end int           // what was received and not used yet
	full       bool          // the last read filled the buffer
	at         time.Duration // when the newest bytes arrived
	received   int64         // since the connection was made
}

func (r *reader) buffered() []byte { return r.buf[r.start:r.end] }

// fill reads once, behind what is buffered.
func (r *reader) fill() error {
	if r.start == r.end {
		r.start, r.end = 0, 0
	}
	if free := len(r.buf) - r.end; free == 0 || r.full {
		if err := r.makeRoom(); err != nil {
			return err
		}
	}
	n, err := r.conn.Read(r.buf[r.end:])
	r.end += n
	r.full = r.end == len(r.buf)
	if n > 0 {
		r.at = r.now()
		r.received += int64(n)
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

func (r *reader) makeRoom() error {
	r.full = false
	if len(r.buf) < maxBuffer {
		bigger := make([]byte, min(maxBuffer, max(minBuffer, 2*len(r.buf))))
		r.end = copy(bigger, r.buffered())
		r.start, r.buf = 0, bigger
		return nil
	}
	if r.start > 0 {
		r.end = copy(r.buf, r.buffered())
		r.start = 0
	}
	if r.end == len(r.buf) {
		return errLongLine
	}
	return nil
}

// line returns the next line without its end, LF or CRLF. It is valid until the next call of any method.
func (r *reader) line() ([]byte, error) {
	for seen := 0; ; {
		b := r.buffered()
		if i := bytes.IndexByte(b[seen:], '\n'); i >= 0 {
			i += seen
			r.start += i + 1
			return bytes.TrimSuffix(b[:i], []byte("\r")), nil
		}
		seen = len(b)
		if err := r.fill(); err != nil {
			return nil, cut(err)
		}
	}
}

// take returns up to n bytes, at least one; it is valid until the next call of any method.
func (r *reader) take(n int64) ([]byte, error) {
	if r.start == r.end {
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
	b := r.buffered()
	if int64(len(b)) > n {
		b = b[:n]
	}
	r.start += len(b)
	return b, nil
}

// cut turns an end of file where there must be more into an error that says so.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // the second is that of TLS
		return errCut
	}
	return err
}

var errCut = errors.New("the server closed the connection before its answer ended")
