package weka

import (
	"fmt"
	"math"
	"strconv"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/timeline"
	"github.com/agentx/agentx/trace"
)

// This file alone interprets recorded times: their units and limits, the clock of nested requests, and the
// starts of Mooncake rows. Elsewhere, times are seconds on the clock of the trace.

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

// optionalTime reads a time, or null.
func optionalTime(from source) trace.Seconds {
	if from.null() {
		return trace.Seconds{}
	}
	return trace.Seconds{V: from.time(), OK: true}
}

func (s *scanner) time() float64 {
	v, text := s.float()
	s.refuse(trace.CheckTime(v, text, "seconds"))
	return v
}

// float reads a number, and returns its text too.
func (s *scanner) float() (float64, []byte) {
	text, ok := s.number()
	if !ok {
		return 0, nil
	}
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		v = math.Inf(1)
	}
	return v, text
}

// rowTime is a time of a Mooncake row, as it stands and in milliseconds.
type rowTime struct {
	trace.Seconds         // in milliseconds, unlike all other Seconds
	raw           float64 // in the unit of the file
	text          string
}

// rowTime reads a time of a Mooncake row in a unit, or a null that counts as a field left out. A time that decides of what unit those of
// its file are must not look like another.
func (s *scanner) rowTime(unit string, decides bool) (t rowTime) {
	if s.leftOut() {
		return t
	}
	v, text := s.float()
	t = rowTime{raw: v, text: trace.Clip(text)}
	if decides {
		s.refuseUnit(v, t.text)
	}
	switch unit {
	case "s":
		v *= 1e3
	case "us":
		v /= 1e3
	case "ns":
		v /= 1e6
	}
	s.refuse(trace.CheckTime(v, text, "milliseconds"))
	t.Seconds = trace.Seconds{V: v, OK: true}
	return t
}

// refuseUnit refuses the first timestamp of a file that is no date in milliseconds, and is one in another unit.
func (s *scanner) refuseUnit(v float64, shown string) {
	const first, last = 1e9, 2.1e9 // seconds since 1970: 2001 to 2036
	for _, u := range []struct {
		unit, name string
		per        float64
	}{{"s", "seconds", 1}, {"us", "microseconds", 1e6}, {"ns", "nanoseconds", 1e9}} {
		if at := v / u.per; at >= first && at < last && s.err == nil {
			s.fail(trace.Unclear, "%s, the first of the file, looks like %s since 1970: timestamps of Mooncake rows are milliseconds", shown, u.name)
			s.err.Hint = fmt.Sprintf("--set timestamps=%s where they are %s; --set timestamps=ms where they are milliseconds", u.unit, u.name)
		}
	}
}

// timestamp reads the timestamp of a Mooncake row: from 0 to mmapcache.MaxRecordedStart milliseconds.
func (s *scanner) timestamp(unit string) rowTime {
	given := s.rowTime(unit, s.first && unit == "auto")
	switch {
	case s.err != nil || !given.OK:
	case given.V < 0:
		s.fail(trace.TooLarge, "%g ms: want 0 or more", given.V)
	case given.V > mmapcache.MaxRecordedStart:
		s.fail(trace.TooLarge, "%g ms: beyond %g ms, which are 292 years", given.V, float64(mmapcache.MaxRecordedStart))
	}
	given.V += 0 // no -0
	return given
}

// start returns when a Mooncake row starts, in seconds. before is the request before it in its session, nil for the first. A
// delay counts from the start of that request: nothing else is known of it. A row older than that request starts with it;
// backward says so.
func (row *mooncakeRow) start(before *trace.Request) (t float64, backward bool, err *trace.Error) {
	switch {
	case row.delay.OK && row.delay.V < 0:
		return 0, false, &trace.Error{Kind: trace.TooLarge, Where: "delay", Problem: fmt.Sprintf("%g ms: want 0 or more", row.delay.V)}
	case before == nil && row.delay.OK && row.delay.V > 0:
		return 0, false, &trace.Error{Kind: trace.Conflict, Where: "delay", Problem: fmt.Sprintf("%g ms: want none or 0 for the first turn of a session, which follows no turn", row.delay.V)}
	case before == nil && !row.timestamp.OK:
		return 0, false, &trace.Error{Kind: trace.MissingField, Problem: `required field "timestamp" is missing: only later turns of a session may leave it out`}
	case before == nil:
		return row.timestamp.V / 1000, false, nil
	case row.delay.OK:
		return before.T + row.delay.V/1000, false, nil
	case row.timestamp.OK:
		t = row.timestamp.V / 1000
		return max(t, before.T), t < before.T, nil
	}
	return before.T, false, nil
}

// thinkTime returns the think time of a Mooncake row: its delay, unless it is the first of its session.
func (row *mooncakeRow) thinkTime(before *trace.Request) trace.Seconds {
	if before == nil || !row.delay.OK {
		return trace.Seconds{}
	}
	return trace.Seconds{V: row.delay.V / 1000, OK: true}
}

// inWindow reports whether the filter on start times keeps a request that starts at t: doc/spec/reconstruction.md 5.1.
func (r Rules) inWindow(t float64) bool {
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
func (m agent) times(r Rules) subagentTimes {
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
