package hub

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fakehub"
)

// Requests on which the tests switch faults on.

var (
	onHead = fakehub.Match{Listener: "hub", Method: "HEAD", Path: "/resolve/"}
	onFile = fakehub.Match{Listener: "cdn", Method: "GET"}
	onTree = fakehub.Match{Listener: "hub", Path: "/tree/"}
	onInfo = fakehub.Match{Listener: "hub", Path: "/revision/"}
)

// Covers S1.
func TestRenamedRepositoryIsFollowed(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		const old = "semianalysisai/old-name"
		w.env["HF_TOKEN"] = "hf_abc"
		w.hub.Token = "hf_abc"
		w.hub.On(fakehub.Match{}, fakehub.Rename(old, repoName))
		r, err := Parse("hf://datasets/" + old)
		require.NoError(t, err)
		s, err := Fetch(w.context(), r, w.options())
		require.NoError(t, err)
		w.checkSnapshot(s)
		assert.Equal(t, old, s.Repo)
		assert.Equal(t, repoName, s.RenamedTo)
		assert.Equal(t, w.commit, s.Commit)
		assert.Contains(t, s.Summary(), repoName)
		assert.Empty(t, w.hub.Violations())
		require.NoError(t, s.Close())
		w.checkCalls(3, 2, 1) // the first call is asked twice; then the new name is used

		s, err = Fetch(w.context(), Ref{Repo: old, Revision: s.Commit}, w.options())
		require.NoError(t, err)
		w.checkSnapshot(s)
		require.NoError(t, s.Close())
		w.checkCalls(0, 0, 0)
	})
	for hopCount, fine := range map[int]bool{5: true, 6: false} {
		runInBubble(t, func(w *fixture) {
			w.hub.On(onInfo, fakehub.Hops(hopCount))
			if fine {
				w.mustFetch(ref)
				return
			}
			w.mustFail(ref, ClassNotHub, "more than 5 redirects")
			w.checkCalls(6, 0, 0)
		})
		runInBubble(t, func(w *fixture) {
			w.hub.On(onHead, fakehub.Hops(hopCount))
			if fine {
				w.mustFetch(ref)
				return
			}
			w.mustFail(ref, ClassNotHub, "more than 5 redirects", data)
		})
	}
	runInBubble(t, func(w *fixture) { // a relative address that leads out of the endpoint
		w.env["HF_ENDPOINT"] = w.hub.HubURL + "/mirror"
		w.hub.On(fakehub.Match{}, fakehub.Redirect("/elsewhere"))
		w.mustFail(ref, ClassNotHub, "leads out of")
	})
}

// A redirect that cannot be followed is an error at once: the request is not repeated.
func TestUnreadableRedirectIsRefused(t *testing.T) {
	for to, text := range map[string]string{
		"http://[::1/x?secret":     `names an address that cannot be parsed: "http://[::1/x?..."`,
		"%zz":                      `names an address that cannot be parsed: "%zz"`,
		"":                         "names no address",
		"/api/%2e%2e/x":            "whose .. is not followed",
		"/api/..%2fx":              "whose .. is not followed",
		"https://hub.test/%2e%2E/": "whose .. is not followed",
	} {
		runInBubble(t, func(w *fixture) {
			w.hub.On(onInfo, fakehub.Redirect(to))
			w.mustFail(ref, ClassNotHub, text, "status 302")
			w.checkCalls(1, 0, 0)
		})
		runInBubble(t, func(w *fixture) {
			w.hub.On(onHead, fakehub.SetHeader("Location", to))
			w.mustFail(ref, ClassNotHub, text, data)
			w.checkCalls(2, 2, 0)
		})
		runInBubble(t, func(w *fixture) {
			w.hub.On(onFile, fakehub.Redirect(to))
			w.mustFail(ref, ClassNotHub, text, data)
			w.checkCalls(2, 2, 1)
		})
	}
}

// Covers S2.
func TestRedirectToCDN(t *testing.T) {
	runInBubble(t, func(w *fixture) { // the redirect has a body and a length of its own, in every test
		s := w.mustFetch(ref)
		assert.EqualValues(t, 300_000, s.Files[0].Size)
		w.checkCalls(2, 2, 1)
	})
	runInBubble(t, func(w *fixture) { // without X-Linked-Size the listing has the size: never the redirect's length
		w.hub.On(onHead, fakehub.SetHeader("X-Linked-Size", ""))
		w.mustFetch(ref)
	})
	runInBubble(t, func(w *fixture) {
		w.hub.On(onHead, fakehub.SetHeader("X-Linked-Size", "299999"))
		w.mustFail(ref, ClassNotHub, "299999", data)
	})
	runInBubble(t, func(w *fixture) { // https to http
		w.hub.On(onHead, fakehub.SetHeader("Location", "http://cdn.test:8443/x?secret"))
		w.mustFail(ref, ClassNotHub, "https to http", data)
	})
	runInBubble(t, func(w *fixture) { // a file outside LFS comes from the hub itself
		s := w.mustFetch(ref + "/stats.txt")
		assert.Equal(t, w.files["stats.txt"].ETag(), s.Files[0].ETag)
		w.checkCalls(2, 2, 0) // HEAD and GET; no card is asked for
	})
}

