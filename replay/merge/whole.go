package merge

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/scrape"
)

// run returns the load as one run.
func (l *load) run() *Run {
	used := l.used()
	run := &Run{Dir: l.dir, Known: true, parts: used, server: l.served()}
	l.countPasses()
	run.Info = l.info()
	run.Info.ServerMetrics = run.server.info.ServerMetrics
	run.lanes = l.lanes()
	run.Missing = l.missing(&run.Info)
	return run
}

// info returns what was run: what all parts have in common is that of the first.
func (l *load) info() measure.RunInfo {
	used := l.used()
	info := used[0].info
	info.Part, info.Parts = nil, l.report()
	info.Out, info.Records = l.dir, ""
	info.Options = slices.DeleteFunc(slices.Clone(info.Options), func(o measure.Option) bool { return o.Name == "part" })
	info.Lanes = l.sum(func(p *part) int { return p.info.Lanes })
	info.Host, info.Start, info.End = l.hosts(), l.begun(), l.ended()
	if a := info.Arrivals; a != nil {
		plan := *a
		plan.Rate, plan.Cap = plan.Rate*float64(len(used)), l.sum(func(p *part) int { return capOf(p.info.Arrivals) })
		info.Arrivals = &plan
	}
	info.Calibration, info.Phases = l.calibration(), l.phases()
	info.Facts = l.facts()
	if info.Facts != nil {
		verdict := used[0].seen.verdict
		for _, p := range used[1:] {
			verdict.Join(p.seen.verdict)
		}
		info.Facts.Valid, info.Facts.Reasons, info.Facts.Coverage = verdict.Judge(&info, used[0].seen.rules)
	}
	return info
}

// capOf returns the most trees of a plan that are played at a time; 0: no cap.
func capOf(a *measure.ArrivalPlan) int {
	if a == nil {
		return 0
	}
	return a.Cap
}

// sum adds up a number of all parts that are used.
func (l *load) sum(of func(p *part) int) (n int) {
	for _, p := range l.used() {
		n += of(p)
	}
	return n
}

// maxHosts is how many machines a text names.
const maxHosts = 4

// hosts names the machines of the parts.
func (l *load) hosts() string {
	var list []string
	for _, p := range l.used() {
		if !slices.Contains(list, p.info.Host) {
			list = append(list, p.info.Host)
		}
	}
	if n := len(list); n > maxHosts {
		list = append(list[:maxHosts], fmt.Sprintf("and %d more", n-maxHosts))
	}
	return strings.Join(list, ", ")
}

// wall moves an instant of the clock of a part to that of part 0.
func (p *part) wall(at time.Time) time.Time {
	moved, _ := p.move(at.UnixNano())
	return time.Unix(0, moved).UTC()
}

// begun returns when the first part began.
func (l *load) begun() time.Time {
	used := l.used()
	first := used[0].wall(used[0].info.Start)
	for _, p := range used {
		if at := p.wall(p.info.Start); at.Before(first) {
			first = at
		}
	}
	return first
}

// ended returns when the last part ended; nil if one has not.
func (l *load) ended() (last *time.Time) {
	for _, p := range l.used() {
		if p.info.End == nil {
			return nil
		}
		if at := p.wall(*p.info.End); last == nil || at.After(*last) {
			last = &at
		}
	}
	return last
}

// phases returns when the phases of the load were played; nil if no part knows.
func (l *load) phases() (list []measure.PhaseSpan) {
	for _, name := range phaseNames {
		if !slices.ContainsFunc(l.used(), func(p *part) bool { _, ok := p.phaseStart(name); return ok }) {
			continue
		}
		span := measure.PhaseSpan{Name: name, Start: time.Unix(0, l.origins[name]).UTC(), Duration: l.phaseDuration(name)}
		if len(list) > 0 {
			span.Offset = span.Start.Sub(list[0].Start).Seconds()
		}
		list = append(list, span)
	}
	return list
}

// calibration adds up what the machines of the parts reached alone; nil unless each was calibrated. Times are those of the slowest.
func (l *load) calibration() *measure.Calibration {
	var sum *measure.Calibration
	for _, p := range l.used() {
		c := p.info.Calibration
		switch {
		case c == nil:
			return nil
		case c.Error != "":
			return &measure.Calibration{Error: fmt.Sprintf("part %d: %s", p.number, c.Error)}
		case sum == nil:
			sum = new(measure.Calibration)
			*sum = *c
			continue
		}
		sum.Lanes, sum.Requests, sum.Seconds = sum.Lanes+c.Lanes, sum.Requests+c.Requests, max(sum.Seconds, c.Seconds)
		sum.RequestRate, sum.SendRate, sum.CPUShare = sum.RequestRate+c.RequestRate, sum.SendRate+c.SendRate, sum.CPUShare+c.CPUShare
		sum.TTFT, sum.TTFTLoaded = slower(sum.TTFT, c.TTFT), slower(sum.TTFTLoaded, c.TTFTLoaded)
	}
	return sum
}

