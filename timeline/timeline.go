package timeline

import (
	"fmt"
	"math"
)

// Missing stands for a time that was not recorded, or is not played.
var Missing = math.NaN()

// Rules say how recorded times are read. They are fixed when a cache is built.
type Rules struct {
	SubtractNegative bool `json:"subtract_negative"` // a negative recorded duration lengthens the delay after it
	RawThink         bool `json:"raw_think"`         // a think time counts as recorded, even beyond the recorded gap
	RefuseNegative   bool `json:"refuse_negative"`   // a negative delay of a child turn is an error
}

// View changes recorded times without another cache. The zero value leaves them as they are.
type View struct {
	ThinkTimeOnly bool    // a recorded think time is the delay
	IgnoreDelays  bool    // every time is Missing
	TurnCap       float64 // longest delay, seconds; 0: none
	BranchSpawns  bool    // spawn offsets count from the start of the child's branch, as AIPerf's do
}

// Validate returns an error about a cap that is negative or no number.
func (v View) Validate() error {
	if !(v.TurnCap >= 0) {
		return fmt.Errorf("view: turn cap %g s: want 0 or more", v.TurnCap)
	}
	return nil
}

// Recorded are the times of one request as recorded, seconds.
type Recorded struct{ Start, API, Think float64 }

// TurnTimes are the times at which one turn is played, milliseconds; Missing where there is none.
type TurnTimes struct{ Start, Delay, API float64 }

// TurnTimes returns the times of the turns of one session: doc/spec/reconstruction.md 6.1, and 6.3 where warp is not nil. child
// says that another session spawned it. The error is about a delay that the rules refuse.
func (v View) TurnTimes(r Rules, turns []Recorded, child bool, warp *Warp) ([]TurnTimes, error) {
	out := make([]TurnTimes, len(turns))
	for k, t := range turns {
		p := &out[k]
		*p = TurnTimes{Missing, Missing, Missing}
		if v.IgnoreDelays {
			continue
		}
		p.Start = warp.Map(t.Start) * 1000
		if finite(t.API) {
			p.API = Duration(t.API)
		}
		if k == 0 {
			continue
		}
		before := turns[k-1]
		width := Duration(before.API)
		if r.SubtractNegative && finite(before.API) {
			width = before.API * 1000
		}
		d := v.delay(r, before, t, width, warp)
		if d < 0 && child && r.RefuseNegative {
			return nil, fmt.Errorf("turn %d: negative delay of %g ms", k, d)
		}
		if finite(d) {
			p.Delay = max(0, d)
		}
	}
	return out, nil
}

// delay returns the delay of a turn, which may be negative, in milliseconds. width is the duration of the turn before it.
func (v View) delay(r Rules, before, t Recorded, width float64, warp *Warp) float64 {
	if warp != nil {
		return positive((warp.Map(t.Start)-warp.Map(before.Start))*1000 - width)
	}
	gap := t.Start*1000 - before.Start*1000
	d := positive(gap - width)
	if v.ThinkTimeOnly && !math.IsNaN(t.Think) {
		d = t.Think * 1000
		if !r.RawThink {
			d = min(d, positive(gap))
		}
	}
	if limit := v.TurnCap * 1000; v.TurnCap > 0 && d > limit {
		d = limit
	}
	return d
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// positive returns max(0, v), 0 for NaN.
func positive(v float64) float64 {
	if v > 0 {
		return v
	}
	return 0
}

// Duration returns a recorded duration in milliseconds, 0 for one that is missing, negative or not finite.
func Duration(apiTime float64) float64 {
	if !finite(apiTime) || apiTime < 0 {
		return 0
	}
	return apiTime * 1000
}

// Origin is the event from which a spawn offset counts.
type Origin uint8

// The origins.
const (
	FromReturn Origin = iota // the return of the spawning turn
	FromIssue                // the issue of the spawning turn
)

func (o Origin) String() string { return [...]string{"return", "issue"}[o] }

// SpawnOffset returns when the first turn of a child session is due: doc/spec/reconstruction.md 6.7. It counts in
// milliseconds from the return or the issue of the spawning turn. turnStart and turnAPI are start and duration of the
// spawning turn, childStart is the start of the child's first request, in seconds.
func SpawnOffset(turnStart, turnAPI, childStart float64) (Origin, float64) {
	gap := childStart*1000 - turnStart*1000
	api := Duration(turnAPI)
	if gap >= api {
		return FromReturn, gap - api
	}
	return FromIssue, max(0, gap)
}

// BranchSpawnOffset is SpawnOffset as AIPerf computes it. It decides once for a branch, whose start is that of its earliest
// child, so that the recorded time between the end of the spawning turn and the branch is lost. It takes seconds and
// returns milliseconds: doc/spec/replay.md 6.3.
func BranchSpawnOffset(turnStart, turnAPI, branchStart, childStart float64) (Origin, float64) {
	api := Duration(turnAPI)
	if api == 0 || branchStart*1000-turnStart*1000 >= api {
		return FromReturn, max(0, childStart*1000-branchStart*1000)
	}
	return FromIssue, max(0, childStart*1000-turnStart*1000)
}
