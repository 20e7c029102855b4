package measure

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Until says how well a run knew the metrics that it was to be played until: doc/spec/report.md 5.4.
type Until struct {
	Reached bool          `json:"reached"` // every interval was narrow enough, and that ended the run
	After   float64       `json:"after"`   // how long the phase sent requests, seconds
	Looks   int           `json:"looks"`   // at the intervals, while requests were sent
	Trees   int           `json:"trees"`   // with a request of the headline, at the end
	Targets []UntilTarget `json:"targets"` // over the headline, at the end
}

// UntilTarget is a metric that a run was to know, and how well it did. Low to High is its interval of 95 %.
type UntilTarget struct {
	Metric string `json:"metric"` // such as ttft.p95
	Unit   string `json:"unit"`
	Share  Number `json:"share"` // of the value, that the margin was to be within
	Value  Number `json:"value"` // as in the summary
	Low    Number `json:"low"`
	High   Number `json:"high"`
	Margin Number `json:"margin"`        // the larger distance from the value to an end of the interval, as a share of the value
	Why    string `json:"why,omitempty"` // there is no interval; "": there is one
}

// Within reports whether the margin is within the share.
func (t *UntilTarget) Within() bool { return t.Margin <= t.Share } // false where it is not known

// SetInterval sets the interval of a value. Intervals of percentiles are not symmetric: half of one would hide its longer side, and a run
// that happens to lack large values would end too early.
func (t *UntilTarget) SetInterval(value, low, high float64) {
	t.Value, t.Low, t.High = Number(value), Number(low), Number(high)
	t.Margin = Number(max(value-low, high-value) / math.Abs(value))
	if value == low && value == high { // also of the value 0
		t.Margin = 0
	}
}

// Wanted returns the share, such as "5 %".
func (t *UntilTarget) Wanted() string {
	return strconv.FormatFloat(100*float64(t.Share), 'g', 3, 64) + " %"
}

// String returns the value and its interval, such as "ttft.p95 1.84 s ± 4.1 %".
func (t *UntilTarget) String() string {
	text := t.Metric + " "
	switch {
	case t.Value.IsMissing():
		text += "not known"
	case t.Unit == "s":
		text += duration(float64(t.Value))
	default:
		text += FormatQuantity(t.Value) + " " + t.Unit
	}
	if !t.Margin.IsMissing() {
		text += " ± " + FormatShare(t.Margin)
	}
	return text
}

// lines says what was reached, a line a metric.
func (u *Until) lines() (list []string) {
	after := clock(u.After)
	for k := range u.Targets {
		t := &u.Targets[k]
		text := fmt.Sprintf("%s after %s", t, after)
		switch {
		case t.Why != "":
			text += fmt.Sprintf(", not known to %s: %s", t.Wanted(), t.Why)
		case !u.Reached && t.Within():
			text += fmt.Sprintf(", within %s at the end", t.Wanted())
		case !u.Reached:
			text += fmt.Sprintf(", not within %s", t.Wanted())
		}
		list = append(list, text)
	}
	return list
}

// row writes what was reached.
func (u *Until) row(b *strings.Builder) {
	if u == nil {
		return
	}
	label := "until"
	for _, text := range u.lines() {
		row(b, label, "%s", text)
		label = ""
	}
}

// Progress is how far a run has come: what its records do not tell, or tell later.
type Progress struct {
	Phase        string // WarmupPhase or ProfilingPhase, from whose start the other fields count
	Elapsed      time.Duration
	Remaining    time.Duration // until the bound that is nearest is reached; negative: not known. The run leaves it to its callers
	Requests     int           // sent
	InFlight     int
	Completed    int
	Errors       int
	Overflows    int // of the context
	Cancelled    int
	TreesOpened  int
	TreesDrained int // played to their end
	TreesOpen    int // that are played

	Standstills *Standstills  // of this process in the measured phase, without a list; nil: none
	Silent      time.Duration // for how long nothing was received although requests are in flight, to a second; 0: none is

	Arrivals     bool // trees arrive on their own
	TreesWaiting int  // that have arrived and wait to be opened
}
