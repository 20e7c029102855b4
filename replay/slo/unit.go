package slo

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

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
