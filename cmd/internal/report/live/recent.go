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

// recentLooks is over how many looks at the records, one a second, the latest rates and latencies are.
const recentLooks = 30

// recent are the requests of the last looks that ended well. It counts in sections, one a look, and adds them up.
type recent struct {
	at       time.Time // of the last look; zero: there was none
	sections [recentLooks]section
	last     int     // the section that is filled
	sum      section // of the others
	now      Recent  // at the last look
}

// liveMetrics are those that a status has.
var liveMetrics = slices.DeleteFunc(slices.Clone(eachRequest), func(m measure.Metric) bool { return m.Live == "" })

// section is what ended between two looks.
type section struct {
	length    time.Duration
	Completed int     `json:"completed"`
	Tokens    tokens  `json:"tokens"`
	Cells     []cells `json:"cells"` // in the order of liveMetrics
}

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

// join adds another section, or takes it away where by is -1.
func (s *section) join(o *section, by int) {
	s.length, s.Completed = s.length+time.Duration(by)*o.length, s.Completed+by*o.Completed
	s.Tokens.add(o.Tokens, int64(by))
	for k := range o.Cells {
		s.Cells[k].join(&o.Cells[k], int32(by))
	}
}

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

// look ends a section. The first one has no known length, so it counts for no rate.
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

// status returns the rates and latencies of all sections.
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

// stat returns the percentiles, in a unit.
func (c *cells) stat(unit float64) Stat {
	v := c.percentiles(unit, 50, 75, 90, 95, 99)
	return Stat{c.n, v[0], v[1], v[2], v[3], v[4]}
}

// ratio divides; Missing where it cannot.
func ratio(part, whole float64) measure.Number {
	if whole <= 0 {
		return measure.Missing
	}
	return measure.Number(part / whole)
}

// cells counts whole numbers from 0 to math.MaxInt64, by cells that are at most 1/128 as wide as the numbers in them. Counts add up, and can
// be taken away again, so that a look costs what is new and what is old, not all that was counted. The zero value is ready to use.
type cells struct {
	counts []int32 // of every cell; nil: all are 0
	n      int64
}

// cellBits are the bits that tell apart the cells of one power of two, cellCount is how many cells there are.
const (
	cellBits  = 7
	cellCount = (64 - cellBits) << cellBits
)

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

func (c *cells) add(cell uint16, n int32) {
	if c.counts == nil {
		c.counts = make([]int32, cellCount)
	}
	c.counts[cell] += n
	c.n += int64(n)
}

// join adds other counts so many times.
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

// UnmarshalJSON reads counts. The error says that no part sends them.
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

// percentiles returns the nearest-rank percentiles, asked for in ascending order, of 100, in a unit; Missing ones without a number.
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

// highest bounds what is counted, in steps: of nanoseconds three hours.
const highest = 1e13

// stepOf returns the step of the distributions of a metric, in its unit.
func stepOf(m *measure.Metric) float64 { return 1 / m.Unit.Steps() }

// steps returns a value in whole steps.
func steps(value, unit float64) int64 { return int64(min(max(math.Round(value/unit), 0), highest)) }
