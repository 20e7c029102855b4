package carry

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
)

// upgrade passes the bytes of another protocol both ways until both sides ended, or one broke.
func (x *exchange) upgrade(reply *http.Response) {
	server, ok := reply.Body.(io.ReadWriteCloser)
	if !ok || !strings.EqualFold(protocol(reply.Header), protocol(x.r.Header)) {
		x.unanswered(errors.New("a switch to a protocol for which the client did not ask"))
		return
	}
	x.watch.head(x.last, reply.StatusCode, reply.Header)
	client, ahead, err := x.flusher.Hijack()
	if err != nil {
		x.leave()
	}
	defer client.Close()
	head := &http.Response{StatusCode: reply.StatusCode, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}}
	passOn(head.Header, reply.Header)
	head.Header["Connection"], head.Header["Upgrade"] = []string{"Upgrade"}, reply.Header["Upgrade"]
	if err := head.Write(ahead); err != nil || ahead.Flush() != nil {
		x.leave()
	}
	x.outcome = Upgraded
	x.tunnel(client, ahead, server)
	x.last = x.p.o.Now()
}

// tunnel copies both ways. What one side ends is ended on the other side; what breaks ends both. The client's context does
// not serve here: net/http ends it with the client's half of the connection.
func (x *exchange) tunnel(client net.Conn, ahead io.Reader, server io.ReadWriteCloser) {
	ended := make(chan error, 2)
	pass := func(dst io.Writer, src io.Reader) {
		_, err := io.Copy(dst, src)
		if half, ok := dst.(interface{ CloseWrite() error }); ok && err == nil {
			err = half.CloseWrite()
		} else {
			err = errors.Join(err, net.ErrClosed)
		}
		ended <- err
	}
	go pass(server, ahead)
	go pass(client, server)
	open := 2
	select {
	case err := <-ended:
		if open--; err == nil {
			select {
			case <-ended:
				open--
			case <-x.p.running.Done():
			}
		}
	case <-x.p.running.Done():
	}
	client.Close()
	server.Close()
	for range open {
		<-ended
	}
}
