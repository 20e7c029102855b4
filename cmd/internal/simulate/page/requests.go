package page

import (
	"fmt"
	"math"
	"slices"

	charts "github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/cmd/internal/simulate"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
)

// drawn says which requests are on the page.
type drawn struct {
	Requests int `json:"requests"` // on the page
	All      int `json:"all"`
	Stride   int `json:"stride"` // one in so many, in the order of their arrival; the others are the extremes
}

const (
	mostRequests = 3000
	extremeParts = 500 // of the run, of each of which the greatest ttft is on the page
)

// chosenRequests returns the requests on the page, in the order of their arrival, and whether each is there as an extreme alone.
func (b *builder) chosenRequests() (list []*fleet.Request, extra []int64, d drawn) {
	all := b.result.Requests
	d = drawn{All: len(all), Stride: 1}
	for (len(all)+d.Stride-1)/d.Stride > mostRequests {
		d.Stride *= 2
	}
	worst := map[int]int{} // by part of the run
	for k, q := range all {
		l, ok := simulate.LatencyOf(q)
		if !ok || d.Stride == 1 {
			continue
		}
		part := columnOf(q.Arrival, b.end, extremeParts)
		if at, known := worst[part]; !known || l.TTFT > all[at].First-all[at].Arrival {
			worst[part] = k
		}
	}
	for k, q := range all {
		at, known := worst[columnOf(q.Arrival, b.end, extremeParts)]
		switch {
		case k%d.Stride == 0:
			list, extra = append(list, q), append(extra, 0)
		case known && at == k:
			list, extra = append(list, q), append(extra, 1)
		}
	}
	d.Requests = len(list)
	return list, extra, d
}

// requestTable returns the requests on the page.
func (b *builder) requestTable() (charts.Table, drawn) {
	list, extra, d := b.chosenRequests()
	t := charts.Table{Name: "requests"}
	add := func(name, unit string, of func(q *fleet.Request) int64) {
		values := make([]int64, len(list))
		for k, q := range list {
			values[k] = of(q)
		}
		t.Columns = append(t.Columns, charts.Ints(name, unit, values))
	}
	itl := make([]float64, len(list))
	ttft, latency := make([]int64, len(list)), make([]int64, len(list))
	for k, q := range list {
		itl[k], ttft[k], latency[k] = math.NaN(), charts.Missing, charts.Missing
		if l, ok := simulate.LatencyOf(q); ok {
			ttft[k], latency[k] = l.TTFT, l.E2E
			if l.Tokens > 1 {
				itl[k] = l.ITL
			}
		}
	}
	add("arrival", "ns", func(q *fleet.Request) int64 { return q.Arrival })
	t.Columns = append(t.Columns, charts.Ints("ttft", "ns", ttft), charts.Ints("latency", "ns", latency), charts.Floats("itl", "ns", itl))
	add("tokens", "tokens", func(q *fleet.Request) int64 { return int64(q.Tokens) })
	add("asked", "tokens", func(q *fleet.Request) int64 { return int64(q.Output) })
	add("prompt", "tokens", func(q *fleet.Request) int64 { return int64(q.Prompt) })
	add("reused", "tokens", func(q *fleet.Request) int64 { return int64(q.Reused) })
	add("session", "", func(q *fleet.Request) int64 { return int64(q.Session) })
	add("turn", "", func(q *fleet.Request) int64 { return int64(q.Number) })
	add("worker", "", func(q *fleet.Request) int64 { return workerOf(q) })
	add("preemptions", "", func(q *fleet.Request) int64 { return int64(q.Preemptions) })
	add("waited", "ns", func(q *fleet.Request) int64 {
		if first := q.Front(); first.Admissions > 0 {
			return first.Admitted - q.Arrival
		}
		return charts.Missing
	})
	if b.result.Config.Disaggregated() {
		add("prefill_worker", "", func(q *fleet.Request) int64 { return workerOf(q.Front()) })
	}
	status := make([]string, len(list))
	for k, q := range list {
		status[k] = q.Status.String()
	}
	t.Columns = append(t.Columns, charts.Texts("status", status), charts.Ints("extra", "", extra))
	return t, d
}

