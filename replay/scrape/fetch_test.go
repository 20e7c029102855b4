package scrape

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// serve returns a server that ends with the test.
func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// fetch asks once for a page.
func fetch(t *testing.T, p Page) (string, error) {
	t.Helper()
	require.NoError(t, p.Validate())
	f := newFetcher(p, newTransport(p))
	defer f.close()
	text, err := f.get(context.Background())
	return string(text), err
}

// TestRedirects follows one on the same server with the credentials, and none to another, which would get them.
func TestRedirects(t *testing.T) {
	var got []string
	other := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = append(got, "other") })
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		got = append(got, r.URL.Path+" "+user+":"+password+" "+r.Header.Get("X-Key"))
		switch r.URL.Path {
		case "/metrics":
			http.Redirect(w, r, "/metrics/", http.StatusTemporaryRedirect)
		case "/away":
			http.Redirect(w, r, other.URL+"/?stolen=1", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		default:
			fmt.Fprint(w, "x 1\n")
		}
	})
	url := strings.Replace(s.URL, "://", "://user:pw@", 1)
	text, err := fetch(t, Page{URL: url + "/metrics", Header: http.Header{"X-Key": {"k"}}})
	require.NoError(t, err)
	assert.Equal(t, "x 1\n", text)
	assert.Equal(t, []string{"/metrics user:pw k", "/metrics/ user:pw k"}, got)
	got = nil
	_, err = fetch(t, Page{URL: url + "/away"})
	require.EqualError(t, err, "redirected to another server, which is not followed: name it with its own URL")
	assert.Equal(t, []string{"/away user:pw "}, got)
	_, err = fetch(t, Page{URL: url + "/loop"})
	require.EqualError(t, err, "redirected more than 3 times")
}

// TestAnswersThatAreNone has a reason for each.
func TestAnswersThatAreNone(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/404":
			http.NotFound(w, r)
		case "/long":
			row := []byte("# " + strings.Repeat("x", 1<<16-3) + "\n")
			for r.Context().Err() == nil { // it has no end
				_, _ = w.Write(row)
			}
		case "/cut":
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "x 1\n")
		case "/header":
			w.Header().Set("X", strings.Repeat("x", 1<<20))
		}
	})
	for path, want := range map[string]string{
		"/404": "status 404", "/long": "more than 16777216 bytes", "/cut": "unexpected EOF", "/header": "net/http: server response headers exceeded",
	} {
		_, err := fetch(t, Page{URL: s.URL + path})
		require.ErrorContains(t, err, want, path)
	}
	s.Close()
	_, err := fetch(t, Page{URL: s.URL})
	require.ErrorContains(t, err, "refused")
}

// TestNoSecretIsTold keeps user, password, query and header fields out of the file and of every message, also where an error of the
// transport repeats them.
func TestNoSecretIsTold(t *testing.T) {
	file, told := &memory{}, said{}
	page := Page{URL: "http://me:hunter2@h/metrics?key=s3cret", Header: http.Header{"Authorization": {"Bearer tok3n"}}}
	c, err := Start(Options{
		Pages: []Page{page}, Notice: told.add,
		Transport: answers(func(r *http.Request, n int) (string, error) {
			return "", fmt.Errorf("proxy says %s %v Bearer tok3n tok3n hunter2 %s", r.URL, r.Header, strings.Repeat("é", 1000))
		}).transport(),
	})
	require.NoError(t, err)
	c.Open(file)
	c.Ready(t.Context(), time.Minute)
	f, err := c.Close()
	require.NoError(t, err)
	assert.Equal(t, 1, f.Pages[0].Failures)
	text := file.String() + fmt.Sprint(told.list, f)
	for _, secret := range []string{"me:", "hunter2", "s3cret", "tok3n"} {
		assert.NotContains(t, text, secret)
	}
	assert.Contains(t, text, "http://h/metrics: proxy says")
	assert.Less(t, len(f.Pages[0].LastError), 400)
}
