package planner

import (
	"math"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

// clock says when a planner ticks: doc/spec/simulate.md 11.2. Times are nanoseconds.
type clock struct {
	rule     preset.Choice
	interval [2]int64 // of load, of throughput; 0: never
	next     [2]int64
	seen     int64 // planner time of the last tick
}

// merge is how much later the other deadline may be to be taken along.
const merge = 500_000_000

const (
	loadTick = iota
	throughputTick
)

const never = math.MaxInt64

func newClock(c Config, rule preset.Choice) *clock {
	k := &clock{rule: rule, next: [2]int64{never, never}}
	if c.LoadScaling {
		k.interval[loadTick] = int64(math.RoundToEven(c.LoadInterval * 1e9))
	}
	if c.ThroughputScaling {
		k.interval[throughputTick] = int64(math.RoundToEven(c.ThroughputInterval * 1e9))
	}
	for i, d := range k.interval {
		if d > 0 {
			k.next[i] = d
		}
	}
	return k
}

// at returns when the next tick is.
func (k *clock) at() int64 { return min(k.next[loadTick], k.next[throughputTick]) }

// due returns what the next tick decides.
func (k *clock) due() (load, throughput bool) {
	at := k.at()
	within := func(i int) bool { return k.next[i]-at <= merge }
	return within(loadTick), within(throughputTick)
}

// tick moves the deadlines that are due, and returns the planner's time. event is when something last happened before it.
func (k *clock) tick(event int64) (now int64) {
	load, throughput := k.due()
	at := k.at()
	now = at
	if k.rule != preset.TickNominal && event > k.seen {
		now = min(event, at)
	}
	k.seen = now
	for i, is := range []bool{load, throughput} {
		switch {
		case k.rule == preset.TickNominal && is:
			k.next[i] += k.interval[i]
		case k.rule == preset.TickLastEvent && is:
			k.next[i] = now + k.interval[i]
		case k.rule == preset.TickLastEventShared && is:
			k.next[i] += k.interval[i] - (at - now)
		case k.rule == preset.TickLastEventShared && k.next[i] != never:
			k.next[i] = max(k.next[i]-(at-now), at+1)
		}
	}
	return now
}
