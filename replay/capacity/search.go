package capacity

import (
	"context"
	"fmt"
	"math"
)

// Search is a search in a range of lanes. It doubles from From on until a probe misses a condition, and then bisects.
type Search struct {
	From int // 0: 1
	To   int // 0: no limit
}

// tolerance is how close bisection comes, as a share of the lanes that meet every condition; but never closer than one lane.
const tolerance = 0.05

// Validate returns an error if the range is none.
func (s Search) Validate() error {
	switch {
	case s.From < 0:
		return fmt.Errorf("from %d lanes: want 1 or more", s.From)
	case s.To < 0:
		return fmt.Errorf("to %d lanes: want 1 or more", s.To)
	case s.To > 0 && s.To < s.From:
		return fmt.Errorf("from %d to %d lanes: want the smaller number first", s.From, s.To)
	}
	return nil
}

// Run probes numbers of lanes until it has an answer. An error of a probe, or of ctx, ends it: the answer then has the probes
// that have ended, and no outcome.
func (s Search) Run(ctx context.Context, probe func(ctx context.Context, lanes int) (Probe, error)) (*Answer, error) {
	a := &Answer{From: max(1, s.From), To: s.To, Probes: []Probe{}}
	if err := s.Validate(); err != nil {
		return a, err
	}
	for lanes := a.From; lanes > 0; lanes = a.next() {
		if err := ctx.Err(); err != nil {
			return a, err
		}
		p, err := probe(ctx, lanes)
		if err != nil {
			return a, err
		}
		p.Lanes = lanes
		a.Probes = append(a.Probes, p)
		if p.Verdict == ClientBound {
			a.Outcome = Unknown
			return a, nil
		}
	}
	a.settle()
	return a, nil
}

// next returns the lanes of the next probe, 0 where the answer is known.
func (a *Answer) next() int {
	met, missed := a.bounds()
	switch {
	case met == 0: // the first probe has missed
		return 0
	case missed == 0 && met == a.limit():
		return 0
	case missed == 0 && met > a.limit()/2:
		return a.limit()
	case missed == 0:
		return 2 * met
	case missed-met <= 1 || float64(missed-met) <= tolerance*float64(met):
		return 0
	}
	return met + (missed-met)/2
}

// limit returns the most lanes that may be probed.
func (a *Answer) limit() int {
	if a.To == 0 {
		return math.MaxInt
	}
	return a.To
}

// bounds returns the most lanes that met every condition, and the fewest above that missed one; 0: none.
func (a *Answer) bounds() (met, missed int) {
	for _, p := range a.Probes {
		if p.Verdict == Met {
			met = max(met, p.Lanes)
		}
	}
	for _, p := range a.Probes {
		if p.Verdict == Missed && p.Lanes > met && (missed == 0 || p.Lanes < missed) {
			missed = p.Lanes
		}
	}
	return met, missed
}

// settle sets what the probes say together.
func (a *Answer) settle() {
	a.Lanes, a.Missed = a.bounds()
	switch {
	case a.Lanes == 0:
		a.Outcome = None
	case a.Missed == 0:
		a.Outcome = AtLeast
	default:
		a.Outcome = Found
	}
}
