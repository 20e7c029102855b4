package resume

import (
	"slices"
	"time"

	"github.com/agentx/agentx/replay/conductor"
)

// Primer is the last request of a session before the start of its lane. Warmup sends it, so that a server has the prompts of
// the lane in its cache.
type Primer struct {
	Session, Turn int
	Lead          time.Duration // from its recorded start to t*, as it is played; 0 if its start is not known
}

// Primers returns the primers of a lane that begins in a state at t*: one for each of its sessions that has sent something,
// those that wait for others included. t* is NaN in a trace without times. doc/spec/replay.md 3.1 and 3.2.
func (t *Trace) Primers(state *conductor.StartState, tStar float64) (list []Primer) {
	for _, s := range state.Live {
		if s.Turn == 0 {
			continue
		}
		p := Primer{Session: s.Session, Turn: s.Turn - 1}
		if lead := tStar - t.Starts[p.Session][p.Turn]; finite(lead) {
			p.Lead = t.played(lead)
		}
		list = append(list, p)
	}
	return list
}

// Ramp says how the primers of a warmup are spread over time.
type Ramp struct {
	Longest time.Duration // a longer lead counts as this; 0: no limit
	Burst   bool          // all primers are sent at once
}

// Times returns when each primer is sent, by their leads: the longest lead first, so that all leads are over at the same
// instant, the end of the ramp. doc/spec/replay.md 3.2.
func (r Ramp) Times(leads []time.Duration) []time.Duration {
	at := make([]time.Duration, len(leads))
	if r.Burst || len(leads) == 0 {
		return at
	}
	end := r.cut(slices.Max(leads))
	for k, lead := range leads {
		at[k] = end - r.cut(lead)
	}
	return at
}

// cut bounds the time of a primer before the start of the phase.
func (r Ramp) cut(lead time.Duration) time.Duration {
	if r.Longest > 0 {
		return min(lead, r.Longest)
	}
	return lead
}

// PrimerTree returns a tree that sends primers and nothing else, each at its instant. Its sessions and turns have the numbers
// of the trace. They spawn nothing and wait for nothing.
func (t *Trace) PrimerTree(primers []Primer, at []time.Duration) conductor.Assignment {
	tree := &conductor.Tree{Sessions: slices.Clone(t.Sessions), Branches: t.Branches}
	for n := range tree.Sessions {
		tree.Sessions[n].Turns = nil
	}
	start := &conductor.StartState{TurnsDone: make([]int, len(t.Sessions))}
	for k, p := range primers {
		tree.Sessions[p.Session].Turns = make([]conductor.Turn, p.Turn+1)
		start.TurnsDone[p.Session] = p.Turn
		start.Live = append(start.Live, conductor.LiveSession{Session: p.Session, Turn: p.Turn, Due: at[k]})
	}
	return conductor.Assignment{Tree: tree, Start: start}
}
