package replay

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mock"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/scrape"
	"github.com/agentx/agentx/replay/wire"
)

// asks is a server that notes who asked for its metrics.
type asks struct {
	server *mock.Server
	page   func(w http.ResponseWriter, r *http.Request) // nil: the mock's

	mu   sync.Mutex
	list []string // query and credentials
}

func (a *asks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/metrics" {
		a.server.ServeHTTP(w, r)
		return
	}
	user, _, _ := r.BasicAuth()
	a.mu.Lock()
	a.list = append(a.list, strings.TrimSpace(r.URL.RawQuery+" "+user+" "+r.Header.Get("X-Team")+" "+r.Header.Get("Authorization")))
	a.mu.Unlock()
	if a.page != nil {
		a.page(w, r)
		return
	}
	a.server.ServeHTTP(w, r)
}

// scraped plays a few requests and returns the summary and the samples.
func scraped(t *testing.T, o Options) (played, *scrape.Data) {
	t.Helper()
	summary, err := Run(t.Context(), o)
	require.NoError(t, err)
	p := played{summary, readRecords(t, o.Out)}
	d, err := scrape.ReadFile(filepath.Join(o.Out, scrape.File))
	require.NoError(t, err)
	return p, d
}

// TestRunReadsTheMetricsOfItsServers keeps what the servers counted, before, in and after the phases, and says so in the results.
//
// Covers T-59.
func TestRunReadsTheMetricsOfItsServers(t *testing.T) {
	a := &asks{server: mock.New(mock.Config{})}
	url, _ := serve(t, a)
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Scrape, o.Requests, o.APIKey, o.Header = Scrape{}, 12, "s3cret", []wire.HeaderField{{Name: "X-Team", Value: "tok3n"}}
	o.Start.Sampled, o.Warmup.Primers = true, true
	p, d := scraped(t, o)
	require.Len(t, p.ServerMetrics.Pages, 1)
	page := p.ServerMetrics.Pages[0]
	assert.Equal(t, measure.MetricsPage{URL: url + "/metrics", Default: true, Fetches: len(d.Endpoints[0].Answers), Skipped: page.Skipped}, page)
	assert.GreaterOrEqual(t, page.Fetches, 6, "two seconds after the end")
	assert.Contains(t, a.list[0], "tok3n Bearer s3cret")
	info, err := measure.ReadInfo(o.Out)
	require.NoError(t, err)
	assert.Equal(t, p.ServerMetrics, info.ServerMetrics)
	assert.Less(t, d.Endpoints[0].Answers[0].At, info.Phases[0].Start.UnixNano(), "the reference of the first phase")

	last, values := -1, []float64(nil)
	for k := range d.Series {
		if s := &d.Series[k]; s.Name == "vllm:prompt_tokens" {
			_, first := s.Change(0)
			assert.Equal(t, []float64{0}, first)
			last, values = s.Change(s.Len() - 1)
		}
	}
	tokens := 0.0
	for _, r := range p.records {
		tokens += float64(r.PromptTokens.N())
	}
	assert.Equal(t, []float64{tokens}, values)
	assert.Positive(t, last)
	requireNoSecret(t, o.Out, "s3cret", "tok3n")
}

// requireNoSecret reads every file of the results.
func requireNoSecret(t *testing.T, dir string, secrets ...string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, s := range secrets {
			assert.NotContains(t, string(text), s, path)
		}
		return err
	}))
}

// TestNamedPagesAlone reads the pages that are named. Those that are elsewhere than the servers get no credentials but their own.
func TestNamedPagesAlone(t *testing.T) {
	server, engine := &asks{server: mock.New(mock.Config{})}, &asks{server: mock.New(mock.Config{})}
	url, _ := serve(t, server)
	page, _ := serve(t, engine)
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Requests, o.APIKey, o.Header = 4, "s3cret", []wire.HeaderField{{Name: "X-Team", Value: "tok3n"}}
	o.Scrape.Off, o.Scrape.Pages = false, []string{strings.Replace(page, "://", "://me:hunter2@", 1) + "/metrics?key=qu3ry", url + "/metrics?b"}
	p, d := scraped(t, o)
	require.Len(t, d.Endpoints, 2)
	assert.Equal(t, page+"/metrics", p.ServerMetrics.Pages[0].URL)
	assert.Regexp(t, "^key=qu3ry me  Basic ", engine.list[0])
	assert.Equal(t, "b  tok3n Bearer s3cret", server.list[0])
	requireNoSecret(t, o.Out, "s3cret", "tok3n", "hunter2", "qu3ry", "me:")
}

