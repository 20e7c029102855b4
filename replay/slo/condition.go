// Package slo reads and judges service levels: conditions such as ttft<2s on every request and ttft.p95<2s on a run. It knows no
// metrics; a caller tells which there are, and their values.
package slo

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentx/agentx/internal/suggest"
)

// Condition bounds a figure, or without a statistic the value of each request.
type Condition struct {
	Metric    string  `json:"metric"`
	Statistic string  `json:"statistic"` // "": of each request, or the metric of a run that has one value
	Sign      Sign    `json:"sign"`
	Limit     float64 `json:"limit"` // in Unit
	Unit      Unit    `json:"unit"`
	OfEach    bool    `json:"of_each"` // on each request, not on the run
}

// Figure returns what the condition is on, by its name alone.
func (c Condition) Figure() Figure {
	return Figure{Metric: Metric{Name: c.Metric}, Statistic: c.Statistic}
}

// Sign says on which side of its limit a value meets a condition.
type Sign string

// The signs.
const (
	Less    Sign = "<"
	AtMost  Sign = "<="
	More    Sign = ">"
	AtLeast Sign = ">="
)

// Holds reports whether a value meets a limit.
func (s Sign) Holds(value, limit float64) bool {
	switch s {
	case Less:
		return value < limit
	case AtMost:
		return value <= limit
	case More:
		return value > limit
	}
	return value >= limit
}

// Upper reports whether the sign bounds values from above.
func (s Sign) Upper() bool { return s == Less || s == AtMost }

// Cut splits a text at its sign: ttft, < and 2s.
func Cut(text string) (name string, sign Sign, value string, err error) {
	at := strings.IndexAny(text, "<>")
	if at < 0 {
		return "", "", "", errNoSign
	}
	name, sign, value = text[:at], Sign(text[at:at+1]), text[at+1:]
	if rest, ok := strings.CutPrefix(value, "="); ok {
		sign, value = sign+"=", rest
	}
	return strings.TrimSpace(name), sign, strings.TrimSpace(value), nil
}

// Parse reads a condition on a metric that is known.
func Parse(text string, known []Metric) (Condition, error) {
	name, sign, value, err := Cut(text)
	if err != nil {
		return Condition{}, err
	}
	f, err := parseName(name, known)
	if err != nil {
		return Condition{}, err
	}
	limit, err := f.Unit.parse(value)
	if err != nil {
		return Condition{}, fmt.Errorf("%.40q: %w", value, err)
	}
	return Condition{f.Name, f.Statistic, sign, limit, f.Unit, f.OfEach && f.Statistic == ""}, nil
}

// Name returns the name of what the condition is on: ttft, ttft.p95.
func (c Condition) Name() string {
	return Figure{Metric: Metric{Name: c.Metric}, Statistic: c.Statistic}.String()
}

// String returns the condition as Parse reads it.
func (c Condition) String() string { return c.Name() + string(c.Sign) + c.Unit.text(c.Limit) }

// Holds reports whether a value meets the condition. One that is not known, NaN, does not.
func (c Condition) Holds(value float64) bool { return c.Sign.Holds(value, c.Limit) }

// Check returns an error if the condition is none that Parse reads with these metrics.
func (c Condition) Check(known []Metric) error {
	read, err := Parse(c.String(), known)
	if err == nil && read != c {
		err = errors.New("no such condition")
	}
	if err != nil {
		return fmt.Errorf("%.80q: %w", c.String(), err)
	}
	return nil
}

// Metric is what a condition may be about.
type Metric struct {
	Name   string // as users write it: ttft
	Unit   Unit
	OfEach bool // every request has a value, of which a run has statistics; false: a run has one value

	MoreIsBetter bool
}

// Statistics are the statistics of a metric that every request has.
var Statistics = []string{"mean", "p50", "p75", "p90", "p95", "p99", "max"}

// Figure is one number of a run, such as ttft.p95 or request_rate.
type Figure struct {
	Metric
	Statistic string // one of Statistics; "": the metric has one value, or the values of each request are meant
}

// String returns the name as users write it.
func (f Figure) String() string {
	if f.Statistic == "" {
		return f.Name
	}
	return f.Name + "." + f.Statistic
}