// Covers S3.
func TestETagForms(t *testing.T) {
	for name, form := range map[string]func(string) string{
		"weak":   func(d string) string { return `W/"` + d + `"` },
		"quoted": func(d string) string { return `"` + d + `"` },
		"bare":   func(d string) string { return d },
	} {
		runInBubble(t, func(w *fixture) {
			w.hub.On(fakehub.Match{Listener: "hub", Path: "/resolve/"}, fakehub.ETag(form))
			s := w.mustFetch(ref)
			assert.Equal(t, w.files[data].ETag(), s.Files[0].ETag, name)
			assert.Equal(t, filepath.Base(w.blob()), s.Files[0].ETag)
			w.mustFetch(ref + "/stats.txt")
		})
	}
	for name, form := range map[string]func(string) string{
		"39 hex":    func(d string) string { return `"` + d[:39] + `"` },
		"traversal": func(string) string { return `"../x"` },
		"empty":     func(string) string { return "" },
		"another":   func(d string) string { return `"` + strings.Repeat("0", len(d)) + `"` },
	} {
		runInBubble(t, func(w *fixture) {
			w.hub.On(fakehub.Match{Listener: "hub", Path: "/resolve/"}, fakehub.ETag(form))
			text := "which is no digest"
			if name == "another" {
				text = "in the listing of the same commit"
			}
			w.mustFail(ref, ClassNotHub, data, text)
			w.mustFail(ref+"/stats.txt", ClassNotHub, "stats.txt", text)
			assert.NoFileExists(t, w.repoPath("x"), name)
			entries, err := os.ReadDir(w.repoPath("blobs"))
			require.NoError(t, err)
			for _, e := range entries { // of the card, which is verified by the listing; and partial ones
				assert.True(t, e.Name() == w.files[cardName].ETag() || strings.HasSuffix(e.Name(), partialSuffix), e.Name())
			}
		})
	}
}

// Covers S4.
func TestCommitHeaderIsChecked(t *testing.T) {
	other := strings.Repeat("a", 40)
	for _, m := range []fakehub.Match{onHead, {Listener: "hub", Method: "GET", Path: "/resolve/"}} {
		runInBubble(t, func(w *fixture) {
			w.hub.On(m, fakehub.SetHeader("X-Repo-Commit", ""))
			w.mustFail(ref, ClassNotHub, "is not a hub")
			w.hub.Off()
			w.hub.On(m, fakehub.SetHeader("X-Repo-Commit", other))
			w.mustFail(ref, ClassNotHub, "revision mismatch", other, w.commit)
		})
	}
	runInBubble(t, func(w *fixture) { // the 200 that carries the bytes, of a file that is not redirected
		w.hub.On(fakehub.Match{Listener: "hub", Method: "GET", Path: "/stats.txt"}, fakehub.SetHeader("X-Repo-Commit", other))
		w.mustFail(ref+"/stats.txt", ClassNotHub, "revision mismatch", "stats.txt")
	})
	runInBubble(t, func(w *fixture) { // other replies are checked only if they name a commit
		w.hub.On(onTree, fakehub.SetHeader("X-Repo-Commit", ""))
		w.hub.On(onInfo, fakehub.SetHeader("X-Repo-Commit", ""))
		w.mustFetch(ref)
	})
	runInBubble(t, func(w *fixture) {
		w.hub.On(onTree, fakehub.SetHeader("X-Repo-Commit", other))
		w.mustFail(ref, ClassNotHub, "revision mismatch")
	})
	runInBubble(t, func(w *fixture) { // a captive portal answers 200 with a page
		w.hub.On(fakehub.Match{Listener: "hub"}, func(http.HandlerFunc) http.HandlerFunc {
			return func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "<html>Sign in</html>") }
		})
		e := w.mustFail(ref, ClassNotHub, "is not a hub")
		assert.Contains(t, e.Hint, "proxy")
		w.checkCalls(1, 0, 0)
	})
}

// Covers S5.
func TestRangeReplies(t *testing.T) {
	for name, s := range map[string]fakehub.Fault{
		"honoured":       nil,
		"ignored":        fakehub.IgnoreRange,
		"unsatisfiable":  fakehub.NoRange,
		"wrong start":    fakehub.WrongRange(1, 0),
		"wrong total":    fakehub.WrongRange(0, 1),
		"unknown total":  fakehub.EditHeaders(func(status int, h http.Header) int { return unknownTotal(status, h) }),
		"weak validator": fakehub.SetHeader("ETag", `W/"x"`),
		"no validator":   fakehub.SetHeader("ETag", ""),
	} {
		t.Run(name, func(t *testing.T) {
			runInBubble(t, func(w *fixture) {
				w.hub.On(onFile, fakehub.Times(1, fakehub.Cut(100_000)))
				if s != nil {
					w.hub.On(onFile, s)
				}
				w.mustFetch(ref)
				requests := ranges(w)
				assert.Equal(t, "bytes=100000-", requests[1])
				assert.NotContains(t, w.log(), "hash mismatch", "something was appended that does not belong there")
				switch name {
				case "honoured":
					assert.EqualValues(t, 300_000, w.bytesSent("cdn"))
				case "unsatisfiable", "wrong start", "wrong total", "unknown total":
					assert.Equal(t, []string{"", "bytes=100000-", ""}, requests)
				case "weak validator", "no validator":
					for _, r := range w.hub.Log() {
						assert.Empty(t, r.Header.Get("If-Range"))
					}
				}
			})
		})
	}
	runInBubble(t, func(w *fixture) { // the validator is that of the host that gave the bytes, not the hub's digest
		w.hub.On(onFile, fakehub.Times(1, fakehub.Cut(100_000)))
		w.mustFetch(ref)
		for _, r := range w.hub.Log() {
			if r.Range != "" {
				assert.Equal(t, `"cdn-`+w.files[data].ETag()[:16]+`"`, r.Header.Get("If-Range"))
			}
		}
	})
}

