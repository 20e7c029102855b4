package scrape

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"go.uber.org/goleak"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
)

// The command names settings so.
func init() { preset.Prefix = "--" }

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answers is a transport that a test scripts: it gets the number of the request, from 0, and returns the text of the page.
type answers func(r *http.Request, n int) (string, error)

// transport returns what Options take. Every page has requests of its own.
func (a answers) transport() func() http.RoundTripper {
	return func() http.RoundTripper {
		n := -1
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			n++
			text, err := a(r, n)
			if err != nil {
				return nil, err
			}
			return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(text)), Header: http.Header{}, Request: r}, nil
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// memory is the file of a test.
type memory struct {
	bytes.Buffer
	closed bool
}

func (m *memory) Close() error { m.closed = true; return nil }

// said collects notices.
type said struct {
	mu   sync.Mutex
	list []string
}

func (s *said) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, text)
}

// pause waits for a time, or until the request is ended.
func pause(r *http.Request, d time.Duration) error {
	select {
	case <-r.Context().Done():
		return r.Context().Err()
	case <-time.After(d):
		return nil
	}
}

// instantsOf returns the instants of the answers of a page, in milliseconds since the start of the bubble.
func instantsOf(d *Data, endpoint int, start time.Time) (list []int64) {
	for _, a := range d.Endpoints[endpoint].Answers {
		list = append(list, (a.At-start.UnixNano())/1e6)
	}
	return list
}

// TestEveryInterval asks at once, and then every 0.333 s. What is due while a request runs is skipped; a mark is not: it is asked for
// when the request is over.
//
// Covers T-59.
func TestEveryInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, file := time.Now(), &memory{}
		c, err := Start(Options{
			Pages: []Page{{URL: "http://h/metrics"}},
			Transport: answers(func(r *http.Request, n int) (string, error) {
				if n == 2 { // sent at 333 ms
					return "x 5\n", pause(r, 800*time.Millisecond)
				}
				return fmt.Sprintf("x %d\n", n), nil
			}).transport(),
		})
		require.NoError(t, err)
		time.Sleep(100 * time.Millisecond)
		c.Open(file)
		c.Mark()
		time.Sleep(600 * time.Millisecond) // 700 ms
		c.Mark()
		c.Mark()
		time.Sleep(1150 * time.Millisecond) // 1850 ms
		f, err := c.Close()
		require.NoError(t, err)
		d, err := Read(&file.Buffer)
		require.NoError(t, err)
		// The request of 333 ms is over at 1133; those of 666 and 999 ms are skipped.
		assert.Equal(t, []int64{0, 100, 1133, 1133, 1332, 1665}, instantsOf(d, 0, start))
		assert.Equal(t, measure.MetricsPage{URL: "http://h/metrics", Fetches: 6, Skipped: 2}, f.Pages[0])
		assert.True(t, file.closed)
	})
}

// TestAtMostTenSeconds ends a request that has no answer, and asks again.
func TestAtMostTenSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told said
		c, err := Start(Options{
			Pages: []Page{{URL: "http://h/metrics"}}, Notice: told.add,
			Transport: answers(func(r *http.Request, n int) (string, error) { return "x 1\n", pause(r, time.Hour) }).transport(),
		})
		require.NoError(t, err)
		begin := time.Now()
		c.Ready(t.Context(), time.Second)
		assert.Equal(t, time.Second, time.Since(begin), "a run does not wait for a server that hangs")
		time.Sleep(24 * time.Second)
		c.Linger(context.Background(), Tail)
		assert.Equal(t, 25*time.Second, time.Since(begin), "nothing has answered: there is nothing to wait for")
		f, err := c.Close()
		require.NoError(t, err)
		assert.Equal(t, 25*time.Second, time.Since(begin), "what runs is ended at once")
		assert.Equal(t, []string{"server metrics: http://h/metrics: no answer within 10s: the page is asked again"}, told.list)
		assert.Equal(t, measure.MetricsPage{URL: "http://h/metrics", Failures: 3, Skipped: 60, LastError: "no whole answer within 4.354s, when the run ended", Cut: true}, f.Pages[0])
	})
}

// TestRequestsThatTheEndCuts are failures where they have kept samples from a run: a page that has not answered at all, or not for
// longer than the tail. What the end cuts of a page that answers is none.
func TestRequestsThatTheEndCuts(t *testing.T) {
	for name, c := range map[string]struct {
		answers int
		length  time.Duration
		want    measure.MetricsPage
	}{
		"never answered":   {0, time.Millisecond, measure.MetricsPage{Failures: 1, LastError: "no whole answer within 1ms, when the run ended", Cut: true}},
		"answers":          {2, 400 * time.Millisecond, measure.MetricsPage{Fetches: 2}},
		"late, not missed": {1, Interval + Tail, measure.MetricsPage{Fetches: 1}},
		"has gone silent":  {1, Interval + Tail + time.Millisecond, measure.MetricsPage{Fetches: 1, Failures: 1, LastError: "no whole answer within 2.001s, when the run ended", Cut: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				collector, err := Start(Options{
					Pages: []Page{{URL: "http://h/metrics"}}, Now: time.Now,
					Transport: answers(func(r *http.Request, n int) (string, error) {
						if n >= c.answers {
							return "", pause(r, time.Hour)
						}
						return "x 1\n", nil
					}).transport(),
				})
				require.NoError(t, err)
				time.Sleep(c.length)
				c.want.URL = "http://h/metrics"
				f, err := collector.Close()
				require.NoError(t, err)
				assert.Equal(t, c.want, f.Pages[0])
			})
		})
	}
}

