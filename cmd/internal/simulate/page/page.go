package page

import (
	"bytes"

	charts "github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/cmd/internal/simulate"
)

// maxBytes is the size of the largest page.
const maxBytes = 2_000_000

// Make returns the page of a run as one HTML file. s is the summary of r. Equal runs give equal bytes.
func Make(r *simulate.Result, s *simulate.Summary) ([]byte, error) {
	b := newBuilder(r, s)
	for {
		var out bytes.Buffer
		if err := charts.Write(&out, b.page()); err != nil {
			return nil, err
		}
		if out.Len() <= maxBytes || !b.coarser() {
			return out.Bytes(), nil
		}
	}
}

// builder makes the page of a run.
type builder struct {
	result  *simulate.Result
	summary *simulate.Summary
	end     int64 // of the axis
	lines   []line
	columns int // of time, to which lines are thinned
	most    int // workers whose lines are drawn
}

// The finest page, and the coarsest: lines of a few workers in a few columns.
const (
	mostColumns  = 4096
	leastColumns = 64
	mostLines    = 1024
	mostPoints   = 150_000 // of all lines, before a page is tried
)

func newBuilder(r *simulate.Result, s *simulate.Summary) *builder {
	b := &builder{result: r, summary: s, end: endOf(r), columns: mostColumns, most: mostLines}
	if r.Planned != nil {
		b.lines = linesOfTicks(r.Planned.Ticks)
	} else if r.Samples != nil {
		b.lines = linesOfSamples(r)
	}
	for b.points() > mostPoints && b.coarser() {
	}
	return b
}

// endOf returns when the last token, tick or arrival of a run was. What arrives last may be rejected.
func endOf(r *simulate.Result) int64 {
	end := r.Duration
	if p := r.Planned; p != nil && len(p.Ticks) > 0 {
		end = max(end, p.Ticks[len(p.Ticks)-1].At)
	}
	if n := len(r.Requests); n > 0 {
		end = max(end, r.Requests[n-1].Arrival)
	}
	return end
}

// coarser halves the columns of time, then the workers whose lines are drawn; false: it is as coarse as can be.
func (b *builder) coarser() bool {
	switch {
	case b.columns > leastColumns:
		b.columns /= 2
	case b.most > 1:
		b.most /= 2
	default:
		return false
	}
	return true
}

// page returns the page with the columns of the builder.
func (b *builder) page() *charts.Page {
	requests, drawn := b.requestTable()
	lines, points, thinned := b.lineTables()
	list := []charts.Table{requests, b.windowTable(), lines, points}
	list = append(list, b.poolTables()...)
	ticks, cut := b.tickTables()
	h := b.head()
	h.Drawn, h.Thinned = drawn, thinned || cut
	return &charts.Page{Kind: "simulate", Title: "Simulated run", Head: h, Tables: append(list, ticks...)}
}

// seconds returns instants as the page has them.
func seconds(ns []int64) []float64 {
	list := make([]float64, len(ns))
	for k, v := range ns {
		list[k] = float64(v) / 1e9
	}
	return list
}
