package wire

import (
	"context"
	"time"
)

// maxDocument bounds what Get reads of a body, bytes.
const maxDocument = 1 << 20

// Get fetches a small document of the server, such as its list of models. It returns the status and at most the first 1 MiB
// of the body, as far as it came. The request has the common header fields and a connection of its own. The failure is nil
// for every answer, whatever its status.
func (c *Client) Get(ctx context.Context, path string) (status int, document []byte, f *Failure) {
	var deadline time.Time
	if c.timeout > 0 {
		deadline = time.Now().Add(c.timeout)
	}
	x := &call{Client: c, ctx: ctx, deadline: deadline}
	cn, err := c.dial(ctx, deadline)
	if err != nil {
		return 0, nil, x.failureOf(err)
	}
	defer cn.Close()
	cn.SetDeadline(deadline) //nolint:errcheck // the first read or write fails as well
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, cn.stop)()
	}
	if _, err := cn.Write(c.appendGet(nil, path)); err != nil {
		return 0, nil, x.failureOf(err)
	}
	h, err := readHead(&cn.in)
	if err != nil {
		return 0, nil, x.failureOf(unexpectedEOF(err))
	}
	for b := h.body(&cn.in); len(document) < maxDocument; {
		p, err := b.next()
		if err != nil {
			break // the status stands, whatever comes of the rest
		}
		document = append(document, p...)
	}
	return h.status, document, nil
}

// appendGet appends the head of a GET.
func (c *Client) appendGet(b []byte, path string) []byte {
	b = append(b, "GET "...)
	b = c.target.appendPath(b, path)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, c.target.hostHeader...)
	b = append(b, "\r\n"...)
	b = append(b, c.rendered...)
	return append(b, "Accept: application/json\r\nConnection: close\r\n\r\n"...)
}
