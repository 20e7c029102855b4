package fit

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/replay/measure"
)

// Error is a figure as it was measured and as the engine gives it.
type Error struct {
	Name                string
	Measured, Simulated measure.Number
	Relative            float64 // simulated/measured - 1; of a share the difference
	Closed              float64 // the same where requests wait for the engine; NaN: this was not played
}

// Residue is how far off the times of requests are that have something in common.
type Residue struct {
	Of, From, To string
	Requests     int
	TTFT, ITL    measure.Number // medians of simulated/measured - 1; Missing: no answer has two tokens
}

// ByPlace orders requests of a load by the places of what was measured; nil: one was not sent.
func ByPlace(list []Request, simulated []*fleet.Request) []*fleet.Request {
	ordered := make([]*fleet.Request, len(list))
	for _, q := range simulated {
		ordered[q.ID] = q
	}
	return ordered
}

// Compare returns the figures of requests as they were measured and as an engine gives them, of those that hold returns true for. Simulated
// requests stand by place.
func Compare(list []Request, simulated []*fleet.Request, hold func(*Request) bool) []Error {
	return compare(list, simulated, hold, func(*fleet.Request) []int64 { return nil })
}

// compare is Compare with the gaps between tokens, where emitted returns the instants of those that were simulated, and the run has those that
// were measured.
func compare(list []Request, simulated []*fleet.Request, hold func(*Request) bool, emitted func(*fleet.Request) []int64) []Error {
	var measured, played sample
	for k := range list {
		r, q := &list[k], simulated[k]
		if !hold(r) || q == nil || q.Tokens == 0 {
			continue
		}
		measured.measured(r)
		played.played(q)
		if tokens := emitted(q); len(tokens) == len(r.Messages) {
			measured.addGaps(r.Messages)
			played.addGaps(tokens)
		}
	}
	return errorsOf(&measured, &played)
}

// CompareLoads is Compare for all requests of both, of which none stands for another.
func CompareLoads(list []Request, simulated []*fleet.Request) []Error {
	var measured, played sample
	for k := range list {
		measured.measured(&list[k])
	}
	for _, q := range simulated {
		if q.Tokens > 0 {
			played.played(q)
		}
	}
	return errorsOf(&measured, &played)
}

// errorsOf returns the figures of two samples that the first one has.
func errorsOf(measured, played *sample) (errors []Error) {
	was, is := measured.figures(), played.figures()
	for k, f := range was {
		e := Error{Name: f.name, Measured: f.value, Simulated: is[k].value, Closed: math.NaN()}
		if f.value.IsMissing() || f.value == 0 && f.name != "hit_rate" {
			continue
		}
		e.Relative = float64(is[k].value/f.value) - 1
		if f.name == "hit_rate" {
			e.Relative = float64(is[k].value - f.value)
		}
		errors = append(errors, e)
	}
	return errors
}

// sample is the durations of requests, in seconds.
type sample struct {
	ttft, itl, latency     []float64
	gaps                   []float64
	from, to               int64
	tokens, prompt, cached int64
	unknown                bool // what was cached
}

func (s *sample) measured(r *Request) {
	s.add(r.Sent, r.First, r.Last, r.Output, r.Prompt, r.Cached)
}

func (s *sample) played(q *fleet.Request) {
	s.add(q.Arrival, q.First, q.Last, q.Tokens, q.Prompt, q.Reused)
}

// add adds a request.
func (s *sample) add(sent, first, last int64, tokens, prompt, cached int) {
	if len(s.ttft) == 0 {
		s.from = sent
	}
	s.from, s.to = min(s.from, sent), max(s.to, last)
	s.ttft, s.latency = append(s.ttft, float64(first-sent)/1e9), append(s.latency, float64(last-sent)/1e9)
	if tokens > 1 {
		s.itl = append(s.itl, float64(last-first)/1e9/float64(tokens-1))
	}
	s.tokens, s.prompt, s.cached = s.tokens+int64(tokens), s.prompt+int64(prompt), s.cached+int64(cached)
	s.unknown = s.unknown || cached < 0
}

