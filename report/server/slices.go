package server

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/scrape"
	"github.com/agentx/agentx/report"
)

// span is a time from start to end, nanoseconds since 1970.
type span struct {
	Start int64 `json:"start_ns"`
	End   int64 `json:"end_ns"`
}

func (s span) seconds() float64 { return float64(s.End-s.Start) / 1e9 }

// stats are what a series did in a span of time. A counter has total and rate; a gauge avg, min and max; a histogram count, sum,
// avg and buckets; a summary count, sum and avg.
type stats struct {
	Total   *report.Number `json:"total,omitempty"`
	Rate    *report.Number `json:"rate,omitempty"`
	Count   *report.Number `json:"count,omitempty"`
	Sum     *report.Number `json:"sum,omitempty"`
	Avg     *report.Number `json:"avg,omitempty"`
	Min     *report.Number `json:"min,omitempty"`
	Max     *report.Number `json:"max,omitempty"`
	Buckets buckets        `json:"buckets,omitempty"`
}

// slice is the part of a phase that a slice of time has.
type slice struct {
	span
	Complete *bool `json:"is_complete,omitempty"` // false: the phase ended inside
	stats
}

// buckets are the growths of the cumulative counts of a histogram, in the order of their bounds.
type buckets []bucket

type bucket struct {
	bound string
	count report.Number
}

// MarshalJSON returns an object with the bounds as keys.
func (b buckets) MarshalJSON() ([]byte, error) {
	text := bytes.NewBufferString("{")
	for k, one := range b {
		if k > 0 {
			text.WriteByte(',')
		}
		bound, _ := json.Marshal(one.bound) // a text
		count, _ := one.count.MarshalJSON() // a number
		text.Write(bound)
		text.WriteByte(':')
		text.Write(count)
	}
	text.WriteByte('}')
	return text.Bytes(), nil
}

// over returns what a series did in a span, which has its end in it if closed is set and the series is a gauge; ok is false if nothing is
// known of it there.
func (s *samples) over(t scrape.Type, bounds []string, in span, closed bool) (out stats, ok bool) {
	if t == scrape.Gauge {
		inside := s.between(in, closed)
		if len(inside) == 0 {
			return stats{}, false
		}
		mean, _ := measure.MeanAndStd(inside)
		return stats{Avg: number(mean), Min: number(slices.Min(inside)), Max: number(slices.Max(inside))}, !math.IsInf(mean, 0)
	}
	grown, ok := s.growth(in.Start, in.End)
	switch {
	case !ok:
		return stats{}, false
	case t == scrape.Counter:
		return stats{Total: number(grown[0]), Rate: rate(grown[0], in)}, true
	}
	out.Count, out.Sum = number(grown[0]), number(grown[1])
	if grown[0] > 0 {
		out.Avg = number(grown[1] / grown[0])
		for k, bound := range bounds {
			out.Buckets = append(out.Buckets, bucket{bound, *number(grown[2+k])})
		}
	}
	return out, true
}

// rate returns an amount by the second, nil of no time.
func rate(total float64, in span) *report.Number {
	if in.End <= in.Start {
		return nil
	}
	return number(total / in.seconds())
}

// slicesOf cuts a phase into slices of a length, the last of which may be shorter, and returns those in which something is known of
// the series. Slices of no length are none.
func (s *samples) slicesOf(t scrape.Type, bounds []string, phase span, length int64) (list []slice) {
	for start := phase.Start; length > 0 && start < phase.End; start += length {
		one := slice{span: span{start, start + length}}
		if one.End > phase.End {
			complete := false
			one.End, one.Complete = phase.End, &complete
		}
		var ok bool
		if one.stats, ok = s.over(t, bounds, one.span, one.End == phase.End); ok {
			list = append(list, one)
		}
	}
	return list
}

// maxExact is the largest whole number up to which a float64 has all of them.
const maxExact = 1 << 53

// number returns a value, as an integer where it is one; nil: it is not finite.
func number(x float64) *report.Number {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return nil
	}
	n := report.Float(x)
	if x == math.Trunc(x) && math.Abs(x) <= maxExact {
		n = report.Int(int64(x))
	}
	return &n
}
