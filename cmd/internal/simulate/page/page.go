// Package page makes the page of a simulated run, and the log of all that it draws: doc/spec/simulate.md 12. [Make] makes of a
// [simulate.Result] the tables of a page of cmd/internal/report/page, whose kind simulate draws them; [WriteLog] writes the log.
//
//	pool.K       the workers of pool K by state, where it changes
//	NAME         a figure of the planner's ticks, at those that have it: rate.observed, floor.K, capacity.K and so on
//	load.K       why load decided as it did for pool K, throughput.K why traffic did
//	lines        a row for each worker: its pool, its id, how many rows of points it has
//	points       what each worker had, by tick or by sample
//	requests     a row for each request on the page, in the order of arrival
//	windows      counts and percentiles of all requests, by the window in which they arrived
//
// Instants are seconds of the run. Lines are thinned to the least and the greatest value of each of so many columns of time that the page
// has at most [maxBytes]; the page says so.
package page

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	charts "github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/cmd/internal/simulate"
	"github.com/agentx/agentx/cmd/internal/simulate/fit"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/planner"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/replay/measure"
)

// maxBytes is the size of the largest page.
const maxBytes = 2_000_000

// Make returns the page of a run as one HTML file. s is the summary of r. Equal runs of equal origin give equal bytes.
func Make(r *simulate.Result, s *simulate.Summary, origin charts.Origin) ([]byte, error) {
	b := newBuilder(r, s)
	b.origin = origin
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
	origin  charts.Origin
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

// newBuilder collects the lines of a run, and makes them as coarse as the number of their points requires.
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
	return &charts.Page{Kind: "simulate", Title: "Simulated run", Head: h, Plain: charts.Plain{Lines: []string{h.Conclusion}}, Tables: append(list, ticks...)}
}

// seconds returns instants as the page has them.
func seconds(ns []int64) []float64 {
	list := make([]float64, len(ns))
	for k, v := range ns {
		list[k] = float64(v) / 1e9
	}
	return list
}

// head is what the page has besides tables.
type head struct {
	Summary  *simulate.Summary `json:"summary"`
	Origin   charts.Origin     `json:"origin"`
	End      float64           `json:"end"` // of the axis, seconds
	Pools    []pool            `json:"pools"`
	Planner  *planned          `json:"planner"`
	TTFT     *float64          `json:"ttft_limit"` // seconds; null: none
	ITL      *float64          `json:"itl_limit"`
	Switches []deviation       `json:"switches"` // those that differ from the default
	Every    float64           `json:"every"`    // seconds between samples; 0: none
	Columns  int               `json:"columns"`
	Thinned  bool              `json:"thinned"` // lines do not have all their points
	Lines    int               `json:"lines"`   // workers that are drawn
	Workers  int               `json:"workers"` // workers that could be
	Drawn    drawn             `json:"drawn"`
	Compared []compared        `json:"compared"` // of the load of a run; null: it is another one
	Lacks    string            `json:"lacks"`    // what is not in the model

	Conclusion string `json:"conclusion"` // a sentence
}

// pool is a pool of workers.
type pool struct {
	Name      string  `json:"name"`
	Blocks    int     `json:"blocks"`
	BlockSize int     `json:"block_size"`
	GPUs      int     `json:"gpus"`
	Startup   float64 `json:"startup"`
}

// planned is what the header says of a planner.
type planned struct {
	Config      planner.Config    `json:"config"`
	Bootstrap   planner.Bootstrap `json:"bootstrap"`
	Warnings    []string          `json:"warnings"`
	Ticks       int               `json:"ticks"`
	Transitions int               `json:"transitions"`
	Windows     int               `json:"windows"` // throughput ticks
}

// compared is a figure of a run as it was measured, and as it is simulated.
type compared struct {
	Name      string         `json:"name"`
	Measured  measure.Number `json:"measured"`
	Simulated measure.Number `json:"simulated"`
	Error     float64        `json:"error"` // simulated/measured - 1; of a share the difference
}