// TestDefaultPageIsTriedOnce leaves a page alone that no option names and that does not answer in the format, with one line. A named page
// is asked again and again; a default page that has answered is, too.
func TestDefaultPageIsTriedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told said
		c, err := Start(Options{
			Pages: []Page{{URL: "http://a/metrics", Default: true}, {URL: "http://b/metrics"}, {URL: "http://c/metrics", Default: true}}, Notice: told.add,
			Transport: answers(func(r *http.Request, n int) (string, error) {
				if r.URL.Host == "c" && n != 1 {
					return "x 1\n", nil
				}
				return "<html>", pause(r, time.Duration(r.URL.Host[0])*time.Microsecond)
			}).transport(),
		})
		require.NoError(t, err)
		c.Ready(t.Context(), time.Second)
		time.Sleep(990 * time.Millisecond)
		begin := time.Now()
		c.Linger(context.Background(), Tail)
		assert.Equal(t, 2*time.Second, time.Since(begin))
		f, err := c.Close()
		require.NoError(t, err)
		assert.Equal(t, 1, f.Pages[0].Failures)
		assert.Equal(t, 9, f.Pages[1].Failures)
		assert.Equal(t, 8, f.Pages[2].Fetches)
		assert.Equal(t, []string{
			"server metrics: http://a/metrics: not the text format of Prometheus: line 1: it is left alone (--scrape URL names another page, --scrape off none)",
			"server metrics: http://b/metrics: not the text format of Prometheus: line 1: the page is asked again",
			"server metrics: http://c/metrics: not the text format of Prometheus: line 1: the page is asked again",
		}, told.list)
	})
}

// TestInterruptEndsTheTail does not wait for the rest of the two seconds.
func TestInterruptEndsTheTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := Start(Options{
			Pages:     []Page{{URL: "http://h/metrics"}},
			Transport: answers(func(*http.Request, int) (string, error) { return "x 1\n", nil }).transport(),
		})
		require.NoError(t, err)
		c.Ready(t.Context(), time.Second)
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		begin := time.Now()
		c.Linger(ctx, Tail)
		assert.Equal(t, time.Millisecond, time.Since(begin))
		c.Close()
		c.Close()
	})
}

// TestChangesAlone writes what differs from the answer before, series that vanish and come back, and reads it again.
func TestChangesAlone(t *testing.T) {
	pages := []string{
		"# TYPE c_total counter\nc_total{a=\"1\"} 5\n# TYPE g gauge\ng 0.5\nu 1e300\n",
		"# TYPE c_total counter\nc_total{a=\"1\"} 5\n# TYPE g gauge\ng 0.5\nu 1e300\n",
		"# TYPE c_total counter\nc_total{a=\"1\"} 6\n# TYPE g gauge\ng NaN\n",
		"# TYPE c_total counter\nc_total{a=\"1\"} 6\n# TYPE g gauge\ng 0.5\n# TYPE h histogram\nh_bucket{le=\"1\"} 2\nh_bucket{le=\"+Inf\"} 3\nh_sum 4.5\nh_count 3\n" +
			"# TYPE s summary\ns{quantile=\"0.5\"} 1\ns_sum 2\ns_count 1\n",
	}
	synctest.Test(t, func(t *testing.T) {
		file := &memory{}
		c, err := Start(Options{
			Pages: []Page{{URL: "http://h/metrics"}},
			Transport: answers(func(_ *http.Request, n int) (string, error) {
				if n >= len(pages) {
					return "", errors.New("no more")
				}
				return pages[n], nil
			}).transport(),
			Now: func() time.Time { return time.Unix(1700000000, 123456789) },
		})
		require.NoError(t, err)
		c.Open(file)
		time.Sleep(2 * time.Second)
		c.Close()
		assert.Equal(t, `{"endpoint":0,"url":"http://h/metrics"}
{"series":0,"endpoint":0,"name":"c","type":"counter","labels":{"a":"1"}}
{"series":1,"endpoint":0,"name":"g","type":"gauge","labels":{}}
{"series":2,"endpoint":0,"name":"u","type":"gauge","labels":{}}
{"endpoint":0,"at":1700000000123456789,"took":0,"values":[[0,5],[1,0.5],[2,1e+300]]}
{"endpoint":0,"at":1700000000123456789,"took":0}
{"endpoint":0,"at":1700000000123456789,"took":0,"values":[[0,6]],"gone":[1,2]}
{"series":3,"endpoint":0,"name":"h","type":"histogram","labels":{},"bounds":["1","+Inf"]}
{"series":4,"endpoint":0,"name":"s","type":"summary","labels":{}}
{"endpoint":0,"at":1700000000123456789,"took":0,"values":[[1,0.5],[3,3,4.5,2,3],[4,1,2]]}
`, file.String())
		d, err := Read(bytes.NewReader(file.Bytes()))
		require.NoError(t, err)
		require.Len(t, d.Series, 5)
		var changes []string
		for k := range d.Series[1].Len() {
			answer, values := d.Series[1].Change(k)
			changes = append(changes, fmt.Sprint(answer, values))
		}
		assert.Equal(t, []string{"0 [0.5]", "2 []", "3 [0.5]"}, changes)
		answer, values := d.Series[3].Change(0)
		assert.Equal(t, 3, answer)
		assert.Equal(t, []float64{3, 4.5, 2, 3}, values)
		assert.Equal(t, []bool{true, false, true, true}, changed(d))

		// A killed run leaves a part of the file: whatever it is, its whole lines are read.
		whole := file.Bytes()
		for n := range whole {
			d, err := Read(bytes.NewReader(whole[:n]))
			require.NoError(t, err, "%q", whole[:n])
			require.Equal(t, n > 0 && whole[n-1] != '\n', d.Torn)
		}
	})
}

