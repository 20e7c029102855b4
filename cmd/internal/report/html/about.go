package html

import (
	"fmt"
	"strings"
	"time"

	"github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/scrape"
)

// About is what a page shows besides the records. Summary is required.
type About struct {
	Info    measure.RunInfo
	Summary any                  // of measure.Summary, or the JSON of one
	lanes   []measure.LaneReport // nil: not known
	servers *scrape.Data         // nil: nothing was scraped
	Notes   []string             // what the page lacks, one line each
	Live    bool                 // the run is not over

	intervals *intervals // nil: none were computed
}

// Seconds are the options of a run whose numbers are seconds.
var Seconds = strings.Fields(`back-off duration first-byte-timeout from gone-after grace interrupt-grace keep-alive lane-start-cap
	max-gap primer-lead-max ramp reset-cache-timeout stall-timeout stats-interval system-idle-cap tcp-user-timeout timeout to trace-idle-cap
	tree-idle-cap wait-ready wait-ready-interval warmup-grace`)

// head is the part of a page that is no table: page.head of run.js.
type head struct {
	Summary any              `json:"summary"`
	Server  string           `json:"server,omitempty"` // the servers, with what they tell of themselves; "": nothing
	Notes   []string         `json:"notes"`
	Seconds []string         `json:"seconds"` // options that are times
	Metrics []pageMetric     `json:"metrics"` // of requests: the columns of these names
	Ratios  ratios           `json:"ratios"`  // metrics of a run, by their names
	Sums    sums             `json:"sums"`    // the columns of requests that are packed as what they have above the sum of others
	Buckets []measure.Bucket `json:"buckets"` // by the numbers of the column bucket
	Common  map[string]int64 `json:"common"`  // what the rows have that a sparse column leaves out
	Zero    int64            `json:"zero"`    // first sent of profiling, ns: where the axis of time begins
	Shift   int64            `json:"shift"`   // from the start of the warmup to that of profiling, ns
	Ends    [2]int64         `json:"ends"`    // last end of the warmup, and of profiling, ns of the phase
	Sending int64            `json:"sending"` // when the sending had to end, ns of profiling; 0: no bound

	Intervals *intervals `json:"intervals"`

	Stride   int    `json:"stride"`    // of so many requests the page has one
	Requests [2]int `json:"requests"`  // of the warmup, of profiling: all, also those that the page leaves out
	BinWidth int64  `json:"bin_width"` // ns
}

// page returns the page of the records that were added.
func (b *Builder) page(a *About) *page.Page {
	h := b.head(a)
	p := &page.Page{Kind: "run", Title: title(&a.Info), Live: a.Live, Head: &h}
	p.Tables, h.Common = b.tables()
	p.Tables = append(p.Tables, laneTable(a.lanes))
	h.Notes = append(h.Notes, b.strangers(a.lanes)...)
	if a.servers != nil {
		p.Tables = append(p.Tables, serverTables(a.servers, b.origin(&a.Info), b.end[1])...)
	}
	return p
}

// head returns what the page says besides its tables.
func (b *Builder) head(a *About) head {
	h := head{
		Summary: a.Summary, Server: a.Info.ServerText(), Notes: append([]string{}, a.Notes...), Seconds: Seconds, Metrics: metrics, Ratios: ratiosOfRun, Sums: sumsOfColumns, Buckets: buckets,
		Intervals: a.intervals, Zero: b.first, Ends: b.end, Stride: b.stride, Requests: [2]int{b.warmup, b.sent}, BinWidth: b.bins.width,
	}
	var known bool
	if h.Shift, known = shift(&a.Info); !known && b.warmup > 0 {
		h.Shift = b.end[0]
		h.Notes = append(h.Notes, "When profiling began is not known: the page puts it behind the last answer of the warmup.")
	}
	if f := a.Info.Facts; f != nil {
		h.Sending = measure.Nanos(f.Deadline)
	}
	return h
}

// title names the run.
func title(info *measure.RunInfo) string {
	name := "agentx run"
	if info.Model != "" {
		name += " of " + cut(info.Model)
	}
	if !info.Start.IsZero() {
		name += ", " + info.Start.UTC().Format("2006-01-02 15:04:05")
	}
	return name
}

// shift returns the time from the start of the warmup to that of profiling; false if it is not known.
func shift(info *measure.RunInfo) (ns int64, known bool) {
	for _, p := range info.Phases {
		if p.Name == measure.ProfilingPhase {
			return measure.Nanos(p.Offset), true
		}
	}
	return 0, false
}

// origin returns when profiling began, nanoseconds since 1970; of a run whose phases are not known when the run began.
func (b *Builder) origin(info *measure.RunInfo) int64 {
	for _, p := range info.Phases {
		if p.Name == measure.ProfilingPhase {
			return p.Start.UnixNano()
		}
	}
	return info.Start.Add(time.Duration(b.end[0])).UnixNano()
}

// laneTable returns what is known of the lanes besides their requests.
func laneTable(lanes []measure.LaneReport) page.Table {
	var lane []int64
	var tStar, finished, skipped []float64
	for k := range lanes {
		l := &lanes[k]
		lane = append(lane, int64(l.Lane))
		tStar, finished, skipped = append(tStar, float64(l.TStar)), append(finished, float64(l.Finished)), append(skipped, l.Skipped)
	}
	return page.Table{Name: "lanes", Columns: []page.Column{
		page.Ints("lane", "", lane), page.Floats("t_star", "s", tStar), page.Floats("finished", "s", finished), page.Floats("skipped", "s", skipped),
	}}
}

// strangers says which lanes have records but no line in the file of lanes.
func (b *Builder) strangers(lanes []measure.LaneReport) []string {
	if lanes == nil {
		return nil
	}
	known := map[int]bool{}
	for k := range lanes {
		known[lanes[k].Lane] = true
	}
	least, n := 0, 0
	for _, t := range b.trees {
		if known[t.lane] {
			continue
		}
		if n++; n == 1 || t.lane < least {
			least = t.lane
		}
	}
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: %d trees of the records are on lanes that have no line in it, the first of them lane %d: where these lanes began and ended is not known.", measure.LanesFile, n, least)}
}
