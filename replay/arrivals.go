package replay

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/arrivals"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/resume"
)

// ArrivalMode says when trees open.
type ArrivalMode uint8

// The modes.
const (
	Lanes            ArrivalMode = iota // a lane opens its next tree when the one before is over
	RecordedArrivals                    // every trace opens at its recorded start, once
	RateArrivals                        // trees open at a rate, whatever the lanes do
)

var arrivalModes = []string{Lanes: "lanes", RecordedArrivals: measure.RecordedArrivals, RateArrivals: measure.RateArrivals}

// String returns the word by which a setting chooses the mode.
func (m ArrivalMode) String() string {
	if int(m) < len(arrivalModes) {
		return arrivalModes[m]
	}
	return fmt.Sprintf("ArrivalMode(%d)", m)
}

// Arrivals say when trees open, and by what their later turns are due: doc/spec/replay.md 14. Except in Lanes, Options.Concurrency
// is the most trees that are played at a time; 0: no cap but MaxConcurrency. The zero value is Lanes.
type Arrivals struct {
	Mode ArrivalMode

	// Of RateArrivals.
	Rate       float64       // trees per second
	Law        arrivals.Kind // of the gaps between them
	Shape      float64       // of arrivals.Gamma
	PerRequest bool          // Rate counts requests: every trace must have one

	// Of RecordedArrivals: the window that is played, counted from the first recorded start of the cache. To 0: to the end.
	From, To time.Duration

	Ramp          time.Duration // over which the rate grows from 0, or the lanes open one after another
	AbsoluteTurns bool          // later turns are due at their recorded instants, not a gap after the turn before
}

// arrive reports whether trees arrive on their own.
func (a *Arrivals) arrive() bool { return a.Mode != Lanes }

// process returns the process of RateArrivals.
func (a *Arrivals) process(seed string) arrivals.Process {
	return arrivals.Process{Rate: a.Rate, Kind: a.Law, Shape: a.Shape, Ramp: a.Ramp, Seed: seed}
}

// window returns the window of RecordedArrivals.
func (a *Arrivals) window(speed float64) arrivals.Window {
	return arrivals.Window{From: a.From, To: a.To, Speed: speed}
}

// maxOpen returns how many trees are played at a time at most.
func (o *Options) maxOpen() int {
	if o.Concurrency == 0 {
		return MaxConcurrency
	}
	return o.Concurrency
}

// HasRecordedStarts reports whether every trace of the cache has a recorded start, so that RecordedArrivals can play them.
func (o *Options) HasRecordedStarts() bool {
	n := o.Cache.RecordedStarts()
	return n > 0 && n == o.Cache.Traces()
}

// CheckArrivals returns an error about arrivals that the cache does not have: a trace without a recorded start, a window without
// traces, a rate of requests for a trace with several. Run returns the same before it sends anything.
func (o Options) CheckArrivals() error {
	if err := o.Validate(); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	o = o.WithDefaults()
	traces, err := selectTraces(o, 0)
	if err == nil {
		_, err = planArrivals(&o, traces)
	}
	return err
}

// arrivalPlan is how the selected traces arrive.
type arrivalPlan struct {
	traces   []int             // those that arrive, in their order with RecordedArrivals
	schedule arrivals.Schedule // nil: they are played in lanes
	most     int               // trees that arrive at most; 0: no bound
}

// planArrivals plans the arrivals of traces with options that have defaults.
func planArrivals(o *Options, traces []int) (p arrivalPlan, err error) {
	p.traces = traces
	switch o.Arrivals.Mode {
	case RecordedArrivals:
		return recordedPlan(o, traces)
	case RateArrivals:
		if o.Arrivals.PerRequest {
			if err := refuseSeveralRequests(o, traces); err != nil {
				return p, err
			}
		}
		process := o.Arrivals.process(o.Seed)
		p.schedule = process.Schedule()
		if o.once() {
			p.most = len(traces)
			p.schedule = &firstOf{p.schedule, p.most}
		} else {
			p.most = mostTrees(o, process.Schedule(), len(traces))
		}
	}
	return p, nil
}

// planPart plans the arrivals of the part that options with defaults play. shared says that lanes share traces. The error is also about
// lanes that may not.
func (o *Options) planPart(traces []int) (p arrivalPlan, shared bool, err error) {
	if p, err = planArrivals(o, traces); err == nil {
		shared, err = p.checkWrap(o)
	}
	if err == nil {
		err = o.Part.checkTraces(len(p.traces), o.once())
	}
	p.divide(o.Part)
	return p, shared, err
}

// checkWrap returns an error if there are more lanes than traces, and nothing permits them to share traces. shared says that their
// markers do.
func (p *arrivalPlan) checkWrap(o *Options) (shared bool, err error) {
	policy := resume.WrapPolicy{
		Lanes: o.maxOpen(), Traces: len(p.traces), AllowWrap: o.AllowWrap, Marked: o.Marker != payload.NoMarker,
		MarkerPermitsWrap: o.Switches.MarkerPermitsWrap, OnePass: o.once(), Trees: o.Trees,
	}
	if o.Arrivals.arrive() {
		policy.Trees = p.most
	}
	if shared, err = policy.Check(); err != nil && o.Arrivals.arrive() {
		err = preset.Text(fmt.Sprintf("trees arrive again and again from %d distinct traces and have no marker, so two trees of one trace would share its prefix: ask for at most %[1]d open trees ({concurrency}) or %[1]d trees ({trees}), play every trace once, set a marker, or allow it ({allow-wrap})", len(p.traces)))
	}
	return shared, err
}

