package live

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/agentx/agentx/replay/measure"
)

// recentLooks is how many looks at the records, one a second, recent rates and latencies are over.
const recentLooks = 30

// recent counts the requests of the last looks that ended well, in one section for each look.
type recent struct {
	at       time.Time // of the last look; zero: there was none
	sections [recentLooks]section
	last     int     // the section that is being filled
	sum      section // of all other sections
	now      Recent  // rates and latencies at the last look
}

// liveMetrics are the metrics that a status has.
var liveMetrics = slices.DeleteFunc(slices.Clone(eachRequest), func(m measure.Metric) bool { return m.Live == "" })

// section counts the requests that ended between two looks.
type section struct {
	length    time.Duration
	Completed int     `json:"completed"`
	Tokens    tokens  `json:"tokens"`
	Cells     []cells `json:"cells"` // in the order of liveMetrics
}

// newSection returns a section without requests.
func newSection() section { return section{Cells: make([]cells, len(liveMetrics))} }

// add adds a request that ended well.
func (s *section) add(r *measure.Record, rules measure.Rules) {
	s.Completed++
	s.Tokens.add(tokensOf(r), 1)
	for k := range liveMetrics {
		if v, ok := liveMetrics[k].Of(&r.Numbers, rules); ok {
			s.Cells[k].add(cellOf(steps(v, stepOf(&liveMetrics[k]))), 1)
		}
	}
}

// join adds another section, by is 1, or takes it away, by is -1.
func (s *section) join(o *section, by int) {
	s.length, s.Completed = s.length+time.Duration(by)*o.length, s.Completed+by*o.Completed
	s.Tokens.add(o.Tokens, int64(by))
	for k := range o.Cells {
		s.Cells[k].join(&o.Cells[k], int32(by))
	}
}

// newRecent returns a recent without requests.
func newRecent() *recent {
	r := new(recent)
	r.reset()
	return r
}

// reset forgets all requests.
func (r *recent) reset() {
	*r = recent{at: r.at, sum: newSection()}
	for k := range r.sections {
		r.sections[k] = newSection()
	}
	r.now = r.status()
}

// look ends a section and begins the next. The length of the first section is not known, so no rate counts it.
func (r *recent) look(now time.Time) {
	ended := &r.sections[r.last]
	if !r.at.IsZero() {
		ended.length = now.Sub(r.at)
	} else {
		ended.Completed, ended.Tokens = 0, tokens{}
	}
	r.sum.join(ended, 1)
	r.at, r.now = now, r.status()
	r.last = (r.last + 1) % recentLooks
	r.sum.join(&r.sections[r.last], -1)
	r.sections[r.last] = newSection()
}

// status returns the rates and latencies of the sections in sum.
func (r *recent) status() Recent {
	seconds := r.sum.length.Seconds()
	rate := func(n int64) measure.Number { return ratio(float64(n), seconds) }
	t := r.sum.Tokens
	now := Recent{
		Seconds: seconds, RequestRate: rate(int64(r.sum.Completed)), PromptTokenRate: rate(t.Prompt), OutputTokenRate: rate(t.Output),
		TokenHitRate: ratio(float64(t.Cached), float64(t.Prompt)), Others: map[string]Stat{},
	}
	own := map[string]*Stat{"ttft": &now.TTFT, "itl": &now.ITL, "latency": &now.RequestLatency, "lateness": &now.Lateness}
	for k := range liveMetrics {
		m := &liveMetrics[k]
		if stat := r.sum.Cells[k].stat(stepOf(m)); own[m.Name] != nil {
			*own[m.Name] = stat
		} else {
			now.Others[m.Name] = stat
		}
	}
	return now
}

// stat returns the percentiles, each multiplied by a unit.
func (c *cells) stat(unit float64) Stat {
	v := c.percentiles(unit, 50, 75, 90, 95, 99)
	return Stat{c.n, v[0], v[1], v[2], v[3], v[4]}
}

// ratio divides part by whole; Missing if whole is not above 0.
func ratio(part, whole float64) measure.Number {
	if whole <= 0 {
		return measure.Missing
	}
	return measure.Number(part / whole)
}

// cells is a histogram of whole numbers from 0 to math.MaxInt64. A cell is at most 1/128 as wide as the numbers in it. Counts can be added and
// taken away, so that a look costs only the newest and the oldest section. The zero value is ready to use.
type cells struct {
	counts []int32 // of every cell; nil: all are 0
	n      int64
}

// cellBits are the bits that tell the cells of one power of two apart, cellCount is how many cells there are.
const (
	cellBits  = 7
	cellCount = (64 - cellBits) << cellBits
)

// cellOf returns the cell of a number. Small numbers have a cell each; larger ones share a cell with all that have the same first cellBits+1
// bits.
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

// add adds n numbers to a cell; a negative n takes some away.
func (c *cells) add(cell uint16, n int32) {
	if c.counts == nil {
		c.counts = make([]int32, cellCount)
	}
	c.counts[cell] += n
	c.n += int64(n)
}

// join adds other counts, multiplied by a factor.
func (c *cells) join(o *cells, by int32) {
	for cell, n := range o.counts {
		if n != 0 {
			c.add(uint16(cell), by*n)
		}
	}
}

// MarshalJSON returns the counts that are not 0 by their cells.
func (c cells) MarshalJSON() ([]byte, error) {
	some := map[int]int32{}
	for cell, n := range c.counts {
		if n != 0 {
			some[cell] = n
		}
	}
	return json.Marshal(some)
}

// maxGain is the most values of a cell: more requests than a part can end between two gains.
const maxGain = 1 << 20

// UnmarshalJSON reads counts, or returns an error for some that no part sends.
func (c *cells) UnmarshalJSON(text []byte) error {
	var some map[uint16]int32
	err := json.Unmarshal(text, &some)
	for cell, n := range some {
		if cell >= cellCount || n < 0 || n > maxGain {
			return fmt.Errorf("cell %d: %d values: want a cell below %d, and 0 to %d values", cell, n, cellCount, maxGain)
		}
		c.add(cell, n)
	}
	return err
}

// percentiles returns the nearest-rank percentiles that are asked for in ascending order, each multiplied by a unit; Missing if nothing is
// counted.
func (c *cells) percentiles(unit float64, asked ...float64) []measure.Number {
	values := slices.Repeat([]measure.Number{measure.Missing}, len(asked))
	below, next := int64(0), 0
	for k := 0; k < len(asked) && c.n > 0; k++ {
		for at, _ := measure.NearestRank(c.n, asked[k]); below <= at; next++ {
			below += int64(c.counts[next])
		}
		values[k] = measure.Number(float64(middleOf(next-1)) * unit)
	}
	return values
}

// highest bounds the numbers that are counted: if they are nanoseconds, three hours.
const highest = 1e13

// stepOf returns what one step of the distributions of a metric is, in the unit of the metric.
func stepOf(m *measure.Metric) float64 { return 1 / m.Unit.Steps() }

// steps returns a value as a whole number of steps, each a unit.
func steps(value, unit float64) int64 { return int64(min(max(math.Round(value/unit), 0), highest)) }
