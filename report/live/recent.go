package live

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/agentx/agentx/replay/measure"
)

// RecentLooks is over how many looks at the records, one a second, the latest rates and latencies are.
const RecentLooks = 30

// recent are the requests of the last looks that ended well. It counts in sections, one a look, and merges them.
type recent struct {
	at       time.Time // of the last look; zero: there was none
	sections [RecentLooks]section
	last     int // the section that is filled

	ttft, itl, lateness *hdrhistogram.WindowedHistogram // nanoseconds

	now Recent // at the last look
}

// section is what ended between two looks.
type section struct {
	length                 time.Duration
	completed              int
	prompt, cached, output int64
}

// Histograms have values from a nanosecond to three hours in cells that are at most 1 % wide: 38 KB each.
const (
	lowest  = 1
	highest = 1e13
	figures = 2
)

func newRecent() *recent {
	r := new(recent)
	r.reset()
	return r
}

// reset forgets all requests.
func (r *recent) reset() {
	histogram := func() *hdrhistogram.WindowedHistogram {
		return hdrhistogram.NewWindowed(RecentLooks, lowest, highest, figures)
	}
	*r = recent{at: r.at, ttft: histogram(), itl: histogram(), lateness: histogram()}
	r.now = r.status()
}

func (r *recent) add(record *measure.Record, rules measure.Rules) {
	if record.Error != nil {
		return
	}
	s := &r.sections[r.last]
	s.completed++
	prompt, cached, output := tokens(record)
	s.prompt, s.cached, s.output = s.prompt+prompt, s.cached+cached, s.output+output
	observe(r.lateness, record.Lateness())
	if v, ok := record.TTFT(); ok {
		observe(r.ttft, v)
	}
	if v, ok := rules.ITL(record); ok {
		observe(r.itl, v)
	}
}

// observe adds seconds to the section that is filled.
func observe(h *hdrhistogram.WindowedHistogram, seconds float64) {
	ns := math.Round(seconds * 1e9)
	_ = h.Current.RecordValue(int64(min(max(ns, 0), highest))) // an error is of a value that does not fit
}

// look ends a section. The first one has no known length, so it counts for no rate.
func (r *recent) look(now time.Time) {
	if !r.at.IsZero() {
		r.sections[r.last].length = now.Sub(r.at)
	} else {
		r.sections[r.last] = section{}
	}
	r.at, r.now = now, r.status()
	r.last = (r.last + 1) % RecentLooks
	r.sections[r.last] = section{}
	for _, h := range []*hdrhistogram.WindowedHistogram{r.ttft, r.itl, r.lateness} {
		h.Rotate()
	}
}

// status returns the rates and latencies of all sections.
func (r *recent) status() Recent {
	var sum section
	for _, s := range r.sections {
		sum.length, sum.completed = sum.length+s.length, sum.completed+s.completed
		sum.prompt, sum.cached, sum.output = sum.prompt+s.prompt, sum.cached+s.cached, sum.output+s.output
	}
	rate := func(n int64) measure.Number { return ratio(float64(n), sum.length.Seconds()) }
	return Recent{
		Seconds: sum.length.Seconds(), RequestRate: rate(int64(sum.completed)), PromptTokenRate: rate(sum.prompt), OutputTokenRate: rate(sum.output),
		TokenHitRate: ratio(float64(sum.cached), float64(sum.prompt)),
		TTFT:         stat(r.ttft), ITL: stat(r.itl), Lateness: stat(r.lateness),
	}
}

// stat returns the percentiles of the sections.
func stat(w *hdrhistogram.WindowedHistogram) Stat {
	h := w.Merge()
	s := Stat{N: h.TotalCount(), P50: measure.Missing, P75: measure.Missing, P90: measure.Missing, P95: measure.Missing, P99: measure.Missing}
	if s.N == 0 {
		return s
	}
	v := h.ValueAtPercentilesSlice([]float64{50, 75, 90, 95, 99})
	for k, p := range []*measure.Number{&s.P50, &s.P75, &s.P90, &s.P95, &s.P99} {
		*p = measure.Number(float64(v[k]) / 1e9)
	}
	return s
}

// ratio divides; Missing where it cannot.
func ratio(part, whole float64) measure.Number {
	if whole <= 0 {
		return measure.Missing
	}
	return measure.Number(part / whole)
}