// Quantile returns the place in the sorted values, 0 to 100, of a statistic such as p95 or max; false for the mean and for other words.
func Quantile(statistic string) (q float64, ok bool) {
	if statistic == "max" {
		return 100, true
	}
	number, ok := strings.CutPrefix(statistic, "p")
	q, err := strconv.ParseFloat(number, 64)
	return q, ok && err == nil && q >= 0 && q <= 100
}

// ParseFigure reads the name of a number of a run. Of a metric that every request has it wants a statistic.
func ParseFigure(text string, known []Metric) (Figure, error) {
	f, err := parseName(text, known)
	if err == nil && f.OfEach && f.Statistic == "" {
		err = fmt.Errorf("%s: want a statistic of it, such as %s.p95", text, text)
	}
	return f, err
}

// parseName reads the name of a metric, maybe with a statistic.
func parseName(text string, known []Metric) (Figure, error) {
	name, statistic, dotted := strings.Cut(text, ".")
	k := slices.IndexFunc(known, func(m Metric) bool { return m.Name == name })
	if k < 0 {
		return Figure{}, unknownMetric(name, names(known))
	}
	f := Figure{known[k], statistic}
	switch {
	case dotted && !f.OfEach:
		return Figure{}, fmt.Errorf("%s: a run has one %s: leave out .%s", text, name, statistic)
	case dotted && !slices.Contains(Statistics, statistic):
		return Figure{}, fmt.Errorf("no statistic %.40q: want one of %s", statistic, strings.Join(Statistics, ", "))
	}
	return f, nil
}

// names returns the names of metrics.
func names(known []Metric) (list []string) {
	for _, m := range known {
		list = append(list, m.Name)
	}
	return list
}

// unknownMetric refuses a name with the nearest one, or else with all of them.
func unknownMetric(name string, list []string) error {
	if near := suggest.Closest(name, list); near != "" {
		return fmt.Errorf("no metric %.40q: did you mean %s?", name, near)
	}
	return fmt.Errorf("no metric %.40q: want one of %s", name, strings.Join(list, ", "))
}

// errNoSign says how a condition is written.
var errNoSign = errors.New("want NAME<VALUE or NAME>VALUE, such as ttft<2s or ttft.p95<2s")

// Unit is the unit of a figure.
type Unit string

// The units.
const (
	Seconds Unit = "s"
	Tokens  Unit = "tokens"
	Rate    Unit = "1/s"
	Share   Unit = "" // of 1
)

// Steps returns how many steps one of the unit has where values are kept as whole numbers: times have nanoseconds. What may be large has
// few, so that all values fit.
func (u Unit) Steps() float64 {
	switch u {
	case Tokens:
		return 1
	case Rate:
		return 1e3
	}
	return 1e9
}

// parse reads a value of the unit: a duration with its unit, a number, or of a share also a number of per cent.
func (u Unit) parse(text string) (float64, error) {
	if u == Seconds {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return 0, errors.New("want a time with its unit, such as 2s or 50ms")
		}
		return d.Seconds(), nil
	}
	number, percent := strings.CutSuffix(text, "%")
	v, err := strconv.ParseFloat(number, 64)
	switch bad := err != nil || math.IsInf(v, 0) || math.IsNaN(v) || v < 0; {
	case bad && u == Share:
		return 0, errors.New("want a share, such as 0.01 or 1%")
	case bad, percent && u != Share:
		return 0, errors.New("want a number")
	}
	if percent {
		v /= 100
	}
	return v, nil
}

// Format writes a value of the unit with four digits, a share in per cent.
func (u Unit) Format(v float64) string {
	if u == Share {
		return number(100*v) + " %"
	}
	unit := string(u)
	if u == Seconds && math.Abs(v) < 1 && v != 0 {
		v, unit = v*1e3, "ms"
		if math.Abs(v) < 1 {
			v, unit = v*1e3, "us"
		}
	}
	return number(v) + " " + unit
}

// number writes a number with four digits, or with all digits before the point.
func number(v float64) string {
	if math.Abs(v) >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}

// text writes a value exactly, as parse reads it.
func (u Unit) text(v float64) string {
	if u == Seconds {
		text := time.Duration(math.Round(v * 1e9)).String() // 1h0m0s
		if rest, ok := strings.CutSuffix(text, "m0s"); ok {
			text = rest + "m"
		}
		if rest, ok := strings.CutSuffix(text, "h0m"); ok {
			text = rest + "h"
		}
		return text
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
