package mmapcache

import (
	"fmt"
	"math"
)

// MaxRecordedStart bounds recorded starts, in milliseconds: 292 years, so that an int64 of nanoseconds holds each.
const MaxRecordedStart = 9.2e12

// RecordedStart returns when the first turn of a trace began, in milliseconds from 0 of its recording, as the recording has
// it: from 0 to MaxRecordedStart. It returns false where the format of the trace has no such time, and for caches made before the column.
//
// It is no field of Trace because a plan begins with its trace: times of turns count from another 0, that of the trace's
// own file, and do not depend on it.
func (s *Structure) RecordedStart(trace int) (ms float64, ok bool) {
	ms = s.Traces.late.at(trace)
	return ms, !math.IsNaN(ms)
}

// SetRecordedStart stores the recorded start of a trace that has been appended.
func (s *Structure) SetRecordedStart(trace int, ms float64) {
	s.Traces.late.set(trace, ms)
}

// RecordedStarts returns how many traces have a recorded start.
func (s *Structure) RecordedStarts() (n int) {
	for i := range s.Traces.Len() {
		if _, ok := s.RecordedStart(i); ok {
			n++
		}
	}
	return n
}

// checkRecordedStart refuses a start beyond the bounds.
func (s *Structure) checkRecordedStart(trace int) error {
	if ms, ok := s.RecordedStart(trace); ok && !(ms >= 0 && ms <= MaxRecordedStart) {
		return fmt.Errorf("recorded start %g ms out of range [0,%g]", ms, float64(MaxRecordedStart))
	}
	return nil
}
