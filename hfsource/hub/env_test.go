package hub

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fakehub"
)

// The error about a missing network names the alternatives.
func TestNoNetwork(t *testing.T) {
	for _, cause := range []error{&net.DNSError{Err: "no such host", Name: "hub.test", IsNotFound: true}, syscall.ECONNREFUSED, syscall.ENETUNREACH} {
		runInBubble(t, func(w *fixture) {
			w.transport = roundTrip(func(*http.Request) (*http.Response, error) {
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: cause}
			})
			_, err := w.fetch(ref)
			require.Equal(t, ClassUnavailable, classOf(err))
			for _, text := range []string{"HF_ENDPOINT=", "HF_HUB_OFFLINE=1", "a local copy"} {
				assert.Contains(t, Hint(err), text)
			}
		})
	}
	runInBubble(t, func(w *fixture) {
		w.transport = roundTrip(func(*http.Request) (*http.Response, error) { return nil, syscall.ECONNRESET })
		_, err := w.fetch(ref)
		assert.Equal(t, "again later", Hint(err))
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestSettings(t *testing.T) {
	home := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(home, ".cache", "huggingface"), 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(home, ".cache", "huggingface", "token"), []byte("from-file\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(home, "t2"), []byte(" from-path \n"), 0o600))
	get := func(pairs ...string) (settings, error) {
		env := map[string]string{"HOME": home}
		for k := 0; k < len(pairs); k += 2 {
			env[pairs[k]] = pairs[k+1]
		}
		return LookupEnv(func(name string) (string, bool) { v, ok := env[name]; return v, ok }).settings(datasets)
	}
	s, err := get()
	require.NoError(t, err)
	assert.Equal(t, "https://huggingface.co", s.endpoint.String())
	assert.Equal(t, filepath.Join(home, ".cache/huggingface/hub"), s.cacheDir)
	assert.Equal(t, "from-file", s.token)
	assert.Equal(t, [2]time.Duration{10 * time.Second, 30 * time.Second}, [2]time.Duration{s.headerTimeout, s.idleTimeout})
	for _, c := range []struct {
		env  []string
		want string
		got  func(settings) string
	}{
		{[]string{"HF_HOME", "/x"}, "/x/hub", func(s settings) string { return s.cacheDir }},
		{[]string{"HF_HOME", "~/x"}, home + "/x/hub", func(s settings) string { return s.cacheDir }},
		{[]string{"XDG_CACHE_HOME", "/c"}, "/c/huggingface/hub", func(s settings) string { return s.cacheDir }},
		{[]string{"HF_HOME", "/x", "HUGGINGFACE_HUB_CACHE", "/old"}, "/old", func(s settings) string { return s.cacheDir }},
		{[]string{"HF_HUB_CACHE", "/new", "HUGGINGFACE_HUB_CACHE", "/old"}, "/new", func(s settings) string { return s.cacheDir }},
		{[]string{"HF_TOKEN", " a\n", "HUGGING_FACE_HUB_TOKEN", "b"}, "a", func(s settings) string { return s.token }},
		{[]string{"HUGGING_FACE_HUB_TOKEN", "b"}, "b", func(s settings) string { return s.token }},
		{[]string{"HF_TOKEN", `"hf_a"`}, "hf_a, the quotes around the token of HF_TOKEN are left out", func(s settings) string { return s.token + ", " + s.notes[1] }},
		{[]string{"HF_TOKEN", "'hf_a'"}, "hf_a", func(s settings) string { return s.token }},
		{[]string{"HF_TOKEN", `"hf_a'`}, `"hf_a', `, func(s settings) string { return s.token + ", " + s.notes[1] }},
		{[]string{"HF_TOKEN_PATH", home + "/t2"}, "from-path", func(s settings) string { return s.token }},
		{[]string{"HF_HOME", "/nowhere"}, "", func(s settings) string { return s.token }},
		{[]string{"HF_TOKEN", "a", "HF_HUB_DISABLE_IMPLICIT_TOKEN", "1"}, "", func(s settings) string { return s.token }},
		{[]string{"HF_HUB_DISABLE_IMPLICIT_TOKEN", "on"}, "", func(s settings) string { return s.token }},
		{[]string{"HF_HUB_DISABLE_IMPLICIT_TOKEN", "0"}, "from-file", func(s settings) string { return s.token }},
		{[]string{"HF_ENDPOINT", "http://mirror:80/hf/"}, "http://mirror:80/hf", func(s settings) string { return s.endpoint.String() }},
		{[]string{"HF_HUB_OFFLINE", "yes"}, "HF_HUB_OFFLINE", func(s settings) string { return s.offline }},
		{[]string{"HF_HUB_OFFLINE", "0"}, "", func(s settings) string { return s.offline }},
		{[]string{"HF_HUB_OFFLINE", "1", "HF_DATASETS_OFFLINE", "0"}, "", func(s settings) string { return s.offline }},
		{[]string{"HF_DATASETS_OFFLINE", "true"}, "HF_DATASETS_OFFLINE", func(s settings) string { return s.offline }},
		{[]string{"HF_HUB_ETAG_TIMEOUT", "3"}, "3s", func(s settings) string { return s.headerTimeout.String() }},
		{[]string{"HF_HUB_ETAG_TIMEOUT", "0.01"}, "10ms", func(s settings) string { return s.headerTimeout.String() }},
		{[]string{"HF_HUB_DOWNLOAD_TIMEOUT", "0.5"}, "500ms", func(s settings) string { return s.idleTimeout.String() }},
	} {
		s, err := get(c.env...)
		require.NoError(t, err, c.env)
		assert.Equal(t, c.want, c.got(s), c.env)
	}
	for _, env := range [][]string{{"HF_ENDPOINT", "ftp://x"}, {"HF_ENDPOINT", "huggingface.co"}, {"HF_ENDPOINT", "https://user:secret@x"}, {"HF_ENDPOINT", "https://user:secret@secret@x"}, {"HF_ENDPOINT", "https://user:a/secret@x"},
		{"HF_ENDPOINT", "user:secret@x"}, {"HF_ENDPOINT", "https://us'er:secret@x"}, {"HF_ENDPOINT", "https://x#part"}, {"HF_HUB_ETAG_TIMEOUT", "soon"}, {"HF_HUB_ETAG_TIMEOUT", "-1"}, {"HF_HUB_ETAG_TIMEOUT", "1e-12"}, {"HF_HUB_DOWNLOAD_TIMEOUT", "0.009"}, {"HF_HUB_DOWNLOAD_TIMEOUT", "NaN"}, {"HF_HUB_DOWNLOAD_TIMEOUT", "1e300"}, {"HF_TOKEN", "se cret"}, {"HF_TOKEN", "secret\x01"}} {
		_, err := get(env...)
		require.Error(t, err, env)
		assert.NotContains(t, err.Error(), "secret")
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, mkfifo(t, pipe))
	for _, path := range []string{pipe, "/dev/zero"} {
		s, err := get("HF_TOKEN_PATH", path)
		require.NoError(t, err)
		assert.Empty(t, s.token)
	}
	assert.True(t, LookupEnv(func(string) (string, bool) { return "1", true }).ProgressDisabled())
}

// A mirror hands out addresses of the hub itself. These are rewritten to the mirror, those of other hosts are not.
func TestMirror(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		w.hub.Page = 2
		w.hub.On(onTree, fakehub.EditHeaders(func(status int, h http.Header) int {
			h.Set("Link", strings.Replace(h.Get("Link"), w.hub.HubURL, DefaultEndpoint, 1))
			return status
		}))
		w.hub.On(onInfo, func(next http.HandlerFunc) http.HandlerFunc {
			return func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Query().Get("again") == "" {
					fakehub.Redirect(DefaultEndpoint+r.URL.EscapedPath()+"?again=1")(nil)(rw, r)
					return
				}
				next(rw, r)
			}
		})
		w.mustFetch(ref)
		w.checkCalls(5, 2, 1)
	})
}

// HF_DATASETS_OFFLINE decides about datasets, whatever HF_HUB_OFFLINE says of models.
//
// Covers F27.
func TestDatasetsOfflineIsSeparate(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		w.env["TRANSFORMERS_OFFLINE"] = "1"
		w.mustFetch(ref)
	})
	runInBubble(t, func(w *fixture) { // HF_DATASETS_OFFLINE overrides HF_HUB_OFFLINE
		w.env["HF_HUB_OFFLINE"], w.env["HF_DATASETS_OFFLINE"] = "1", "0"
		w.mustFetch(ref)
	})
	runInBubble(t, func(w *fixture) {
		w.env["HF_DATASETS_OFFLINE"] = "1"
		w.transport = forbidden{t}
		e := w.mustFail(ref, ClassNotCached)
		assert.Contains(t, e.Hint, "HF_DATASETS_OFFLINE")
	})
}
