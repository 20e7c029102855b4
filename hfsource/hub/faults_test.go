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

	"github.com/agentx/agentx/hfsource/hub/fakehub"
)

// The faults of doc/spec/hub.md 13.

var (
	onHead = fakehub.Match{Listener: "hub", Method: "HEAD", Path: "/resolve/"}
	onFile = fakehub.Match{Listener: "cdn", Method: "GET"}
	onTree = fakehub.Match{Listener: "hub", Path: "/tree/"}
	onInfo = fakehub.Match{Listener: "hub", Path: "/revision/"}
)

// Covers S1.
func TestRenamedRepositoryIsFollowed(t *testing.T) {
	bubble(t, func(w *world) {
		const old = "semianalysisai/old-name"
		w.env["HF_TOKEN"] = "hf_abc"
		w.hub.Token = "hf_abc"
		w.hub.On(fakehub.Match{}, fakehub.Rename(old, repoName))
		r, err := Parse("hf://datasets/" + old)
		require.NoError(t, err)
		s, err := Fetch(w.context(), r, w.options())
		require.NoError(t, err)
		w.check(s)
		assert.Equal(t, old, s.Repo)
		assert.Equal(t, repoName, s.RenamedTo)
		assert.Equal(t, w.commit, s.Commit)
		assert.Contains(t, s.Summary(), repoName)
		assert.Empty(t, w.hub.Violations())
		require.NoError(t, s.Close())
		w.calls(3, 2, 1) // the first call is asked twice; then the new name is used

		s, err = Fetch(w.context(), Ref{Repo: old, Revision: s.Commit}, w.options())
		require.NoError(t, err)
		w.check(s)
		require.NoError(t, s.Close())
		w.calls(0, 0, 0)
	})
	for hopCount, fine := range map[int]bool{5: true, 6: false} {
		bubble(t, func(w *world) {
			w.hub.On(onInfo, fakehub.Hops(hopCount))
			if fine {
				w.good(ref)
				return
			}
			w.bad(ref, ClassNotHub, "more than 5 redirects")
			w.calls(6, 0, 0)
		})
		bubble(t, func(w *world) {
			w.hub.On(onHead, fakehub.Hops(hopCount))
			if fine {
				w.good(ref)
				return
			}
			w.bad(ref, ClassNotHub, "more than 5 redirects", data)
		})
	}
	bubble(t, func(w *world) { // relative, and yet out of the hub
		w.env["HF_ENDPOINT"] = w.hub.HubURL + "/mirror"
		w.hub.On(fakehub.Match{}, fakehub.Redirect("/elsewhere"))
		w.bad(ref, ClassNotHub, "leads out of")
	})
}

// An answer whose redirect cannot be followed is an answer: it is named as what it is, and not asked for again.
func TestUnreadableRedirectIsRefused(t *testing.T) {
	for to, text := range map[string]string{
		"http://[::1/x?secret":     `names an address that cannot be parsed: "http://[::1/x?..."`,
		"%zz":                      `names an address that cannot be parsed: "%zz"`,
		"":                         "names no address",
		"/api/%2e%2e/x":            "whose .. is not followed",
		"/api/..%2fx":              "whose .. is not followed",
		"https://hub.test/%2e%2E/": "whose .. is not followed",
	} {
		bubble(t, func(w *world) {
			w.hub.On(onInfo, fakehub.Redirect(to))
			w.bad(ref, ClassNotHub, text, "status 302")
			w.calls(1, 0, 0)
		})
		bubble(t, func(w *world) {
			w.hub.On(onHead, fakehub.SetHeader("Location", to))
			w.bad(ref, ClassNotHub, text, data)
			w.calls(2, 2, 0)
		})
		bubble(t, func(w *world) {
			w.hub.On(onFile, fakehub.Redirect(to))
			w.bad(ref, ClassNotHub, text, data)
			w.calls(2, 2, 1)
		})
	}
}