// If-Range is not sent to another host than that of the validator.
//
// Covers S5.
func TestIfRangeGoesToItsHostOnly(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		w.hub.On(onFile, fakehub.Times(1, w.hub.ExpireBytes(100_000)))
		w.hub.On(onHead, fakehub.After(1, fakehub.EditHeaders(func(status int, h http.Header) int {
			h.Set("Location", strings.Replace(h.Get("Location"), "cdn.test", "cdn2.test", 1))
			return status
		})))
		w.mustFetch(ref)
		log := w.hub.Log()
		assert.Equal(t, "bytes=100000-", log[len(log)-1].Range)
		assert.Empty(t, log[len(log)-1].Header.Get("If-Range"))
		assert.NotEmpty(t, log[len(log)-3].Header.Get("If-Range"), "the host that gave it")
	})
}

func unknownTotal(status int, h http.Header) int {
	if v := h.Get("Content-Range"); v != "" {
		h.Set("Content-Range", v[:strings.IndexByte(v, '/')]+"/*")
	}
	return status
}

func ranges(w *fixture) (list []string) {
	for _, r := range w.hub.Log() {
		if r.Listener == "cdn" {
			list = append(list, r.Range)
		}
	}
	return list
}

// Covers S6.
func TestCutBodyIsResumed(t *testing.T) {
	const size = 300_000
	for _, k := range []int64{0, 1, 64 << 10, size - 1} {
		for _, cuts := range []int{1, 3} {
			runInBubble(t, func(w *fixture) {
				w.hub.On(onFile, fakehub.Times(cuts, fakehub.Cut(k)))
				s := w.mustFetch(ref)
				assert.LessOrEqual(t, s.BytesNetwork, int64(size+cuts*readSize))
				assert.LessOrEqual(t, w.bytesSent("cdn"), int64(size+cuts*readSize))
			})
		}
	}
	runInBubble(t, func(w *fixture) { // before there is any answer: at most the attempts of one request
		w.hub.On(onFile, fakehub.Times(4, fakehub.Drop))
		w.mustFetch(ref)
	})
	runInBubble(t, func(w *fixture) { // every body is cut, without progress
		w.hub.On(onFile, fakehub.Cut(1000))
		e := w.mustFail(ref, ClassUnavailable, data, "8 attempts")
		assert.Contains(t, e.Hint, "continues from there")
		_, _, cdn := w.hub.Calls()
		assert.Equal(t, 8, cdn)

		w.hub.Off() // and the next run continues from there
		w.hub.ResetLog()
		s := w.mustFetch(ref)
		assert.EqualValues(t, size-8000, s.BytesNetwork)
		assert.Equal(t, []string{"bytes=8000-"}, ranges(w))
		for _, r := range w.hub.Log() {
			assert.Empty(t, r.Header.Get("If-Range"), "the validator of another process")
		}
	})
	runInBubble(t, func(w *fixture) { // every body is cut, with progress: any number of times
		w.commitData(content(12<<20, 9))
		w.hub.On(onFile, fakehub.Cut(1<<20))
		w.mustFetch(ref)
	})
}

// Covers S7.
func TestWrongContentLength(t *testing.T) {
	for _, by := range []int64{-1000, -1, 0, 1, 1000} {
		runInBubble(t, func(w *fixture) {
			w.hub.On(onFile, fakehub.Times(1, fakehub.MisstateLength(by)))
			w.mustFetch(ref)
		})
	}
	runInBubble(t, func(w *fixture) { // always one byte too small: the last byte never arrives
		w.hub.On(onFile, fakehub.MisstateLength(-1))
		w.mustFail(ref, ClassUnavailable, data)
	})
	runInBubble(t, func(w *fixture) {
		w.hub.On(onFile, fakehub.MisstateLength(0))
		w.mustFetch(ref)
	})
}

// Covers S8.
func TestCorruptBodyIsDownloadedAgain(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		w.hub.On(onFile, fakehub.Times(1, fakehub.Corrupt(150_000)))
		s := w.mustFetch(ref)
		assert.EqualValues(t, 600_000, s.BytesNetwork)
		assert.Contains(t, w.log(), "hash mismatch")
		w.checkCalls(2, 2, 2)
	})
	runInBubble(t, func(w *fixture) {
		w.hub.On(onFile, fakehub.Corrupt(150_000))
		bad := content(300_000, 1)
		bad[150_000] ^= 0x20
		w.mustFail(ref, ClassMismatch, data, fakehub.Digest(bad), w.files[data].ETag())
		w.checkCalls(2, 2, 2)
		assert.Empty(t, leftovers(t, w.home))
	})
	runInBubble(t, func(w *fixture) { // a file outside LFS has a digest, too
		w.hub.On(fakehub.Match{Listener: "hub", Method: "GET", Path: "/stats.txt"}, fakehub.Corrupt(3))
		w.mustFail(ref+"/stats.txt", ClassMismatch, "stats.txt", w.files["stats.txt"].ETag())
	})
	runInBubble(t, func(w *fixture) { // and so has the card
		w.hub.On(fakehub.Match{Listener: "hub", Method: "GET", Path: "/README.md"}, fakehub.Corrupt(60))
		w.mustFail(ref, ClassMismatch, cardName)
	})
	runInBubble(t, func(w *fixture) { // the digest of the whole file finds damage in a resumed partial file
		w.hub.On(onFile, fakehub.Cut(10_000))
		w.mustFail(ref, ClassUnavailable)
		w.hub.Off()
		part := w.blob() + partialSuffix
		b, err := os.ReadFile(part)
		require.NoError(t, err)
		b[77] ^= 1
		require.NoError(t, os.WriteFile(part, b, 0o666))
		w.mustFetch(ref)
		assert.Contains(t, w.log(), "hash mismatch")
	})
}

