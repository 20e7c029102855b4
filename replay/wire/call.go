package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"
)

// call is one request in flight, from Do to its result.
type call struct {
	*Client
	ctx          context.Context
	deadline     time.Time // zero: none
	request      *Request
	res          *Result
	redirectedTo string // path and query of the redirect that is being followed; empty: none
	redirect     string // path and query of the redirect in the answer just read, if it is to be followed
}

// run sends the request, and once more where a redirect says so.
func (x *call) run() *Failure {
	if err := x.request.Validate(); err != nil {
		return x.newFailure(Internal, 0, err.Error())
	}
	if x.ctx.Err() != nil {
		return x.failureOf(x.ctx.Err())
	}
	x.deadline = x.Client.deadline(x.ctx, x.res.Sent)
	failure := x.deliver()
	if x.redirect != "" {
		x.redirectedTo, x.redirect = x.redirect, ""
		x.res.Redirected = true
		failure = x.deliver()
	}
	return failure
}

// deliver sends the request on a kept connection if there is one; without one, or when that was stale, on a new one.
func (x *call) deliver() *Failure {
	x.res.Reused = false
	begun := x.res.Sent
	if x.redirectedTo != "" {
		begun = x.now()
	}
	if cn := x.takeKept(begun); cn != nil {
		x.res.Reused = cn.used
		x.beginExchange(begun)
		failure, stale := x.attempt(cn)
		if !stale {
			return failure
		}
		x.res.Reused, x.res.Resent = false, true
	}
	x.beginExchange(x.now())
	x.res.Exchange.ConnectStart = x.res.Exchange.WaitEnd
	cn, err := x.dial(x.ctx, x.deadline, x.request.Route)
	if err != nil {
		x.res.Resent = false
		return x.failureOf(err)
	}
	x.res.Exchange.ConnectEnd = x.now()
	failure, _ := x.attempt(cn)
	return failure
}

// beginExchange forgets the instants of an earlier attempt. Nothing limits the connections, so no request waits for one, and the
// clock is not read again where a kept one is taken: each reading takes 0.1 µs.
func (x *call) beginExchange(now time.Duration) {
	x.res.Acknowledged, x.res.Exchange = Never, NoExchange
	x.res.Exchange.WaitEnd = now
}

// attempt runs one exchange on a connection, then keeps or closes the connection. The connection was stale when it broke
// before the first byte of an answer: the server had closed it while the request was on its way.
func (x *call) attempt(cn *conn) (f *Failure, stale bool) {
	cn.used = true
	sent, received := cn.out.sent, cn.in.received
	cn.in.first = Never
	// The deadline is set before AfterFunc: the abort of a context that has ended must not be overwritten.
	cn.SetDeadline(x.deadline) //nolint:errcheck // the first read or write fails as well
	release := func() bool { return true }
	if x.ctx.Done() != nil {
		release = context.AfterFunc(x.ctx, cn.stop)
	}
	x.res.Address = cn.address
	x.flights.enter(cn, max(x.res.Exchange.WaitEnd, x.res.Exchange.ConnectEnd))
	f, clean := x.exchange(cn)
	if x.flights.leave(cn) && f != nil && f.Category == Timeout {
		f = x.stalledFailure(cn)
	}
	x.res.BytesSent += cn.out.sent - sent
	x.res.BytesReceived += cn.in.received - received
	if cn.in.first != Never {
		x.res.Exchange.FirstByte, x.res.Exchange.LastByte = cn.in.first, cn.in.arrived
	}
	if release() && clean {
		x.keepOrClose(cn, f == nil)
	} else {
		cn.Close()
	}
	return f, f != nil && f.Category == Connection && cn.in.received == received
}

// takeKept returns a kept connection that the request may use, nil when there is none.
func (x *call) takeKept(now time.Duration) *conn {
	key, ok := x.keptFor(Ahead{x.request.Route, x.request.Session})
	if !ok {
		return nil
	}
	return x.idle.get(key, now)
}

