package weka

import "math"

// eps is the tolerance of comparisons between recorded times, seconds.
const eps = 1e-6

// Clock is a marker's place on the root clock: section 1.7 of the specification.
type Clock struct {
	Basis     string // clock of the inner times: "absolute", "relative" or "per-request"
	Reading   string // what the marker's t is: "start" or "end"
	Start     float64
	End       float64   // seconds
	Times     []float64 // of the inner requests on the root clock, seconds, in document order
	Ambiguous bool      // the basis was guessed
}

// end returns when a request starting at t was over; an unknown or negative duration has width 0.
func (r Request) end(t float64) float64 {
	if r.APITime.OK && r.APITime.V > 0 && !math.IsInf(r.APITime.V, 0) {
		return t + r.APITime.V
	}
	return t
}

// Clock decides on which clock a marker's nested times run and whether its t is start or completion.
func (m *Marker) Clock(r Rules) Clock {
	if r.NestedBasis == "per-request" {
		return m.perRequest()
	}
	duration, known := m.duration()
	c := Clock{Basis: r.NestedBasis, Reading: r.MarkerTime}
	zero := false
	first := math.Inf(1)
	if len(m.Requests) > 0 {
		zero = math.Abs(m.Requests[0].T) <= eps && m.T > eps
		for _, q := range m.Requests {
			first = min(first, q.T)
		}
	}
	if c.Basis == "auto" {
		c.Basis, c.Ambiguous = m.basis(zero, first)
	}
	relative := c.Basis == "relative"
	if c.Reading == "auto" {
		c.Reading = "start"
		if relative && zero && m.Completed && known && m.T-duration >= -eps {
			c.Reading = "end"
		}
	}
	c.Start = m.T
	if c.Reading == "end" {
		switch {
		case known:
			c.Start = m.T - duration
		case relative:
			last := 0.0
			for k, q := range m.Requests {
				if e := q.end(q.T); k == 0 || e > last {
					last = e
				}
			}
			c.Start = m.T - last
		default:
			c.Start = min(m.T, first)
		}
	}
	for _, q := range m.Requests {
		t := q.T
		if relative {
			t += c.Start
		}
		c.Times = append(c.Times, t)
	}
	c.End = m.end(c)
	return c
}

// basis guesses the clock of the inner times from the first of them in document order and the earliest of all.
func (m *Marker) basis(zero bool, first float64) (basis string, ambiguous bool) {
	switch {
	case len(m.Requests) == 0:
		return "absolute", false
	case zero:
		return "relative", false
	case math.Abs(m.Requests[0].T-m.T) <= eps:
		return "absolute", false
	case first+eps < m.T:
		return "relative", true
	}
	return "absolute", true
}

// perRequest is AIPerf's rule: each inner request decides for itself, and t is the start.
func (m *Marker) perRequest() Clock {
	c := Clock{Basis: "per-request", Reading: "start", Start: m.T}
	for _, q := range m.Requests {
		t := q.T
		if t+eps < m.T {
			t = m.T + t
		}
		c.Times = append(c.Times, t)
	}
	c.End = m.end(c)
	return c
}

// duration returns duration_ms in seconds and whether it can be used.
func (m *Marker) duration() (seconds float64, known bool) {
	return float64(m.DurationMS) / 1000, m.HasDuration && m.DurationMS >= 0
}

// end returns the end of the marker once its start and its inner times are known.
func (m *Marker) end(c Clock) float64 {
	if c.Reading == "end" {
		return m.T
	}
	if m.HasDuration {
		d, known := m.duration()
		if !known {
			d = 0
		}
		return c.Start + d
	}
	end := c.Start
	for k, q := range m.Requests {
		if e := q.end(c.Times[k]); k == 0 || e > end {
			end = e
		}
	}
	return end
}
