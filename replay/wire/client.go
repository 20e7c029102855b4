// Package wire sends inference requests over HTTP/1.1 and times what comes back. It knows nothing of traces, lanes
// or caches: a request is a path, header fields and a body that writes itself; a result is a set of instants,
// counts, and one category when it failed.
//
// It is the hot path of a replay, so it speaks HTTP by hand on connections it keeps: the head goes out together
// with the first piece of the body, answers are read in place, events are skimmed and not parsed, and a request on
// a kept connection costs next to no allocation and no goroutine. HTTP/2, proxies, redirects and compression are
// not spoken.
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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Options of a client. The zero value works.
type Options struct {
	Epoch       time.Time     // instant 0 of all results; zero: when New is called. Must have a monotonic reading
	Timeout     time.Duration // of a request, from Sent to End; 0: six hours; negative: none
	DialTimeout time.Duration // of a connection, TLS included; 0: 30 s
	MaxIdle     int           // most connections kept while unused; 0: as many as were in use at once

	Header []Field     // sent with every request; a field of the request with the same name replaces it
	APIKey string      // sent as a bearer token, unless Header has Authorization; never printed
	TLS    *tls.Config // of https targets; nil: the system's roots

	// Needles are the texts that tell a context overflow, in any letter case. Nil means DefaultNeedles, an empty
	// list that nothing is one.
	Needles []string

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
	needles     []string          // lower case
	secrets     *strings.Replacer // takes secrets out of messages
	lenient     bool

	common   []Field
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
		lenient: o.Lenient, idle: pool{max: o.MaxIdle},
	}
	if c.epoch.IsZero() {
		c.epoch = time.Now()
	}
	if c.timeout == 0 {
		c.timeout = 6 * time.Hour
	}
	if c.dialTimeout <= 0 {
		c.dialTimeout = 30 * time.Second
	}
	c.setSecrets(o)
	c.setTLS(o.TLS)
	c.setNeedles(o.Needles)
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
		needles = DefaultNeedles
	}
	for _, n := range needles {
		if n != "" {
			c.needles = append(c.needles, strings.ToLower(n))
		}
	}
}