// Covers S9.
func TestExpiredURLIsRenewed(t *testing.T) {
	runInBubble(t, func(w *fixture) { // by bytes
		w.hub.On(onFile, w.hub.ExpireBytes(130_000))
		w.mustFetch(ref)
		// 130,000 bytes; the same address again, refused; a new one: twice over
		w.checkCalls(2, 2+2, 1+2+2)
	})
	runInBubble(t, func(w *fixture) { // by time: the address of a cut body has expired at the next request
		w.hub.On(onFile, w.hub.Expire(500*time.Millisecond))
		w.hub.On(onFile, fakehub.Times(1, fakehub.Cut(100_000)))
		s := w.mustFetch(ref)
		w.checkCalls(2, 3, 3)
		assert.EqualValues(t, 300_000, s.BytesNetwork)
	})
	for _, status := range []int{400, 401, 410} {
		runInBubble(t, func(w *fixture) {
			w.hub.On(onFile, fakehub.Times(1, fakehub.Status(status)))
			w.mustFetch(ref)
			w.checkCalls(2, 3, 2)
		})
	}
	runInBubble(t, func(w *fixture) { // for ever
		w.hub.On(onFile, fakehub.Status(403))
		w.mustFail(ref, ClassUnavailable, data)
		_, _, cdn := w.hub.Calls()
		assert.Equal(t, 8, cdn)
	})
}

// Covers S10.
func TestRateLimitWaits(t *testing.T) {
	limited := func(headers ...string) fakehub.Fault {
		return fakehub.Times(1, fakehub.Status(http.StatusTooManyRequests, headers...))
	}
	for name, c := range map[string]struct {
		headers []string
		wait    time.Duration
	}{
		"RateLimit":                {[]string{"RateLimit", `"api";r=0;t=55`, "RateLimit-Policy", `"fixed window";"api";q=500;w=300`}, 56 * time.Second},
		"RateLimit wins":           {[]string{"RateLimit", `"api";r=0;t=55`, "Retry-After", "3"}, 56 * time.Second},
		"RateLimit with some left": {[]string{"RateLimit", `"api";r=400;t=55`, "Retry-After", "3"}, 3 * time.Second},
		"seconds":                  {[]string{"Retry-After", "17"}, 17 * time.Second},
		"a date":                   {[]string{"Retry-After", "Sat, 01 Jan 2000 00:01:40 GMT"}, 100 * time.Second}, // a bubble begins in 2000
		"a date in the past":       {[]string{"Retry-After", "Sat, 01 Jan 1994 00:01:40 GMT"}, time.Second},
		"a date a year ahead":      {[]string{"Retry-After", "Mon, 01 Jan 2001 00:00:00 GMT"}, 10 * time.Minute},
		"neither":                  {nil, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			runInBubble(t, func(w *fixture) {
				w.hub.On(onInfo, limited(c.headers...))
				begin := time.Now()
				w.mustFetch(ref)
				log := w.hub.Log()
				assert.Equal(t, 429, log[0].Status)
				assert.Equal(t, begin.Add(c.wait), log[1].At)
				w.checkCalls(3, 2, 1)
				if c.wait > 5*time.Second {
					assert.Contains(t, w.log(), "waiting "+c.wait.String())
					assert.Contains(t, w.log(), "budget of api calls")
				}
			})
		})
	}
	runInBubble(t, func(w *fixture) { // on the way to the data, too
		w.hub.On(onHead, limited("RateLimit", `"resolvers";r=0;t=20`))
		w.hub.On(onFile, limited("Retry-After", "30"))
		begin := time.Now()
		w.mustFetch(ref)
		assert.Equal(t, 51*time.Second, time.Since(begin))
	})
}

// Covers S11.
func TestServerErrorsAreRetried(t *testing.T) {
	for _, status := range []int{500, 502, 503, 504, 408} {
		for name, m := range map[string]fakehub.Match{"info": onInfo, "tree": onTree, "card": {Listener: "hub", Method: "GET", Path: "/README.md"}, "head": onHead, "get": onFile} {
			for n, fine := range map[int]bool{5: true, 6: false} {
				runInBubble(t, func(w *fixture) {
					w.hub.On(m, fakehub.Times(n, fakehub.Status(status)))
					begin := time.Now()
					if fine {
						w.mustFetch(ref)
						assert.Equal(t, 31*time.Second, time.Since(begin), "1, 2, 4, 8, 16 seconds: %s", name) // Rand is 1
						return
					}
					e := w.mustFail(ref, ClassUnavailable, strconv.Itoa(status), "request id req-")
					assert.Equal(t, status, e.Status)
				})
			}
		}
	}
}