// TestServerWithoutMetrics is tried once, and costs a run nothing: no wait at its end, and no file but the one that says so.
func TestServerWithoutMetrics(t *testing.T) {
	a := &asks{server: mock.New(mock.Config{}), page: http.NotFound}
	url, _ := serve(t, a)
	var said []string
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Scrape, o.Requests, o.Notice = Scrape{}, 4, func(text string) { said = append(said, text) }
	p, d := scraped(t, o)
	assert.Len(t, a.list, 1)
	assert.Equal(t, []string{fmt.Sprintf("server metrics: %s/metrics: status 404: it is left alone (--scrape URL names another page, --scrape off none)", url)}, said)
	assert.Empty(t, d.Endpoints[0].Answers)
	assert.Equal(t, []measure.MetricsPage{{URL: url + "/metrics", Default: true, Failures: 1, LastError: "status 404"}}, p.ServerMetrics.Pages)
}

// TestInterruptEndsTheScraping with the phase, also where a request for the metrics has no answer.
func TestInterruptEndsTheScraping(t *testing.T) {
	a := &asks{server: mock.New(mock.Config{})}
	ctx, cancel := context.WithCancel(t.Context())
	var n atomic.Int64
	a.page = func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) > 1 {
			cancel()
			<-r.Context().Done()
			return
		}
		a.server.ServeHTTP(w, r)
	}
	url, _ := serve(t, a)
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Scrape, o.Duration = Scrape{}, 1000*time.Hour
	p := play(t, ctx, o)
	assert.Equal(t, 1, p.ServerMetrics.Pages[0].Fetches)
	assert.Zero(t, p.ServerMetrics.Pages[0].Failures, "what the run ends has not failed")
}

// trickle is a transport whose answers begin at once and do not end.
type trickle struct{}

func (trickle) RoundTrip(r *http.Request) (*http.Response, error) {
	body, w := io.Pipe()
	context.AfterFunc(r.Context(), func() { w.CloseWithError(r.Context().Err()) })
	return &http.Response{StatusCode: 200, Body: io.NopCloser(io.MultiReader(strings.NewReader("x 1\n"), body)), Request: r}, nil
}

// TestPageThatTrickles past the end of a short run leaves no samples. The run warns, and its results say so.
func TestPageThatTrickles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		collector, err := scrape.Start(scrape.Options{
			Pages: []scrape.Page{{URL: "http://h/metrics", Default: true}}, Transport: func() http.RoundTripper { return trickle{} },
		})
		require.NoError(t, err)
		var said []string
		s := &scraping{collector: collector, warn: func(text string) { said = append(said, text) }}
		s.open(t.Context(), filepath.Join(t.TempDir(), scrape.File))
		m := s.end(t.Context(), true)
		const why = "no whole answer within 1s, when the run ended"
		assert.Equal(t, []measure.MetricsPage{{URL: "http://h/metrics", Default: true, Failures: 1, Skipped: 3, LastError: why, Cut: true}}, m.Pages)
		assert.Equal(t, []string{"server metrics: http://h/metrics: " + why}, said)
	})
}

// TestScrapeIsChecked names a page by its number, and by its URL without what may be a password.
func TestScrapeIsChecked(t *testing.T) {
	err := Scrape{Pages: []string{"http://ok", "ftp://user:hunter2@h"}}.Validate()
	require.EqualError(t, err, `page 2 of metrics: "ftp://h": want http://HOST:PORT/PATH or https://HOST/PATH`)
	require.NoError(t, Scrape{Off: true, Pages: []string{"?"}}.Validate())
	o := required(cachetest.Demo(t))
	o.Scrape.Pages = []string{"?"}
	require.Error(t, o.Validate())
}

// TestDefaultPages are those of the servers, each once.
func TestDefaultPages(t *testing.T) {
	var urls []string
	for _, p := range (Scrape{}).pages([]string{"http://a/v1", "http://a", "https://b/x/v1/completions"}, nil, "") {
		assert.True(t, p.Default)
		urls = append(urls, p.URL)
	}
	assert.Equal(t, []string{"http://a/metrics", "https://b/x/metrics"}, urls)
	urls = nil
	for _, p := range (Scrape{Pages: []string{"http://me:pw@a:1?b=c", "http://a/", "http://a/x"}}).pages(nil, nil, "") {
		assert.False(t, p.Default)
		urls = append(urls, p.URL)
	}
	assert.Equal(t, []string{"http://me:pw@a:1/metrics?b=c", "http://a/metrics", "http://a/x"}, urls)
}

