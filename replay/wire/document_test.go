package wire

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Get and Post send the common header and no body, and read any answer whole. What the server says of a secret is not told.
func TestDocuments(t *testing.T) {
	var got []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, fmt.Sprint(r.Method, " ", r.URL, " ", r.ContentLength, " ", r.Header.Get("Authorization")))
		switch r.URL.Path {
		case "/api/gone":
			http.Error(w, "no "+r.Header.Get("Authorization"), http.StatusGone)
		case "/api/busy":
			w.WriteHeader(http.StatusServiceUnavailable)
		case "/api/zip":
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, "\x1f\x8b")
		default:
			fmt.Fprint(w, "a document")
		}
	}))
	defer s.Close()
	c, err := New(s.URL+"/api/v1?n=1", Options{APIKey: "hunter2"})
	require.NoError(t, err)
	defer c.Close()

	document, f := c.Get(t.Context(), "/v1/models")
	require.Nil(t, f)
	require.Equal(t, "a document", string(document))
	for _, ask := range []func(context.Context, string) ([]byte, *Failure){c.Post, c.GetBelowRoot} {
		document, f = ask(t.Context(), "/reset")
		require.Nil(t, f)
		require.Equal(t, "a document", string(document))
	}
	for path, want := range map[string]Failure{
		"/gone": {HTTPStatus, 410, "410 Gone: no Bearer [API key]"},
		"/busy": {Overload, 503, "503 Service Unavailable"},
		"/zip":  {HTTPStatus, 409, "409 Conflict: compressed (Content-Encoding gzip), which was not asked for"},
	} {
		document, f = c.Post(t.Context(), path)
		require.Nil(t, document)
		require.Equal(t, want, *f)
	}
	require.Equal(t, []string{"GET /api/v1/models?n=1 0 Bearer hunter2", "POST /api/reset?n=1 0 Bearer hunter2", "GET /api/reset?n=1 0 Bearer hunter2"}, got[:3])

	s.Close()
	_, f = c.Post(t.Context(), "/reset")
	require.Equal(t, Connection, f.Category)
	require.Zero(t, f.Code)
}

// A request without a body announces that.
func TestPostAnnouncesNoBody(t *testing.T) {
	head := make(chan string, 1)
	url := serve(t, func(p *peer) {
		h, _ := p.request()
		head <- h
		p.say("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	})
	_, f := newClient(t, url, Options{}).Post(t.Context(), "/reset")
	require.Nil(t, f)
	h := <-head
	require.True(t, strings.HasPrefix(h, "POST /reset HTTP/1.1\r\n"), h)
	require.Contains(t, h, "\r\nContent-Length: 0\r\n")
}
