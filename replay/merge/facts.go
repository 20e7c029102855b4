package merge

import (
	"cmp"
	"reflect"
	"slices"

	"github.com/agentx/agentx/replay/measure"
)

// facts returns what is known at the end of the load, of the parts that have come to their ends; nil if none has.
func (l *load) facts() *measure.Facts {
	var list []*part
	for _, p := range l.used() {
		if p.info.Facts != nil {
			list = append(list, p)
		}
	}
	if len(list) == 0 {
		return nil
	}
	f := &measure.Facts{PhaseDuration: l.phaseDuration(measure.ProfilingPhase), Prompts: &measure.Prompts{}, Deadlocks: []measure.DeadlockReport{}}
	cores, bounded := map[string]int{}, true
	for _, p := range list {
		g := p.info.Facts
		f.ExpectedDuration = max(f.ExpectedDuration, g.ExpectedDuration)
		f.PrefillLimit = max(f.PrefillLimit, g.PrefillLimit)
		f.CPU, f.PeakRSS = f.CPU+g.CPU, f.PeakRSS+g.PeakRSS
		cores[p.info.Host] = max(cores[p.info.Host], g.Cores)
		f.Cancelled = f.Cancelled || g.Cancelled
		addFields(&f.Branches, g.Branches)
		f.Prompts = addPrompts(f.Prompts, g.Prompts)
		f.Deadlocks = append(f.Deadlocks, p.deadlocks()...)
		if bounded = bounded && g.Deadline > 0; bounded {
			f.Deadline = max(f.Deadline, p.instant(measure.ProfilingPhase, g.Deadline))
		}
	}
	if !bounded {
		f.Deadline = 0
	}
	for _, n := range cores {
		f.Cores += n
	}
	if len(f.Deadlocks) > measure.MaxDeadlocks {
		f.Deadlocks = f.Deadlocks[:measure.MaxDeadlocks]
	}
	f.Warmup, f.Load, f.Arrivals, f.LostParts = l.warmup(list), l.busy(list), arrivals(list), l.lost()
	return f
}

// phaseDuration returns the seconds from the beginning of a phase to its end in the last part.
func (l *load) phaseDuration(name string) (seconds float64) {
	for _, p := range l.used() {
		for _, phase := range p.info.Phases {
			if phase.Name == name {
				seconds = max(seconds, p.instant(name, phase.Duration))
			}
		}
		seconds = max(seconds, float64(p.seen.ends[name])/1e9)
	}
	return seconds
}

// addFields adds the numbers of a struct to those of another one.
func addFields[T any](to *T, from T) {
	a, b := reflect.ValueOf(to).Elem(), reflect.ValueOf(from)
	for k := range a.NumField() {
		if a.Field(k).CanInt() {
			a.Field(k).SetInt(a.Field(k).Int() + b.Field(k).Int())
		} else {
			a.Field(k).SetFloat(a.Field(k).Float() + b.Field(k).Float())
		}
	}
}

// addPrompts adds up the prompts of parts; nil if those of one are not known.
func addPrompts(a, b *measure.Prompts) *measure.Prompts {
	if a == nil || b == nil {
		return nil
	}
	return &measure.Prompts{Tokens: a.Tokens + b.Tokens, Reused: a.Reused + b.Reused}
}

// deadlocks returns those of the part, as of the whole load.
func (p *part) deadlocks() []measure.DeadlockReport {
	list := slices.Clone(p.info.Facts.Deadlocks)
	for k := range list {
		d := &list[k]
		d.Tree, d.At, d.Last.At = p.whole(d.Tree), p.instant(d.Phase, d.At), p.instant(d.Phase, d.Last.At)
	}
	return list
}

// warmup adds up what is known of the warmups; nil if no part has one.
func (l *load) warmup(list []*part) *measure.WarmupFacts {
	var sum *measure.WarmupFacts
	for _, p := range list {
		w := p.info.Facts.Warmup
		switch {
		case w == nil:
		case sum == nil:
			sum = new(measure.WarmupFacts)
			*sum = *w
		default:
			addFields(sum, *w)
		}
	}
	if sum != nil {
		sum.Duration = measure.Number(l.phaseDuration(measure.WarmupPhase))
	}
	return sum
}

// busy returns how busy the load was up to its last send. The requests in flight are counted again; lanes are the sums of what the parts
// have counted, each up to its own last send.
func (l *load) busy(list []*part) *measure.Load {
	var all flights
	for _, p := range l.used() {
		all.sent, all.ended = append(all.sent, p.seen.flights.sent...), append(all.ended, p.seen.flights.ended...)
		p.seen.flights = flights{}
	}
	until, mean, most, known := all.load()
	b := &measure.Load{Seconds: float64(until) / 1e9, MaxRequests: most, Requests: measure.Missing, Playing: measure.Missing, InFlight: measure.Missing}
	if !known {
		return b
	}
	b.Requests, b.Playing, b.InFlight = measure.Number(mean), 0, 0
	for _, p := range list {
		g := p.info.Facts.Load
		if g == nil {
			continue
		}
		if g.Seconds > 0 {
			share := measure.Number(g.Seconds / b.Seconds)
			b.Playing, b.InFlight = b.Playing+g.Playing*share, b.InFlight+g.InFlight*share
		}
	}
	return b
}

// arrivals adds up those of the parts; nil in lanes.
func arrivals(list []*part) *measure.ArrivalFacts {
	var sum *measure.ArrivalFacts
	for _, p := range list {
		a := p.info.Facts.Arrivals
		if a == nil {
			continue
		}
		if sum == nil {
			sum = new(measure.ArrivalFacts)
			*sum = *a
			continue
		}
		sum.Arrived, sum.Opened, sum.Skipped, sum.Waiting = sum.Arrived+a.Arrived, sum.Opened+a.Opened, sum.Skipped+a.Skipped, sum.Waiting+a.Waiting
		sum.MostOpen, sum.MostWaiting = sum.MostOpen+a.MostOpen, sum.MostWaiting+a.MostWaiting
		sum.Backlog, sum.SentRate = addQuarters(sum.Backlog, a.Backlog), addQuarters(sum.SentRate, a.SentRate)
	}
	return sum
}

// addQuarters adds means over the same quarters; nil if some are not known.
func addQuarters(a, b measure.Quarters) (sum measure.Quarters) {
	if len(a) != len(b) {
		return nil
	}
	for k := range a {
		sum = append(sum, a[k]+b[k])
	}
	return sum
}

// lost returns the parts that are missing or were lost, by their numbers: what the others have noted, and what is not there.
func (l *load) lost() (list []measure.LostPart) {
	byNumber := map[int]measure.LostPart{}
	for _, p := range l.used() {
		if p.info.Facts != nil {
			for _, lost := range p.info.Facts.LostParts {
				byNumber[lost.Number] = lost
			}
		}
	}
	for _, p := range l.parts {
		if _, noted := byNumber[p.number]; !noted && p.problem() != "" {
			byNumber[p.number] = measure.LostPart{Number: p.number, Host: p.info.Host, Cause: cmp.Or(p.leftOut, p.lost)}
		}
	}
	for number := range l.of {
		if lost, ok := byNumber[number]; ok {
			list = append(list, lost)
		}
	}
	return list
}
