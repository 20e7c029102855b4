package carry

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

// upload is the body of a request: what the transport reads of it is observed.
type upload struct {
	x       *exchange
	source  io.ReadCloser
	trailer http.Header // of the request upstream, filled at the end of a body in chunks
	quiet   bool        // the body was observed when it was read before dispatch
	closed  atomic.Bool
	broken  atomic.Bool // the client broke off
}

var errClosed = errors.New("the exchange has ended")

func (u *upload) of(x *exchange) { u.x, u.source = x, x.r.Body }

// Read reads of the client's connection. The transport may call it after the exchange ended.
func (u *upload) Read(p []byte) (int, error) {
	if u.closed.Load() {
		return 0, errClosed
	}
	n, err := u.source.Read(p)
	if !u.quiet {
		u.x.watch.uploaded(p[:n], u.x.p.o.Now(), err)
	}
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		for name, values := range u.x.r.Trailer {
			if u.trailer != nil {
				u.trailer[name] = values
			}
		}
	default:
		u.broken.Store(true)
	}
	return n, err
}

// Close ends reading. It leaves the client's body open: net/http closes that, and would here wait for one that comes slowly.
func (u *upload) Close() error {
	u.closed.Store(true)
	return nil
}
