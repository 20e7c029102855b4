package measure

import (
	"cmp"
	"slices"
	"sort"
	"time"
)

// Standstill is a time in which the client did nothing, whatever arrived meanwhile: it was stopped, its machine was busy, or memory was
// collected. What it received then has a later instant than it should.
type Standstill struct {
	At       float64 `json:"at"` // since the start of the phase, seconds
	Seconds  float64 `json:"seconds"`
	InFlight int     `json:"in_flight"` // requests, over it
}

// Standstills are those of a phase that were longer than StandstillFrom.
type Standstills struct {
	N       int          `json:"n"`
	Seconds float64      `json:"seconds"` // all together
	Longest Standstill   `json:"longest"`
	List    []Standstill `json:"list,omitempty"` // by instant: the maxStandstills longest ones; nil in a summary
}

// StandstillFrom is the longest standstill that is not noted, maxStandstills how many are kept.
const (
	StandstillFrom = 10 * time.Millisecond
	maxStandstills = 1000
)

const longStandstill = 1.0 // seconds: a longer one is always said

// Add adds a standstill that came after the others.
func (s *Standstills) Add(one Standstill) {
	s.N++
	s.Seconds += one.Seconds
	if one.Seconds > s.Longest.Seconds {
		s.Longest = one
	}
	if s.List = append(s.List, one); len(s.List) == 2*maxStandstills {
		s.Cut()
	}
}

// Cut forgets all standstills of the list but the longest ones.
func (s *Standstills) Cut() {
	if len(s.List) <= maxStandstills {
		return
	}
	slices.SortStableFunc(s.List, func(a, b Standstill) int { return cmp.Compare(b.Seconds, a.Seconds) })
	s.List = s.List[:maxStandstills]
	slices.SortFunc(s.List, func(a, b Standstill) int { return cmp.Compare(a.At, b.At) })
}

// Summary returns the standstills without the list. Nil stays nil.
func (s *Standstills) Summary() *Standstills {
	if s == nil {
		return nil
	}
	return &Standstills{N: s.N, Seconds: s.Seconds, Longest: s.Longest}
}

// With returns the standstills of two clients together, without lists; nil if there are none.
func (s *Standstills) With(o *Standstills) *Standstills {
	if s == nil || o == nil {
		return cmp.Or(s.Summary(), o.Summary())
	}
	all := Standstills{N: s.N + o.N, Seconds: s.Seconds + o.Seconds, Longest: s.Longest}
	if o.Longest.Seconds > s.Longest.Seconds {
		all.Longest = o.Longest
	}
	return &all
}

// Long reports whether the longest one is always said.
func (s *Standstills) Long() bool { return s != nil && s.Longest.Seconds > longStandstill }

// afterStandstill is how long a client that goes on may take to note what has arrived meanwhile, in seconds.
const afterStandstill = 0.005

// delayed returns by how much an instant at which something was noted may be late: it arrived at the earliest when the standstill began,
// in which or just behind which it was noted. A standstill delays nothing else: a server goes on sending.
func (s *Standstills) delayed(at float64) float64 {
	if s == nil {
		return 0
	}
	k := sort.Search(len(s.List), func(k int) bool { return s.List[k].At >= at }) - 1
	if k < 0 || at > s.List[k].At+s.List[k].Seconds+afterStandstill {
		return 0
	}
	return min(s.List[k].Seconds, at-s.List[k].At)
}