func (c *Client) setHeader(o Options) error {
	fields := []Field{{"User-Agent", UserAgent}}
	if o.APIKey != "" {
		if badValueByte(o.APIKey) >= 0 {
			return errors.New("wire: the API key has a control character in it")
		}
		fields = append(fields, Field{"Authorization", "Bearer " + o.APIKey})
	}
	for _, f := range o.Header {
		if err := f.Validate(); err != nil {
			return fmt.Errorf("wire: %w", err)
		}
		fields = slices.DeleteFunc(fields, func(old Field) bool { return equalFold(old.Name, f.Name) })
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
	res.Err = c.do(ctx, r, &res)
	res.End = c.now()
	return res
}

func (c *Client) do(ctx context.Context, r *Request, res *Result) *Failure {
	if err := r.Validate(); err != nil {
		return c.judge(Internal, 0, err.Error())
	}
	if ctx.Err() != nil {
		return c.broken(ctx, time.Time{}, ctx.Err())
	}
	deadline := c.deadline(ctx, res.Sent)
	if cn := c.idle.get(res.Sent); cn != nil {
		res.Reused = true
		failure, stale := c.attempt(ctx, deadline, cn, r, res)
		if !stale {
			return failure
		}
		res.Reused, res.Resent = false, true
	}
	cn, err := c.dial(ctx, deadline)
	if err != nil {
		res.Resent = false
		return c.broken(ctx, deadline, err)
	}
	failure, _ := c.attempt(ctx, deadline, cn, r, res)
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

// attempt runs one exchange on a connection and then keeps or closes it. It is stale when the connection broke before
// it had taken the whole request and gave not one byte of an answer: then the server cannot have done what it was asked.
func (c *Client) attempt(ctx context.Context, deadline time.Time, cn *conn, r *Request, res *Result) (f *Failure, stale bool) {
	sent, received := cn.out.sent, cn.in.received
	// The deadline goes first: when the context has ended already, its abort must not be overwritten.
	cn.SetDeadline(deadline) //nolint:errcheck // the first read or write says so as well
	release := func() bool { return true }
	if ctx.Done() != nil {
		release = context.AfterFunc(ctx, cn.stop)
	}
	f, written, clean := c.exchange(ctx, deadline, cn, r, res)
	res.BytesSent += cn.out.sent - sent
	res.BytesReceived += cn.in.received - received
	if release() && clean && f == nil {
		c.idle.put(cn, c.now())
	} else {
		cn.Close()
	}
	return f, f != nil && f.Category == Connection && !written && cn.in.received == received
}

// exchange writes the request and reads the answer. The request is written when the connection took all of it, and the
// exchange clean when the connection can serve another.
func (c *Client) exchange(ctx context.Context, deadline time.Time, cn *conn, r *Request, res *Result) (f *Failure, written, clean bool) {
	cn.head = c.appendHead(cn.head[:0], r)
	sendErr := cn.send(cn.head, r.Body)
	written = sendErr == nil
	if !written && !errors.Is(sendErr, syscall.EPIPE) && !errors.Is(sendErr, syscall.ECONNRESET) {
		return c.broken(ctx, deadline, sendErr), false, false
	}
	// After a broken write the server may have said why: what it sent before it closed can still be read.
	h, err := readHead(&cn.in)
	if err != nil {
		if sendErr != nil {
			err = sendErr
		}
		return c.broken(ctx, deadline, cut(err)), written, false
	}
	res.Status = h.status
	b := h.body(&cn.in)
	if h.status < 200 || h.status > 299 {
		return c.judge(HTTPStatus, h.status, statusText(&h, &b)), written, false
	}
	f = c.receive(ctx, deadline, cn, &h, &b, r, res)
	return f, written, f == nil && written && h.keepAlive && b.ended && !b.open && len(cn.in.buffered()) == 0
}

// statusText is the full error text of a response: status, reason and body.
func statusText(h *head, b *body) string {
	text := []byte(strconv.Itoa(h.status) + " " + h.reason + ": ")
	for len(text) < maxErrorText {
		p, err := b.next()
		if err != nil {
			break // the status stands, whatever becomes of the rest
		}
		text = append(text, p...)
	}
	return strings.TrimRight(string(text[:min(len(text), maxErrorText)]), ": \r\n")
}

// receive reads the body of a 2xx response.
func (c *Client) receive(ctx context.Context, deadline time.Time, cn *conn, h *head, b *body, r *Request, res *Result) *Failure {
	d := &cn.dec
	d.reset(response{
		res: res, notify: r.OnFirstToken, lenient: c.lenient,
		events: h.media == mediaEvents || (h.media == mediaUnnamed && r.Stream),
	})
	var err error
	for err == nil && !d.over() {
		var p []byte
		if p, err = b.next(); err == nil {
			err = d.feed(p, cn.in.at)
		}
	}
	category, text := d.finish()
	d.response = response{done: d.done} // nothing of the caller's is kept
	code := h.status
	switch {
	case category == StreamEvent:
		code = 502
	case category == StreamPayload:
	case err != nil && err != io.EOF:
		f := c.broken(ctx, deadline, err)
		f.Code = code
		if !(d.done && f.Category == Connection) { // after [DONE] nothing is missing
			return f
		}
	}
	if category == "" {
		return nil
	}
	return c.judge(category, code, text)
}

// broken names the failure behind an error of the connection or of the body.
func (c *Client) broken(ctx context.Context, deadline time.Time, err error) *Failure {
	var own *bodyError
	switch {
	case errors.As(err, &own), errors.Is(err, syscall.EFAULT):
		return c.judge(Internal, 0, err.Error())
	case errors.Is(ctx.Err(), context.Canceled):
		return c.judge(Cancelled, 0, context.Cause(ctx).Error())
	case ctx.Err() != nil, errors.Is(err, os.ErrDeadlineExceeded), !deadline.IsZero() && !time.Now().Before(deadline):
		return c.judge(Timeout, 0, "no complete response in time")
	}
	return c.judge(Connection, 0, err.Error())
}

// appendHead appends the request line and the header.
func (c *Client) appendHead(b []byte, r *Request) []byte {
	b = append(b, "POST "...)
	b = append(b, c.target.before(r.Path)...)
	b = append(b, r.Path...)
	b = append(b, c.target.query...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, c.target.header...)
	b = append(b, "\r\n"...)
	b = c.appendCommon(b, r.Header)
	b = appendFields(b, r.Header)
	b = append(b, "Accept: "...)
	b = append(b, accept(r)...)
	b = append(b, "\r\nContent-Type: application/json\r\nContent-Length: "...)
	b = strconv.AppendInt(b, r.Body.Size(), 10)
	return append(b, "\r\n\r\n"...)
}

// appendCommon appends the common fields that the request does not replace.
func (c *Client) appendCommon(b []byte, own []Field) []byte {
	replaced := func(f Field) bool {
		return slices.ContainsFunc(own, func(o Field) bool { return equalFold(o.Name, f.Name) })
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

func appendFields(b []byte, fields []Field) []byte {
	for i := range fields {
		b = append(b, fields[i].Name...)
		b = append(b, ": "...)
		b = append(b, fields[i].Value...)
		b = append(b, "\r\n"...)
	}
	return b
}
