package scrape

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBoundary waits for the answer of a request that begins after the call, two seconds at most, and says which pages had none. A page
// that is left alone has none to wait for, and neither has a run that has ended.
//
// Covers T-59.
func TestBoundary(t *testing.T) {
	for name, c := range map[string]struct {
		at     time.Duration             // of the call
		takes  func(n int) time.Duration // the answer of a request
		fails  bool                      // those after the first
		page   Page                      // without its URL
		ends   time.Duration             // of the context, from the call; 0: it does not
		want   time.Duration             // until it returns
		silent []string
	}{
		"idle":                               {at: 100 * time.Millisecond, takes: always(60 * time.Millisecond), want: 60 * time.Millisecond},
		"while a request runs":               {at: 360 * time.Millisecond, takes: always(60 * time.Millisecond), want: 60 * time.Millisecond},
		"a slow page":                        {at: 1400 * time.Millisecond, takes: first(0, 1500*time.Millisecond), want: 1500 * time.Millisecond},
		"no answer":                          {at: 100 * time.Millisecond, takes: first(0, time.Hour), want: 2 * time.Second, silent: []string{"http://h/metrics"}},
		"no answer to the request that runs": {at: 400 * time.Millisecond, takes: first(0, time.Hour), want: 2 * time.Second, silent: []string{"http://h/metrics"}},
		"refused":                            {at: 100 * time.Millisecond, takes: always(0), fails: true, silent: []string{"http://h/metrics"}},
		"left alone":                         {at: 100 * time.Millisecond, takes: always(0), fails: true, page: Page{Default: true}},
		"interrupted":                        {at: 100 * time.Millisecond, takes: first(0, time.Hour), ends: time.Second, want: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c.page.URL = "http://h/metrics"
				collector, err := Start(Options{
					Pages: []Page{c.page},
					Transport: answers(func(r *http.Request, n int) (string, error) {
						if c.fails && (n > 0 || c.page.Default) {
							return "", errors.New("refused")
						}
						return "x 1\n", pause(r, c.takes(n))
					}).transport(),
				})
				require.NoError(t, err)
				time.Sleep(c.at)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if c.ends > 0 {
					time.AfterFunc(c.ends, cancel)
				}
				begin := time.Now()
				assert.Equal(t, c.silent, collector.Boundary(ctx, 2*time.Second))
				assert.Equal(t, c.want, time.Since(begin))
				collector.Close()
				assert.Empty(t, collector.Boundary(t.Context(), time.Second), "nothing is asked any more")
				assert.Equal(t, c.want, time.Since(begin))
			})
		})
	}
}

func always(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

// first returns how long the first request takes, and how long the others.
func first(d, others time.Duration) func(int) time.Duration {
	return func(n int) time.Duration {
		if n == 0 {
			return d
		}
		return others
	}
}
