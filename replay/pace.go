package replay

import (
	"time"
)

// Pace says how recorded gaps are played. The zero value plays them as recorded.
type Pace struct {
	Speed  float64       // gaps are divided by it
	MaxGap time.Duration // longest gap that is played, after Speed; 0: no limit
	ASAP   bool          // gaps are 0
	// ThinkTimeOnly plays the recorded think time of a turn, where it has one, as the gap before it.
	ThinkTimeOnly bool
	// KeepOrder says whether ASAP keeps the recorded order between sessions.
	KeepOrder *bool
}

// dropsOrder reports whether nothing that was recorded of times is played, the order between sessions included.
func (p Pace) dropsOrder() bool { return p.ASAP && p.KeepOrder != nil && !*p.KeepOrder }

// maxPlayed is the longest time that is played, about two years: clocks that skip many of them do not overflow.
const maxPlayed = 1 << 56

// gap returns how long a recorded gap, in milliseconds, is played.
func (p Pace) gap(ms float64) time.Duration {
	d := p.offset(ms)
	if p.MaxGap > 0 {
		d = min(d, p.MaxGap)
	}
	return d
}

// offset returns how long a recorded time, in milliseconds, is played that MaxGap does not bound: the distance of a lane's
// first turns from its start.
func (p Pace) offset(ms float64) time.Duration {
	if p.ASAP {
		return 0
	}
	if p.Speed > 0 {
		ms /= p.Speed
	}
	if !(ms > 0) { // NaN too
		return 0
	}
	return lengthOf(ms)
}

// lengthOf returns a time in milliseconds, at most maxPlayed.
func lengthOf(ms float64) time.Duration { return time.Duration(min(ms, maxPlayed/1e6) * 1e6) }