// Covers S2.
func TestRedirectToCDN(t *testing.T) {
	bubble(t, func(w *world) { // the redirect has a body and a length of its own, in every test
		s := w.good(ref)
		assert.EqualValues(t, 300_000, s.Files[0].Size)
		w.calls(2, 2, 1)
	})
	bubble(t, func(w *world) { // without X-Linked-Size the listing has the size: never the redirect's length
		w.hub.On(onHead, fakehub.SetHeader("X-Linked-Size", ""))
		w.good(ref)
	})
	bubble(t, func(w *world) {
		w.hub.On(onHead, fakehub.SetHeader("X-Linked-Size", "299999"))
		w.bad(ref, ClassNotHub, "299999", data)
	})
	bubble(t, func(w *world) { // https to http
		w.hub.On(onHead, fakehub.SetHeader("Location", "http://cdn.test:8443/x?secret"))
		w.bad(ref, ClassNotHub, "https to http", data)
	})
	bubble(t, func(w *world) { // a file that git holds comes from the hub itself
		s := w.good(ref + "/stats.txt")
		assert.Equal(t, w.files["stats.txt"].ETag(), s.Files[0].ETag)
		w.calls(2, 2, 0) // HEAD and GET; no card is asked for
	})
}

// Covers S3.
func TestETagForms(t *testing.T) {
	for name, form := range map[string]func(string) string{
		"weak":   func(d string) string { return `W/"` + d + `"` },
		"quoted": func(d string) string { return `"` + d + `"` },
		"bare":   func(d string) string { return d },
	} {
		bubble(t, func(w *world) {
			w.hub.On(fakehub.Match{Listener: "hub", Path: "/resolve/"}, fakehub.ETag(form))
			s := w.good(ref)
			assert.Equal(t, w.files[data].ETag(), s.Files[0].ETag, name)
			assert.Equal(t, filepath.Base(w.blob()), s.Files[0].ETag)
			w.good(ref + "/stats.txt")
		})
	}
	for name, form := range map[string]func(string) string{
		"39 hex":    func(d string) string { return `"` + d[:39] + `"` },
		"traversal": func(string) string { return `"../x"` },
		"empty":     func(string) string { return "" },
		"another":   func(d string) string { return `"` + strings.Repeat("0", len(d)) + `"` },
	} {
		bubble(t, func(w *world) {
			w.hub.On(fakehub.Match{Listener: "hub", Path: "/resolve/"}, fakehub.ETag(form))
			text := "which is no digest"
			if name == "another" {
				text = "in the listing of the same commit"
			}
			w.bad(ref, ClassNotHub, data, text)
			w.bad(ref+"/stats.txt", ClassNotHub, "stats.txt", text)
			assert.NoFileExists(t, w.place("x"), name)
			entries, err := os.ReadDir(w.place("blobs"))
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
		bubble(t, func(w *world) {
			w.hub.On(m, fakehub.SetHeader("X-Repo-Commit", ""))
			w.bad(ref, ClassNotHub, "is not a hub")
			w.hub.Off()
			w.hub.On(m, fakehub.SetHeader("X-Repo-Commit", other))
			w.bad(ref, ClassNotHub, "revision mismatch", other, w.commit)
		})
	}
	bubble(t, func(w *world) { // the 200 that carries the bytes, of a file that is not redirected
		w.hub.On(fakehub.Match{Listener: "hub", Method: "GET", Path: "/stats.txt"}, fakehub.SetHeader("X-Repo-Commit", other))
		w.bad(ref+"/stats.txt", ClassNotHub, "revision mismatch", "stats.txt")
	})
	bubble(t, func(w *world) { // elsewhere only if it is there
		w.hub.On(onTree, fakehub.SetHeader("X-Repo-Commit", ""))
		w.hub.On(onInfo, fakehub.SetHeader("X-Repo-Commit", ""))
		w.good(ref)
	})
	bubble(t, func(w *world) {
		w.hub.On(onTree, fakehub.SetHeader("X-Repo-Commit", other))
		w.bad(ref, ClassNotHub, "revision mismatch")
	})
	bubble(t, func(w *world) { // a captive portal answers 200 with a page
		w.hub.On(fakehub.Match{Listener: "hub"}, func(http.HandlerFunc) http.HandlerFunc {
			return func(rw http.ResponseWriter, _ *http.Request) { fmt.Fprint(rw, "<html>Sign in</html>") }
		})
		e := w.bad(ref, ClassNotHub, "is not a hub")
		assert.Contains(t, e.Hint, "proxy")
		w.calls(1, 0, 0)
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
		"unknown total":  fakehub.EditHeaders(func(status int, h http.Header) int { return starred(status, h) }),
		"weak validator": fakehub.SetHeader("ETag", `W/"x"`),
		"no validator":   fakehub.SetHeader("ETag", ""),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.hub.On(onFile, fakehub.Times(1, fakehub.Cut(100_000)))
				if s != nil {
					w.hub.On(onFile, s)
				}
				w.good(ref)
				requests := ranges(w)
				assert.Equal(t, "bytes=100000-", requests[1])
				assert.NotContains(t, w.noticed(), "hash mismatch", "something was appended that does not belong there")
				switch name {
				case "honoured":
					assert.EqualValues(t, 300_000, w.sent("cdn"))
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
	bubble(t, func(w *world) { // the validator is that of the host that gave the bytes, not the hub's digest
		w.hub.On(onFile, fakehub.Times(1, fakehub.Cut(100_000)))
		w.good(ref)
		for _, r := range w.hub.Log() {
			if r.Range != "" {
				assert.Equal(t, `"cdn-`+w.files[data].ETag()[:16]+`"`, r.Header.Get("If-Range"))
			}
		}
	})
}

// Another host knows nothing of a validator.
//
// Covers S5.
func TestIfRangeGoesToItsHostOnly(t *testing.T) {
	bubble(t, func(w *world) {
		w.hub.On(onFile, fakehub.Times(1, w.hub.ExpireBytes(100_000)))
		w.hub.On(onHead, fakehub.After(1, fakehub.EditHeaders(func(status int, h http.Header) int {
			h.Set("Location", strings.Replace(h.Get("Location"), "cdn.test", "cdn2.test", 1))
			return status
		})))
		w.good(ref)
		log := w.hub.Log()
		assert.Equal(t, "bytes=100000-", log[len(log)-1].Range)
		assert.Empty(t, log[len(log)-1].Header.Get("If-Range"))
		assert.NotEmpty(t, log[len(log)-3].Header.Get("If-Range"), "the host that gave it")
	})
}

func starred(status int, h http.Header) int {
	if v := h.Get("Content-Range"); v != "" {
		h.Set("Content-Range", v[:strings.IndexByte(v, '/')]+"/*")
	}
	return status
}

func ranges(w *world) (list []string) {
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
			bubble(t, func(w *world) {
				w.hub.On(onFile, fakehub.Times(cuts, fakehub.Cut(k)))
				s := w.good(ref)
				assert.LessOrEqual(t, s.BytesNetwork, int64(size+cuts*readSize))
				assert.LessOrEqual(t, w.sent("cdn"), int64(size+cuts*readSize))
			})
		}
	}
	bubble(t, func(w *world) { // before there is any answer: at most the attempts of one request
		w.hub.On(onFile, fakehub.Times(4, fakehub.Drop))
		w.good(ref)
	})
	bubble(t, func(w *world) { // for ever, without progress
		w.hub.On(onFile, fakehub.Cut(1000))
		e := w.bad(ref, ClassUnavailable, data, "8 attempts")
		assert.Contains(t, e.Hint, "continues from there")
		_, _, cdn := w.hub.Calls()
		assert.Equal(t, 8, cdn)

		w.hub.Off() // and the next run continues from there
		w.hub.ResetLog()
		s := w.good(ref)
		assert.EqualValues(t, size-8000, s.BytesNetwork)
		assert.Equal(t, []string{"bytes=8000-"}, ranges(w))
		for _, r := range w.hub.Log() {
			assert.Empty(t, r.Header.Get("If-Range"), "the validator of another process")
		}
	})
	bubble(t, func(w *world) { // for ever, with progress: as often as it takes
		w.put(content(12<<20, 9))
		w.hub.On(onFile, fakehub.Cut(1<<20))
		w.good(ref)
	})
}

// Covers S7.
func TestWrongContentLength(t *testing.T) {
	for _, by := range []int64{-1000, -1, 0, 1, 1000} {
		bubble(t, func(w *world) {
			w.hub.On(onFile, fakehub.Times(1, fakehub.MisstateLength(by)))
			w.good(ref)
		})
	}
	bubble(t, func(w *world) { // always too small: every answer brings the rest but one byte, and that one never comes
		w.hub.On(onFile, fakehub.MisstateLength(-1))
		w.bad(ref, ClassUnavailable, data)
	})
	bubble(t, func(w *world) {
		w.hub.On(onFile, fakehub.MisstateLength(0))
		w.good(ref)
	})
}

// Covers S8.
func TestCorruptBodyIsDownloadedAgain(t *testing.T) {
	bubble(t, func(w *world) {
		w.hub.On(onFile, fakehub.Times(1, fakehub.Corrupt(150_000)))
		s := w.good(ref)
		assert.EqualValues(t, 600_000, s.BytesNetwork)
		assert.Contains(t, w.noticed(), "hash mismatch")
		w.calls(2, 2, 2)
	})
	bubble(t, func(w *world) {
		w.hub.On(onFile, fakehub.Corrupt(150_000))
		bad := content(300_000, 1)
		bad[150_000] ^= 0x20
		w.bad(ref, ClassMismatch, data, fakehub.Digest(bad), w.files[data].ETag())
		w.calls(2, 2, 2)
		assert.Empty(t, leftovers(t, w.home))
	})
	bubble(t, func(w *world) { // what git holds has a digest, too
		w.hub.On(fakehub.Match{Listener: "hub", Method: "GET", Path: "/stats.txt"}, fakehub.Corrupt(3))
		w.bad(ref+"/stats.txt", ClassMismatch, "stats.txt", w.files["stats.txt"].ETag())
	})
	bubble(t, func(w *world) { // and so has the card
		w.hub.On(fakehub.Match{Listener: "hub", Method: "GET", Path: "/README.md"}, fakehub.Corrupt(60))
		w.bad(ref, ClassMismatch, cardName)
	})
	bubble(t, func(w *world) { // a partial file that is damaged on disk is found out in the end
		w.hub.On(onFile, fakehub.Cut(10_000))
		w.bad(ref, ClassUnavailable)
		w.hub.Off()
		part := w.blob() + partialSuffix
		b, err := os.ReadFile(part)
		require.NoError(t, err)
		b[77] ^= 1
		require.NoError(t, os.WriteFile(part, b, 0o666))
		w.good(ref)
		assert.Contains(t, w.noticed(), "hash mismatch")
	})
}

// Covers S9.
func TestExpiredURLIsRenewed(t *testing.T) {
	bubble(t, func(w *world) { // after bytes
		w.hub.On(onFile, w.hub.ExpireBytes(130_000))
		w.good(ref)
		// 130,000 bytes; the same address again, refused; a new one: twice over
		w.calls(2, 2+2, 1+2+2)
	})
	bubble(t, func(w *world) { // after a time: the addresses of a cut body are stale when it is asked again
		w.hub.On(onFile, w.hub.Expire(500*time.Millisecond))
		w.hub.On(onFile, fakehub.Times(1, fakehub.Cut(100_000)))
		s := w.good(ref)
		w.calls(2, 3, 3)
		assert.EqualValues(t, 300_000, s.BytesNetwork)
	})
	for _, status := range []int{400, 401, 410} {
		bubble(t, func(w *world) {
			w.hub.On(onFile, fakehub.Times(1, fakehub.Status(status)))
			w.good(ref)
			w.calls(2, 3, 2)
		})
	}
	bubble(t, func(w *world) { // for ever
		w.hub.On(onFile, fakehub.Status(403))
		w.bad(ref, ClassUnavailable, data)
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
			bubble(t, func(w *world) {
				w.hub.On(onInfo, limited(c.headers...))
				begin := time.Now()
				w.good(ref)
				log := w.hub.Log()
				assert.Equal(t, 429, log[0].Status)
				assert.Equal(t, begin.Add(c.wait), log[1].At)
				w.calls(3, 2, 1)
				if c.wait > 5*time.Second {
					assert.Contains(t, w.noticed(), "waiting "+c.wait.String())
					assert.Contains(t, w.noticed(), "budget of api calls")
				}
			})
		})
	}
	bubble(t, func(w *world) { // on the way to the data, too
		w.hub.On(onHead, limited("RateLimit", `"resolvers";r=0;t=20`))
		w.hub.On(onFile, limited("Retry-After", "30"))
		begin := time.Now()
		w.good(ref)
		assert.Equal(t, 51*time.Second, time.Since(begin))
	})
}

// Covers S11.
func TestServerErrorsAreRetried(t *testing.T) {
	for _, status := range []int{500, 502, 503, 504, 408} {
		for name, m := range map[string]fakehub.Match{"info": onInfo, "tree": onTree, "card": {Listener: "hub", Method: "GET", Path: "/README.md"}, "head": onHead, "get": onFile} {
			for n, fine := range map[int]bool{5: true, 6: false} {
				bubble(t, func(w *world) {
					w.hub.On(m, fakehub.Times(n, fakehub.Status(status)))
					begin := time.Now()
					if fine {
						w.good(ref)
						assert.Equal(t, 31*time.Second, time.Since(begin), "1, 2, 4, 8, 16 seconds: %s", name) // Rand is 1
						return
					}
					e := w.bad(ref, ClassUnavailable, strconv.Itoa(status), "request id req-")
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
				bubble(t, func(w *world) {
					w.hub.On(m, fakehub.Refuse(c.status, c.code, c.message))
					begin := time.Now()
					e := w.bad(ref, c.class, c.text, "request id")
					assert.Contains(t, e.Hint, c.try)
					assert.Zero(t, time.Since(begin), "it was asked again")
				})
			}
			bubble(t, func(w *world) { // and no copy of another time takes its place
				w.good(ref)
				w.hub.On(onInfo, fakehub.Refuse(c.status, c.code, c.message))
				_, err := w.try(ref)
				require.Error(t, err)
				assert.Equal(t, c.class, classOf(err))
			})
		})
	}
	bubble(t, func(w *world) {
		w.env["HF_TOKEN"] = "hf_verysecretive"
		w.hub.Token = "another"
		_, err := w.try(ref)
		require.Error(t, err)
		assert.NotContains(t, err.Error()+Hint(err), "verysecretive")
	})
	bubble(t, func(w *world) { // a token that is not to be sent is none
		w.env["HF_TOKEN"], w.env["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "hf_abc", "1"
		w.hub.Token = "hf_abc"
		assert.Contains(t, w.bad(ref, ClassNotFound, "private").Hint, "unset HF_HUB_DISABLE_IMPLICIT_TOKEN")
		assert.Empty(t, w.hub.Log()[0].Header.Get("Authorization"))
	})
}

// Covers S13.
func TestBranchMovesDuringFetch(t *testing.T) {
	for _, m := range []fakehub.Match{onInfo, onTree, {Path: "/README.md"}, onHead} {
		bubble(t, func(w *world) {
			first := clone(w.files)
			files := clone(w.files)
			files[data] = fakehub.File{Data: content(200_000, 7), LFS: true}
			w.hub.On(m, fakehub.Times(1, fakehub.AfterReply(func() { w.hub.Commit(repoName, "main", files) })))
			s := w.good(ref)
			assert.Equal(t, w.commit, s.Commit)
			assert.Equal(t, fakehub.Digest(first[data].Data), s.Files[0].SHA256)

			w.files = files
			again := w.good(ref)
			assert.NotEqual(t, w.commit, again.Commit)
			assert.Equal(t, fakehub.Digest(files[data].Data), again.Files[0].SHA256)

			w.files = first // who is pinned stays
			w.transport = forbidden{t}
			s = w.good(ref + "@" + w.commit)
			assert.Equal(t, fakehub.Digest(first[data].Data), s.Files[0].SHA256)
		})
	}
}

// Covers S14.
func TestListingPages(t *testing.T) {
	bubble(t, func(w *world) {
		w.hub.Page = 2
		w.good(ref)
		w.calls(4, 2, 1) // five entries are three pages
	})
	bubble(t, func(w *world) {
		w.hub.Page = 2
		w.hub.On(onTree, fakehub.After(1, fakehub.SetHeader("Link", "<"+w.hub.HubURL+"/api/datasets/"+repoName+"/tree/"+w.commit+`?recursive=true&expand=false>; rel="next"`)))
		w.bad(ref, ClassNotHub, "form a loop")
	})
	for _, to := range []string{"https://hub.test:8444", "https://cdn.test:8443", "http://hub.test", "//hub.test:8444", "https://sub.hub.test"} {
		bubble(t, func(w *world) {
			w.hub.On(onTree, fakehub.SetHeader("Link", "<"+to+"/api/datasets/x?cursor=2>; rel=\"next\""))
			w.bad(ref, ClassNotHub, "which is not asked", "https://hub.test:443")
			w.calls(2, 0, 0)
		})
		bubble(t, func(w *world) {
			w.hub.On(onTree, fakehub.Redirect(to+"/api/x"))
			e := w.bad(ref, ClassNotHub)
			if to != "http://hub.test" {
				assert.Contains(t, e.Error(), "https://hub.test:443 redirects to https://")
			}
			w.calls(2, 0, 0)
		})
	}
}

// A listing without an end is refused: by its files, by their names, by its pages.
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

	bubble(t, func(w *world) {
		w.hub.On(onTree, fakehub.Endless())
		w.bad(ref, ClassInvalid, "the listing of the commit is too long: more than 500000 files, 5000 pages or 256 MiB")
	})
}

// Covers S15.
func TestSlowBodyIsCut(t *testing.T) {
	bubble(t, func(w *world) { // a byte a second is a cut after 30, and silence is one
		w.hub.On(onFile, fakehub.Times(1, fakehub.Slow(1000)), fakehub.Times(2, fakehub.Slow(10)))
		begin := time.Now()
		w.good(ref)
		took := time.Since(begin)
		assert.GreaterOrEqual(t, took, time.Minute)
		assert.Less(t, took, 70*time.Second)
		list := ranges(w)
		require.Len(t, list, 3)
		assert.NotEqual(t, "", list[1])
	})
	bubble(t, func(w *world) {
		w.env["HF_HUB_DOWNLOAD_TIMEOUT"] = "5"
		w.hub.On(onFile, fakehub.Times(1, fakehub.Slow(1)))
		begin := time.Now()
		w.good(ref)
		assert.Equal(t, 7*time.Second, time.Since(begin))
	})
	bubble(t, func(w *world) { // fast at first: what came then does not count for later
		w.hub.On(onFile, fakehub.Times(1, fakehub.SlowAfter(200_000, 10_000)))
		begin := time.Now()
		w.good(ref)
		assert.Less(t, time.Since(begin), 70*time.Second)
	})
	bubble(t, func(w *world) { // for ever
		w.hub.On(onFile, fakehub.Slow(1_000_000))
		begin := time.Now()
		w.bad(ref, ClassUnavailable, data, "too slowly")
		assert.Less(t, time.Since(begin), 10*time.Minute)
	})
	bubble(t, func(w *world) { // no headers: 10 s, for each of the attempts
		w.hub.On(onInfo, fakehub.Times(1, silent))
		begin := time.Now()
		w.good(ref)
		assert.Equal(t, 11*time.Second, time.Since(begin))
	})
	bubble(t, func(w *world) {
		w.env["HF_HUB_ETAG_TIMEOUT"] = "2.5"
		w.hub.On(onFile, fakehub.Times(1, silent))
		begin := time.Now()
		w.good(ref)
		assert.Equal(t, 3500*time.Millisecond, time.Since(begin))
	})
	bubble(t, func(w *world) { // something comes now and then, but it would take more than a day
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
		w.bad(ref, ClassUnavailable, "24h0m0s")
		assert.Equal(t, 24*time.Hour, time.Since(begin))
	})
}

// silent never answers.
func silent(http.HandlerFunc) http.HandlerFunc {
	return func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
}

// Covers S16.
func TestTokenStaysOnHub(t *testing.T) {
	bubble(t, func(w *world) {
		w.env["HF_TOKEN"] = "hf_abc"
		w.hub.Token = "hf_abc"
		w.hub.On(fakehub.Match{Listener: "hub"}, fakehub.SetHeader("Set-Cookie", "session=1; Domain=test; Path=/"))
		w.hub.On(onFile, fakehub.Times(1, fakehub.Cut(1000)))
		w.good(ref)
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
		bubble(t, func(w *world) {
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
	bubble(t, func(w *world) { // nor is a password in an address sent
		w.hub.On(onHead, fakehub.SetHeader("Location", "https://user:secret@cdn.test:8443/x"))
		w.bad(ref, ClassNotHub, "password")
	})
}

// Covers S17.
func TestOversizedBody(t *testing.T) {
	for _, more := range []int64{1, 1000, -1} {
		bubble(t, func(w *world) {
			w.hub.On(onFile, fakehub.Times(1, fakehub.Oversize(more)))
			w.good(ref)
			assert.Contains(t, w.noticed(), "sends more than")
		})
		bubble(t, func(w *world) {
			w.hub.On(onFile, fakehub.Oversize(more))
			w.bad(ref, ClassMismatch, data, "more than the 300000 bytes")
			w.calls(2, 2, 2)
			assert.Empty(t, leftovers(t, w.home))
		})
	}
	bubble(t, func(w *world) { // an endless listing
		w.hub.On(onTree, func(http.HandlerFunc) http.HandlerFunc {
			return func(rw http.ResponseWriter, _ *http.Request) {
				for {
					if _, err := rw.Write(make([]byte, 1<<20)); err != nil {
						return
					}
				}
			}
		})
		w.bad(ref, ClassNotHub, "more than")
	})
}

// Covers S18.
func TestUnrequestedGzipIsRefused(t *testing.T) {
	for name, m := range map[string]fakehub.Match{"data": onFile, "card": {Listener: "hub", Method: "GET", Path: "/README.md"}} {
		bubble(t, func(w *world) {
			w.hub.On(m, fakehub.Times(1, fakehub.Gzip))
			w.good(ref)
		})
		bubble(t, func(w *world) {
			w.hub.On(m, fakehub.Gzip)
			w.bad(ref, ClassNotHub, "gzip")
			if name == "data" {
				w.calls(2, 2, 2)
			}
		})
	}
	bubble(t, func(w *world) {
		w.hub.On(onTree, fakehub.Gzip)
		w.bad(ref, ClassNotHub, "gzip")
	})
}

// Covers S19.
func TestFileNames(t *testing.T) {
	long := strings.Repeat("l", 249) + ".jsonl"
	for _, name := range []string{"a b.jsonl", "100%.jsonl", "100%25.jsonl", "é.jsonl", "日本/日本.jsonl", "a+b&c=d:e@f$g.jsonl", "a?b#c.jsonl", "{x}.jsonl", "..a.jsonl", "a/b/c.jsonl", long, "'\".jsonl", "a;b,c.jsonl"} {
		bubble(t, func(w *world) {
			for _, lfs := range []bool{true, false} {
				w.files = map[string]fakehub.File{name: {Data: content(1000, 1), LFS: lfs}}
				w.commit = w.hub.Commit(repoName, "main", w.files)
				s := w.good(ref)
				assert.Equal(t, name, s.Files[0].Path)
				assert.Equal(t, w.place("snapshots", w.commit, name), s.Files[0].LocalPath)
				w.good(ref + "@main/" + name)
			}
		})
	}
	for _, name := range []string{"../x.jsonl", "a/../../x.jsonl", "/abs.jsonl", `a\b.jsonl`, "nul\x00.jsonl", "a//b.jsonl", "./a.jsonl", "C:x.jsonl", "a/./b.jsonl", "line\n.jsonl", strings.Repeat("l", 260) + ".jsonl", strings.Repeat("d/", 2100) + "x.jsonl"} {
		bubble(t, func(w *world) {
			w.files = map[string]fakehub.File{name: {Data: content(1000, 1), LFS: true}}
			w.commit = w.hub.Commit(repoName, "main", w.files)
			_, err := w.try(ref)
			require.Error(t, err)
			assert.Equal(t, ClassInvalid, classOf(err), err)
			w.calls(2, 0, 0)
			assert.NoDirExists(t, filepath.Join(w.home, "hub"), "a call of the file system")
			_, err = Parse(ref + "/" + name)
			assert.Error(t, err)
		})
	}
	for _, twins := range [][]string{{"a.jsonl", "A.jsonl"}, {"é.jsonl", "e\u0301.jsonl"}, {"x.jsonl", "x.jsonl/y.jsonl"}} {
		bubble(t, func(w *world) {
			w.files = map[string]fakehub.File{}
			for k, name := range twins {
				w.files[name] = fakehub.File{Data: content(1000, byte(k)), LFS: true}
			}
			w.commit = w.hub.Commit(repoName, "main", w.files)
			_, err := w.try(ref)
			require.Error(t, err)
			assert.Equal(t, ClassInvalid, classOf(err), err)
			assert.NoDirExists(t, filepath.Join(w.home, "hub"))
			w.good(ref + "/" + twins[0]) // one of them is fine
		})
	}
	bubble(t, func(w *world) { // a listing with a name that is refused is not kept, though another file is taken
		w.files["../x"] = fakehub.File{Data: []byte("x"), LFS: true}
		w.commit = w.hub.Commit(repoName, "main", w.files)
		w.good(ref)
		assert.NoFileExists(t, w.place("trees", w.commit+".json"))
	})
}

// Covers S20.
func TestSymlinkSwap(t *testing.T) {
	outside := func(w *world) string {
		path := filepath.Join(w.root, "outside")
		require.NoError(w.t, os.WriteFile(path, w.files[data].Data, 0o666)) // even the right bytes: nothing outside is read
		return path
	}
	swap := func(path, target string) error {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
		return os.Symlink(target, path)
	}
	bubble(t, func(w *world) { // the blob is a link that leads out
		w.good(ref)
		require.NoError(t, swap(w.blob(), outside(w)))
		s := w.good(ref)
		assert.Equal(t, FromNetwork, s.Files[0].Source)
		info, err := os.Lstat(w.blob())
		require.NoError(t, err)
		assert.True(t, info.Mode().IsRegular())
	})
	bubble(t, func(w *world) { // the snapshot's link leads out: it is made anew
		w.good(ref)
		link := w.place("snapshots", w.commit, data)
		require.NoError(t, swap(link, outside(w)))
		s := w.good(ref)
		assert.Equal(t, FromCache, s.Files[0].Source)
		text, err := os.Readlink(link)
		require.NoError(t, err)
		assert.Equal(t, "../../blobs/"+w.files[data].ETag(), text)
	})
	bubble(t, func(w *world) { // it leads to another blob: also
		w.good(ref)
		w.good(ref + "/plots/a.png")
		link := w.place("snapshots", w.commit, data)
		require.NoError(t, swap(link, "../../blobs/"+w.files["plots/a.png"].ETag()))
		w.good(ref)
		text, err := os.Readlink(link)
		require.NoError(t, err)
		assert.Equal(t, "../../blobs/"+w.files[data].ETag(), text)
	})
	bubble(t, func(w *world) { // the partial file is replaced before it is published
		swaps := 0
		w.durable.Step = func(name, path string) error {
			if name == "rename" && filepath.Base(path) == "blob" && strings.Contains(path, w.files[data].ETag()) {
				swaps++
				require.NoError(t, os.Remove(w.blob()+partialSuffix))
				require.NoError(t, os.WriteFile(w.blob()+partialSuffix, content(300_000, 66), 0o666))
			}
			return nil
		}
		w.bad(ref, ClassLocalDisk, "another file took the place")
		assert.Equal(t, 1, swaps)
		w.durable.Step = nil
		w.good(ref)
	})
	bubble(t, func(w *world) { // other content, of the right size, between opening and the rest: what was hashed is what is read
		w.good(ref)
		other := content(300_000, 99)
		s := w.good(ref)
		require.NoError(t, os.Remove(w.blob()))
		require.NoError(t, os.WriteFile(w.blob(), other, 0o666))
		r, err := s.Files[0].Open()
		require.NoError(t, err)
		sum := newDigests(entry{SHA256: "x"})
		_, err = copyAll(sum, r)
		require.NoError(t, err)
		assert.Equal(t, s.Files[0].SHA256, sum.sha256Hex())
		s = w.good(ref) // and the next run finds it out
		assert.Equal(t, FromNetwork, s.Files[0].Source)
		assert.Contains(t, w.noticed(), "hash mismatch")
	})
	bubble(t, func(w *world) { // swapped at the very moment of opening, by a link outside: every open of a blob is raced
		w.good(ref)
		target := outside(w)
		swaps := 0
		w.durable.Step = func(name, path string) error {
			if name == "open" && path == w.blob() && swaps == 0 {
				swaps++
				return swap(w.blob(), target)
			}
			return nil
		}
		s := w.good(ref)
		assert.Equal(t, 1, swaps)
		assert.Equal(t, FromNetwork, s.Files[0].Source)
	})
	bubble(t, func(w *world) { // directories that lead out are not written into
		w.good(ref)
		elsewhere := t.TempDir()
		require.NoError(t, os.RemoveAll(w.place("blobs")))
		require.NoError(t, os.Symlink(elsewhere, w.place("blobs")))
		s, err := w.try(ref)
		require.NoError(t, err)
		assert.True(t, strings.HasPrefix(s.Files[0].LocalPath, w.root), "below the cache root instead: %s", s.Files[0].LocalPath)
		entries, err := os.ReadDir(elsewhere)
		require.NoError(t, err)
		assert.Empty(t, entries)
		assert.Contains(t, w.noticed(), "downloads go to")
	})
}

func TestConcurrentCallersCauseOneDownload(t *testing.T) {
	for _, n := range []int{2, 16, 64} {
		bubble(t, func(w *world) {
			var done sync.WaitGroup
			var network, sources atomic.Int64
			for range n {
				done.Go(func() {
					s, err := Fetch(w.context(), Ref{Repo: repoName}, w.options())
					if assert.NoError(t, err) {
						w.check2(s)
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
			assert.Equal(t, 1, cdn, w.story())
			assert.Equal(t, 2, resolvers)
			assert.Empty(t, leftovers(t, w.home))
		})
	}
}

// check2 holds content against the hub's, while others may still be at it.
func (w *world) check2(s *Snapshot) {
	for _, f := range s.Files {
		assert.Equal(w.t, fakehub.Digest(w.files[f.Path].Data), f.SHA256)
	}
}

// Who waits goes on when the one it waits for is called off.
func TestCancelledDownloadIsTakenOver(t *testing.T) {
	bubble(t, func(w *world) {
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
				w.check2(s)
				assert.NoError(t, s.Close())
			}
		})
		synctest.Wait()
		time.Sleep(5 * time.Second)
		cancel()
		done.Wait()
	})
}
