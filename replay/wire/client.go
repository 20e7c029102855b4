// Package wire sends inference requests over HTTP/1.1 and times what comes back. It knows nothing of traces, lanes
// or caches: a request is a path, header fields and a body that writes itself; a result is a set of instants,
// counts, and one category when it failed.
//
// It is the hot path of a replay, so it speaks HTTP by hand on connections it keeps: the head goes out together
// with the first piece of the body, answers are read in place, events are skimmed and not parsed, and a request on
// a kept connection costs next to no allocation and no goroutine. HTTP/2, proxies and compression are not spoken; a
// redirect is followed once, to the same origin, where the method stays (307, 308).
//
// Servers close connections that are idle without a word. A request on a kept connection that breaks before any byte of
// an answer came goes out once more, on a new one.
//
// Requests are written completely before the answer is read. A server that answers early (413) and closes is
// heard; one that answers early and then neither reads on nor closes is waited for until the timeout.
package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Options of a client. The zero value works.
type Options struct {
	Epoch       time.Time     // instant 0 of all results; zero: when New is called. Must have a monotonic reading
	Timeout     time.Duration // of a request, from Sent to End; 0: six hours; negative: none
	DialTimeout time.Duration // of a connection, TLS included; 0: 30 s
	KeepAlive   time.Duration // how long an unused connection is kept; 0: 4 s; negative: every request has its own
	MaxIdle     int           // most connections kept while unused; 0: as many as were in use at once

	Header []HeaderField // sent with every request; a field of the request with the same name replaces it
	APIKey string        // sent as a bearer token, unless Header has Authorization; never printed
	TLS    *tls.Config   // of https targets; nil: the system's roots

	// OverflowPatterns are the texts that tell a context overflow, in any letter case. Nil means DefaultNeedles, an empty
	// list that nothing is one. Overflow are patterns beside them, which are searched for as they stand.
	OverflowPatterns []string
	OverflowRegexps  []*regexp.Regexp

	// Lenient takes a 200 with any content for a success: error payloads and missing ends of streams are
	// forgiven.
	Lenient bool
}

// Client sends requests to one target. All methods may be called by many goroutines at once.
type Client struct {
	target      target
	resolver    *resolver
	tls         *tls.Config
	epoch       time.Time
	timeout     time.Duration
	dialTimeout time.Duration
	errorWait   time.Duration     // for the body of an error
	needles     []string          // lower case
	overflow    []*regexp.Regexp  // beside the needles
	dynamo      bool              // take Dynamo's words for an overflow
	secrets     *strings.Replacer // takes secrets out of messages
	lenient     bool

	leftOpen atomic.Bool // the last answer was not ended in time after all had been said

	common   []HeaderField
	rendered []byte // common, as it goes on the wire
	idle     pool
}

// UserAgent is sent unless Options.Header has a User-Agent of its own.
const UserAgent = "agentx"

// New returns a client for the server at target, an http or https URL; its path, if any, goes before the path of
// every request. Nothing is sent or looked up yet. Errors name what is wrong, never a secret.
func New(target string, o Options) (*Client, error) {
	t, err := parseTarget(target)
	if err != nil {
		return nil, err
	}
	c := &Client{
		target: t, resolver: newResolver(t.host), epoch: o.Epoch, timeout: o.Timeout, dialTimeout: o.DialTimeout,
		errorWait: errorWait, overflow: o.OverflowRegexps, lenient: o.Lenient, idle: pool{max: o.MaxIdle, keep: o.KeepAlive},
	}
	if c.epoch.IsZero() {
		c.epoch = time.Now()
	}
	if c.timeout == 0 {
		c.timeout = 6 * time.Hour
	}
	if c.idle.keep == 0 {
		c.idle.keep = DefaultKeepAlive
	}
	if c.dialTimeout <= 0 {
		c.dialTimeout = 30 * time.Second
	}
	c.setSecrets(o)
	c.setTLS(o.TLS)
	c.setNeedles(o.OverflowPatterns)
	return c, c.setHeader(o)
}

func (c *Client) setTLS(config *tls.Config) {
	if config == nil {
		config = &tls.Config{}
	}
	c.tls = config.Clone()
	c.tls.NextProtos = []string{"http/1.1"}
	if c.tls.ServerName == "" {
		c.tls.ServerName = c.target.host
	}
}

func (c *Client) setNeedles(needles []string) {
	if needles == nil {
		needles, c.dynamo = DefaultOverflowPatterns, true
	}
	for _, n := range needles {
		if n != "" {
			c.needles = append(c.needles, strings.ToLower(n))
		}
	}
}

