package html

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
	"github.com/agentx/agentx/replay/measure"
)

// filled returns a builder with records of a run, and what a page of it needs besides.
func filled(t testing.TB, n int) (*Builder, *About) {
	s, b := newSample(n), NewBuilder(measure.Rules{})
	a := measure.NewAggregate(measure.Rules{})
	for k := range s.records {
		require.NoError(t, b.Add(&s.records[k]))
		a.Add(&s.records[k])
	}
	return b, &About{Info: s.info(), Summary: a.Summary(s.info())}
}

// A page is small, and the same twice.
//
//
func TestSizesOfPages(t *testing.T) {
	for _, c := range []struct{ requests, limit int }{{0, 250_000}, {2000, 300_000}, {41_400, maxBytes}} {
		b, about := filled(t, c.requests)
		_, first, err := b.fit(about)
		require.NoError(t, err)
		t.Logf("%d requests: %d bytes", c.requests, len(first))
		require.Less(t, len(first), c.limit, "%d requests", c.requests)
		require.Equal(t, 1, b.Stride())
		_, again, err := b.fit(about)
		require.NoError(t, err)
		require.True(t, bytes.Equal(first, again))
	}
}

// Of a run with more requests than a page holds it has every second, fourth and so on, and sums over all.
//
//
func TestThinnedPages(t *testing.T) {
	const n, limit = 3000, 1000
	s, b := newSample(n), NewBuilder(measure.Rules{})
	b.limit, b.bins.width = limit, 1 // ns: it grows
	a := measure.NewAggregate(measure.Rules{})
	var sent, prompt, output int64
	for k := range s.records {
		r := &s.records[k]
		require.NoError(t, b.Add(r))
		a.Add(r)
		if r.Phase == measure.ProfilingPhase {
			sent++
			prompt += max(0, r.PromptTokens.N())
			output += max(0, r.OSL())
		}
	}
	require.Equal(t, 4, b.Stride())
	_, html, err := b.fit(&About{Info: s.info(), Summary: a.Summary(s.info())})
	require.NoError(t, err)
	e := pagetest.NewEngine(t, string(html))
	e.Eval(`var requests = new Requests(page)`)
	require.InEpsilon(t, n/4, e.Number("requests.length"), 0.1)
	require.EqualValues(t, 16, e.Number("requests.tracks.lanes.length"), "of every lane")
	require.Equal(t, fmt.Sprint(sent, sent, prompt), e.Eval(`[["sent"], ["ended"], ["cached", "miss"]].map((list) => list.reduce((all, c) => all + page.tables.bins.columns[c].reduce((sum, x) => sum + x, 0), 0)).join(" ")`))
	require.InEpsilon(t, output, e.Number(`page.tables.bins.columns.output.reduce((sum, x) => sum + x, 0)`), 1e-9)
	require.Greater(t, e.Number("page.tables.bins.rows"), float64(maxBins/2))
	require.Contains(t, e.Eval("describeRange(page, requests, new TimeRange(requests.time[0], 1e6))"), "one request in 4")
	sums := e.Number("Object.values(page.tables['bins.failures'].columns.n).reduce((sum, x) => sum + x, 0)")
	failed := a.Summary(s.info())
	require.EqualValues(t, failed.Buckets.CancelledAtEnd+failed.Buckets.ContextOverflow+failed.Errors["timeout"]+failed.Errors["http_status"], sums)
}

// No page is larger than maxBytes. AGENTX_LONG=1 makes a second one.
//
//
func TestLargeRunsFit(t *testing.T) {
	if testing.Short() {
		t.Skip("229,000 requests")
	}
	sizes := []int{99_000} // which would be larger
	if os.Getenv("AGENTX_LONG") != "" {
		sizes = append(sizes, 130_000)
	}
	for _, n := range sizes {
		b, about := filled(t, n)
		_, html, err := b.fit(about)
		require.NoError(t, err)
		t.Logf("%d requests: %d bytes, one in %d", n, len(html), b.Stride())
		require.LessOrEqual(t, len(html), maxBytes)
		require.Equal(t, 2, b.Stride())
	}
}