// deviation is a switch that differs from the default.
type deviation struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Default string `json:"default"`
}

// lacks is what a simulation leaves out: doc/spec/simulate.md 15.
const lacks = "Not in the model: frontend, network and tokenizer time; contention of links but those of tiers; stores to tiers; speculative decoding; attention data parallelism."

// head returns what the page has besides tables: summary, pools, planner, limits and switches.
func (b *builder) head() head {
	c, s := &b.result.Config, *b.summary
	s.Out = "" // where files are is no part of the run
	h := head{Summary: &s, Origin: b.origin, End: float64(b.end) / 1e9, Pools: pools(c), Switches: deviations(c.Switches), Columns: b.columns, Lacks: lacks}
	h.Lines, h.Workers = min(len(b.lines), b.most), len(b.lines)
	if b.result.Samples != nil && b.result.Planned == nil {
		h.Every = float64(b.result.Samples.Every) / 1e9
	}
	if c.Measured != nil {
		for _, e := range fit.CompareLoads(c.Measured, b.result.Requests) {
			h.Compared = append(h.Compared, compared{e.Name, e.Measured, e.Simulated, e.Relative})
		}
	}
	h.TTFT, h.ITL = limit(float64(c.SLA.TTFT)/1e9), limit(float64(c.SLA.ITL)/1e9)
	if p := b.result.Planned; p != nil {
		h.Planner = &planned{Config: p.Config, Bootstrap: p.Bootstrap, Warnings: append([]string{}, p.Warnings...), Ticks: len(p.Ticks), Transitions: planner.Transitions(p.Ticks)}
		for _, t := range p.Ticks {
			if t.Throughput {
				h.Planner.Windows++
			}
		}
		if p.Config.Target == planner.TargetSLA {
			h.TTFT, h.ITL = limit(p.Config.TTFT/1e3), limit(p.Config.ITL/1e3)
		}
	}
	h.Conclusion = b.conclusion(&h)
	return h
}

// conclusion says how well the load was served, with how many workers, and what that took.
func (b *builder) conclusion(h *head) string {
	s := h.Summary
	parts := []string{fmt.Sprintf("%s output tokens/s, TTFT p95 %s, ITL p95 %s", measure.FormatQuantity(s.OutputTokenRate), measure.FormatSeconds(s.TTFT.P95), measure.FormatSeconds(s.ITL.P95))}
	if g := s.Goodput; g != nil {
		parts = []string{fmt.Sprintf("%s of %s are good", measure.FormatShare(g.Ratio), measure.Plural(s.Requests, "request", "requests"))}
	}
	var ticks []*planner.Tick
	if p := b.result.Planned; p != nil {
		ticks = p.Ticks
	}
	if kept, judged := ticksKept(ticks, h.TTFT, h.ITL); judged > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s with traffic are within the SLA", measure.FormatShare(measure.Number(float64(kept)/float64(judged))), measure.Plural(judged, "tick", "ticks")))
	}
	for k, pool := range h.Pools {
		least, most := workersOf(b.result.Workers[k], b.end)
		parts = append(parts, fmt.Sprintf("%s %s", countRange(least, most), pool.Name))
	}
	return strings.Join(append(parts, measure.FormatQuantity(s.GPUHours)+" GPU-hours"), "; ") + "."
}

// ticksKept counts the ticks with a window of traffic whose averages are known and within the limits, in seconds, and all of which one is known.
func ticksKept(ticks []*planner.Tick, ttft, itl *float64) (kept, judged int) {
	for _, t := range ticks {
		if t.Observed == nil {
			continue
		}
		known, within := false, true
		for _, c := range []struct{ ms, limit *float64 }{{t.Observed.TTFTMS, ttft}, {t.Observed.ITLMS, itl}} {
			if c.ms != nil && c.limit != nil {
				known, within = true, within && *c.ms <= 1e3**c.limit
			}
		}
		if known {
			judged++
		}
		if known && within {
			kept++
		}
	}
	return kept, judged
}