// keepOrClose keeps a connection whose answer was read to its end for those who may use it. A session that has ended, or one of
// whose requests has failed, has no connection.
func (x *call) keepOrClose(cn *conn, success bool) {
	switch {
	case x.reuse != StickySessions:
		x.idle.put(cn.address, cn, cn.in.arrived)
	case success && x.request.Session != "" && !x.request.EndsSession:
		x.idle.put(x.request.Session, cn, cn.in.arrived)
	default:
		cn.Close()
	}
}

// exchange writes the request and reads the answer. It reports clean when the connection can serve another request.
func (x *call) exchange(cn *conn) (f *Failure, clean bool) {
	cn.head = x.appendHead(cn.head[:0])
	x.res.Exchange.SendStart = x.now()
	sendErr := cn.send(cn.head, x.request.Body)
	switch {
	case sendErr == nil:
		x.res.Exchange.SendEnd = x.now()
		if x.request.OnWritten != nil {
			x.request.OnWritten()
		}
	case !peerClosed(sendErr):
		return x.failureOf(sendErr), false
	}
	// The peer may have answered before it closed the connection: what it sent can still be read after a broken write.
	h, err := readHead(&cn.in, x.keeper())
	if err != nil {
		if sendErr != nil {
			err = sendErr
		}
		return x.failureOf(unexpectedEOF(err)), false
	}
	x.res.Status, x.res.Acknowledged = h.status, cn.in.arrived
	b := h.body(&cn.in)
	if h.status < 200 || h.status > 299 {
		f = x.receiveError(cn, &h, &b)
	} else {
		f = x.receiveAnswer(cn, &h, &b)
	}
	x.res.BodySent, x.res.BodyReceived, x.res.BodyReads = x.request.Body.Size(), b.size, b.reads
	return f, sendErr == nil && h.keepAlive && b.ended && len(cn.in.buffered()) == 0
}

// receiveAnswer reads the body of an answer with a status of 200 to 299.
func (x *call) receiveAnswer(cn *conn, h *responseHead, b *responseBody) *Failure {
	if text := h.unreadable(); text != "" {
		x.drain(cn, h, b)
		return x.newFailure(NoContent, h.status, text)
	}
	d := &cn.dec
	d.reset(responseState{
		res: x.res, notify: x.request.OnFirstToken, payload: x.request.OnPayload, perChunk: x.request.PerChunkUsage, lenient: x.lenient, aiperf: x.aiperf, textOnly: x.textTokens, api: x.request.API, media: h.mediaName,
		events: h.media == mediaEvents || (h.media == mediaUnnamed && x.request.Stream),
	})
	err := x.decode(cn, b)
	category, text := d.finish()
	x.res.SingleBody = !d.events
	d.responseState = responseState{} // drops the references to the caller's values
	overflow := x.dynamoOverflow && isDynamoOverflow(x.request.API, category, x.res, text)
	switch {
	case overflow:
		x.drain(cn, h, b)
		return x.newFailure(ContextOverflow, h.status, text)
	case category == StreamEvent:
		x.drain(cn, h, b)
		return x.newFailure(category, 502, text)
	case err != nil && err != io.EOF && category != StreamPayload:
		f := x.failureOf(err)
		f.Code = h.status
		return f
	}
	x.drain(cn, h, b)
	if category == "" {
		return nil
	}
	return x.newFailure(category, h.status, text)
}

// maxAnswer bounds what is received of an answer, framing included, bytes. It is five times what 128,000 tokens take in events of
// 400 bytes.
const maxAnswer = 256 << 20

