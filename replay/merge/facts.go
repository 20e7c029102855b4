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
	f := &measure.Facts{PhaseDuration: l.phaseDuration(measure.ProfilingPhase), Deadlocks: []measure.DeadlockReport{}}
	cores, bounded, counted := map[string]int{}, true, true
	for _, p := range list {
		g := p.info.Facts
		f.ExpectedDuration = max(f.ExpectedDuration, g.ExpectedDuration)
		f.PrefillLimit = max(f.PrefillLimit, g.PrefillLimit)
		f.CPU, f.PeakRSS = f.CPU+g.CPU, f.PeakRSS+g.PeakRSS
		cores[p.info.Host] = max(cores[p.info.Host], g.Cores)
		f.Cancelled = f.Cancelled || g.Cancelled
		counted = counted && g.Prompts != nil
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
	f.Branches = *sum(list, func(f *measure.Facts) *measure.BranchCounts { return &f.Branches })
	f.Ahead = sum(list, func(f *measure.Facts) *measure.Ahead { return f.Ahead })
	f.Arrivals = sum(list, func(f *measure.Facts) *measure.ArrivalFacts { return f.Arrivals })
	if f.Warmup = sum(list, func(f *measure.Facts) *measure.WarmupFacts { return f.Warmup }); f.Warmup != nil {
		f.Warmup.Duration = measure.Number(l.phaseDuration(measure.WarmupPhase))
	}
	if counted {
		f.Prompts = sum(list, func(f *measure.Facts) *measure.Prompts { return f.Prompts })
	}
	f.Load, f.LostParts = l.busy(list), l.lost()
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

// sum adds up the numbers of what the facts of parts have; nil if no part has it.
func sum[T any](list []*part, of func(*measure.Facts) *T) *T {
	var all *T
	for _, p := range list {
		one := of(p.info.Facts)
		switch {
		case one == nil:
		case all == nil:
			all = new(*one)
		default:
			add(reflect.ValueOf(all).Elem(), reflect.ValueOf(*one))
		}
	}
	return all
}

// add adds the numbers of a struct to those of another one. Lists that are not as long as one another, as where some are not known, become nil.
func add(to, from reflect.Value) {
	switch to.Kind() {
	case reflect.Struct:
		for k := range to.NumField() {
			add(to.Field(k), from.Field(k))
		}
	case reflect.Slice:
		if to.Len() != from.Len() {
			to.SetZero()
			return
		}
		to.Set(reflect.AppendSlice(reflect.Zero(to.Type()), to))
		for k := range to.Len() {
			add(to.Index(k), from.Index(k))
		}
	case reflect.Float64:
		to.SetFloat(to.Float() + from.Float())
	default:
		to.SetInt(to.Int() + from.Int())
	}
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