func changed(d *Data) (list []bool) {
	for _, a := range d.Endpoints[0].Answers {
		list = append(list, a.Changed)
	}
	return list
}

// TestBoundsOfAFile ends the file before it grows without a bound, and leaves out series beyond their number.
func TestBoundsOfAFile(t *testing.T) {
	l := &log{limit: 300}
	file := &memory{}
	l.open(file)
	l.addEndpoint(0, Page{URL: "http://h/"})
	series := map[string]*known{}
	for n := range 10 {
		l.addAnswer(0, int64(n), 1, []sample{{key: "x", series: Series{Name: "x", Type: Gauge}, values: []float64{float64(n)}}}, series)
	}
	l.close()
	assert.True(t, l.full)
	assert.LessOrEqual(t, file.Len(), 300)
	d, err := Read(&file.Buffer)
	require.NoError(t, err)
	assert.Len(t, d.Endpoints[0].Answers, 4)
	assert.False(t, d.Torn)

	l = &log{limit: maxFile, series: maxSeries - 1}
	two := []sample{{key: "x", values: []float64{1}}, {key: "y", values: []float64{1}}}
	assert.Equal(t, 1, l.addAnswer(0, 1, 1, two, map[string]*known{}))
}

// brokenFile fails from the second write on.
type brokenFile struct {
	memory
	writes int
}

func (b *brokenFile) Write(text []byte) (int, error) {
	if b.writes++; b.writes > 1 {
		return 0, errors.New("no space")
	}
	return b.memory.Write(text)
}

// TestFullDiskIsNoFailure keeps what was written and says why there is no more.
func TestFullDiskIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := &brokenFile{}
		c, err := Start(Options{
			Pages:     []Page{{URL: "http://h/metrics"}},
			Transport: answers(func(_ *http.Request, n int) (string, error) { return fmt.Sprintf("x %d\n", n), nil }).transport(),
		})
		require.NoError(t, err)
		c.Ready(t.Context(), time.Second)
		c.Open(file)
		time.Sleep(2 * time.Second)
		_, err = c.Close()
		require.EqualError(t, err, "no space")
		assert.Equal(t, 2, file.writes, "it does not try again")
		_, err = Read(&file.Buffer)
		require.NoError(t, err)
	})
}

// TestOptionsAreChecked names the page by its number and its URL, without what may be a secret in it.
func TestOptionsAreChecked(t *testing.T) {
	const want = ": want http://HOST:PORT/PATH or https://HOST/PATH"
	for url, why := range map[string]string{
		"": `""` + want, "h:80/metrics": `"h:80/metrics"` + want, "ftp://user:pw@h/": `"ftp://h/"` + want, "http://": `"http://"` + want,
		"http://h/%zz?key=pw": `"http://h/%zz"` + want, "http://user:pw@h:80:80/": `"http://h:80:80/"` + want, "me:pw?@h": `"h"` + want, "me:pw://x@h": `"h"` + want,
		"ftp://me:p:/?#@pw@h": `"ftp://h"` + want, "http://h/?pw#x": `"http://h/": a fragment, such as #x, is no part of a page`,
	} {
		_, err := Start(Options{Pages: []Page{{URL: "http://ok/"}, {URL: url}}})
		require.EqualError(t, err, "page 2 of metrics: "+why)
		assert.NotContains(t, err.Error(), "pw")
	}
	require.Error(t, Options{}.Validate())
	require.Error(t, Options{Pages: make([]Page, MaxPages+1)}.Validate())
	assert.Equal(t, "https://h:1/a", Page{URL: "https://u:p@h:1/a?b=c"}.Name())
}
