// Package slo reads and judges service levels: conditions such as ttft<2s on every request and ttft.p95<2s on a run. It knows no
// metrics; a caller tells which there are, and their values.
package slo

import (
	"errors"
	"fmt"
	"strings"
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
