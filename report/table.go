package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
)

// Table is the results of one set of requests: JSON, CSV and console show the same one. Its blocks are sorted by tag.
type Table []Block

// Block is one metric of a table.
type Block struct {
	Tag   string // time_to_first_token
	Name  string // Time to First Token
	Unit  string // ms
	Kind  Kind
	Stats []Stat // in the order in which files have them; without values that do not exist
}

// Kind says which statistics a block has.
type Kind uint8

// The kinds.
const (
	Scalar       Kind = iota // avg alone
	Distribution             // one sample of each request
	Curve                    // weighted by time
	Adjusted                 // samples, and an infinite one of each failure: percentiles without interpolation
)

// Stat is one statistic of a block.
type Stat struct {
	Name  string // avg, min, max, sum, count, std, p1, ... p99
	Value Number
}

// Number is an integer or a finite floating-point number. Integers are written digit by digit: nanoseconds since 1970 do not fit
// a float64.
type Number struct {
	float   float64
	integer int64
	isFloat bool
}

// Int returns an integer.
func Int(n int64) Number { return Number{integer: n} }

// Float returns a floating-point number. It must be finite.
func Float(f float64) Number { return Number{float: f, isFloat: true} }

// IsInt reports whether the number is an integer.
func (n Number) IsInt() bool { return !n.isFloat }

// Float64 returns the number, which as an integer above 2^53 is rounded.
func (n Number) Float64() float64 {
	if n.isFloat {
		return n.float
	}
	return float64(n.integer)
}

// Int64 returns an integer; of a float, its whole part.
func (n Number) Int64() int64 {
	if n.isFloat {
		return int64(math.Trunc(n.float))
	}
	return n.integer
}

// MarshalJSON returns an integer digit by digit, a float in its shortest form that has a fraction: it reads back as a float.
func (n Number) MarshalJSON() ([]byte, error) { return n.Append(nil), nil }

// Append appends the number as JSON has it.
func (n Number) Append(b []byte) []byte {
	if n.isFloat && n.float == math.Trunc(n.float) {
		return strconv.AppendFloat(b, n.float, 'f', 1, 64)
	} else if n.isFloat {
		return strconv.AppendFloat(b, n.float, 'f', -1, 64)
	}
	return strconv.AppendInt(b, n.integer, 10)
}

// UnmarshalJSON reads a number: one of digits alone is an integer, unless it is too large for one.
func (n *Number) UnmarshalJSON(data []byte) (err error) {
	*n, err = ParseNumber(string(data))
	return err
}

// ParseNumber reads a number: one of digits alone is an integer, unless it is too large for one.
func ParseNumber(text string) (Number, error) {
	if !strings.ContainsAny(text, ".eE") { // the error would cost more than the number
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return Int(i), nil
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return Number{}, fmt.Errorf("%.40q: want a finite number", text)
	}
	return Float(f), nil
}

// Find returns the block with a tag, nil if the table has none.
func (t Table) Find(tag string) *Block {
	for k := range t {
		if t[k].Tag == tag {
			return &t[k]
		}
	}
	return nil
}

// Find returns the value of a statistic; false if the block does not have it.
func (b *Block) Find(stat string) (Number, bool) {
	for _, s := range b.Stats {
		if s.Name == stat {
			return s.Value, true
		}
	}
	return Number{}, false
}

// Results are what a run measured, as tables. A table is over the requests of one bucket that ended well, with counts of those
// that failed (doc/spec/replay.md 8.4 to 8.6).
type Results struct {
	Headline Table
	Cooldown Table // of the requests that ended in the grace, in the same way
	Steady   Table // of what lay between the end of the warmup and the deadline
	Warmup   Table // nil: there was none

	HeadlineRule string             // deadline or grace_included: which requests the headline is over
	Window       Window             // what the throughputs of the headline divide by
	ITLDivisor   measure.ITLDivisor // of the headline
	Flow         preset.Choice      // how tokens are spread over time
	Start, End   int64              // of the headline, nanoseconds since 1970
	PhaseEnd     int64              // of the phase, which begins at Start; 0: not known

	Counts Counts
	Errors []ErrorGroup // of the headline, the commonest first

	Slices []Slice // in the order of time; nil without Run.Slice
}

// Window is a span of time that rates divide by.
type Window struct {
	Kind       string // benchmark or phase
	Start, End int64  // nanoseconds since 1970
	Seconds    float64
	Known      bool // false: there is none, hence no rates
}

// Counts are numbers of requests.
type Counts struct {
	Sent            int // in the profiling phase: the sum of the next five
	Succeeded       int // of the headline
	Failed          int // of the headline
	Cooldown        int
	CancelledAtEnd  int
	ContextOverflow int

	Warmup int // requests of the warmup, in no other count
	Wedged int // trees; negative: not known
}

// ErrorGroup are failures with one message.
type ErrorGroup struct {
	measure.Error
	Count int
	First int // how many groups began before this one
}

// Slice is a part of the run's time with the requests that started in it.
type Slice struct {
	Start, End int64 // nanoseconds since 1970
	Complete   bool  // false: the last one, which the end of the run cuts off
	Table      Table
}

// errorGroups counts failures by what they say. It keeps maxErrorGroups of them; further messages are counted by category and code.
type errorGroups map[measure.Error]*ErrorGroup

const (
	maxErrorGroups = 1000
	otherMessages  = "other messages"
)

// add counts a failure.
func (g errorGroups) add(e *measure.Error) {
	key := *e
	if _, ok := g[key]; !ok && len(g) >= maxErrorGroups {
		key.Message = otherMessages
	}
	if g[key] == nil {
		g[key] = &ErrorGroup{Error: key, First: len(g)}
	}
	g[key].Count++
}

// sorted returns the groups, the commonest first.
func (g errorGroups) sorted() (list []ErrorGroup) {
	for group := range maps.Values(g) {
		list = append(list, *group)
	}
	slices.SortFunc(list, func(x, y ErrorGroup) int {
		return cmp.Or(y.Count-x.Count, strings.Compare(string(x.Category), string(y.Category)), x.Code-y.Code, strings.Compare(x.Message, y.Message))
	})
	return list
}