// decode feeds the body to the decoder until the decoder has finished or the body has ended, with io.EOF.
func (x *call) decode(cn *conn, b *responseBody) error {
	begun := cn.in.received
	for d := &cn.dec; !d.finished(); {
		p, err := b.next()
		if err == nil {
			err = d.feed(p, cn.in.arrived)
		}
		if cn.in.received-begun > x.maxAnswer {
			err = errAnswerTooLong
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// What drain reads after the last message of an answer, bytes, and how long it waits: not as long after a server has once
// left an answer open.
const (
	maxRest       = 64 << 10
	restWait      = 100 * time.Millisecond
	shortRestWait = 2 * time.Millisecond
)

// drain reads the end of a body whose last message has come, so that the connection can serve another request. It gives up
// after maxRest or restWait; the result's End is then the arrival of the last message.
func (x *call) drain(cn *conn, h *responseHead, b *responseBody) {
	if b.ended || b.untilClose || !h.keepAlive {
		return
	}
	over, wait := cn.in.arrived, restWait
	if x.endsLate.Load() {
		wait = shortRestWait
	}
	x.limitRead(cn, wait)
	for n := 0; n < maxRest; {
		p, err := b.next()
		if err != nil {
			break
		}
		n += len(p)
	}
	if !b.ended {
		x.res.End = over
	}
	if x.endsLate.Load() == b.ended { // no write where nothing changes: all requests share the flag
		x.endsLate.Store(!b.ended)
	}
}

// limitRead sets a deadline for the rest of an answer. It keeps an abort that has come before or comes meanwhile.
func (x *call) limitRead(cn *conn, within time.Duration) {
	if due := time.Now().Add(within); x.deadline.IsZero() || due.Before(x.deadline) {
		cn.SetReadDeadline(due) //nolint:errcheck // the first read fails as well
	}
	if x.ctx.Err() != nil || cn.stalled.Load() {
		cn.stop()
	}
}

// failureOf returns the failure behind an error of the connection or of the request body.
func (x *call) failureOf(err error) *Failure {
	var own *bodyError
	switch {
	case errors.As(err, &own), errors.Is(err, syscall.EFAULT):
		return x.newFailure(Internal, 0, err.Error())
	case errors.Is(x.ctx.Err(), context.Canceled):
		return x.newFailure(Cancelled, 0, context.Cause(x.ctx).Error())
	case x.ctx.Err() != nil, errors.Is(err, os.ErrDeadlineExceeded), !x.deadline.IsZero() && !time.Now().Before(x.deadline):
		return x.newFailure(Timeout, 0, "no complete response in time")
	}
	if advice := adviceFor(err); advice != "" {
		x.res.Limited = true
		return x.newFailure(Internal, 0, err.Error()+": "+advice)
	}
	return x.newFailure(Connection, 0, err.Error())
}

// followRedirect sets x.redirect when an answer redirects to the same origin with a status that keeps the method, the first
// time. Otherwise it returns what the failure says of the redirect. Of another origin it names no path, which may contain a
// secret.
func (x *call) followRedirect(h *responseHead) (text string) {
	if h.location == "" {
		return ""
	}
	to, err := x.locate(h.location)
	switch {
	case err != nil:
		return "redirected to what is no URL: "
	case !x.target.isOrigin(to):
		return fmt.Sprintf("redirected to %s://%s, which is not followed: name it in the URL: ", to.Scheme, clip(to.Host, 256))
	case h.status != 307 && h.status != 308:
		return fmt.Sprintf("redirected to %s, which is not followed: only 307 and 308 keep the method: ", clip(to.EscapedPath(), 256))
	case x.redirectedTo != "":
		return fmt.Sprintf("redirected again, to %s, which is not followed: ", clip(to.EscapedPath(), 256))
	}
	if path := to.RequestURI(); badPathByte(path) < 0 {
		x.redirect = path
	}
	return ""
}

// locate resolves the Location of an answer against the URL of the request.
func (x *call) locate(location string) (*url.URL, error) {
	from, err := url.Parse(x.address())
	if err != nil {
		return nil, err
	}
	return from.Parse(location)
}

// isOrigin reports whether a URL has the scheme, host and port of the target.
func (t *target) isOrigin(u *url.URL) bool {
	other, err := parseTarget((&url.URL{Scheme: u.Scheme, Host: u.Host}).String())
	return err == nil && other.tls == t.tls && other.port == t.port && strings.EqualFold(other.host, t.host)
}
