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

// view returns the view of options with defaults.
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
