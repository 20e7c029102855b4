package reconstruct

import (
	"math"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/timeline"
	"github.com/agentx/agentx/trace"
)

// This file alone interprets the times of a trace: the clock of nested requests, and what is start or end. Elsewhere, times are
// seconds on the clock of the trace.

// eps is the tolerance of comparisons between recorded times, seconds.
const eps = 1e-6

// orMissing returns the time as package timeline has it.
func orMissing(s trace.Seconds) float64 {
	if !s.OK {
		return timeline.Missing
	}
	return s.V
}

// end returns when the request is over.
func (t turn) end() float64 { return endOf(t.Request, t.t) }

// endOf returns when a request that starts at t is over. An unknown or negative duration counts as 0.
func endOf(r *trace.Request, t float64) float64 {
	if r.APITime.OK && r.APITime.V > 0 && !math.IsInf(r.APITime.V, 0) {
		return t + r.APITime.V
	}
	return t
}

// inWindow reports whether the filter on start times keeps a request that starts at t: doc/spec/reconstruction.md 5.1.
func inWindow(r rules.Rules, t float64) bool {
	ms := t * 1000
	return !(r.StartOffset != nil && ms < float64(*r.StartOffset) || r.EndOffset != nil && ms > float64(*r.EndOffset))
}

// agent is a subagent whose times are decided.
type agent struct{ *trace.Subagent }

// subagentTimes is a subagent on the clock of its trace: doc/spec/reconstruction.md 1.7. Times are seconds.
type subagentTimes struct {
	basis      string // clock of the nested times: "absolute", "relative" or "per-request"
	guessed    bool   // the basis was guessed
	meaning    string // of the subagent's t: "start" or "end"
	start, end float64
	requests   []float64 // starts of the nested requests, in document order
}

// times decides on which clock a subagent's nested times run, and whether its t is its start or its completion.
func (m agent) times(r rules.Rules) subagentTimes {
	if m.Links != nil { // nothing is left to guess
		r.NestedBasis, r.MarkerTime = "absolute", "start"
	}
	if r.NestedBasis == "per-request" {
		return m.perRequestTimes()
	}
	c := subagentTimes{basis: r.NestedBasis, meaning: r.MarkerTime}
	if c.basis == "auto" {
		c.basis, c.guessed = m.guessBasis()
	}
	if c.meaning == "auto" {
		c.meaning = m.guessMeaning(c.basis)
	}
	c.start = m.startBy(c)
	for k := range m.Requests {
		t := m.Requests[k].T
		if c.basis == "relative" {
			t += c.start
		}
		c.requests = append(c.requests, t)
	}
	c.end = m.endBy(c)
	return c
}

// perRequestTimes is AIPerf's rule: each nested request decides for itself whether its time is relative, and t is the start.
func (m agent) perRequestTimes() subagentTimes {
	c := subagentTimes{basis: "per-request", meaning: "start", start: m.T}
	for k := range m.Requests {
		t := m.Requests[k].T
		if t+eps < m.T {
			t = m.T + t
		}
		c.requests = append(c.requests, t)
	}
	c.end = m.endBy(c)
	return c
}

// guessBasis guesses the clock of the nested times from the first of them in document order and the earliest of all.
// guessed is false where nothing else is possible.
func (m agent) guessBasis() (basis string, guessed bool) {
	switch {
	case len(m.Requests) == 0:
		return "absolute", false
	case m.beginsAtZero():
		return "relative", false
	case math.Abs(m.Requests[0].T-m.T) <= eps:
		return "absolute", false
	case m.earliest()+eps < m.T:
		return "relative", true
	}
	return "absolute", true
}

// guessMeaning guesses whether the subagent's t is its start or its end.
func (m agent) guessMeaning(basis string) string {
	duration, known := m.duration()
	if basis == "relative" && m.beginsAtZero() && m.Completed && known && m.T-duration >= -eps {
		return "end"
	}
	return "start"
}

// beginsAtZero reports whether the first nested request starts at 0 and the subagent later.
func (m agent) beginsAtZero() bool {
	return len(m.Requests) > 0 && math.Abs(m.Requests[0].T) <= eps && m.T > eps
}

// earliest returns the smallest time of the nested requests, +Inf where there are none.
func (m agent) earliest() float64 {
	first := math.Inf(1)
	for k := range m.Requests {
		first = min(first, m.Requests[k].T)
	}
	return first
}

// latestEnd returns the latest end of the nested requests, whose starts are given; fallback where there are none.
func (m agent) latestEnd(starts func(k int) float64, fallback float64) float64 {
	end := fallback
	for k := range m.Requests {
		if e := endOf(&m.Requests[k], starts(k)); k == 0 || e > end {
			end = e
		}
	}
	return end
}

// duration returns duration_ms in seconds and whether it can be used.
func (m agent) duration() (seconds float64, known bool) {
	return float64(m.DurationMS) / 1000, m.HasDuration && m.DurationMS >= 0
}

// startBy returns the start of the subagent once the basis of its nested times and the meaning of its t are known.
func (m agent) startBy(c subagentTimes) float64 {
	duration, known := m.duration()
	switch {
	case c.meaning != "end":
		return m.T
	case known:
		return m.T - duration
	case c.basis == "relative":
		return m.T - m.latestEnd(func(k int) float64 { return m.Requests[k].T }, 0)
	}
	return min(m.T, m.earliest())
}

// endBy returns the end of the subagent once its start and the starts of its nested requests are known.
func (m agent) endBy(c subagentTimes) float64 {
	duration, known := m.duration()
	switch {
	case c.meaning == "end":
		return m.T
	case !m.HasDuration:
		return m.latestEnd(func(k int) float64 { return c.requests[k] }, c.start)
	case !known:
		duration = 0
	}
	return c.start + duration
}