// refuseSeveralRequests returns an error about a trace with more than one request.
func refuseSeveralRequests(o *Options, traces []int) error {
	selected := selectedOf(o.Cache, traces)
	return o.Cache.EachShard(func(first int, s *mmapcache.Structure) error {
		for k := range s.Traces.Len() {
			if t := s.Traces.At(k); selected[first+k] && t.Turns != 1 {
				return fmt.Errorf("arrivals: a rate of requests needs traces of one request each, and trace %q has %d: give a rate of trees", t.ID, t.Turns)
			}
		}
		return nil
	})
}

// selectedOf says of every trace of a cache whether it is one of some.
func selectedOf(c *mmapcache.Cache, traces []int) []bool {
	selected := make([]bool, c.Traces())
	for _, k := range traces {
		selected[k] = true
	}
	return selected
}

// recordedStarts returns when each trace of a cache began.
func recordedStarts(c *mmapcache.Cache) ([]arrivals.Start, error) {
	starts := make([]arrivals.Start, 0, c.Traces())
	err := c.EachShard(func(first int, s *mmapcache.Structure) error {
		for k := range s.Traces.Len() {
			start := arrivals.Start{Trace: first + k}
			if ms, ok := s.RecordedStart(k); ok {
				start.Nanos, start.Known = int64(math.RoundToEven(ms*1e6)), true
			}
			starts = append(starts, start)
		}
		return nil
	})
	return starts, err
}

// recordedPlan plans traces at their recorded starts. The window counts from the first start of the cache, also where that is of a
// trace that is not selected.
func recordedPlan(o *Options, traces []int) (p arrivalPlan, err error) {
	starts, err := recordedStarts(o.Cache)
	if err != nil {
		return p, err
	}
	list, err := o.Arrivals.window(o.Pace.Speed).Select(starts)
	var missing *arrivals.MissingError
	if errors.As(err, &missing) {
		t, err := o.Cache.Trace(missing.First)
		if err != nil {
			return p, err
		}
		return p, fmt.Errorf("arrivals: %d of %d traces have no recorded start, the first is %q: its format has none, or its cache was made before agentx kept them (agentx convert %s makes it again)",
			missing.Missing, missing.Traces, t.ID, preset.Setting("force"))
	}
	if err != nil {
		return p, err
	}
	selected := selectedOf(o.Cache, traces)
	var instants []time.Duration
	first := time.Duration(0)
	for _, a := range list {
		if selected[a.Trace] {
			if len(instants) == 0 {
				first = a.At
			}
			p.traces, instants = append(p.traces, a.Trace), append(instants, a.At-first)
		}
	}
	if len(instants) == 0 {
		return p, fmt.Errorf("arrivals: none of the %d selected traces starts in the window from %v to %v", len(traces), o.Arrivals.From, o.Arrivals.To)
	}
	p.schedule, p.most = arrivals.Recorded(instants), len(instants)
	return p, nil
}

// mostTrees returns how many trees bounds let arrive at most, 0 if these are more than enough or there is no such bound.
func mostTrees(o *Options, s arrivals.Schedule, enough int) int {
	most := 0
	atMost := func(n int) {
		if n > 0 && (most == 0 || n < most) {
			most = n
		}
	}
	atMost(o.Trees)
	atMost(o.Requests)
	if o.Duration > 0 {
		n := 0
		for at, ok := s.Next(); ok && at < o.Duration && n <= enough; at, ok = s.Next() {
			n++
		}
		if n <= enough {
			atMost(n)
		}
	}
	return most
}

// firstOf are the first arrivals of a schedule.
type firstOf struct {
	arrivals.Schedule
	left int
}

// Next returns the next arrival while some of the first ones are left.
func (f *firstOf) Next() (at time.Duration, ok bool) {
	if f.left == 0 {
		return 0, false
	}
	f.left--
	return f.Schedule.Next()
}

// plan returns how trees arrive for the results; nil: they are played in lanes.
func (a *Arrivals) plan(limit int) *measure.ArrivalPlan {
	if !a.arrive() {
		return nil
	}
	p := &measure.ArrivalPlan{
		Mode: a.Mode.String(), Rate: a.Rate, Ramp: a.Ramp.Seconds(), From: a.From.Seconds(), To: a.To.Seconds(), Cap: limit, Turns: "gaps",
	}
	if a.AbsoluteTurns {
		p.Turns = "absolute"
	}
	if a.Mode == RateArrivals {
		p.Draw = a.Law.String()
		if a.Law == arrivals.Gamma {
			p.Draw = fmt.Sprintf("%v:%g", a.Law, a.Shape)
		}
	}
	return p
}
