package capture

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

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