// workerOf returns the worker of a request; Missing where it was on none.
func workerOf(q *fleet.Request) int64 {
	if q.Worker < 0 {
		return charts.Missing
	}
	return int64(q.Worker)
}

// mostWindows bounds the windows of a run, which have perWindow requests on average or more: the percentiles of one or two say nothing.
const mostWindows, perWindow = 200, 8

// windowLength returns the smallest of 1, 2 and 5 times a power of ten milliseconds that leaves few enough windows, in nanoseconds.
func windowLength(end int64, requests int) int64 {
	most := int64(min(max(requests/perWindow, 1), mostWindows))
	for length := int64(1e6); ; length *= 10 {
		for _, digit := range []int64{1, 2, 5} {
			if end/(digit*length) < most {
				return digit * length
			}
		}
	}
}

// window is the requests that arrived in a part of the run.
type window struct {
	arrived, ended int64
	ttft, itl      []float64 // seconds
}

// add adds a request that has ended.
func (w *window) add(ttft int64, itl float64, tokens int) {
	if w.ttft = append(w.ttft, float64(ttft)/1e9); tokens > 1 {
		w.itl = append(w.itl, itl/1e9)
	}
}

// windowTable returns counts and percentiles of all requests over time; of the load of a run also as they were measured.
func (b *builder) windowTable() charts.Table {
	length := windowLength(b.end, len(b.result.Requests))
	list := make([]window, b.end/length+1)
	at := func(arrival int64) *window { return &list[min(arrival/length, int64(len(list)-1))] }
	for _, q := range b.result.Requests {
		w := at(q.Arrival)
		w.arrived++
		if l, ok := simulate.LatencyOf(q); ok {
			list[q.Last/length].ended++
			w.add(l.TTFT, l.ITL, l.Tokens)
		}
	}
	var start []float64
	var arrived, ended []int64
	for k := range list {
		start, arrived, ended = append(start, float64(int64(k)*length)/1e9), append(arrived, list[k].arrived), append(ended, list[k].ended)
	}
	t := charts.Table{Name: "windows", Columns: []charts.Column{charts.Floats("start", "s", start), charts.Ints("arrived", "", arrived), charts.Ints("ended", "", ended)}}
	t.Columns = append(t.Columns, latencies("", list)...)
	if measured := b.result.Config.Measured; measured != nil {
		clear(list)
		for k := range measured {
			r := &measured[k]
			at(r.Sent).add(r.First-r.Sent, float64(r.Last-r.First)/float64(max(r.Output-1, 1)), r.Output)
		}
		t.Columns = append(t.Columns, latencies("measured.", list)...)
	}
	return t
}

// latencies returns the columns of the percentiles of windows, whose values it sorts.
func latencies(prefix string, list []window) (columns []charts.Column) {
	for _, m := range []struct {
		name string
		of   func(*window) []float64
	}{{"ttft", func(w *window) []float64 { return w.ttft }}, {"itl", func(w *window) []float64 { return w.itl }}} {
		for _, q := range []float64{50, 95} {
			var values []float64
			for k := range list {
				values = append(values, percentile(m.of(&list[k]), q))
			}
			columns = append(columns, charts.Floats(fmt.Sprintf("%s%s.p%g", prefix, m.name, q), "s", values))
		}
	}
	return columns
}

// percentile returns a percentile by the rule of doc/spec/simulate.md 9.1, rounded to a microsecond; NaN without values. It sorts them.
func percentile(list []float64, q float64) float64 {
	if len(list) == 0 {
		return math.NaN()
	}
	slices.Sort(list)
	return math.Round(list[int(math.Floor(float64(len(list)-1)*q/100+0.5))]*1e6) / 1e6
}
