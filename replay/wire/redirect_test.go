package wire

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// One redirect to the same origin is followed, with the same body and the same ids.
func TestRedirect(t *testing.T) {
	type seen struct{ line, id, body string }
	var got []seen
	var to [2]string
	url := serve(t, func(p *peer) {
		for i := range 2 {
			head, body := p.request()
			line, rest, _ := strings.Cut(head, "\r\n")
			_, id, _ := strings.Cut(rest, "X-Request-ID: ")
			got = append(got, seen{line, id[:1], string(body)})
			if to[i] == "" {
				p.say(sized(eventHead, goodStream))
			} else {
				p.say(sized("HTTP/1.1 307 Temporary Redirect\r\nLocation: "+to[i]+"\r\n", "moved"))
			}
		}
	})
	to = [2]string{url + "/there/chat?k=v", ""}
	c := newClient(t, url, Options{})
	r := &Request{Path: "/v1/chat/completions", Stream: true, Body: textBody("{}"), Header: []HeaderField{{"X-Request-ID", "7"}}}
	res := c.Do(context.Background(), r)
	require.Nil(t, res.Err)
	require.Equal(t, 200, res.Status)
	require.True(t, res.Redirected)
	require.Equal(t, []seen{{"POST /v1/chat/completions HTTP/1.1", "7", "{}"}, {"POST /there/chat?k=v HTTP/1.1", "7", "{}"}}, got)

	x := &call{Client: c, request: r, redirectedTo: "/a/b"}
	for location, want := range map[string]string{
		"c": "/a/c", "/d?e": "/d?e", url + "/f#g": "/f", "?h": "/a/b?h", strings.Replace(url, "http:", "HTTP:", 1): "/",
	} {
		u, err := x.locate(location)
		require.NoError(t, err)
		require.True(t, c.target.isOrigin(u), location)
		require.Equal(t, want, u.RequestURI())
	}
	for _, other := range []string{"https" + url[4:] + "/x", "//elsewhere/x", "http://127.0.0.1:1/x", "ftp://h"} {
		u, err := x.locate(other)
		require.NoError(t, err)
		require.False(t, c.target.isOrigin(u), other)
	}
}

// A second redirect is not followed: it is the answer.
func TestRedirectOnce(t *testing.T) {
	c := newClient(t, serve(t, func(p *peer) {
		for range 2 {
			p.request()
			p.say(sized("HTTP/1.1 308 Permanent Redirect\r\nLocation: /loop\r\n", ""))
		}
	}), Options{})
	res := post(c)
	require.Equal(t, &Failure{HTTPStatus, 308, "308 Permanent Redirect: redirected again, to /loop, which is not followed"}, res.Err)
	require.True(t, res.Redirected)
}
