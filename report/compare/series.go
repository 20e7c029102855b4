package compare

import (
	"math"
	"slices"

	"github.com/agentx/agentx/replay/measure"
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
	seriesMetrics     = []string{"ttft", "itl", "latency"}
	seriesPercentiles = []float64{50, 95}
	percentileNames   = []string{"p50", "p95"}
)

// newSeries computes the figures of n windows.
func newSeries(q *requests, window float64, n int) *series {
	s := &series{make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n), map[string][]float64{}}
	origin, span := q.first(), q.span()
	values := make([]map[string][]float64, n)
	for k := range q.start {
		start, end, first := q.start[k]-origin, q.end[k]-origin, q.firstToken[k]-origin
		spread(s.inFlight, start, end, end-start, window)
		if !math.IsNaN(first) {
			spread(s.prompt, start, first, known(q.values["prompt_tokens"][k]), window)
			spread(s.output, first, end, known(q.values["output_tokens"][k]), window)
		}
		at := min(n-1, int(start/window))
		if q.state[k] == failed {
			s.failed[at]++
		}
		for _, name := range seriesMetrics {
			if v := q.values[name][k]; !math.IsNaN(v) {
				if values[at] == nil {
					values[at] = map[string][]float64{}
				}
				values[at][name] = append(values[at][name], v)
			}
		}
	}
	for _, list := range [][]float64{s.inFlight, s.prompt, s.output} {
		for k := range list {
			list[k] /= max(1e-9, min(window, span-float64(k)*window)) // the last one of the run is shorter
		}
	}
	s.percentiles(values)
	s.endWith(span, window)
	return s
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
	for _, name := range seriesMetrics {
		for p, q := range seriesPercentiles {
			column := make([]float64, len(values))
			for k := range values {
				column[k] = none
				if list := values[k][name]; len(list) > 0 {
					slices.Sort(list)
					column[k] = measure.Percentile(list, q)
				}
			}
			s.of[name+"."+percentileNames[p]] = column
		}
	}
}

// endWith leaves out the windows after the end of the run, which is shorter than another.
func (s *series) endWith(span, window float64) {
	for k := range s.inFlight {
		if float64(k)*window >= span {
			for _, list := range [][]float64{s.inFlight, s.prompt, s.output, s.failed} {
				list[k] = none
			}
		}
	}
}
