package measure

import (
	"fmt"
	"strings"
)

// The modes of an ArrivalPlan.
const (
	RecordedArrivals = "recorded" // every trace opens at its recorded start
	RateArrivals     = "rate"     // trees open at a rate
)

// ArrivalPlan says how the trees of a run arrive, where they do not wait for lanes: doc/spec/replay.md 14.
type ArrivalPlan struct {
	Mode  string  `json:"mode"`  // RecordedArrivals or RateArrivals
	Rate  float64 `json:"rate"`  // trees per second; 0: they arrive as recorded
	Draw  string  `json:"draw"`  // how the gaps between arrivals are drawn, such as poisson; "": they are recorded
	Ramp  float64 `json:"ramp"`  // over how many seconds the rate grows to Rate
	From  float64 `json:"from"`  // seconds of the recording: where the window that is played begins
	To    float64 `json:"to"`    // where it ends; 0: with the recording
	Cap   int     `json:"cap"`   // most trees that are played at a time; 0: no cap
	Turns string  `json:"turns"` // gaps or absolute: what later turns are due by
}

// ArrivalFacts are what is known of arrivals at the end of a run.
type ArrivalFacts struct {
	Arrived     int      `json:"arrived"`
	Opened      int      `json:"opened"`       // trees
	Skipped     int      `json:"skipped"`      // arrivals whose trace cannot be played
	Waiting     int      `json:"waiting"`      // trees that had arrived and were not opened when the sending ended
	MostOpen    int      `json:"most_open"`    // trees that were played at a time
	MostWaiting int      `json:"most_waiting"` // trees that waited at a time
	Backlog     Quarters `json:"backlog"`      // trees that wait to be opened plus requests in flight
	SentRate    Quarters `json:"sent_rate"`    // requests sent per second
}

// Quarters are means over the four quarters of the time from the first to the last arrival; nil: all trees arrived at one instant.
type Quarters []float64

// backlogGrew reports whether a backlog grew to the end of the arrivals, and by more than what was sent: the servers, or the cap,
// did not keep up. The last condition is Little's law: backlog over requests per second is how long each waits and is served. Where
// sessions pile up, or the rate grows, the backlog grows with what is sent. doc/spec/results.md 3.7.
func backlogGrew(b, sent Quarters) bool {
	if len(b) != 4 || len(sent) != 4 {
		return false
	}
	return b[0] < b[1] && b[1] < b[2] && b[3] >= 1.2*b[2] && b[3] >= 1.5*b[1] && b[3] >= b[1]+2 &&
		b[3]*sent[1] >= 1.5*b[1]*sent[3]
}

// Arrivals are the plan of a run's arrivals and what came of it. Figures that only the end of a run tells are Missing of one that
// was killed.
type Arrivals struct {
	ArrivalPlan
	Arrived     Number   `json:"arrived"`
	Opened      Number   `json:"opened"`
	Skipped     Number   `json:"skipped"`
	Waiting     Number   `json:"waiting"`
	MostOpen    Number   `json:"most_open"`
	MostWaiting Number   `json:"most_waiting"`
	Backlog     Quarters `json:"backlog"`
	SentRate    Quarters `json:"sent_rate"`
	Queued      Stat     `json:"queued"` // how long trees waited to be opened, of those that sent their first turn
}

// outcome returns how a plan of arrivals ended; nil without a plan. facts is nil if the run has not ended.
func (p *ArrivalPlan) outcome(queued []float64, facts *Facts) *Arrivals {
	if p == nil {
		return nil
	}
	a := &Arrivals{
		ArrivalPlan: *p, Arrived: Missing, Opened: Missing, Skipped: Missing, Waiting: Missing, MostOpen: Missing, MostWaiting: Missing,
		Queued: NewStat(queued),
	}
	if facts != nil && facts.Arrivals != nil {
		f := facts.Arrivals
		a.Arrived, a.Opened, a.Skipped, a.Waiting = Number(f.Arrived), Number(f.Opened), Number(f.Skipped), Number(f.Waiting)
		a.MostOpen, a.MostWaiting, a.Backlog, a.SentRate = Number(f.MostOpen), Number(f.MostWaiting), f.Backlog, f.SentRate
	}
	return a
}

// row writes how trees arrived, and what waited.
func (a *Arrivals) row(b *strings.Builder) {
	if a == nil {
		return
	}
	text := "recorded"
	if a.Mode == RateArrivals {
		text = fmt.Sprintf("%s trees/s, %s", FormatQuantity(Number(a.Rate)), a.Draw)
	}
	if !a.Arrived.IsMissing() {
		text += fmt.Sprintf(": %s arrived, %.0f opened, at most %.0f at a time", Plural(int(a.Arrived), "tree", "trees"), a.Opened, a.MostOpen)
		if a.Skipped > 0 {
			text += fmt.Sprintf(", %.0f skipped", a.Skipped)
		}
		if a.MostWaiting > 0 {
			text += fmt.Sprintf("; at most %.0f waited, %.0f at the end", a.MostWaiting, a.Waiting)
		}
	}
	row(b, "arrivals", "%s", text)
	if backlogGrew(a.Backlog, a.SentRate) {
		row(b, "", "the backlog grew to the end: by quarters of the arrivals, trees waiting and requests in flight %s;", a.Backlog)
		row(b, "", "requests sent per second %s", a.SentRate)
	}
}

// String returns the four means.
func (q Quarters) String() string {
	var parts []string
	for _, x := range q {
		parts = append(parts, FormatQuantity(Number(x)))
	}
	return strings.Join(parts, ", ")
}
