package live

import (
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/agentx/agentx/replay/measure"
)

// RecentLooks is over how many looks at the records, one a second, the latest rates and latencies are.
const RecentLooks = 30

// recent are the requests of the last looks that ended well. It counts in sections, one a look, and merges them.
type recent struct {
	at       time.Time // of the last look; zero: there was none
	sections [RecentLooks]section
	last     int // the section that is filled

	of []latest // by the place of the metric in liveMetrics

	now Recent // at the last look
}

// liveMetrics are those that a status has, in seconds.
var liveMetrics = slices.DeleteFunc(slices.Clone(eachRequest), func(m measure.Metric) bool { return m.Live == "" })

// section is what ended between two looks.
type section struct {
	length                 time.Duration
	completed              int
	prompt, cached, output int64
}

// latest are the values of the last looks, in nanoseconds.
type latest struct {
	all      cells
	sections [RecentLooks][]uint16 // cells of the values
}

func newRecent() *recent {
	r := new(recent)
	r.reset()
	return r
}

// reset forgets all requests.
func (r *recent) reset() {
	*r = recent{at: r.at, of: make([]latest, len(liveMetrics))}
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
	for k := range liveMetrics {
		if v, ok := liveMetrics[k].Of(&record.Numbers, rules); ok {
			r.of[k].add(r.last, cellOf(steps(v, nanosecond)))
		}
	}
}

// add adds a value to a section.
func (l *latest) add(section int, cell uint16) {
	l.all.add(cell)
	l.sections[section] = append(l.sections[section], cell)
}

// drop forgets a section.
func (l *latest) drop(section int) {
	for _, cell := range l.sections[section] {
		l.all.remove(cell)
	}
	l.sections[section] = l.sections[section][:0]
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
	for k := range r.of {
		r.of[k].drop(r.last)
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
	of := map[string]Stat{}
	for k, m := range liveMetrics {
		of[m.Name] = r.of[k].stat()
	}
	return Recent{
		Seconds: sum.length.Seconds(), RequestRate: rate(int64(sum.completed)), PromptTokenRate: rate(sum.prompt), OutputTokenRate: rate(sum.output),
		TokenHitRate: ratio(float64(sum.cached), float64(sum.prompt)),
		TTFT:         of["ttft"], ITL: of["itl"], RequestLatency: of["latency"], Lateness: of["lateness"],
	}
}

// stat returns the percentiles of the sections.
func (l *latest) stat() Stat {
	s := Stat{N: l.all.n, P50: measure.Missing, P75: measure.Missing, P90: measure.Missing, P95: measure.Missing, P99: measure.Missing}
	if s.N == 0 {
		return s
	}
	var ns [5]int64
	l.all.percentiles(ns[:], 50, 75, 90, 95, 99)
	for k, p := range []*measure.Number{&s.P50, &s.P75, &s.P90, &s.P95, &s.P99} {
		*p = measure.Number(float64(ns[k]) / 1e9)
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

// cells counts whole numbers from 0 to math.MaxInt64 in cells that are at most 1/128 as wide as the numbers in them. Unlike a
// histogram of package hdrhistogram it also takes numbers out again, so that a look costs what is new and what is old, not all cells
// of all sections. The zero value is ready to use.
type cells struct {
	counts [(64 - cellBits) << cellBits]int32
	n      int64
}

// cellBits are the bits that tell apart the cells of one power of two.
const cellBits = 7

// cellOf returns the cell of a number: small numbers have one each, others share one with those of the same first cellBits+1 bits.
func cellOf(v int64) uint16 {
	shift := max(0, bits.Len64(uint64(v))-cellBits-1)
	return uint16(shift<<cellBits + int(v>>shift))
}

// middleOf returns the number in the middle of a cell.
func middleOf(cell int) int64 {
	shift := max(0, cell>>cellBits-1)
	least := int64(cell-shift<<cellBits) << shift
	return least + int64(1)<<shift/2
}

func (c *cells) add(cell uint16) {
	c.counts[cell]++
	c.n++
}

func (c *cells) remove(cell uint16) {
	c.counts[cell]--
	c.n--
}

// percentiles returns the nearest-rank percentiles, asked for in ascending order, of 100. There must be a number.
func (c *cells) percentiles(values []int64, asked ...float64) {
	below, cell := int64(0), -1
	for k, q := range asked {
		for rank := max(1, int64(math.Ceil(q/100*float64(c.n)-1e-6))); below < rank; {
			cell++
			below += int64(c.counts[cell])
		}
		values[k] = middleOf(cell)
	}
}