// Covers S12.
func TestAccessErrors(t *testing.T) {
	for name, c := range map[string]struct {
		status        int
		code, message string
		class         Class
		text, try     string
	}{
		"401":               {401, "", "", ClassNotFound, "no such repository, or it is private", "HF_TOKEN"},
		"credentials":       {401, "", "Invalid credentials in Authorization header", ClassCredentials, "does not accept the token", "HF_TOKEN"},
		"gated":             {403, "GatedRepo", "Access to dataset is restricted", ClassGated, "terms", "/datasets/" + repoName},
		"gated, no token":   {401, "GatedRepo", "", ClassGated, "terms", "HF_TOKEN"},
		"forbidden":         {403, "", "Forbidden", ClassGated, "Forbidden", "/datasets/" + repoName},
		"RepoNotFound":      {404, "RepoNotFound", "Repository not found", ClassNotFound, "no such repository", "check the name"},
		"RepoNotFound, 401": {401, "RepoNotFound", "", ClassNotFound, "private", "HF_TOKEN"},
		"RevisionNotFound":  {404, "RevisionNotFound", "Invalid rev id", ClassNotFound, "no such revision", "@REVISION"},
		"EntryNotFound":     {404, "EntryNotFound", "Entry not found", ClassNotFound, "no such file", ""},
		"disabled":          {403, "", "Access to this resource is disabled.", ClassDisabled, "disabled", ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, m := range []fakehub.Match{onInfo, onTree, onHead} {
				runInBubble(t, func(w *fixture) {
					w.hub.On(m, fakehub.Refuse(c.status, c.code, c.message))
					begin := time.Now()
					e := w.mustFail(ref, c.class, c.text, "request id")
					assert.Contains(t, e.Hint, c.try)
					assert.Zero(t, time.Since(begin), "it was asked again")
				})
			}
			runInBubble(t, func(w *fixture) { // and no copy of another commit replaces it
				w.mustFetch(ref)
				w.hub.On(onInfo, fakehub.Refuse(c.status, c.code, c.message))
				_, err := w.fetch(ref)
				require.Error(t, err)
				assert.Equal(t, c.class, classOf(err))
			})
		})
	}
	runInBubble(t, func(w *fixture) {
		w.env["HF_TOKEN"] = "hf_verysecretive"
		w.hub.Token = "another"
		_, err := w.fetch(ref)
		require.Error(t, err)
		assert.NotContains(t, err.Error()+Hint(err), "verysecretive")
	})
	runInBubble(t, func(w *fixture) { // without a token, if the environment disables it
		w.env["HF_TOKEN"], w.env["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "hf_abc", "1"
		w.hub.Token = "hf_abc"
		assert.Contains(t, w.mustFail(ref, ClassNotFound, "private").Hint, "unset HF_HUB_DISABLE_IMPLICIT_TOKEN")
		assert.Empty(t, w.hub.Log()[0].Header.Get("Authorization"))
	})
}

// Covers S13.
func TestBranchMovesDuringFetch(t *testing.T) {
	for _, m := range []fakehub.Match{onInfo, onTree, {Path: "/README.md"}, onHead} {
		runInBubble(t, func(w *fixture) {
			first := clone(w.files)
			files := clone(w.files)
			files[data] = fakehub.File{Data: content(200_000, 7), LFS: true}
			w.hub.On(m, fakehub.Times(1, fakehub.AfterReply(func() { w.hub.Commit(repoName, "main", files) })))
			s := w.mustFetch(ref)
			assert.Equal(t, w.commit, s.Commit)
			assert.Equal(t, fakehub.Digest(first[data].Data), s.Files[0].SHA256)

			w.files = files
			again := w.mustFetch(ref)
			assert.NotEqual(t, w.commit, again.Commit)
			assert.Equal(t, fakehub.Digest(files[data].Data), again.Files[0].SHA256)

			w.files = first // a pinned fetch gets the old commit
			w.transport = forbidden{t}
			s = w.mustFetch(ref + "@" + w.commit)
			assert.Equal(t, fakehub.Digest(first[data].Data), s.Files[0].SHA256)
		})
	}
}

// Covers S14.
func TestListingPages(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		w.hub.Page = 2
		w.mustFetch(ref)
		w.checkCalls(4, 2, 1) // five entries are three pages
	})
	runInBubble(t, func(w *fixture) {
		w.hub.Page = 2
		w.hub.On(onTree, fakehub.After(1, fakehub.SetHeader("Link", "<"+w.hub.HubURL+"/api/datasets/"+repoName+"/tree/"+w.commit+`?recursive=true&expand=false>; rel="next"`)))
		w.mustFail(ref, ClassNotHub, "form a loop")
	})
	for _, to := range []string{"https://hub.test:8444", "https://cdn.test:8443", "http://hub.test", "//hub.test:8444", "https://sub.hub.test"} {
		runInBubble(t, func(w *fixture) {
			w.hub.On(onTree, fakehub.SetHeader("Link", "<"+to+"/api/datasets/x?cursor=2>; rel=\"next\""))
			w.mustFail(ref, ClassNotHub, "which is not asked", "https://hub.test:443")
			w.checkCalls(2, 0, 0)
		})
		runInBubble(t, func(w *fixture) {
			w.hub.On(onTree, fakehub.Redirect(to+"/api/x"))
			e := w.mustFail(ref, ClassNotHub)
			if to != "http://hub.test" {
				assert.Contains(t, e.Error(), "https://hub.test:443 redirects to https://")
			}
			w.checkCalls(2, 0, 0)
		})
	}
}

// An endless listing is refused: by the number of its files, the size of their names, or the number of its pages.
func TestEndlessListingIsRefused(t *testing.T) {
	one := `{"type": "file", "path": "%s", "oid": "` + strings.Repeat("0", 40) + `", "size": 1}`
	full := pages{files: make(map[string]entry, maxFiles)}
	for k := range maxFiles - 1 {
		full.files[strconv.Itoa(k)] = entry{}
	}
	require.NoError(t, full.UnmarshalJSON(fmt.Appendf(nil, "["+one+"]", "a")))
	require.ErrorIs(t, full.UnmarshalJSON(fmt.Appendf(nil, "["+one+"]", "b")), errLongListing)
	require.Len(t, full.files, maxFiles)

	long := pages{files: map[string]entry{}, bytes: maxListing - 150}
	require.NoError(t, long.UnmarshalJSON(fmt.Appendf(nil, "["+one+"]", "a")))
	require.ErrorIs(t, long.UnmarshalJSON(fmt.Appendf(nil, "["+one+"]", "b")), errLongListing)
	require.Len(t, long.files, 1)

	runInBubble(t, func(w *fixture) {
		w.hub.On(onTree, fakehub.Endless())
		w.mustFail(ref, ClassInvalid, "the listing of the commit is too long: more than 500000 files, 5000 pages or 256 MiB")
	})
}

