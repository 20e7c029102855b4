package replay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/resume"
)

// prime sends the primers of all lanes, then those of the lanes that had to draw another trace, until none had to. stuck says
// that the grace of a round was over before all its primers had returned.
func (w *warmup) prime(ctx context.Context) (stuck bool, err error) {
	lanes := make([]int, len(w.begun))
	for k := range lanes {
		lanes[k] = k
	}
	for len(lanes) > 0 {
		source, n := w.primers(lanes)
		if n == 0 {
			break
		}
		p := w.phase(source, conductor.Limits{SystemIdle: w.Limits.SystemIdle})
		p.target.Requests = n + w.Warmup.Requests*w.Concurrency
		if w.Warmup.Duration > 0 {
			p.target.Requests = 0 // as many as fit
		}
		l, err := w.play(ctx, p)
		if err != nil {
			return false, err
		}
		stuck = stuck || l.cancelled
		if lanes, err = w.replaceOverflowed(); err != nil {
			return false, err
		}
	}
	return stuck, nil
}

// onceSource gives every lane the tree that it holds for the lane, once.
type onceSource []conductor.Assignment

// Next gives a lane its tree, once.
func (s onceSource) Next(lane int) (a conductor.Assignment, ok bool) {
	a, s[lane] = s[lane], conductor.Assignment{}
	return a, a.Tree != nil
}

// ended does nothing: a lane whose primers were sent still plays their tree.
func (s onceSource) ended(int) {}

func (s onceSource) failed() error { return nil }

// primers returns the primers of lanes as trees, and how many there are.
func (w *warmup) primers(lanes []int) (source onceSource, n int) {
	var leads []time.Duration
	byLane := map[int][]resume.Primer{}
	for _, lane := range lanes {
		if state := w.sampler.first[lane].Start; state != nil {
			byLane[lane] = w.sampler.lanes[lane].Primers(state, w.begun[lane].tStar)
		}
		for _, p := range byLane[lane] {
			leads = append(leads, p.Lead)
		}
	}
	if e := &w.sampler.elsewhere; e.lead > 0 { // the ramp is that of all parts
		leads, e.lead = append(leads, e.lead), 0
	}
	at := w.ramp().Times(leads)
	w.warnOfRamp(at)
	source = make(onceSource, w.Concurrency)
	for _, lane := range lanes {
		if k := len(byLane[lane]); k > 0 {
			source[lane] = w.sampler.lanes[lane].PrimerTree(byLane[lane], at[n:n+k])
			n += k
		}
	}
	return source, n
}

// longRamp is how long primers may take to be sent before a warning tells.
const longRamp = time.Minute

// warnOfRamp warns of primers that take long to be sent.
func (w *warmup) warnOfRamp(at []time.Duration) {
	if length := rampLength(at, w.Limits.SystemIdle); length > longRamp {
		w.reporter.warn(preset.Text(fmt.Sprintf("warmup: the primers take about %v to send, because they are spread as recorded: {system-idle-cap} cuts the gaps between them, {warmup-lead-cap} system with {primer-lead-max} the whole",
			length.Round(time.Second))).String())
	}
}

// rampLength returns the time from the first primer to the last, with the gaps between them cut to idle; 0 is no limit.
func rampLength(at []time.Duration, idle time.Duration) (length time.Duration) {
	at = slices.Sorted(slices.Values(at))
	for k := 1; k < len(at); k++ {
		gap := at[k] - at[k-1]
		if idle > 0 {
			gap = min(gap, idle)
		}
		length += gap
	}
	return length
}

// ramp says how primers are spread: doc/spec/replay.md 3.2.
func (o *Options) ramp() resume.Ramp {
	r := resume.Ramp{Burst: o.Start.Burst, Longest: o.Limits.TraceIdle}
	if o.Switches.LeadCapOfTrace {
		return r
	}
	r.Longest = o.Limits.SystemIdle
	if lead := o.Warmup.LeadMax; lead > 0 && (r.Longest == 0 || lead < r.Longest) {
		r.Longest = lead
	}
	return r
}

// replaceOverflowed draws another trace for the lanes whose trace has a primer that did not fit the context. It returns the
// lanes that got one: their primers are still to be sent. The error says that no lane has a trace left.
func (w *warmup) replaceOverflowed() (lanes []int, err error) {
	s, played := w.sampler, 0
	replaced := map[string][]int{} // by trace: lanes that played it
	for lane := range w.begun {
		t := s.lanes[lane]
		if t == nil {
			continue
		}
		if !w.overflowed[t.index] {
			played++
			continue
		}
		replaced[t.plan.Trace.ID] = append(replaced[t.plan.Trace.ID], w.Part.whole(lane))
		w.replaced[lane] = true
		start, ok := s.replaceFirst(lane, w.starts, w.overflowed)
		if !ok {
			start.tStar = math.NaN()
			w.facts.EmptyLanes++
			w.reporter.warn(fmt.Sprintf("warmup: lane %d stays empty: no trace is left whose primers fit the context", w.Part.whole(lane)))
		} else {
			lanes = append(lanes, lane)
		}
		w.begun[lane] = start
	}
	for _, trace := range slices.Sorted(maps.Keys(replaced)) {
		w.reporter.warn(fmt.Sprintf("warmup: a primer of trace %q does not fit the context of the server: lanes %v draw another trace", trace, replaced[trace]))
	}
	w.facts.ReplacedLanes = measure.Number(len(w.replaced))
	if played+len(lanes) == 0 {
		return nil, errors.New("replay: the warmup failed, so nothing was measured: no trace is left whose primers fit the context")
	}
	s.prefetch()
	return lanes, nil
}
