package html

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
	"github.com/agentx/agentx/replay/measure"
)

// Requests of a run that was killed, which have no record, are in flight to its end, and so are its lanes; the time from the first of them on
// is grey. A run with an end has none.
//
//
func TestOpenRequestsOfAKilledRun(t *testing.T) {
	for limit, mean := range map[int]float64{0: 0, 100: 0.5} { // a bin has the mean of what was open in it
		s, b := newSample(400), NewBuilder(measure.Rules{})
		if limit > 0 {
			b.Limit(limit)
			b.bins.width = 1e8
		}
		a, info := measure.NewAggregate(measure.Rules{}), s.info()
		info.Facts = nil
		open, whole := 0, int64(0)
		for k := range s.records {
			r := &s.records[k]
			if r.Phase == measure.ProfilingPhase && r.Credit > 250 && r.Credit%20 == 0 {
				open++
				continue
			}
			if r.Phase == measure.ProfilingPhase && r.Credit < 260 {
				whole = max(whole, int64(r.Sent))
			}
			require.NoError(t, b.Add(r))
			a.Add(r)
		}
		require.Greater(t, open, 1)
		about := &About{Info: info, Summary: a.Summary(info)}
		_, html, err := b.fit(about)
		require.NoError(t, err)
		e := pagetest.NewEngine(t, string(html))
		e.Eval(`var requests = new Requests(page), range = new TimeRange(requests.time[0], pageEnd(page.head)), flight = inFlight(page, requests), ends = openEnds(page, requests), trees = countOpen(requests.tracks.treeBegin, ends.trees), sessions = countOpen(requests.tracks.begin, ends.sessions)`)
		require.EqualValues(t, open, e.Number("page.tables.open.rows"))
		require.EqualValues(t, whole, e.Number("page.head.whole"))
		require.EqualValues(t, open, e.Number("flight.y[flight.y.length - 1]"), "they do not fall to zero")
		require.EqualValues(t, e.Number("requests.tracks.lanes.length"), e.Number("trees.y[trees.y.length - 1]"), "every lane is open")
		if limit == 0 { // else not every main session is on the page
			require.EqualValues(t, e.Number("requests.tracks.lanes.length"), e.Number("sessions.y[sessions.y.length - 1]"), "with its main session")
		}
		require.Equal(t, "open: not all known", e.Eval("shadesOf(page, range).at(-1).name"))
		require.EqualValues(t, e.Number("(page.head.whole - page.head.zero) / 1e9"), e.Number("shadesOf(page, range).at(-1).from"))

		about.Info = s.info()
		_, html, err = b.fit(about)
		require.NoError(t, err)
		e = pagetest.NewEngine(t, string(html))
		require.Equal(t, "true 0", e.Eval("[page.tables.open === undefined, page.head.whole].join(' ')"))
		require.Equal(t, mean, e.Number(`(requests => (flight => flight.y[flight.y.length - 1])(inFlight(page, requests)))(new Requests(page))`))
	}
}

// The figures of the result are those of summary.json, to the last bit, and its intervals those of the table.
//
//
func TestResultOfAPage(t *testing.T) {
	dir, _ := newSample(1000).write(t)
	html, _ := pageOf(t, dir)
	text, err := os.ReadFile(filepath.Join(dir, summaryFile))
	require.NoError(t, err)
	var summary struct {
		Rate     float64                                                        `json:"request_rate"`
		Output   float64                                                        `json:"output_token_rate"`
		TTFT     struct{ P50, P95 float64 }                                     `json:"ttft"`
		ITL      struct{ P50, P95 float64 }                                     `json:"itl"`
		Hits     float64                                                        `json:"token_hit_rate"`
		Errors   map[string]float64                                             `json:"errors"`
		Requests float64                                                        `json:"requests"`
		Buckets  struct{ Cooldown, Cancelled_at_end, Context_overflow float64 } `json:"buckets"`
	}
	require.NoError(t, json.Unmarshal(text, &summary))
	failed := 0.0
	for _, n := range summary.Errors {
		failed += n
	}
	b := summary.Buckets
	want := map[string]float64{
		"output tokens": summary.Output, "requests": summary.Rate, "TTFT p50": summary.TTFT.P50, "TTFT p95": summary.TTFT.P95, "ITL p50": summary.ITL.P50, "ITL p95": summary.ITL.P95,
		"prompt cached": summary.Hits, "failed": failed, "left out": b.Cooldown + b.Cancelled_at_end + b.Context_overflow,
	}
	e := pagetest.NewEngine(t, html)
	require.EqualValues(t, len(want), e.Number("page.head.result.figures.length"))
	for title, value := range want {
		e.Eval("var figure = page.head.result.figures.find((f) => f.title === a)", title)
		require.Equal(t, value, e.Number("figure.value"), title)
	}
	require.Equal(t, summary.Requests, e.Number(`page.head.result.figures.find((f) => f.title === "failed").of`))
	require.Equal(t, e.Eval(`page.head.intervals.of.ttft.p95.join(" ")`), e.Eval(`(({low, high}) => [low, high].join(" "))(page.head.result.figures.find((f) => f.name === "ttft.p95"))`))
	require.Contains(t, html, "<tr><th>result</th>")
}
