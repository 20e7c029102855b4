package measure

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/lazyregexp"
)

// Parts say of which parts of a load results are, and how sure their clocks are: doc/spec/results.md 3.10.
type Parts struct {
	Of     int          `json:"of"`     // of the load
	Used   int          `json:"used"`   // that the figures are over
	Clocks Clocks       `json:"clocks"` // of these
	List   []PartReport `json:"list"`   // all of the load, by their numbers
}

// Clocks say how far the clocks of parts may be off.
type Clocks struct {
	Uncertainty Number            `json:"uncertainty"` // seconds: of an instant on the clock of part 0; Missing: not known, the clocks were taken as right
	Figures     map[string]Number `json:"figures"`     // by how much a figure that crosses parts may be off for that, in its unit
}

// PartReport is what became of one part.
type PartReport struct {
	Number      int          `json:"part"`
	Host        string       `json:"host"`               // name of its machine; "": not known
	LeftOut     string       `json:"left_out,omitempty"` // why no figure is over it; "": they are
	Lost        string       `json:"lost,omitempty"`     // why it has not come to its end; "": it has
	Requests    int          `json:"requests"`           // sent in the profiling phase
	Completed   int          `json:"completed"`
	Failed      int          `json:"failed"` // neither cancelled nor over the context
	TTFT        Quantiles    `json:"ttft"`   // of the headline
	Lateness    Quantiles    `json:"lateness"`
	Bound       bool         `json:"bound"`                 // its client delayed its requests
	BoundBy     []string     `json:"bound_by"`              // by what; nil: it is not bound
	Standstills *Standstills `json:"standstills,omitempty"` // of its client; nil: none
	Offset      Number       `json:"offset"`                // seconds: of part 0's clock to its own when profiling began; Missing: not known
	Uncertainty Number       `json:"uncertainty"`           // seconds: of an instant of its records; Missing: not known
}

// PartReport returns what was counted, as of a part with some facts; nil: it has not come to its end.
func (a *Aggregate) PartReport(facts *Facts) PartReport {
	s := a.Summary(RunInfo{Facts: facts})
	return PartReport{
		Requests: s.Requests, Completed: s.Completed, Failed: ErrorCounts(s.Errors).Failed(), TTFT: s.TTFT.quantiles(), Lateness: s.Lateness.quantiles(),
		Bound: s.Client.Bound, BoundBy: s.Client.BoundBy, Standstills: s.Client.Standstills, Offset: Missing, Uncertainty: Missing,
	}
}

// Whole reports whether the figures are over all parts, and each has come to its end.
func (p *Parts) Whole() bool { return len(p.Problems()) == 0 }

// Problems say, a line a part, which parts are left out or were lost; none of no parts, nil.
func (p *Parts) Problems() (list []string) {
	if p == nil {
		return nil
	}
	for _, r := range p.List {
		switch {
		case r.LeftOut != "":
			list = append(list, fmt.Sprintf("part %d is left out: %s", r.Number, r.LeftOut))
		case r.Lost != "":
			list = append(list, fmt.Sprintf("part %d has what it had written: %s", r.Number, r.Lost))
		}
	}
	return list
}

// maxNamedParts is how many parts a text names.
const maxNamedParts = 10

// FirstOfParts returns the first of some lines about parts, and how many more there are.
func FirstOfParts(lines []string) []string {
	if len(lines) <= maxNamedParts {
		return lines
	}
	return append(lines[:maxNamedParts:maxNamedParts], fmt.Sprintf("and %d more parts", len(lines)-maxNamedParts))
}

// Title says of how many parts the figures are.
func (p *Parts) Title() string {
	switch {
	case p.Whole():
		return Plural(p.Of, "part", "parts") + ", the whole load"
	case p.Used == p.Of:
		return fmt.Sprintf("NOT THE WHOLE LOAD: %d of %d parts, not all to their ends", p.Used, p.Of)
	}
	return fmt.Sprintf("NOT THE WHOLE LOAD: %d of %d parts", p.Used, p.Of)
}

// ClockText says how far the clocks of the parts agree; "" where only one was used.
func (p *Parts) ClockText() string {
	switch u := p.Clocks.Uncertainty; {
	case p.Used < 2:
		return ""
	case u.IsMissing():
		return "how far their clocks agree is not known: each was taken as right"
	default:
		return "their clocks agree within " + FormatSeconds(u)
	}
}

// row writes which parts the figures are over.
func (p *Parts) row(b *strings.Builder) {
	if p == nil {
		return
	}
	text := p.Title()
	if clocks := p.ClockText(); clocks != "" {
		text += "; " + clocks
	}
	row(b, "parts", "%s", text)
	for _, problem := range FirstOfParts(p.Problems()) {
		row(b, "", "  %s", problem)
	}
}