// Covers S15.
func TestSlowBodyIsCut(t *testing.T) {
	runInBubble(t, func(w *fixture) { // one byte per second counts as a cut after 30 s, and so does silence
		w.hub.On(onFile, fakehub.Times(1, fakehub.Slow(1000)), fakehub.Times(2, fakehub.Slow(10)))
		begin := time.Now()
		w.mustFetch(ref)
		took := time.Since(begin)
		assert.GreaterOrEqual(t, took, time.Minute)
		assert.Less(t, took, 70*time.Second)
		list := ranges(w)
		require.Len(t, list, 3)
		assert.NotEqual(t, "", list[1])
	})
	runInBubble(t, func(w *fixture) {
		w.env["HF_HUB_DOWNLOAD_TIMEOUT"] = "5"
		w.hub.On(onFile, fakehub.Times(1, fakehub.Slow(1)))
		begin := time.Now()
		w.mustFetch(ref)
		assert.Equal(t, 7*time.Second, time.Since(begin))
	})
	runInBubble(t, func(w *fixture) { // fast bytes at the beginning do not count for a later window
		w.hub.On(onFile, fakehub.Times(1, fakehub.SlowAfter(200_000, 10_000)))
		begin := time.Now()
		w.mustFetch(ref)
		assert.Less(t, time.Since(begin), 70*time.Second)
	})
	runInBubble(t, func(w *fixture) { // for ever
		w.hub.On(onFile, fakehub.Slow(1_000_000))
		begin := time.Now()
		w.mustFail(ref, ClassUnavailable, data, "too slowly")
		assert.Less(t, time.Since(begin), 10*time.Minute)
	})
	runInBubble(t, func(w *fixture) { // no headers: 10 s, for each of the attempts
		w.hub.On(onInfo, fakehub.Times(1, silent))
		begin := time.Now()
		w.mustFetch(ref)
		assert.Equal(t, 11*time.Second, time.Since(begin))
	})
	runInBubble(t, func(w *fixture) {
		w.env["HF_HUB_ETAG_TIMEOUT"] = "2.5"
		w.hub.On(onFile, fakehub.Times(1, silent))
		begin := time.Now()
		w.mustFetch(ref)
		assert.Equal(t, 3500*time.Millisecond, time.Since(begin))
	})
	runInBubble(t, func(w *fixture) { // it progresses, but would take more than a day
		w.hub.Page = 1
		for k := range 200 {
			w.files[fmt.Sprintf("more/%03d", k)] = fakehub.File{Data: []byte{1}}
		}
		w.commit = w.hub.Commit(repoName, "main", w.files)
		calls := 0
		w.hub.On(onTree, func(next http.HandlerFunc) http.HandlerFunc {
			if calls++; calls%2 == 1 {
				return fakehub.Status(http.StatusTooManyRequests, "Retry-After", "600")(next)
			}
			return next
		})
		begin := time.Now()
		w.mustFail(ref, ClassUnavailable, "24h0m0s")
		assert.Equal(t, 24*time.Hour, time.Since(begin))
	})
}

// silent never replies.
func silent(http.HandlerFunc) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
}

// Covers S16.
func TestTokenStaysOnHub(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		w.env["HF_TOKEN"] = "hf_abc"
		w.hub.Token = "hf_abc"
		w.hub.On(fakehub.Match{Listener: "hub"}, fakehub.SetHeader("Set-Cookie", "session=1; Domain=test; Path=/"))
		w.hub.On(onFile, fakehub.Times(1, fakehub.Cut(1000)))
		w.mustFetch(ref)
		probed := 0
		for _, r := range w.hub.Log() {
			if r.Listener == "cdn" {
				probed++
				for name := range r.Header {
					assert.Contains(t, []string{"Accept-Encoding", "User-Agent", "Range", "If-Range"}, name)
				}
			} else {
				assert.Equal(t, "Bearer hf_abc", r.Header.Get("Authorization"))
				assert.Empty(t, r.Header.Get("Cookie"))
			}
		}
		assert.Equal(t, 2, probed)
	})
	for _, to := range []string{"https://hub.test:8444", "https://sub.hub.test"} { // the name of the hub is not its origin
		runInBubble(t, func(w *fixture) {
			w.env["HF_TOKEN"] = "hf_abc"
			w.hub.On(onHead, fakehub.SetHeader("Location", to+"/x"))
			r, err := Parse(ref)
			require.NoError(t, err)
			_, err = Fetch(w.context(), r, w.options())
			require.Error(t, err)
			for _, r := range w.hub.Log() {
				if r.Listener != "hub" {
					assert.Empty(t, r.Header.Get("Authorization"))
				}
			}
		})
	}
	runInBubble(t, func(w *fixture) { // nor is a password in an address sent
		w.hub.On(onHead, fakehub.SetHeader("Location", "https://user:secret@cdn.test:8443/x"))
		w.mustFail(ref, ClassNotHub, "password")
	})
}