// slowPage is a transport whose answers take half a second.
type slowPage struct{}

func (slowPage) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(500 * time.Millisecond)
	return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("x 1\n")), Request: r}, nil
}

// TestWhatARunWaitsFor is the first answer, before its clock starts, and two seconds at its end, unless something else than its bounds
// has ended it.
func TestWhatARunWaitsFor(t *testing.T) {
	for _, c := range []struct {
		tail, interrupted bool
		want              time.Duration
	}{{tail: true, want: scrape.Tail}, {tail: false}, {tail: true, interrupted: true}} {
		synctest.Test(t, func(t *testing.T) {
			collector, err := scrape.Start(scrape.Options{
				Pages: []scrape.Page{{URL: "http://h/metrics"}}, Transport: func() http.RoundTripper { return slowPage{} },
			})
			require.NoError(t, err)
			s := &scraping{collector: collector, warn: func(string) {}}
			begin := time.Now()
			s.open(t.Context(), filepath.Join(t.TempDir(), scrape.File))
			assert.Equal(t, 500*time.Millisecond, time.Since(begin))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.interrupted {
				cancel()
			}
			begin = time.Now()
			s.mark()
			assert.Zero(t, time.Since(begin))
			m := s.end(ctx, c.tail)
			assert.LessOrEqual(t, time.Since(begin)-c.want, 500*time.Millisecond, "of the request that runs, whose transport does not look at its end")
			assert.GreaterOrEqual(t, time.Since(begin), c.want)
			assert.Positive(t, m.Pages[0].Fetches)
		})
	}
}

// TestWhenARunAsks for the pages: once when a phase begins and once when it ends, whatever the ticks say, and then for two seconds, unless
// the run was interrupted. An interrupt ends these, too. The phase takes no time of the bubble.
func TestWhenARunAsks(t *testing.T) {
	c := recorded(t, recording("a", call{at: 0, took: 1}, call{at: 4, took: 1}))
	for name, test := range map[string]struct {
		interrupt time.Duration // on the clock of the phase
		cancel    time.Duration // on that of the bubble
		takes     time.Duration
	}{
		"ended by its bounds":     {cancel: time.Hour, takes: scrape.Tail},
		"interrupted in the tail": {cancel: time.Second, takes: time.Second},
		"interrupted":             {cancel: time.Hour, interrupt: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			o := optionsFor(t, c, unreachable)
			o.Concurrency, o.Trees = 1, 1
			var asked []time.Duration
			inPhase := 0
			script := func(sentTurn) answerTo {
				synctest.Wait()
				inPhase = len(asked)
				return answerTo{takes: time.Second}
			}
			_, err := virtually(t, o, script, func(v *virtualRun) {
				v.interruptAt = test.interrupt
				v.around = func(play func(context.Context)) {
					synctest.Test(t, func(t *testing.T) {
						start := time.Now()
						page := askedPage(func() { asked = append(asked, time.Since(start)) })
						collector, err := scrape.Start(scrape.Options{Pages: []scrape.Page{{URL: "http://h/metrics"}}, Transport: func() http.RoundTripper { return page }})
						require.NoError(t, err)
						collector.Ready(t.Context(), time.Second)
						v.scraping = &scraping{collector: collector, warn: func(string) {}}
						ctx, cancel := context.WithTimeout(t.Context(), test.cancel)
						defer cancel()
						play(ctx)
						v.sampler.close()
						assert.Equal(t, test.takes, time.Since(start))
					})
				}
			})
			require.NoError(t, err)
			assert.Equal(t, 2, inPhase, "before the phase, and when it began")
			if test.takes > 0 {
				assert.Equal(t, 3, slices.IndexFunc(asked, func(at time.Duration) bool { return at > 0 }), "and when it ended")
			}
		})
	}
}

// countingPage is a transport of a page with a counter of the requests that its server got. It answers after 60 ms with what it was then.
type countingPage struct {
	got, told atomic.Int64 // the counter; what the latest answer has
	hangs     atomic.Bool  // there is no answer any more
}