// slower returns the higher of two figures each.
func slower(a, b measure.Quantiles) measure.Quantiles {
	return measure.Quantiles{P50: max(a.P50, b.P50), P99: max(a.P99, b.P99)}
}

// report says what became of each part.
func (l *load) report() *measure.Parts {
	used := l.used()
	parts := &measure.Parts{Of: l.of, Used: len(used)}
	for _, p := range l.parts {
		r := measure.NewAggregate(measure.Rules{}).PartReport(nil) // of no record
		if p.leftOut == "" {
			r = p.seen.report
			if p.clock != nil || len(used) == 1 || p.number == 0 && l.met() {
				start := p.phases[measure.ProfilingPhase].start
				moved, _ := p.move(start)
				r.Offset, r.Uncertainty = measure.Number(float64(moved-start)/1e9), measure.Number(float64(p.seen.uncertainty)/1e9)
			}
			parts.Clocks.Uncertainty = max(parts.Clocks.Uncertainty, r.Uncertainty) // Missing is the largest
		}
		r.Number, r.Host, r.LeftOut, r.Lost = p.number, p.info.Host, p.leftOut, p.lost
		parts.List = append(parts.List, r)
	}
	return parts
}

// met reports whether the parts have compared their clocks with that of part 0.
func (l *load) met() bool {
	return slices.ContainsFunc(l.used(), func(p *part) bool { return p.clock != nil })
}

// served returns the part whose samples of the servers are those of the load: every part reads the same pages, and the first that has
// samples reads them by the clock that is nearest to part 0.
func (l *load) served() *part {
	used := l.used()
	if k := slices.IndexFunc(used, func(p *part) bool { return p.info.ServerMetrics != nil }); k >= 0 {
		return used[k]
	}
	return used[0]
}

// lanes returns those of all parts, by their numbers; nil if some are not known.
func (l *load) lanes() (list []measure.LaneReport) {
	for _, p := range l.used() {
		if p.lanes == nil {
			return nil
		}
		for _, lane := range p.lanes {
			lane.FirstDue = p.instant(measure.ProfilingPhase, lane.FirstDue)
			for _, at := range []*measure.Number{&lane.FirstRequest, &lane.Finished} {
				if !at.IsMissing() {
					*at = measure.Number(p.instant(measure.ProfilingPhase, float64(*at)))
				}
			}
			list = append(list, lane)
		}
	}
	slices.SortStableFunc(list, func(a, b measure.LaneReport) int { return cmp.Compare(a.Lane, b.Lane) })
	return list
}

// missing says what is not known of some part.
func (l *load) missing(info *measure.RunInfo) (list []string) {
	list = append(list, measure.FirstOfParts(info.Parts.Problems())...)
	if info.Parts.Used > 1 && info.Parts.Clocks.Uncertainty.IsMissing() {
		list = append(list, "the parts have not compared their clocks: each was taken as right, and how far rates are off for that is not known")
	}
	var assumed []string
	for _, p := range l.used() {
		if p.phases[measure.ProfilingPhase].assume && p.seen.report.Requests > 0 {
			assumed = append(assumed, fmt.Sprintf("part %d: when its phases began is not known: with those of the load", p.number))
		}
	}
	return append(list, measure.FirstOfParts(assumed)...)
}

// countPasses counts anew how often the trace of each tree was begun before: a part counts its own trees alone.
func (l *load) countPasses() {
	type numbered struct {
		number int
		tree
		of *part
	}
	byTrace := map[string][]numbered{}
	for _, p := range l.used() {
		for number, t := range p.seen.trees {
			byTrace[t.trace] = append(byTrace[t.trace], numbered{number, t, p})
		}
		p.seen.trees, p.passes = nil, map[int]int{}
	}
	for _, list := range byTrace {
		slices.SortFunc(list, func(a, b numbered) int { return cmp.Or(cmp.Compare(a.begun, b.begun), cmp.Compare(a.number, b.number)) })
		for pass, t := range list {
			t.of.passes[t.number] = pass
		}
	}
}

// Servers reads what the servers said of themselves. Every part reads the pages of all servers: those of one part are taken. The error
// wraps fs.ErrNotExist where nothing was read.
func (r *Run) Servers() (*scrape.Data, error) {
	if r.parts == nil {
		return scrape.ReadFile(filepath.Join(r.Dir, scrape.File))
	}
	data, err := scrape.ReadFile(filepath.Join(r.server.dir, scrape.File))
	if err != nil {
		return nil, err
	}
	for _, e := range data.Endpoints {
		for k := range e.Answers {
			e.Answers[k].At, _ = r.server.move(e.Answers[k].At)
		}
	}
	return data, nil
}