// addGaps adds the gaps between tokens.
func (s *sample) addGaps(instants []int64) {
	for k, at := range instants[min(1, len(instants)):] {
		s.gaps = append(s.gaps, float64(at-instants[k])/1e9)
	}
}

// figure is a named number.
type figure struct {
	name  string
	value measure.Number
}

// figures returns those that are compared.
func (s *sample) figures() (list []figure) {
	for _, d := range []struct {
		name   string
		values []float64
	}{{"ttft", s.ttft}, {"itl", s.itl}, {"token_gap", s.gaps}, {"latency", s.latency}} {
		stat := measure.NewStat(d.values)
		list = append(list, figure{d.name + ".p50", stat.P50}, figure{d.name + ".p95", stat.P95})
	}
	rate, hits := measure.Missing, measure.Missing
	if s.to > s.from {
		rate = measure.Number(float64(s.tokens) / (float64(s.to-s.from) / 1e9))
	}
	if !s.unknown && s.prompt > 0 {
		hits = measure.Number(float64(s.cached) / float64(s.prompt))
	}
	return append(list, figure{"output_token_rate", rate}, figure{"hit_rate", hits})
}

// report fills a result with the engine of a trial and its errors.
func (p *problem) report(r *Result, t *trial) error {
	open, err := p.play(t.structure, t.formula, false)
	if err != nil {
		return err
	}
	seen := &engine.Seen{}
	for _, track := range open.tracks {
		for k := range track.works {
			seen.Add(&track.works[k])
		}
	}
	held := func(r *Request) bool { return !fitted(r) }
	r.Residuals, r.Errors = p.residuals(open), compare(p.list, open.requests, held, open.emitted)
	closed, err := p.play(t.structure, t.formula, true)
	if err != nil {
		return err
	}
	f := &engine.Fit{Requests: len(p.list), Disaggregated: t.structure[split] == 1, Errors: map[string]float64{}}
	for _, e := range compare(p.list, closed.requests, held, closed.emitted) {
		k := slices.IndexFunc(r.Errors, func(o Error) bool { return o.Name == e.Name })
		if k >= 0 && !math.IsNaN(e.Relative) {
			r.Errors[k].Closed, f.Errors[e.Name] = e.Relative, math.Round(e.Relative*1e4)/1e4
		}
	}
	t.formula.Seen = seen
	r.Engine = p.config(t.structure, t.formula)
	r.Engine.Fit = f
	return nil
}

