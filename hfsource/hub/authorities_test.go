package hub

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A hub behind a proxy of a company has a certificate of an authority that this machine does not know: the error says so at once, and
// which variable names it. A file or a directory of certificates does.
//
// Covers S21.
func TestOwnAuthority(t *testing.T) {
	asked := 0
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("X-Error-Code", "RepoNotFound")
		w.WriteHeader(http.StatusNotFound)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	dir := t.TempDir()
	file, empty := filepath.Join(dir, "ca.pem"), filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o666))
	require.NoError(t, os.Symlink(filepath.Join(dir, "nowhere"), filepath.Join(dir, "0123.0")))
	require.NoError(t, os.WriteFile(empty, nil, 0o666))
	r, err := Parse(ref)
	require.NoError(t, err)
	for _, c := range []struct {
		name, value string
		class       Class
		asked       int
		hint        string
	}{
		{"", "", ClassUnavailable, 0, "REQUESTS_CA_BUNDLE=FILE or SSL_CERT_FILE=FILE"},
		{"REQUESTS_CA_BUNDLE", file, ClassNotFound, 1, "check the name"},
		{"REQUESTS_CA_BUNDLE", dir, ClassNotFound, 1, "check the name"},
		{"CURL_CA_BUNDLE", file, ClassNotFound, 1, "check the name"},
		{"REQUESTS_CA_BUNDLE", empty, ClassUnavailable, 0, "REQUESTS_CA_BUNDLE=FILE"},
		{"REQUESTS_CA_BUNDLE", "/nowhere", ClassUnavailable, 0, "REQUESTS_CA_BUNDLE=FILE"},
	} {
		asked = 0
		env := map[string]string{"HF_HOME": t.TempDir(), "HF_ENDPOINT": s.URL, c.name: c.value}
		var told strings.Builder
		_, err := Fetch(t.Context(), r, Options{
			Env:  func(name string) (string, bool) { v, ok := env[name]; return v, ok },
			Logf: func(format string, args ...any) { fmt.Fprintf(&told, format, args...) },
		})
		assert.Equal(t, c.class, classOf(err), "%s=%s: %v", c.name, c.value, err)
		assert.Equal(t, c.asked, asked)
		assert.Contains(t, Hint(err), c.hint)
		assert.Equal(t, c.name != "" && c.asked == 0, strings.Contains(told.String(), c.value+" gives no authority: "), told.String())
	}
}
