package capture

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/guard"
)

// A page that is open in a browser of this machine makes and ends no sessions, whatever it asks with, so that no session of an agent has to
// make room; nor is a name of its own of use to it.
//
// Covers C-45.
func TestAdminAnswersNoForeignPage(t *testing.T) {
	r := start(t, newScripted(), func(o *Options) { o.Limits.Sessions = 20 })
	r.do(chatPath, "whole", chatBody("an agent"), "X-Session-Affinity", "real")
	require.Len(t, r.sessions.list(), 1)
	real := r.sessions.list()[0].Trace
	for _, c := range []struct {
		method string
		header http.Header
		status int
	}{
		{http.MethodPost, http.Header{"Content-Type": {"text/plain"}}, http.StatusUnsupportedMediaType},
		{http.MethodPost, http.Header{}, http.StatusUnsupportedMediaType},
		{http.MethodPost, http.Header{"Content-Type": {"text/plain"}, "Origin": {"https://foreign.example"}}, http.StatusForbidden},
		{http.MethodPost, http.Header{"Content-Type": {"application/json"}, "Origin": {"null"}}, http.StatusForbidden},
		{http.MethodPost, http.Header{"Content-Type": {"application/json"}, "Host": {"rebound.example"}}, http.StatusForbidden},
		{http.MethodGet, http.Header{"Host": {"rebound.example"}}, http.StatusForbidden},
		{http.MethodDelete, http.Header{}, http.StatusUnsupportedMediaType},
	} {
		for range 25 {
			path := "/sessions"
			if c.method == http.MethodDelete {
				path += "/" + real
			}
			req, err := http.NewRequest(c.method, r.control+path, strings.NewReader(""))
			require.NoError(t, err)
			req.Header, req.Host = c.header, c.header.Get("Host")
			resp, err := http.DefaultClient.Do(req)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, c.status, resp.StatusCode, "%+v", c)
			require.Equal(t, "application/json", resp.Header.Get("Content-Type"))
		}
	}
	require.Len(t, r.sessions.list(), 1, "the session of the agent is open")
	r.end()
}

// The admin listener answers clients on other machines only if it has a token.
//
// Covers C-45.
func TestAdminBeyondThisMachine(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	for _, token := range []string{"", "s3cret"} {
		handler := behind(guard.New("--admin", &net.TCPAddr{IP: net.IPv4zero}, token), mux)
		for _, path := range []string{"/health", "/nothing"} {
			for _, sent := range []string{"", "s3cret"} {
				r, w := httptest.NewRequest(http.MethodGet, path, nil), httptest.NewRecorder()
				r.Header.Set("Authorization", "Bearer "+sent)
				handler.ServeHTTP(w, r)
				require.Equal(t, token == "" || sent == "", w.Code == http.StatusUnauthorized, "%s: %d", path, w.Code)
			}
		}
	}
}

// Whatever the admin listener refuses, it says so in the same object: also a path that there is not, and another method.
func TestAdminRefusesInJSON(t *testing.T) {
	r := start(t, newScripted(), nil)
	for _, c := range []struct {
		method, path string
		status       int
		body, allow  string
	}{
		{http.MethodPut, "/health", http.StatusMethodNotAllowed, `{"error":"method not allowed"}`, "GET, HEAD"},
		{http.MethodGet, "/nothing", http.StatusNotFound, `{"error":"not found"}`, ""},
		{http.MethodGet, "/sessions/x", http.StatusNotFound, `{"error":"session not found"}`, ""},
	} {
		req, err := http.NewRequest(c.method, r.control+c.path, nil)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		body, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, c.status, resp.StatusCode, c.path)
		require.Equal(t, c.body+"\n", string(body), c.path)
		require.Equal(t, "application/json", resp.Header.Get("Content-Type"), c.path)
		require.Equal(t, c.allow, resp.Header.Get("Allow"), c.path)
	}
	r.end()
	r.requireAtRest()
}
