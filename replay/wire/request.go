package wire

import (
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"
)

// Body is a request body of known size that writes itself. WriteTo starts from the beginning at every call: a request that
// is sent again on a new connection calls it a second time.
//
// Each Write of WriteTo becomes one system call: pieces of 32 KiB and more are cheap, pieces of a few hundred bytes
// are not. A memory fault inside WriteTo (a mapped file that was truncated) is caught and reported as [Internal].
type Body interface {
	// Size returns the number of bytes that WriteTo writes. It is announced as Content-Length.
	Size() int64
	io.WriterTo
}

// Request is one POST. Its fields are read only while Do runs.
type Request struct {
	Path     string        // starts with a slash; appended to the path of the client's URL
	Header   []HeaderField // the ids of request and session; fields of Options.Header with the same names replace them
	Affinity []HeaderField // what routers tell sessions by; replace every other field with the same name
	Body     Body
	Stream   bool // asks for server-sent events; decides how an answer without a content type is read
	API      API  // how answers are written

	// Route is which address of the server it goes to; nil: any, the first that takes a connection.
	Route *Route

	// Session is whose request it is. With StickySessions the requests of a session share a connection, which no other request
	// uses, until one has EndsSession, fails or is cancelled. A request without a session has a connection of its own.
	Session     string
	EndsSession bool

	// Jar has the cookies and the session token that are sent, and takes those of the answer; nil: none are.
	Jar *Jar

	// PerChunkUsage says that usage was asked for in every message: Result.FirstChunkTokens is then read.
	PerChunkUsage bool

	// OnWritten, when set, is called from Do when the request has been written: again, if it is sent again.
	OnWritten func()

	// OnPayload, when set, is called from Do with each payload of the answer but [DONE], which it must not keep.
	OnPayload func(payload []byte)

	// OnFirstToken, when set, is called once, from Do, with the instant of the first message with content.
	OnFirstToken func(at time.Duration)
}

// Validate returns an error that names the first field that cannot be sent.
func (r *Request) Validate() error {
	if r.Body == nil {
		return errors.New("request has no body")
	}
	if r.Body.Size() < 0 {
		return fmt.Errorf("request body has size %d", r.Body.Size())
	}
	if len(r.Path) == 0 || r.Path[0] != '/' {
		return fmt.Errorf("request path %q: want one that starts with a slash", r.Path)
	}
	if i := badPathByte(r.Path); i >= 0 {
		return fmt.Errorf("request path %q has byte %#x at %d: want it percent-encoded", r.Path, r.Path[i], i)
	}
	for _, fields := range [2][]HeaderField{r.Header, r.Affinity} {
		for i := range fields {
			if err := fields[i].Validate(); err != nil {
				return err
			}
		}
	}
	return nil
}

// appendHead appends the request line and the header of a POST.
func (x *call) appendHead(b []byte) []byte {
	r := x.request
	b = append(b, "POST "...)
	if x.redirectedTo != "" {
		b = append(b, x.redirectedTo...)
	} else {
		b = x.target.appendPath(b, r.Path)
	}
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, x.target.hostHeader...)
	b = append(b, "\r\n"...)
	b = x.appendHeader(b, r)
	b = append(b, "Accept: "...)
	if r.Stream {
		b = append(b, "text/event-stream"...)
	} else {
		b = append(b, "application/json"...)
	}
	b = append(b, "\r\nContent-Type: application/json\r\n"...)
	b = appendFields(b, r.Affinity)
	if r.Jar != nil {
		b = r.Jar.appendFields(b, x.url())
	}
	b = append(b, "Content-Length: "...)
	b = strconv.AppendInt(b, r.Body.Size(), 10)
	return append(b, "\r\n\r\n"...)
}

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

// panicError returns the error of a panic while a body wrote itself.
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

// write sends bytes of the body, behind the head where that has not been sent. n counts those of the body.
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