// Covers S17.
func TestOversizedBody(t *testing.T) {
	for _, more := range []int64{1, 1000, -1} {
		runInBubble(t, func(w *fixture) {
			w.hub.On(onFile, fakehub.Times(1, fakehub.Oversize(more)))
			w.mustFetch(ref)
			assert.Contains(t, w.log(), "sends more than")
		})
		runInBubble(t, func(w *fixture) {
			w.hub.On(onFile, fakehub.Oversize(more))
			w.mustFail(ref, ClassMismatch, data, "more than the 300000 bytes")
			w.checkCalls(2, 2, 2)
			assert.Empty(t, leftovers(t, w.home))
		})
	}
	runInBubble(t, func(w *fixture) { // an endless listing
		w.hub.On(onTree, func(http.HandlerFunc) http.HandlerFunc {
			return func(rw http.ResponseWriter, _ *http.Request) {
				for {
					if _, err := rw.Write(make([]byte, 1<<20)); err != nil {
						return
					}
				}
			}
		})
		w.mustFail(ref, ClassNotHub, "more than")
	})
}

// Covers S18.
func TestUnrequestedGzipIsRefused(t *testing.T) {
	for name, m := range map[string]fakehub.Match{"data": onFile, "card": {Listener: "hub", Method: "GET", Path: "/README.md"}} {
		runInBubble(t, func(w *fixture) {
			w.hub.On(m, fakehub.Times(1, fakehub.Gzip))
			w.mustFetch(ref)
		})
		runInBubble(t, func(w *fixture) {
			w.hub.On(m, fakehub.Gzip)
			w.mustFail(ref, ClassNotHub, "gzip")
			if name == "data" {
				w.checkCalls(2, 2, 2)
			}
		})
	}
	runInBubble(t, func(w *fixture) {
		w.hub.On(onTree, fakehub.Gzip)
		w.mustFail(ref, ClassNotHub, "gzip")
	})
}

// Covers S19.
func TestFileNames(t *testing.T) {
	long := strings.Repeat("l", 249) + ".jsonl"
	for _, name := range []string{"a b.jsonl", "100%.jsonl", "100%25.jsonl", "é.jsonl", "日本/日本.jsonl", "a+b&c=d:e@f$g.jsonl", "a?b#c.jsonl", "{x}.jsonl", "b..a.jsonl", "a/b/c.jsonl", long, "'\".jsonl", "a;b,c.jsonl"} {
		runInBubble(t, func(w *fixture) {
			for _, lfs := range []bool{true, false} {
				w.files = map[string]fakehub.File{name: {Data: content(1000, 1), LFS: lfs}}
				w.commit = w.hub.Commit(repoName, "main", w.files)
				s := w.mustFetch(ref)
				assert.Equal(t, name, s.Files[0].Path)
				assert.Equal(t, w.repoPath("snapshots", w.commit, name), s.Files[0].LocalPath)
				w.mustFetch(ref + "@main/" + name)
			}
		})
	}
	for _, name := range []string{"../x.jsonl", "a/../../x.jsonl", "/abs.jsonl", `a\b.jsonl`, "nul\x00.jsonl", "a//b.jsonl", "./a.jsonl", "C:x.jsonl", "a/./b.jsonl", "line\n.jsonl", strings.Repeat("l", 260) + ".jsonl", strings.Repeat("d/", 2100) + "x.jsonl"} {
		runInBubble(t, func(w *fixture) {
			w.files = map[string]fakehub.File{name: {Data: content(1000, 1), LFS: true}}
			w.commit = w.hub.Commit(repoName, "main", w.files)
			_, err := w.fetch(ref)
			require.Error(t, err)
			assert.Equal(t, ClassInvalid, classOf(err), err)
			w.checkCalls(2, 0, 0)
			assert.NoDirExists(t, filepath.Join(w.home, "hub"), "a call of the file system")
			_, err = Parse(ref + "/" + name)
			assert.Error(t, err)
		})
	}
	for _, twins := range [][]string{{"a.jsonl", "A.jsonl"}, {"é.jsonl", "e\u0301.jsonl"}, {"x.jsonl", "x.jsonl/y.jsonl"}} {
		runInBubble(t, func(w *fixture) {
			w.files = map[string]fakehub.File{}
			for k, name := range twins {
				w.files[name] = fakehub.File{Data: content(1000, byte(k)), LFS: true}
			}
			w.commit = w.hub.Commit(repoName, "main", w.files)
			_, err := w.fetch(ref)
			require.Error(t, err)
			assert.Equal(t, ClassInvalid, classOf(err), err)
			assert.NoDirExists(t, filepath.Join(w.home, "hub"))
			w.mustFetch(ref + "/" + twins[0]) // one of two such files may be selected
		})
	}
	runInBubble(t, func(w *fixture) { // a listing with an invalid name is not written to the cache, though another file is downloaded
		w.files["../x"] = fakehub.File{Data: []byte("x"), LFS: true}
		w.commit = w.hub.Commit(repoName, "main", w.files)
		w.mustFetch(ref)
		assert.NoFileExists(t, w.repoPath("trees", w.commit+".json"))
	})
}