// bind makes a client bound if that of a part is, and adds up the standstills of the parts.
func (c *Client) bind(p *Parts) {
	if p == nil {
		return
	}
	var by []string
	for _, r := range p.List {
		c.Standstills = c.Standstills.With(r.Standstills)
		if r.Bound {
			c.Bound = true
			by = append(by, fmt.Sprintf("part %d (%s): %s", r.Number, r.Host, strings.Join(r.BoundBy, "; ")))
		}
	}
	c.BoundBy = append(c.BoundBy, FirstOfParts(by)...)
}

// withFigures returns the parts with what the clocks mean for the figures of a summary that cross them: instants of two clocks
// bound a window. Nil stays nil.
func (p *Parts) withFigures(s *Summary) *Parts {
	if p == nil {
		return nil
	}
	q, u := *p, p.Clocks.Uncertainty
	q.Clocks.Figures = map[string]Number{"duration": 2 * u, "phase_duration": 2 * u, "throughput_window": 2 * u, "first_request": 2 * u}
	share := clockShare(u, s.ThroughputWindow.Seconds)
	for name, rate := range map[string]Number{"request_rate": s.RequestRate, "prompt_token_rate": s.PromptTokenRate, "output_token_rate": s.OutputTokenRate, "goodput": s.Goodput.rate()} {
		q.Clocks.Figures[name] = rate * share
	}
	return &q
}

// clockShare returns by which share of it a rate over some seconds may be off, if both ends of them may be so many seconds off.
func clockShare(uncertainty, window Number) Number { return ratio(2*uncertainty, window-2*uncertainty) }

// Margin returns what stands behind a figure that crosses parts, such as " ± 0.01 %": of a rate over some seconds, or of a time; "" where
// none does. p may be nil.
func (p *Parts) Margin(window Number, isRate bool) string {
	if p == nil || p.Used < 2 {
		return ""
	}
	u := p.Clocks.Uncertainty
	share := clockShare(u, window)
	switch {
	case u.IsMissing(), isRate && share.IsMissing():
		return " ± unknown"
	case isRate:
		return " ± " + thousandths(100*float64(share)) + " %"
	}
	return " ± " + FormatSeconds(2*u)
}

// ClockMargin returns the margin of a rate of the headline, or of a time.
func (s *Summary) ClockMargin(isRate bool) string {
	return s.Parts.Margin(s.ThroughputWindow.Seconds, isRate)
}

// thousandths formats a number that bounds others: never as less than it is, nor as less than 0.001.
func thousandths(v float64) string {
	return strconv.FormatFloat(max(1, math.Ceil(v*1000))/1000, 'g', -1, 64)
}

// PartInfo says which part of a load that several clients play a run is.
type PartInfo struct {
	Number   int `json:"number"`             // from 0
	Of       int `json:"of"`                 // parts
	Lanes    int `json:"concurrency"`        // of the whole load; 0: trees arrive without a cap
	Requests int `json:"requests,omitempty"` // bound of the whole load; 0: none
	Trees    int `json:"trees,omitempty"`    // bound of the whole load; 0: none

	Meeting string `json:"meeting,omitempty"` // id of the meeting of the parts, 16 hex digits; "": they have not met
}

// PartDir returns the name of the directory of a part, in that of the whole load.
func PartDir(number, of int) string { return fmt.Sprintf("part-%05d-of-%05d", number, of) }

// partDir matches what PartDir returns.
var partDir = lazyregexp.New(`^part-([0-9]{5,9})-of-([0-9]{5,9})$`)

// ParsePartDir returns the part that a directory is of; false if its name is not one that PartDir returns.
func ParsePartDir(name string) (number, of int, ok bool) {
	m := partDir().FindStringSubmatch(name)
	if m == nil {
		return 0, 0, false
	}
	number, _ = strconv.Atoi(m[1]) // digits
	of, _ = strconv.Atoi(m[2])
	return number, of, true
}

// isPart reports whether the run plays a load with others.
func (info *RunInfo) isPart() bool { return info.Part != nil && info.Part.Of > 1 }

// row writes that a summary is of a part; nothing of a whole load.
func (p *PartInfo) row(b *strings.Builder) {
	if p == nil || p.Of < 2 {
		return
	}
	row(b, "part", "%d of %d, from 0: its rates, sums and lanes are of this part alone", p.Number, p.Of)
	row(b, "", "the whole load, and its verdict: agentx report of the directory above")
}

// MaxParts is the largest number of parts of a load: each plays a lane.
const MaxParts = 1 << 16