func (p *countingPage) RoundTrip(r *http.Request) (*http.Response, error) {
	n := p.got.Load()
	if p.hangs.Load() {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	time.Sleep(60 * time.Millisecond)
	p.told.Store(n)
	return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(fmt.Sprintf("requests_total %d\n", n))), Request: r}, nil
}

// TestInterruptedRunAsksOnceMore has what the page counts at the end of a run that was interrupted, or does not wait for it for long.
//
// Covers T-59.
func TestInterruptedRunAsksOnceMore(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			page := &countingPage{}
			collector, err := scrape.Start(scrape.Options{Pages: []scrape.Page{{URL: "http://h/metrics"}}, Transport: func() http.RoundTripper { return page }})
			require.NoError(t, err)
			s := &scraping{collector: collector, warn: func(text string) { t.Error(text) }}
			s.open(t.Context(), filepath.Join(t.TempDir(), scrape.File))
			ctx, interrupt := context.WithCancel(t.Context())
			interrupt()
			page.got.Store(7)
			page.hangs.Store(hangs)
			begin := time.Now()
			s.mark()
			s.end(ctx, false)
			if hangs {
				assert.Equal(t, lastWait, time.Since(begin))
				return
			}
			assert.EqualValues(t, 7, page.told.Load())
			assert.Less(t, time.Since(begin), lastWait)
		})
	}
}

// TestPhasesWaitForTheirReference plays a warmup and a phase beside a page that counts requests: when the first of a phase is sent, the page
// has told of all before it. A page that does not answer keeps a phase for two seconds, and the run warns.
//
// Covers T-59.
func TestPhasesWaitForTheirReference(t *testing.T) {
	for name, hangs := range map[string]bool{"answers": false, "hangs": true} {
		t.Run(name, func(t *testing.T) {
			o := optionsFor(t, cachetest.Demo(t), unreachable)
			o.Start.Sampled, o.Warmup.Primers, o.Requests = true, true, 12
			page, warmed, taken := &countingPage{}, int64(0), time.Duration(0)
			var said []string
			script := func(s sentTurn) answerTo {
				synctest.Wait()
				n := page.got.Add(1)
				if s.name == measure.WarmupPhase {
					warmed = n
					page.hangs.Store(hangs)
				} else if n == warmed+1 && !hangs {
					assert.Equal(t, warmed, page.told.Load(), "the reference of profiling")
				}
				return answerTo{takes: time.Second}
			}
			_, err := virtually(t, o, script, func(v *virtualRun) {
				v.around = func(play func(context.Context)) {
					synctest.Test(t, func(t *testing.T) {
						collector, err := scrape.Start(scrape.Options{Pages: []scrape.Page{{URL: "http://h/metrics"}}, Transport: func() http.RoundTripper { return page }})
						require.NoError(t, err)
						collector.Ready(t.Context(), time.Second)
						v.scraping = &scraping{collector: collector, warn: func(text string) { said = append(said, text) }}
						begin := time.Now()
						play(t.Context())
						v.sampler.close()
						taken = time.Since(begin) - scrape.Tail
					})
				}
			})
			require.NoError(t, err)
			require.Positive(t, warmed)
			if hangs {
				assert.Equal(t, 60*time.Millisecond+boundaryWait, taken)
				assert.Equal(t, []string{
					"server metrics: http://h/metrics: no answer before the first request of the phase profiling: its counters count from the answer before that",
					"server metrics: http://h/metrics: no whole answer within 4s, when the run ended",
				}, said)
				return
			}
			assert.Contains(t, []time.Duration{120 * time.Millisecond, 180 * time.Millisecond}, taken, "the warmup; what its end asks for, if that has begun; profiling")
			assert.Equal(t, warmed+12, page.told.Load(), "when profiling has ended")
			assert.Empty(t, said)
		})
	}
}

// askedPage is a transport of a page, which tells when it is asked.
type askedPage func()

func (f askedPage) RoundTrip(r *http.Request) (*http.Response, error) {
	f()
	return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader("x 1\n")), Request: r}, nil
}

// TestRunWithoutItsFile goes on where the file of the samples cannot be made.
func TestRunWithoutItsFile(t *testing.T) {
	var said []string
	s := &scraping{warn: func(text string) { said = append(said, text) }}
	s.open(t.Context(), filepath.Join(t.TempDir(), "none", scrape.File))
	require.Len(t, said, 1)
	assert.Regexp(t, "^server metrics: open .*: they are not kept$", said[0])
}
