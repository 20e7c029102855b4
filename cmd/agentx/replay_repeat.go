package main

import (
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
)

// list returns the runs of several concurrencies, or of several times the same; several is false if there is one run alone.
func (f *replayFlags) list(o *replay.Options) (l replay.List, several bool) {
	l = replay.List{Concurrencies: f.concurrency, StopOnFailure: f.stopOnFailure}
	if len(l.Concurrencies) == 1 {
		l.Concurrencies = []int{o.Concurrency} // 0 where trees arrive without a cap
	}
	if f.repeat > 1 {
		l.Repeat = f.repeat
	}
	if f.auto.auto != nil {
		l.Next = func([]measure.ListedRun) int { return 0 } // runSearch has the probes
		return l, true
	}
	return l, l.Repeat > 0 || len(l.Concurrencies) > 1
}
