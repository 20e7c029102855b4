package compare

import (
	"math"
	"slices"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// windows are the lengths of a window of time, in seconds; a page takes the smallest that leaves at most mostWindows.
var windows = []float64{1, 2, 5, 10, 30, 60, 120, 300}

const mostWindows = 400

// windowOf returns the length of the windows of a span. A span that the longest does not cut into few enough gets a multiple of it.
func windowOf(span float64) float64 {
	for _, w := range windows {
		if span <= w*mostWindows {
			return w
		}
	}
	last := windows[len(windows)-1]
	return last * math.Ceil(span/(last*mostWindows))
}

// series are figures of one run over time, one for each window of the page. NaN: the window has none.
type series struct {
	inFlight, output, prompt []float64 // requests, mean; tokens per second
	failed                   []float64 // requests that failed, of those that started in the window

	of map[string][]float64 // percentiles of the requests that started in the window: ttft.p50
}

// seriesMetrics and seriesPercentiles are those that charts over time show.
var (
	seriesMetrics     = slices.DeleteFunc(slices.Clone(drawn), func(m measure.Metric) bool { return m.Unit != slo.Seconds })
	seriesPercentiles = []float64{50, 95}
	percentileNames   = []string{"p50", "p95"}
)

// axis is that of charts over time: n windows, of which the first begins so many seconds before the first request of profiling.
type axis struct {
	before, window float64
	n              int
}

// newAxis returns the axis from an instant before 0 to one after it, both multiples of its windows.
func newAxis(before, after float64) axis {
	w := windowOf(before + after)
	early := math.Ceil(before / w)
	return axis{early * w, w, max(1, int(early)+int(math.Ceil(after/w)))}
}

// newSeries computes the figures of a run on an axis. What the warmup took and gave belongs to them, its latencies do not.
func newSeries(r *run, a axis) *series {
	s := &series{make([]float64, a.n), make([]float64, a.n), make([]float64, a.n), make([]float64, a.n), map[string][]float64{}}
	q, zero := &r.requests, r.requests.first()-a.before // where the axis begins
	s.addFlow(&r.warmup, zero, a.window)
	s.addFlow(q, zero, a.window)
	values := make([]map[string][]float64, a.n)
	for k, start := range q.start {
		at := min(a.n-1, int((start-zero)/a.window))
		for _, m := range seriesMetrics {
			name := m.Name
			if v := q.values[name][k]; !math.IsNaN(v) {
				if values[at] == nil {
					values[at] = map[string][]float64{}
				}
				values[at][name] = append(values[at][name], v)
			}
		}
	}
	from, to := a.before-r.before(), a.before+q.span()
	for _, list := range [][]float64{s.inFlight, s.prompt, s.output} {
		for k := range list {
			begin := float64(k) * a.window // the first and the last one of the run are shorter
			list[k] /= max(1e-9, min(begin+a.window, to)-max(begin, from))
		}
	}
	s.percentiles(values)
	s.keep(from, to, a.window)
	return s
}

// addFlow adds what requests took and gave, on an axis that begins at an instant.
func (s *series) addFlow(q *requests, zero, window float64) {
	for k := range q.start {
		start, end, first := q.start[k]-zero, q.end[k]-zero, q.firstToken[k]-zero
		spread(s.inFlight, start, end, end-start, window)
		if !math.IsNaN(first) {
			spread(s.prompt, start, first, known(q.values["prompt_tokens"][k]), window)
			spread(s.output, first, end, known(q.values["output_tokens"][k]), window)
		}
		if q.state[k] == failed {
			s.failed[min(len(s.failed)-1, int(start/window))]++
		}
	}
}

func known(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// spread adds an amount to the windows between two instants, evenly over the time.
func spread(to []float64, from, end, amount, window float64) {
	if !(end > from) { // all at once
		to[min(len(to)-1, int(from/window))] += amount
		return
	}
	for k := int(from / window); k < len(to) && float64(k)*window < end; k++ {
		part := min(end, float64(k+1)*window) - max(from, float64(k)*window)
		to[k] += amount * part / (end - from)
	}
}

// percentiles computes those of each window.
func (s *series) percentiles(values []map[string][]float64) {
	for _, m := range seriesMetrics {
		for p, q := range seriesPercentiles {
			column := make([]float64, len(values))
			for k := range values {
				column[k] = none
				if list := values[k][m.Name]; len(list) > 0 {
					slices.Sort(list)
					column[k] = measure.Percentile(list, q)
				}
			}
			s.of[m.Name+"."+percentileNames[p]] = column
		}
	}
}

// keep leaves out the windows before the start and after the end of the run, which is shorter than another.
func (s *series) keep(from, to, window float64) {
	for k := range s.inFlight {
		if begin := float64(k) * window; begin >= to || begin+window <= from {
			for _, list := range [][]float64{s.inFlight, s.prompt, s.output, s.failed} {
				list[k] = none
			}
		}
	}
}