// residuals groups the requests that were held out into quarters by prefix, batch and time.
func (p *problem) residuals(open *played) (list []Residue) {
	var held []int
	for k := range p.list {
		if !fitted(&p.list[k]) && open.requests[k].Tokens > 0 {
			held = append(held, k)
		}
	}
	for _, by := range []struct {
		name string
		of   func(k int) float64
		text func(v float64) string
	}{
		{"prefix", func(k int) float64 { return float64(open.requests[k].Reused) }, func(v float64) string { return itoa(int(v)) }},
		{"in flight", func(k int) float64 { return float64(p.inFlight(k)) }, func(v float64) string { return itoa(int(v)) }},
		{"sent at, s", func(k int) float64 { return float64(p.list[k].Sent) / 1e9 }, func(v float64) string { return fmt.Sprintf("%.0f", v) }},
	} {
		slices.SortStableFunc(held, func(a, b int) int {
			switch x, y := by.of(a), by.of(b); {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		})
		for begin, q := 0, 1; q <= 4; q++ {
			end := q * len(held) / 4
			for 0 < end && end < len(held) && by.of(held[end]) == by.of(held[end-1]) { // equal ones are together
				end++
			}
			if end <= begin {
				continue
			}
			part := held[begin:end]
			begin = end
			var ttft, itl []float64
			for _, k := range part {
				r, s := &p.list[k], open.requests[k]
				ttft = append(ttft, float64(s.First-s.Arrival)/float64(r.First-r.Sent)-1)
				if r.Output > 1 && r.Last > r.First {
					itl = append(itl, float64(s.Last-s.First)/float64(r.Last-r.First)-1)
				}
			}
			list = append(list, Residue{by.name, by.text(by.of(part[0])), by.text(by.of(part[len(part)-1])), len(part), measure.NewStat(ttft).P50, measure.NewStat(itl).P50})
		}
	}
	return list
}

// inFlight returns how many requests were in flight when one was sent, that one included.
func (p *problem) inFlight(k int) (n int) {
	at := p.list[k].Sent
	for i := range p.list[:k+1] {
		if p.list[i].Last > at {
			n++
		}
	}
	return n
}

// Text returns a result for people.
func (r *Result) Text() string {
	var b strings.Builder
	c := r.Engine
	fmt.Fprintf(&b, "%-24s%-16s%-16s%10s%10s\n", "structure", "fits best", "else", "error", "else")
	for _, m := range r.Margins {
		other, note := percent(m.Worse), ""
		switch {
		case m.Other == "":
			other, note = "", "  told by the server"
		case math.IsInf(m.Worse, 1):
			other = "impossible"
		case !m.Decided:
			note = "  the run does not tell them apart"
		}
		fmt.Fprintf(&b, "%-24s%-16s%-16s%10s%10s%s\n", m.Of, m.Chosen, m.Other, percent(m.Score), other, note)
	}
	f := c.Timing.Formula
	fmt.Fprintf(&b, "\nservers tell: %s\npass_ms %.4g, weights_ms %.4g, token_ms %.4g, attention_ms %.4g, kv_token_ms %.4g, sequence_ms %.4g, request_ms %.4g\nseen: %s\n\n",
		r.Told, f.Pass, f.Weights, f.Token, f.Attention, f.KV, f.Sequence, f.Request, f.Seen)
	held := 0
	for _, one := range r.Residuals {
		if one.Of == r.Residuals[0].Of {
			held += one.Requests
		}
	}
	fmt.Fprintf(&b, "of %d requests, in the trees that were not fitted:\n%s", held, Table(r.Errors))
	fmt.Fprintf(&b, "\n%-24s%-24s%10s%12s%12s\n", "median error by", "from, to", "requests", "ttft", "itl")
	for _, one := range r.Residuals {
		fmt.Fprintf(&b, "%-24s%-24s%10d%12s%12s\n", one.Of, one.From+" to "+one.To, one.Requests, signed("", one.TTFT), signed("", one.ITL))
	}
	return b.String()
}

// Table returns measured beside simulated figures for people.
func Table(errors []Error) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-24s%12s%12s%14s", "", "measured", "simulated", "error")
	closed := len(errors) > 0 && !math.IsNaN(errors[0].Closed)
	if closed {
		fmt.Fprintf(&b, "%14s", "closed loop")
	}
	b.WriteByte('\n')
	for _, e := range errors {
		fmt.Fprintf(&b, "%-24s%12s%12s%14s", e.Name, show(e.Name, e.Measured), show(e.Name, e.Simulated), signed(e.Name, measure.Number(e.Relative)))
		if closed {
			fmt.Fprintf(&b, "%14s", signed(e.Name, measure.Number(e.Closed)))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// show writes a figure with its unit.
func show(name string, v measure.Number) string {
	switch {
	case v.IsMissing():
		return "-"
	case name == "hit_rate":
		return percent(float64(v))
	case name == "output_token_rate":
		return fmt.Sprintf("%.4g/s", float64(v))
	}
	return fmt.Sprintf("%.4g s", float64(v))
}

func percent(v float64) string { return fmt.Sprintf("%.2f %%", 100*v) }
func itoa(n int) string        { return strconv.Itoa(n) }

// signed writes the error of a figure.
func signed(name string, v measure.Number) string {
	if v.IsMissing() {
		return "-"
	}
	return fmt.Sprintf("%+.2f %s", 100*float64(v), engine.ErrorUnit(name))
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// onOff is the word of a truth.
func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
