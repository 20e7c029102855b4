package capacity

import (
	"fmt"
	"strings"
)

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

func count(lanes int) string {
	if lanes == 1 {
		return "1 lane"
	}
	return fmt.Sprintf("%d lanes", lanes)
}
