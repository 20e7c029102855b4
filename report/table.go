package report

import (
	"fmt"
	"math"
	"strconv"
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
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return Int(i), nil
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
