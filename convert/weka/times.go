package weka

import (
	"fmt"
	"math"
	"strconv"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/trace"
)

// This file alone reads recorded times: their units and limits, and the starts of Mooncake rows.

// optionalTime reads a time, or null.
func optionalTime(from source) trace.Seconds {
	if from.null() {
		return trace.Seconds{}
	}
	return trace.Seconds{V: from.time(), OK: true}
}

// time reads a time in seconds, and refuses one beyond the limits.
func (s *scanner) time() float64 {
	v, text := s.float()
	s.refuse(trace.CheckTime(v, text, "seconds"))
	keep(s, v)
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
			s.err.Hint = fmt.Sprintf("the rule timestamps=%s where they are %s; the rule timestamps=ms where they are milliseconds", u.unit, u.name)
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
