package hub

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fakehub"
)

func TestPacesBeforeRateLimit(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		w.hub.Page = 1 // five entries and a directory: six calls after the first
		left := 24
		w.hub.On(fakehub.Match{Listener: "hub", Path: "/api/"}, fakehub.EditHeaders(func(status int, h http.Header) int {
			h.Set("RateLimit", fmt.Sprintf(`"api";r=%d;t=240`, left))
			h.Set("RateLimit-Policy", `"fixed window";"api";q=500;w=300`)
			return status
		}))
		begin := time.Now()
		w.mustFetch(ref)
		log := w.hub.Log()
		for k := 1; k < 6; k++ {
			assert.Equal(t, 10*time.Second, log[k].At.Sub(log[k-1].At), "24 calls in 240 s")
		}
		assert.Contains(t, w.log(), "few api calls left")
		assert.GreaterOrEqual(t, time.Since(begin), 50*time.Second)

		left = 25 // 5 %: not yet paced
		w.hub.ResetLog()
		w.commit = w.hub.Commit(repoName, "main", w.files)
		begin = time.Now()
		w.mustFetch(ref)
		assert.Zero(t, time.Since(begin))
	})
}

func TestHubWarningsAreShownOnce(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		w.hub.On(fakehub.Match{Listener: "hub"}, fakehub.EditHeaders(func(status int, h http.Header) int {
			h.Add("X-HF-Warning", "topic; be careful")
			h.Add("X-HF-Warning", "other; \u009b31mred")
			return status
		}))
		w.mustFetch(ref)
		assert.Equal(t, 1, strings.Count(w.log(), "be careful"))
		assert.NotContains(t, w.log(), "\u009b")
	})
}

// Anonymous nodes that share the rate limit of an address wait for it.
//
// Covers F24.
func TestNodesShareRateLimit(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		w.mustFetch(ref)
		w.hub.ResetLog()
		w.hub.On(fakehub.Match{Listener: "hub"}, fakehub.Status(429, "RateLimit", `"api";r=0;t=300`))
		w.mustFetch(ref + "@" + w.commit) // pinned: no request
		w.checkCalls(0, 0, 0)
		w.hub.Off()
		for range 10 { // a branch: one call each, and no further listing
			w.mustFetch(ref)
		}
		w.checkCalls(10, 0, 0)
		w.hub.On(onInfo, fakehub.Times(1, fakehub.Status(429, "RateLimit", `"api";r=0;t=299`)))
		begin := time.Now()
		w.mustFetch(ref)
		assert.Equal(t, 300*time.Second, time.Since(begin))
		w.hub.Off()
		w.hub.On(onInfo, fakehub.Status(429))
		w.root, w.home = t.TempDir(), t.TempDir()
		w.env["HF_HOME"] = w.home
		e := w.mustFail(ref, ClassUnavailable, "429")
		assert.Contains(t, e.Hint, "HF_TOKEN")
	})
}

// Errors never show a token or a signed address.
func TestSecretsAreScrubbed(t *testing.T) {
	for in, want := range map[string]string{
		`Get "https://cdn/x?sig=secret": EOF`:   `Get "https://cdn/x?...": EOF`,
		`https://user:secret@host/path`:         `https://...@host/path`,
		`parse "https://h/p?a=secret&b=secret"`: `parse "https://h/p?..."`,
		`nothing here`:                          `nothing here`,
	} {
		assert.Equal(t, want, redact(in))
	}
	for _, token := range []string{"mysecrettoken", "hf_secret"} { // a server may repeat the token
		for _, m := range []fakehub.Match{onInfo, onTree, onHead} {
			runInBubble(t, func(w *fixture) {
				w.env["HF_TOKEN"] = token
				w.hub.On(m, fakehub.Refuse(404, "RepoNotFound", "who sent "+token+"? "+strings.Repeat("x", 270)+token))
				w.mustFail(ref, ClassNotFound, "who sent ")
			})
		}
		runInBubble(t, func(w *fixture) {
			w.env["HF_TOKEN"] = token
			w.hub.On(onInfo, fakehub.SetHeader("X-HF-Warning", "token; yours is "+token))
			w.mustFetch(ref)
			assert.Contains(t, w.log(), "yours is")
			assert.NotContains(t, w.log(), "secret")
		})
	}
	runInBubble(t, func(w *fixture) {
		w.hub.On(onHead, fakehub.SetHeader("Location", "https://cdn.test:8443/x?secret=1\x7f"))
		_, err := w.fetch(ref)
		require.Error(t, err)
	})
	runInBubble(t, func(w *fixture) {
		w.hub.On(onFile, fakehub.Drop)
		w.mustFail(ref, ClassUnavailable, "cdn.test")
	})
}

// The behaviour of resty and net/http on which this package relies.
func TestRestyStopsAtRedirects(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		s, err := LookupEnv(func(name string) (string, bool) { v, ok := w.env[name]; return v, ok }).settings(datasets)
		require.NoError(t, err)
		s.token = "hf_abc"
		c := newClient(s, datasets, w.options())
		at := c.address("/datasets/" + repoName + "/resolve/main/" + data)
		r, err := c.once(w.t.Context(), request{method: "HEAD", url: at, budget: resolveBudget})
		require.NoError(t, err)
		assert.Equal(t, 302, r.status)
		assert.NotEmpty(t, r.header[locationKey])
		r.discard()
		r, err = c.once(w.t.Context(), request{method: "GET", url: at, budget: resolveBudget})
		require.NoError(t, err)
		text, err := io.ReadAll(r.body)
		require.NoError(t, err)
		assert.Contains(t, string(text), "Redirecting", "the body can be read")
		r.discard()
		assert.Len(t, w.hub.Log(), 2, "one request each")
		assert.Panics(t, func() {
			_, _ = c.once(w.t.Context(), request{method: "GET", url: mustParse(w.hub.OtherURL)})
		}, "the token has one origin")
		c.close()
	})
}
