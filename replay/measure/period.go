package measure

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/agentx/agentx/replay/wire"
)

// Period is what a run tells of a phase from time to time. Its latencies are good to 1 %: no published number comes from it.
type Period struct {
	Phase   string
	Elapsed time.Duration // since the start of the phase
	Length  time.Duration // since the period before

	// Since the start of the phase.
	Requests, InFlight, Completed, Overflows, Cancelled int
	Errors                                              map[wire.Category]int // without cancellations and overflows

	// At the end of the period, where trees arrive on their own: those that are played, and those that wait to be opened.
	Arrivals               bool
	OpenTrees, QueuedTrees int

	// Of the requests that ended well in the period.
	RequestRate, OutputTokenRate Number // 1/s
	TTFT, ITL                    LiveStat
}

// LiveStat are percentiles of a Period, in seconds. Without samples every figure is Missing.
type LiveStat struct{ P50, P75, P90, P95, P99 Number }

// Live gathers the requests of a phase for its periods. It is not safe for concurrent use.
type Live struct {
	rules     Rules
	total     Period // counts since the start of the phase
	last      time.Duration
	completed int
	tokens    int64
	ttft, itl histogram
}

// NewLive returns a Live for a phase, whose clock is at an instant.
func NewLive(phase string, now time.Duration, rules Rules) *Live {
	return &Live{rules: rules, last: now, total: Period{Phase: phase, Errors: map[wire.Category]int{}}}
}

// Add adds a request that is over.
func (l *Live) Add(r *Record) {
	switch {
	case r.Error == nil:
	case r.Error.Category == wire.Cancelled:
		l.total.Cancelled++
		return
	case r.Error.Category == wire.ContextOverflow:
		l.total.Overflows++
		return
	default:
		l.total.Errors[r.Error.Category]++
		return
	}
	l.total.Completed++
	l.completed++
	if n, ok := r.OSL(); ok {
		l.tokens += n
	}
	if v, ok := r.TTFT(); ok {
		l.ttft.add(v)
	}
	if v, ok := l.rules.ITL(r); ok {
		l.itl.add(v)
	}
}

// End ends the period at an instant of the phase and begins the next.
func (l *Live) End(now time.Duration, sent, inFlight int) Period {
	p := l.total
	p.Elapsed, p.Length, p.Requests, p.InFlight = now, now-l.last, sent, inFlight
	p.Errors = maps.Clone(p.Errors)
	p.RequestRate, p.OutputTokenRate = Missing, Missing
	if s := Number(p.Length.Seconds()); s > 0 {
		p.RequestRate, p.OutputTokenRate = Number(l.completed)/s, Number(l.tokens)/s
	}
	p.TTFT, p.ITL = l.ttft.stat(), l.itl.stat()
	l.last, l.completed, l.tokens, l.ttft, l.itl = now, 0, 0, histogram{}, histogram{}
	return p
}

// stat returns the percentiles of the samples.
func (h *histogram) stat() LiveStat {
	return LiveStat{h.percentile(50), h.percentile(75), h.percentile(90), h.percentile(95), h.percentile(99)}
}

// Lines describes the period: counts so far with the rate of errors by category, then the rates and latencies of the period.
func (p Period) Lines() []string {
	errors := errorCounts(p.Errors)
	failed := errors.failed()
	counts := fmt.Sprintf("%d sent, %d in flight, %d completed, %d failed (%s)", p.Requests, p.InFlight, p.Completed, failed,
		percent(shareOf(failed, p.Completed+failed)))
	if failed > 0 {
		counts += ": " + errors.rates(p.Completed+failed)
	}
	if p.Arrivals {
		counts += fmt.Sprintf("; %s open, %d waiting", plural(p.OpenTrees, "tree", "trees"), p.QueuedTrees)
	}
	if p.Overflows > 0 {
		counts += fmt.Sprintf("; %d context overflow", p.Overflows)
	}
	if p.Cancelled > 0 {
		counts += fmt.Sprintf("; %d cancelled", p.Cancelled)
	}
	lines := []string{counts, fmt.Sprintf("in the last %v: %s requests/s, %s output tokens/s", p.Length.Round(time.Second), quantity(p.RequestRate), quantity(p.OutputTokenRate))}
	for _, l := range []struct {
		label string
		stat  LiveStat
	}{{"ttft", p.TTFT}, {"itl", p.ITL}} {
		if !l.stat.P50.IsMissing() {
			lines = append(lines, l.label+" "+l.stat.String())
		}
	}
	return lines
}

// String formats the percentiles.
func (s LiveStat) String() string {
	var parts []string
	for _, f := range []struct {
		name  string
		value Number
	}{{"p50", s.P50}, {"p75", s.P75}, {"p90", s.P90}, {"p95", s.P95}, {"p99", s.P99}} {
		parts = append(parts, f.name+" "+seconds(f.value))
	}
	return strings.Join(parts, ", ")
}
