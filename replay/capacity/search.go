// Package capacity searches for the highest number of lanes with which a server keeps its service levels: doc/spec/report.md 6.2.
//
// It plays nothing. A Search says, from the probes that were played, which number of lanes is next, and what they answer. An
// Outlook tells, from the values that a probe has brought so far, when a condition can no longer be met. Time is an argument.
//
//	search := capacity.Search{From: 1, To: 512}
//	for lanes := search.Next(probes); lanes > 0; lanes = search.Next(probes) {
//		probes = append(probes, probe(lanes))
//	}
//	fmt.Println(search.Answer(probes))
package capacity

import (
	"fmt"
	"math"
	"strings"
	"time"
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

// Longest returns the most probes that a search may need where the capacity is at most some number of lanes.
func (s Search) Longest(lanes int) (most int) {
	if s.To > 0 {
		lanes = min(lanes, s.To)
	}
	for capacity := max(1, s.From) - 1; capacity <= lanes; capacity++ {
		var probes []Probe
		for n := s.Next(nil); n > 0; n = s.Next(probes) {
			verdict := Missed
			if n <= capacity {
				verdict = Met
			}
			probes = append(probes, Probe{Lanes: n, Verdict: verdict})
		}
		most = max(most, len(probes))
	}
	return most
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

// Verdict says what a probe has shown.
type Verdict string

// The verdicts.
const (
	Met         Verdict = "met"          // every condition
	Missed      Verdict = "missed"       // one of them, or the run failed
	ClientBound Verdict = "client_bound" // the client delayed the requests: the probe says nothing about the server
)

// Probe is a run with a number of lanes.
type Probe struct {
	Lanes      int       `json:"lanes"`
	Dir        string    `json:"dir"` // of its results, below that of the search
	Verdict    Verdict   `json:"verdict"`
	Conditions []Reading `json:"conditions"`  // on the run
	Reasons    []string  `json:"reasons"`     // of the verdict, beside the conditions
	EndedEarly bool      `json:"ended_early"` // a condition could no longer be met
	Length     float64   `json:"length"`      // how long requests were sent, seconds
}

// Reading is a condition and the value that a probe had.
type Reading struct {
	Name  string   `json:"name"`  // ttft.p95
	Limit string   `json:"limit"` // 2 s
	Text  string   `json:"text"`  // 1.84 s
	Value *float64 `json:"value"` // nil: not known
	Met   bool     `json:"met"`
}

// Outcome says what a search has found.
type Outcome string

// The outcomes.
const (
	Found   Outcome = "found"        // Lanes meet every condition, Missed do not
	AtLeast Outcome = "at_least"     // To meets every condition
	None    Outcome = "none"         // From does not
	Unknown Outcome = "client_bound" // the client could not drive the server: there is no answer
)

// Answer is what a search has found.
type Answer struct {
	Outcome Outcome `json:"outcome"` // "": the search did not come to its end
	Lanes   int     `json:"lanes"`   // the most that met every condition; 0: none, or not known
	Missed  int     `json:"missed"`  // the fewest above them that did not; 0: none
	From    int     `json:"from"`
	To      int     `json:"to"`     // 0: no limit
	Probes  []Probe `json:"probes"` // in the order in which they were played
}

// String returns the answer in a line.
func (a *Answer) String() string {
	switch a.Outcome {
	case Found:
		return fmt.Sprintf("capacity %s; %s", a.lanes(a.Lanes, (*Probe).all), a.lanes(a.Missed, (*Probe).missed))
	case AtLeast:
		return fmt.Sprintf("capacity at least %s; more were not tried", a.lanes(a.Lanes, (*Probe).all))
	case None:
		return fmt.Sprintf("no capacity: %s", a.lanes(a.From, (*Probe).missed))
	case Unknown:
		last := a.Probes[len(a.Probes)-1]
		text := fmt.Sprintf("client-bound at %s: %s", count(last.Lanes), strings.Join(last.Reasons, ", "))
		if met, _ := bounds(a.Probes); met > 0 {
			text += fmt.Sprintf("; %s met every condition, which is no capacity", count(met))
		}
		return text
	}
	if len(a.Probes) == 1 {
		return "no answer: the search ended after 1 probe"
	}
	return fmt.Sprintf("no answer: the search ended after %d probes", len(a.Probes))
}

// lanes returns a number of lanes, and what its last probe says.
func (a *Answer) lanes(n int, say func(*Probe) string) string {
	for k := len(a.Probes) - 1; k >= 0; k-- {
		if p := &a.Probes[k]; p.Lanes == n {
			return count(n) + ": " + say(p)
		}
	}
	return count(n)
}

// all returns the value of every condition, with its limit.
func (p *Probe) all() string {
	var list []string
	for _, r := range p.Conditions {
		list = append(list, fmt.Sprintf("%s %s (%s)", r.Name, r.Text, r.Limit))
	}
	return strings.Join(list, ", ")
}

// missed returns the values that miss their conditions, and the reasons.
func (p *Probe) missed() string {
	var list []string
	for _, r := range p.Conditions {
		if !r.Met {
			list = append(list, r.Name+" "+r.Text)
		}
	}
	text := strings.Join(append(list, p.Reasons...), ", ")
	if p.EndedEarly {
		text += fmt.Sprintf(", ended after %.0f s", p.Length)
	}
	return text
}

// String says in a line what the probe has shown.
func (p *Probe) String() string {
	text := fmt.Sprintf("%s: %s", count(p.Lanes), strings.ReplaceAll(string(p.Verdict), "_", "-"))
	if values := p.all(); values != "" {
		text += ": " + values
	}
	if len(p.Reasons) > 0 {
		text += ": " + strings.Join(p.Reasons, ", ")
	}
	if p.EndedEarly {
		text += fmt.Sprintf(", ended after %.0f s: it can no longer be met", p.Length)
	}
	return text
}

// count names a number of lanes.
func count(lanes int) string {
	if lanes == 1 {
		return "1 lane"
	}
	return fmt.Sprintf("%d lanes", lanes)
}

// Target is a condition on a statistic of the requests of a probe, which small values meet.
type Target struct {
	Quantile float64 // 0 to 100; below 0: the mean
	Holds    func(value float64) bool
}

// Mean is the Quantile of a target on the mean.
const Mean = -1

// Bounds of a probe. One of them must be known for a condition to be lost before the end.
type Bounds struct {
	Duration time.Duration // of the sending; 0: no bound
	Requests int           // 0: no bound
}

// Outlook tells when a condition can no longer be met, whatever the rest of the probe brings. It takes the best for the rest:
// every further request has the value 0. Their number is bounded by that of the probe, or by its time that is left and twice
// the rate of its busiest ten seconds.
type Outlook struct {
	Target
	Bounds

	values, good int     // good hold on their own
	sum          float64 // of the values
	ended        int     // requests, with a value or not
	slot         int64   // the ten seconds of the latest request, and how many ended in it
	inSlot, busy int     // busy: in the busiest slot
}

// busySlot is the length of a slot.
const busySlot = 10 * time.Second

// leastEnded is how many requests have ended before an outlook says anything.
const leastEnded = 20

// Add tells the outlook of a request that ended at an instant of the phase. One without a value only counts. Requests come in any
// order of instants, nearly in that of time.
func (o *Outlook) Add(at time.Duration, value float64, known bool) {
	if slot := int64(at / busySlot); slot > o.slot {
		o.slot, o.inSlot = slot, 0
	}
	o.inSlot++
	o.busy = max(o.busy, o.inSlot)
	o.ended++
	if !known {
		return
	}
	o.values++
	o.sum += value
	if o.Holds(value) {
		o.good++
	}
}

// Lost reports whether the condition can no longer be met, at an instant of the phase.
func (o *Outlook) Lost(now time.Duration) bool {
	further := o.further(now)
	if now < busySlot || o.ended < leastEnded || o.values == 0 || math.IsInf(further, 1) {
		return false
	}
	all := float64(o.values) + further
	if o.Quantile < 0 {
		return !o.Holds(o.sum / all)
	}
	// The quantile lies between the values at this place, from 0, and the next: it is lost when already the lower one is bad.
	place := math.Floor(o.Quantile / 100 * (all - 1))
	return further+float64(o.good) <= place
}

// further bounds the number of requests that are still to end.
func (o *Outlook) further(now time.Duration) float64 {
	n := math.Inf(1)
	if o.Requests > 0 {
		n = max(0, float64(o.Requests-o.ended))
	}
	if o.Duration > 0 {
		left := max(0, o.Duration-now)
		n = min(n, math.Ceil(2*float64(o.busy)*left.Seconds()/busySlot.Seconds()))
	}
	return n
}