// Covers S20.
func TestSymlinkSwap(t *testing.T) {
	outside := func(w *fixture) string {
		path := filepath.Join(w.root, "outside")
		require.NoError(w.t, os.WriteFile(path, w.files[data].Data, 0o666)) // it has the right bytes, but nothing outside the cache is read
		return path
	}
	swap := func(path, target string) error {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		return os.Symlink(target, path)
	}
	runInBubble(t, func(w *fixture) { // the blob is a link that leads out
		w.mustFetch(ref)
		require.NoError(t, swap(w.blob(), outside(w)))
		s := w.mustFetch(ref)
		assert.Equal(t, FromNetwork, s.Files[0].Source)
		info, err := os.Lstat(w.blob())
		require.NoError(t, err)
		assert.True(t, info.Mode().IsRegular())
	})
	runInBubble(t, func(w *fixture) { // the link of the snapshot leads out: it is replaced
		w.mustFetch(ref)
		link := w.repoPath("snapshots", w.commit, data)
		require.NoError(t, swap(link, outside(w)))
		s := w.mustFetch(ref)
		assert.Equal(t, FromCache, s.Files[0].Source)
		text, err := os.Readlink(link)
		require.NoError(t, err)
		assert.Equal(t, "../../blobs/"+w.files[data].ETag(), text)
	})
	runInBubble(t, func(w *fixture) { // it leads to another blob: it is replaced
		w.mustFetch(ref)
		w.mustFetch(ref + "/plots/a.png")
		link := w.repoPath("snapshots", w.commit, data)
		require.NoError(t, swap(link, "../../blobs/"+w.files["plots/a.png"].ETag()))
		w.mustFetch(ref)
		text, err := os.Readlink(link)
		require.NoError(t, err)
		assert.Equal(t, "../../blobs/"+w.files[data].ETag(), text)
	})
	runInBubble(t, func(w *fixture) { // the partial file is replaced before it is published
		swaps := 0
		w.durable.Step = func(name, path string) error {
			if name == "rename" && filepath.Base(path) == "blob" && strings.Contains(path, w.files[data].ETag()) {
				swaps++
				require.NoError(t, os.Remove(w.blob()+partialSuffix))
				require.NoError(t, os.WriteFile(w.blob()+partialSuffix, content(300_000, 66), 0o666))
			}
			return nil
		}
		w.mustFail(ref, ClassLocalDisk, "another file took the place")
		assert.Equal(t, 1, swaps)
		w.durable.Step = nil
		w.mustFetch(ref)
	})
	runInBubble(t, func(w *fixture) { // the blob is replaced after it was opened: the bytes that are read are those that were hashed
		w.mustFetch(ref)
		other := content(300_000, 99)
		s := w.mustFetch(ref)
		require.NoError(t, os.Remove(w.blob()))
		require.NoError(t, os.WriteFile(w.blob(), other, 0o666))
		r, err := s.Files[0].Open()
		require.NoError(t, err)
		sum := newDigests(entry{SHA256: "x"})
		_, err = copyAll(sum, r)
		require.NoError(t, err)
		assert.Equal(t, s.Files[0].SHA256, sum.sha256Hex())
		s = w.mustFetch(ref) // the next run notices
		assert.Equal(t, FromNetwork, s.Files[0].Source)
		assert.Contains(t, w.log(), "hash mismatch")
	})
	runInBubble(t, func(w *fixture) { // every open of a blob races with its replacement by a link that leads out
		w.mustFetch(ref)
		target := outside(w)
		swaps := 0
		w.durable.Step = func(name, path string) error {
			if name == "open" && path == w.blob() && swaps == 0 {
				swaps++
				return swap(w.blob(), target)
			}
			return nil
		}
		s := w.mustFetch(ref)
		assert.Equal(t, 1, swaps)
		assert.Equal(t, FromNetwork, s.Files[0].Source)
	})
	runInBubble(t, func(w *fixture) { // directories that lead out are not written into
		w.mustFetch(ref)
		elsewhere := t.TempDir()
		require.NoError(t, os.RemoveAll(w.repoPath("blobs")))
		require.NoError(t, os.Symlink(elsewhere, w.repoPath("blobs")))
		s, err := w.fetch(ref)
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(s.Files[0].LocalPath, w.root), "below the cache root instead: %s", s.Files[0].LocalPath)
		entries, err := os.ReadDir(elsewhere)
		require.NoError(t, err)
		assert.Empty(t, entries)
		assert.Contains(t, w.log(), "downloads go to")
	})
}

func TestConcurrentCallersCauseOneDownload(t *testing.T) {
	for _, n := range []int{2, 16, 64} {
		runInBubble(t, func(w *fixture) {
			var done sync.WaitGroup
			var network, sources atomic.Int64
			for range n {
				done.Go(func() {
					s, err := Fetch(w.context(), Ref{Repo: repoName}, w.options())
					if assert.NoError(t, err) {
						w.checkContent(s)
						network.Add(s.BytesNetwork)
						if s.Files[0].Source == FromNetwork {
							sources.Add(1)
						}
						assert.NoError(t, s.Close())
					}
				})
			}
			done.Wait()
			assert.EqualValues(t, 300_000, network.Load())
			assert.EqualValues(t, 1, sources.Load())
			_, resolvers, cdn := w.hub.Calls()
			assert.Equal(t, 1, cdn, w.requests())
			assert.Equal(t, 2, resolvers)
			assert.Empty(t, leftovers(t, w.home))
		})
	}
}

// checkContent compares the files with those of the hub. Other processes may still be running.
func (w *fixture) checkContent(s *Snapshot) {
	for _, f := range s.Files {
		assert.Equal(w.t, fakehub.Digest(w.files[f.Path].Data), f.SHA256)
	}
}

// A process that waits for a download continues it when that is cancelled.
func TestCancelledDownloadIsTakenOver(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		w.hub.On(onFile, fakehub.Times(1, fakehub.Slow(1000)))
		ctx, cancel := context.WithCancel(w.context())
		var done sync.WaitGroup
		done.Go(func() {
			_, err := Fetch(ctx, Ref{Repo: repoName}, w.options())
			assert.ErrorIs(t, err, context.Canceled)
		})
		synctest.Wait()
		done.Go(func() {
			s, err := Fetch(w.context(), Ref{Repo: repoName}, w.options())
			if assert.NoError(t, err) {
				w.checkContent(s)
				assert.NoError(t, s.Close())
			}
		})
		synctest.Wait()
		time.Sleep(5 * time.Second)
		cancel()
		done.Wait()
	})
}