// workersOf returns the fewest and the most workers of a pool that took requests at a time, once the first did.
func workersOf(workers []fleet.WorkerResult, end int64) (least, most int64) {
	_, active, _ := states(workers, end)
	active = active[max(0, slices.IndexFunc(active, func(n int64) bool { return n > 0 })):]
	return slices.Min(active), slices.Max(active)
}

// countRange writes least to most, or one number.
func countRange(least, most int64) string {
	if least == most {
		return strconv.FormatInt(most, 10)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// limit returns nil for 0.
func limit(seconds float64) *float64 {
	if seconds == 0 {
		return nil
	}
	return &seconds
}

// pools describes the pools of a fleet, prefill first.
func pools(c *simulate.Config) (list []pool) {
	names := []string{"workers"}
	if c.Disaggregated() {
		names = []string{"prefill", "decode"}
	}
	for k, e := range c.Engines() {
		one := e.Config
		list = append(list, pool{Name: names[k], Blocks: one.Blocks, BlockSize: one.BlockSize, GPUs: one.GPUsPerWorker, Startup: one.StartupTime})
	}
	return list
}

// deviations lists the switches that differ from the default, by name.
func deviations(s preset.Switches) []deviation {
	list := []deviation{}
	base, _ := preset.Named(preset.Default)
	for _, name := range slices.Sorted(slices.Values(preset.List())) {
		if value, usual := s.Get(name), base.Get(name); value != usual {
			list = append(list, deviation{name, value, usual})
		}
	}
	return list
}

// logRecord is a line of the log: a tick of the planner, or without one a sample, and the requests that came since the line before.
// The last line has the rest of the run.
type logRecord struct {
	At       int64                  `json:"at_ns"`
	Tick     *planner.Tick          `json:"tick,omitempty"`
	Pools    [][]fleet.WorkerState  `json:"pools,omitempty"` // of a sample
	Requests []simulate.RequestLine `json:"requests"`

	Lives [][]fleet.WorkerResult `json:"lives,omitempty"` // of the last line: of the workers of each pool
	Rest  *planner.Window        `json:"rest,omitempty"`  // of the last line: the traffic after the last throughput tick
}

// WriteLog writes everything that the page of a run draws, unthinned, as gzipped JSON lines. Equal runs give equal bytes.
func WriteLog(w io.Writer, r *simulate.Result) error {
	z := gzip.NewWriter(w)
	out := bufio.NewWriterSize(z, 1<<16)
	l := &logWriter{e: json.NewEncoder(out), requests: r.Requests}
	l.records(r)
	if l.err == nil {
		l.err = out.Flush()
	}
	if l.err != nil {
		return l.err
	}
	return z.Close()
}

// logWriter writes records in the order of time.
type logWriter struct {
	e        *json.Encoder
	requests []*fleet.Request // that are not written yet
	err      error
}

// records writes a record for each tick or sample, and a last one with the rest of the run.
func (l *logWriter) records(r *simulate.Result) {
	end := logRecord{Lives: r.Workers}
	switch {
	case r.Planned != nil:
		for _, t := range r.Planned.Ticks {
			l.write(logRecord{At: t.At, Tick: t}, t.At)
		}
		end.Rest = &r.Planned.Rest
	case r.Samples != nil:
		for _, s := range r.Samples.List {
			l.write(logRecord{At: s.At, Pools: s.Pools}, s.At)
		}
	}
	end.At = endOf(r)
	l.write(end, end.At)
}

// write writes a record with the requests that came until an instant.
func (l *logWriter) write(one logRecord, until int64) {
	one.Requests = []simulate.RequestLine{}
	for len(l.requests) > 0 && l.requests[0].Arrival <= until {
		one.Requests = append(one.Requests, simulate.LineOf(l.requests[0]))
		l.requests = l.requests[1:]
	}
	if l.err == nil {
		l.err = l.e.Encode(one)
	}
}
