package capacity

import (
	"math"
)

// Search is a search in a range of lanes. It doubles from From on until a probe misses a condition, and then bisects.
type Search struct {
	From int // 0: 1
	To   int // 0: no limit
}

// tolerance is how close bisection comes, as a share of the lanes that meet every condition; but never closer than one lane.
const tolerance = 0.05

// Next returns the lanes of the probe that follows some others; 0 where they are enough for an answer.
func (s Search) Next(probes []Probe) int {
	if len(probes) == 0 {
		return max(1, s.From)
	}
	met, missed := bounds(probes)
	switch {
	case met == 0, probes[len(probes)-1].Verdict == ClientBound:
		return 0
	case missed == 0 && met == s.limit():
		return 0
	case missed == 0 && met > s.limit()/2:
		return s.limit()
	case missed == 0:
		return 2 * met
	case missed-met <= 1 || float64(missed-met) <= tolerance*float64(met):
		return 0
	}
	return met + (missed-met)/2
}

// limit returns the most lanes that may be probed.
func (s Search) limit() int {
	if s.To == 0 {
		return math.MaxInt
	}
	return s.To
}

// bounds returns the most lanes that met every condition, and the fewest above that missed one; 0: none.
func bounds(probes []Probe) (met, missed int) {
	for _, p := range probes {
		if p.Verdict == Met {
			met = max(met, p.Lanes)
		}
	}
	for _, p := range probes {
		if p.Verdict == Missed && p.Lanes > met && (missed == 0 || p.Lanes < missed) {
			missed = p.Lanes
		}
	}
	return met, missed
}

// Answer returns what probes say together.
func (s Search) Answer(probes []Probe) *Answer {
	a := &Answer{From: max(1, s.From), To: s.To, Probes: probes}
	if len(probes) == 0 || s.Next(probes) > 0 {
		return a
	}
	met, missed := bounds(probes)
	switch {
	case probes[len(probes)-1].Verdict == ClientBound:
		a.Outcome = Unknown
	case met == 0:
		a.Outcome, a.Missed = None, missed
	case missed == 0:
		a.Outcome, a.Lanes = AtLeast, met
	default:
		a.Outcome, a.Lanes, a.Missed = Found, met, missed
	}
	return a
}