func (c *Client) setHeader(o Options) error {
	fields := []HeaderField{{"User-Agent", UserAgent}}
	if o.APIKey != "" {
		if badValueByte(o.APIKey) >= 0 {
			return errors.New("wire: the API key has a control character in it")
		}
		fields = append(fields, HeaderField{"Authorization", "Bearer " + o.APIKey})
	}
	for _, f := range o.Header {
		if err := f.Validate(); err != nil {
			return fmt.Errorf("wire: %w", err)
		}
		fields = slices.DeleteFunc(fields, func(old HeaderField) bool { return equalFold(old.Name, f.Name) })
		fields = append(fields, f)
	}
	c.common = fields
	c.rendered = appendFields(nil, fields)
	return nil
}

// Close closes the idle connections; those in use are closed when their request ends. Do still works afterwards,
// one connection per request.
func (c *Client) Close() { c.idle.close() }

func (c *Client) now() time.Duration { return time.Since(c.epoch) }

// Do sends a request and reads its answer to the end. It always returns a result with Sent and End; what went
// wrong is in Err. When the context ends, so does the request, even in the middle of a blocked read or write.
func (c *Client) Do(ctx context.Context, r *Request) Result {
	res := newResult(c.now())
	res.Err = c.do(&call{Client: c, ctx: ctx, request: r, res: &res})
	if res.End == Never {
		res.End = c.now()
	}
	return res
}

// call is one request on its way.
type call struct {
	*Client
	ctx      context.Context
	deadline time.Time // zero: none
	request  *Request
	res      *Result
	moved    string // path and query that a redirect has named; empty before one was followed
	next     string // the same of the answer just read, if it is to be followed
}

func (c *Client) do(x *call) *Failure {
	if err := x.request.Validate(); err != nil {
		return c.judge(Internal, 0, err.Error())
	}
	if x.ctx.Err() != nil {
		return x.broken(x.ctx.Err())
	}
	x.deadline = c.deadline(x.ctx, x.res.Sent)
	failure := x.deliver()
	if x.next != "" {
		x.moved, x.next = x.next, ""
		x.res.Redirected = true
		failure = x.deliver()
	}
	return failure
}

// deadline is when a request must be over: at its timeout, or with its context where that ends earlier. It is zero for
// never. The context's deadline counts by itself, since a dial ends at it before the context says so.
func (c *Client) deadline(ctx context.Context, sent time.Duration) (at time.Time) {
	if c.timeout > 0 {
		at = c.epoch.Add(sent + c.timeout)
	}
	if d, ok := ctx.Deadline(); ok && (at.IsZero() || d.Before(at)) {
		at = d
	}
	return at
}

// deliver sends the request on a kept connection, if there is one, else or then on a new one.
func (x *call) deliver() *Failure {
	x.res.Reused = false
	if cn := x.idle.get(x.now()); cn != nil {
		x.res.Reused = true
		failure, stale := x.attempt(cn)
		if !stale {
			return failure
		}
		x.res.Reused, x.res.Resent = false, true
	}
	cn, err := x.dial(x.ctx, x.deadline)
	if err != nil {
		x.res.Resent = false
		return x.broken(err)
	}
	failure, _ := x.attempt(cn)
	return failure
}

// attempt runs one exchange on a connection and then keeps or closes it. It is stale when the connection broke before it
// gave one byte of an answer: a kept one was closed by the server while the request was on its way.
func (x *call) attempt(cn *conn) (f *Failure, stale bool) {
	sent, received := cn.out.sent, cn.in.received
	// The deadline goes first: when the context has ended already, its abort must not be overwritten.
	cn.SetDeadline(x.deadline) //nolint:errcheck // the first read or write says so as well
	release := func() bool { return true }
	if x.ctx.Done() != nil {
		release = context.AfterFunc(x.ctx, cn.stop)
	}
	f, clean := x.exchange(cn)
	x.res.BytesSent += cn.out.sent - sent
	x.res.BytesReceived += cn.in.received - received
	if release() && clean {
		x.idle.put(cn, x.now())
	} else {
		cn.Close()
	}
	return f, f != nil && f.Category == Connection && cn.in.received == received
}

// exchange writes the request and reads the answer. It is clean when the connection can serve another.
func (x *call) exchange(cn *conn) (f *Failure, clean bool) {
	cn.head = x.appendHead(cn.head[:0])
	sendErr := cn.send(cn.head, x.request.Body)
	if sendErr != nil && !peerEnded(sendErr) {
		return x.broken(sendErr), false
	}
	// After a broken write the server may have said why: what it sent before it closed can still be read.
	h, err := readHead(&cn.in)
	if err != nil {
		if sendErr != nil {
			err = sendErr
		}
		return x.broken(cut(err)), false
	}
	x.res.Status = h.status
	b := h.body(&cn.in)
	if h.status < 200 || h.status > 299 {
		f = x.refused(cn, &h, &b)
	} else {
		f = x.receive(cn, &h, &b)
	}
	return f, sendErr == nil && h.keepAlive && b.ended && len(cn.in.buffered()) == 0
}

