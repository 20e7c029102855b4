package wire

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxDocument bounds what Get and Post read of a body, bytes.
const maxDocument = 1 << 20

// Get fetches a small document of the server, such as its list of models. It returns at most the first 1 MiB of the body, as
// far as it came. The request has the common header fields and a connection of its own. The failure is nil for every answer
// with a status of 200 to 299.
func (c *Client) Get(ctx context.Context, path string) (document []byte, f *Failure) {
	return c.ask(ctx, c.target.appendPath([]byte("GET "), path), "")
}

// GetBelowRoot gets a document at a path below the root of the server, which is in front of the /v1 of its API. It answers as Get does.
func (c *Client) GetBelowRoot(ctx context.Context, path string) (document []byte, f *Failure) {
	return c.ask(ctx, c.target.appendBelowRoot([]byte("GET "), path), "")
}

// Post posts a request without a body to a path below the root of the server, as GetBelowRoot has it. It answers as Get does.
func (c *Client) Post(ctx context.Context, path string) (document []byte, f *Failure) {
	return c.ask(ctx, c.target.appendBelowRoot([]byte("POST "), path), "Content-Length: 0\r\n")
}

// ask sends a request without a body, whose method and path are in line, and reads the answer.
func (c *Client) ask(ctx context.Context, line []byte, header string) (document []byte, f *Failure) {
	var deadline time.Time
	if c.timeout > 0 {
		deadline = time.Now().Add(c.timeout)
	}
	x := &call{Client: c, ctx: ctx, deadline: deadline, res: &Result{}}
	cn, err := c.dial(ctx, deadline, nil)
	if err != nil {
		return nil, x.failureOf(err)
	}
	defer cn.Close()
	cn.SetDeadline(deadline) //nolint:errcheck // the first read or write fails as well
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, cn.stop)()
	}
	if _, err := cn.Write(c.appendAsked(line, header)); err != nil {
		return nil, x.failureOf(err)
	}
	h, err := readHead(&cn.in, nil)
	if err != nil {
		return nil, x.failureOf(unexpectedEOF(err))
	}
	for b := h.body(&cn.in); len(document) < maxDocument; {
		p, err := b.next()
		if err != nil {
			break // the status stands, whatever comes of the rest
		}
		document = append(document, p...)
	}
	if h.status/100 == 2 {
		return document, nil
	}
	return nil, x.newFailure(categoryOf(h.status), h.status, h.errorText(document))
}

// appendAsked appends what follows the path of a request without a body.
func (c *Client) appendAsked(b []byte, header string) []byte {
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, c.target.hostHeader...)
	b = append(b, "\r\n"...)
	b = append(b, c.rendered...)
	b = append(b, header...)
	return append(b, "Accept: application/json\r\nConnection: close\r\n\r\n"...)
}

// errorText returns the status and the body of an answer.
func (h *responseHead) errorText(body []byte) string {
	if h.encoding != "" {
		body = fmt.Appendf(nil, "compressed (Content-Encoding %s), which was not asked for", h.encoding)
	}
	text := strconv.Itoa(h.status) + " " + h.reason + ": " + string(body[:min(len(body), maxErrorText)])
	return strings.TrimRight(text, ": \r\n")
}
