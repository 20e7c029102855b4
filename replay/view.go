package replay

import (
	"time"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/timeline"
)

// view says how recorded times are played: what Pace and the switches SpawnOffset, JoinTiming and TraceCap come to
// (doc/spec/replay.md 0.3). The zero value plays them as recorded.
type view struct {
	pace           Pace          // with KeepOrder resolved
	branchSpawns   bool          // spawn offsets count from the start of the child's branch
	immediateJoins bool          // a turn that joins branches has no deadline
	emittedClock   bool          // idle gaps of a trace are cut when it is read, and its recorded order is that of the times that result
	absolute       bool          // turns are due at their recorded instants, not a gap after the turn before
	traceIdle      time.Duration // with emittedClock: longest gap that is left between two starts of a trace; 0: gaps are not cut
}

// view returns how recorded times are played under options whose defaults are set.
func (o *Options) view() view {
	s := o.Switches
	v := view{pace: o.Pace, branchSpawns: s.BranchSpawns, immediateJoins: s.ImmediateJoins, absolute: o.Arrivals.AbsoluteTurns}
	if s.TraceCapAtLoad {
		v.emittedClock, v.traceIdle = true, o.Limits.TraceIdle
	}
	return v
}

// times returns the times of a trace. Without a recorded order there are none: no turn has a start, a delay or a
// predecessor, and every child is due when its spawning turn returns. So does AIPerf 0.13.0 with its option to ignore
// delays. Measured there on the wire, a side chain that is over after 3.1 s in the recorded order is over after 0.2 s.
func (v view) times(p *mmapcache.Plan, rules mmapcache.TimeRules) (*mmapcache.Times, error) {
	rules.EmittedClock = rules.EmittedClock || v.emittedClock
	return p.Times(rules, mmapcache.View{
		View:   timeline.View{ThinkTimeOnly: v.pace.ThinkTimeOnly, IgnoreDelays: v.pace.dropsOrder(), BranchSpawns: v.branchSpawns},
		Warped: v.traceIdle > 0, TraceCap: v.traceIdle.Seconds(),
	})
}

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