// limit makes the rest of an answer due within a time. An abort stands, whenever it came.
func (x *call) limit(cn *conn, within time.Duration) {
	if due := time.Now().Add(within); x.deadline.IsZero() || due.Before(x.deadline) {
		cn.SetReadDeadline(due) //nolint:errcheck // the first read says so as well
	}
	if x.ctx.Err() != nil {
		cn.stop()
	}
}

// receive reads the body of a 2xx response.
func (x *call) receive(cn *conn, h *head, b *body) *Failure {
	if text := h.unreadable(); text != "" {
		x.drain(cn, h, b)
		return x.judge(NoContent, h.status, text)
	}
	d := &cn.dec
	d.reset(response{
		res: x.res, notify: x.request.OnFirstToken, lenient: x.lenient, perChunk: x.request.PerChunkUsage,
		events: h.media == mediaEvents || (h.media == mediaUnnamed && x.request.Stream),
	})
	var err error
	for err == nil && !d.over() {
		var p []byte
		if p, err = b.next(); err == nil {
			err = d.feed(p, cn.in.at)
		}
	}
	category, text := d.finish()
	x.res.SingleBody = !d.events
	d.response = response{} // nothing of the caller's is kept
	switch {
	case category == StreamEvent:
		x.drain(cn, h, b)
		return x.judge(category, 502, text)
	case err != nil && err != io.EOF && category != StreamPayload:
		f := x.broken(err)
		f.Code = h.status
		return f
	}
	x.drain(cn, h, b)
	switch {
	case category == "":
		return nil
	case x.dynamo && dynamoOverflow(category, x.res, text):
		category = ContextOverflow
	}
	return x.judge(category, h.status, text)
}

// What may follow an answer that is complete, and how long it is waited for: not as long once a server left an answer
// open.
const (
	maxRest       = 64 << 10
	restWait      = 100 * time.Millisecond
	shortRestWait = 2 * time.Millisecond
)

// drain reads to its end what follows an answer that is complete, if it is not much and comes soon: then the connection
// can serve another request. The answer was over before.
func (x *call) drain(cn *conn, h *head, b *body) {
	if b.ended || b.open || !h.keepAlive {
		return
	}
	over, wait := cn.in.at, restWait
	if x.leftOpen.Load() {
		wait = shortRestWait
	}
	x.limit(cn, wait)
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
	if x.leftOpen.Load() == b.ended { // not written with every answer
		x.leftOpen.Store(!b.ended)
	}
}

// broken names the failure behind an error of the connection or of the body.
func (x *call) broken(err error) *Failure {
	var own *bodyError
	switch {
	case errors.As(err, &own), errors.Is(err, syscall.EFAULT):
		return x.judge(Internal, 0, err.Error())
	case errors.Is(x.ctx.Err(), context.Canceled):
		return x.judge(Cancelled, 0, context.Cause(x.ctx).Error())
	case x.ctx.Err() != nil, errors.Is(err, os.ErrDeadlineExceeded), !x.deadline.IsZero() && !time.Now().Before(x.deadline):
		return x.judge(Timeout, 0, "no complete response in time")
	}
	return x.judge(Connection, 0, err.Error())
}

// appendHead appends the request line and the header.
func (x *call) appendHead(b []byte) []byte {
	r := x.request
	b = append(b, "POST "...)
	if x.moved != "" {
		b = append(b, x.moved...)
	} else {
		b = x.target.appendPath(b, r.Path)
	}
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, x.target.header...)
	b = append(b, "\r\n"...)
	b = x.appendCommon(b, r.Header)
	b = appendFields(b, r.Header)
	b = append(b, "Accept: "...)
	b = append(b, accept(r)...)
	b = append(b, "\r\nContent-Type: application/json\r\nContent-Length: "...)
	b = strconv.AppendInt(b, r.Body.Size(), 10)
	return append(b, "\r\n\r\n"...)
}

// appendCommon appends the common fields that the request does not replace.
func (c *Client) appendCommon(b []byte, own []HeaderField) []byte {
	replaced := func(f HeaderField) bool {
		return slices.ContainsFunc(own, func(o HeaderField) bool { return equalFold(o.Name, f.Name) })
	}
	if !slices.ContainsFunc(c.common, replaced) {
		return append(b, c.rendered...)
	}
	for i, f := range c.common {
		if !replaced(f) {
			b = appendFields(b, c.common[i:i+1])
		}
	}
	return b
}

func accept(r *Request) string {
	switch {
	case r.Accept != "":
		return r.Accept
	case r.Stream:
		return "text/event-stream"
	}
	return "application/json"
}

func appendFields(b []byte, fields []HeaderField) []byte {
	for i := range fields {
		b = append(b, fields[i].Name...)
		b = append(b, ": "...)
		b = append(b, fields[i].Value...)
		b = append(b, "\r\n"...)
	}
	return b
}
