package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// Sizes of a connection's read buffer, bytes. Thousands of connections wait at once, so it starts small and grows only
// where the server fills it.
const (
	minBuffer = 4 << 10
	maxBuffer = 32 << 10
)

// reader is the receiving side of a connection: a buffer with the arrival of its newest bytes.
type reader struct {
	conn net.Conn
	now  func() time.Duration

	buf        []byte
	start, end int           // of the bytes received and not taken yet
	full       bool          // the last read filled the buffer
	first      time.Duration // when the first bytes of an answer arrived; Never: none have
	arrived    time.Duration // when the newest bytes arrived
	received   int64         // bytes since the connection was made
	reads      int           // that brought these bytes

	heard atomic.Int64 // arrived, for other goroutines; below 0: nothing of an answer has, and its complement is since when
}

func (r *reader) buffered() []byte { return r.buf[r.start:r.end] }

// fill makes one read and appends it to the buffered bytes.
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
		r.arrived = r.now()
		r.heard.Store(int64(r.arrived))
		if r.first == Never {
			r.first = r.arrived
		}
		r.received += int64(n)
		r.reads++
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// makeRoom doubles the buffer up to maxBuffer, then moves the buffered bytes to its front.
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
		return errLineTooLong
	}
	return nil
}

// line returns the next line without its LF or CRLF. It is valid until the next call of any method.
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
			return nil, unexpectedEOF(err)
		}
	}
}

// take returns at least one byte and at most n. They are valid until the next call of any method.
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

// unexpectedEOF replaces an end of file by an error that says who closed the connection.
func unexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // TLS returns the second
		return errUnexpectedEOF
	}
	return err
}
