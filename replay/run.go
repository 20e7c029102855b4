package replay

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/scrape"
	"github.com/agentx/agentx/replay/wire"
)

// Run plays a cache against its servers until a bound is reached or ctx ends. It first waits for the model, looks at the servers
// and resets their caches, as far as Readiness, SkipPreflight and CacheReset say. At the end it lets the requests in flight finish
// within the grace, writes the results, and returns the summary.
//
// An error without a summary means that nothing was measured. An error beside a summary says that the server cannot serve
// the run (*PreflightError), that the warmup failed, that too many requests failed, that the cache cannot be read any more, or
// that the results cannot be written.
func Run(ctx context.Context, o Options) (s *measure.Summary, err error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	r := newRun(o.WithDefaults())
	defer r.close()
	defer func() { r.together.fail(err) }()
	err = r.prepare(ctx)
	var refused *PreflightError
	if errors.As(err, &refused) { // nothing was sent: there are no results to keep
		return r.results.summary(measure.Facts{Cancelled: true}), err
	}
	if err != nil {
		return nil, err
	}
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	if err := nearStart(ctx, r.StartAt, r.reporter.notice); err != nil {
		s := r.results.summary(measure.Facts{Cancelled: true})
		return s, errors.Join(err, r.together.endClock(), r.results.write(s))
	}
	if err := r.start(); err != nil {
		return nil, err
	}
	s, err = r.play(ctx)
	r.results.warnAtEnd(s)
	if err = errors.Join(err, r.together.endClock(), r.results.write(s)); err == nil {
		s, err = r.finish(ctx, s)
	}
	return s, err
}

// finish ends a run whose results are written with the other parts of its load. The results of part 0, which waits for the others, name
// those that are lost meanwhile.
func (r *run) finish(ctx context.Context, s *measure.Summary) (*measure.Summary, error) {
	facts, lost := r.results.info.Facts, r.together.finish(ctx)
	if len(lost) == len(facts.LostParts) {
		return s, nil
	}
	facts.LostParts = lost
	s = r.results.summary(*facts)
	return s, r.results.write(s)
}

// run is one call of Run: it puts the parts of a replay together.
type run struct {
	Options               // of the part that is played
	whole   Options       // of the whole load
	traces  []int         // positions in the cache of the traces that are played
	found   int           // traces that were looked at for them
	fitting int           // of these: that fit MaxContext
	shared  bool          // lanes share traces, because their markers permit it
	arrival arrivalPlan   // how they arrive
	starts  startPolicy   // where lanes begin
	begun   []startedLane // by lane that has begun: where
	first   []firstTree   // of the lanes, where the machine is calibrated

	calibrationTurns int // of a lane in each part of a calibration; 0: as many as the time allows

	encoder *payload.Encoder
	sampler *sampler
	results *results

	servers     servers              // none before open
	epoch       time.Time            // from which the client counts
	medium      medium               // of the phases
	together    together             // with the other parts
	prepared    *preparation         // of the servers
	periods     []period             // that were played
	standstills *measure.Standstills // of the measured phase; nil: none

	stood    atomic.Pointer[measure.Standstills] // the same while it is played, without the list
	warmed   *measure.WarmupFacts                // nil: there is no warmup
	reporter *reporter
	scraping *scraping // nil: no page of metrics is read
}

// newRun returns a run of options with defaults.
func newRun(o Options) *run {
	r := &run{Options: o.ofPart(), whole: o, reporter: newReporter(o)}
	r.medium, r.together.meeting = network{r}, o.Meeting
	r.sampler = newSampler(r.Options, r.reporter.warn)
	r.results = newResults(r.Options, r.sampler, r.reporter.warn)
	r.results.info.Part = o.Part.info(&o)
	return r
}

// prepare does what comes before the clock of the run starts. It selects the traces, looks whether the results can be written and what the machine allows,
// waits for the model, looks at the servers, and opens the first trees. It resets the caches last: the preflight sends a request.
func (r *run) prepare(ctx context.Context) (err error) {
	var conflicts []string
	if r.encoder, conflicts, err = payload.NewEncoder(r.Cache, r.body()); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	for _, c := range conflicts {
		r.reporter.warn(c)
	}
	for _, u := range r.otherEndpoints() {
		r.reporter.warn(u)
	}
	r.warnOfProfile()
	if err := r.chooseTraces(); err != nil {
		return err
	}
	if err := r.Part.CheckOut(r.whole.Out); err != nil {
		return fmt.Errorf("results: %w", err)
	}
	if err := r.results.dir.check(); err != nil {
		return err
	}
	r.warnOfLimits()
	before := r.overhead()
	p := &preparation{Options: r.Options, encoder: r.encoder, clock: machineClock{time.Now()}, notice: r.reporter.notice}
	r.prepared = p
	defer func() { r.results.info.Preparation = p.steps }()
	if err := p.wait(ctx); err != nil {
		return err
	}
	if err := r.preflight(ctx); err != nil {
		return err
	}
	if err := r.fitContext(before); err != nil {
		return err
	}
	if err := r.warnOfMarkers(); err != nil {
		return err
	}
	if err := r.openFirstTrees(); err != nil {
		return err
	}
	if r.Calibrate {
		r.first = r.firstTrees()
	}
	if ctx.Err() != nil {
		return nil // the run sends nothing, and its results say so
	}
	if err := r.startScraping(); err != nil {
		return err
	}
	if r.Part.Number > 0 || r.Meeting != nil {
		return nil // the first part resets for all, and they wait for StartAt; or when all are ready
	}
	return p.reset(ctx)
}

// beginPeriod waits until a period of phases begins, in all parts of the load; the first one at StartAt. When all parts can, and none
// sends, the first reads the pages of metrics; before the first period it resets the caches, too. Then each part makes the measured phase
// ready: behind all other requests, because the connections that it opens may be as many as a server serves at a time.
func (r *run) beginPeriod(ctx context.Context, phase string) (ahead *measure.Ahead, err error) {
	err = r.together.begin(ctx, phase, func(ctx context.Context) (err error) {
		if r.Meeting != nil && len(r.periods) == 0 {
			err = r.prepared.reset(ctx)
		}
		if err == nil {
			r.scraping.begin(ctx, phase)
		}
		return err
	})
	r.results.info.Preparation = r.prepared.steps
	if err == nil && phase == measure.ProfilingPhase {
		ahead = r.medium.ready(ctx)
		err = r.together.begin(ctx, firstRequestsPhase, nil)
	}
	if len(r.periods) == 0 {
		awaitStart(ctx, r.StartAt)
	}
	return ahead, err
}

// preflight looks at the server, unless SkipPreflight is set.
func (r *run) preflight(ctx context.Context) error {
	if r.SkipPreflight {
		return nil
	}
	found, err := runPreflight(ctx, r.Options, r.encoder)
	r.results.info.Preflight = &found
	return err
}

// chooseTraces selects the traces that are played. The error says that no trace fits, or that there are too many lanes.
func (r *run) chooseTraces() (err error) {
	traces, err := selectTraces(r.Options, r.overhead())
	if err != nil {
		return err
	}
	r.fitting, r.found = len(traces), r.Cache.Traces()
	if r.Traces > 0 && r.fitting == r.Traces { // those behind the last were not looked at
		r.found = traces[r.fitting-1] + 1
	}
	if r.arrival, r.shared, err = r.whole.planPart(traces); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	r.traces = r.arrival.traces
	return nil
}

// overhead returns how many tokens a prompt has beside those of the cache: its marker, and the chat template as far as the
// preflight has measured it.
func (r *run) overhead() (tokens int) {
	if r.Marker != payload.NoMarker {
		tokens = payload.MarkerTokens(r.Cache.Arenas.Marker)
	}
	if p := r.results.info.Preflight; p != nil {
		tokens += p.Template()
	}
	return tokens
}

// warnOfMarkers warns of effects of markers that may not be wanted.
func (r *run) warnOfMarkers() error {
	if r.shared && r.Arrivals.arrive() {
		r.reporter.warn(fmt.Sprintf("trees of the same trace may be played at a time, because %d traces arrive again and again: each tree has a cache-bust marker of its own", len(r.traces)))
	} else if r.shared {
		r.reporter.warn(fmt.Sprintf("%d lanes share %s: each tree has a cache-bust marker of its own", r.whole.Concurrency, measure.Plural(len(r.traces), "trace", "traces")))
	}
	cost, err := markerCost(r.Cache, r.Marker)
	if cost != "" {
		r.reporter.warn(cost)
	}
	return err
}

// openFirstTrees opens the first tree of every lane, before the clock starts. Where trees arrive, it loads the first ones. The error
// says that none can be played.
func (r *run) openFirstTrees() (err error) {
	if r.Arrivals.arrive() {
		return r.sampler.prepareArrivals(r.traces)
	}
	r.starts = newStartPolicy(r.Options)
	r.begun, err = r.sampler.openLanes(&r.whole, r.traces, r.starts)
	return err
}

// open opens the results.
func (r *run) open(ctx context.Context) (err error) {
	if err := r.results.open(); err != nil {
		return err
	}
	if dir := r.results.dir.path; dir != "" {
		r.reporter.opened(dir)
	}
	r.scraping.open(ctx, r.results.dir.file(scrape.File))
	if err := r.together.keepClock(r.results.dir); err != nil {
		return errors.Join(err, r.results.closeRecords())
	}
	return nil
}

// start opens the transport. The clock of the run starts.
func (r *run) start() (err error) {
	r.epoch = r.scraping.now(&r.together)
	if r.servers, err = connect(r.URLs, r.wireOptions(r.epoch)); err != nil {
		return errors.Join(err, r.results.closeRecords())
	}
	return nil
}

// wireOptions returns the options of clients that count from an instant.
func (r *run) wireOptions(epoch time.Time) wire.Options {
	w := r.clientOptions()
	w.Epoch, w.LenientStreams = epoch, r.Switches.LenientStreams
	return w
}

// play plays the phases in the calling goroutine: the warmup, if there is one, and the phase that is measured.
func (r *run) play(ctx context.Context) (*measure.Summary, error) {
	ok, err := r.warmUp(ctx)
	facts := measure.Facts{Warmup: r.warmed, Cancelled: !ok}
	if ok {
		err = r.profile(ctx, &facts)
	}
	facts.Deadlocks, r.results.info.Phases = r.results.deadlocks, r.phaseSpans()
	r.endServers(ctx, !facts.Cancelled)
	if !facts.Cancelled {
		// A part that still sends may be on this machine. All parts wait here, calibrated or not, so that none waits for one that does not come.
		err = errors.Join(err, r.together.begin(ctx, calibrationPhase, nil))
	}
	if r.Calibrate && !facts.Cancelled && ctx.Err() == nil {
		r.results.info.Calibration = r.calibrateFor(ctx, calibrationTime)
	}
	facts.LostParts = r.together.lost()
	return r.results.summary(facts), err
}

// profile plays the phase that is measured.
func (r *run) profile(ctx context.Context, facts *measure.Facts) error {
	r.sampler.align(r.begun, r.starts)
	r.results.begin(r.begun)
	ahead, err := r.beginPeriod(ctx, measure.ProfilingPhase)
	if facts.Ahead = ahead; err != nil {
		facts.Cancelled = true
		return err
	}
	before := measure.ReadProcessUsage()
	r.sampler.renderLater()
	p := measuredPhase(r.Options, r.sampler, r.results)
	if r.arrival.schedule != nil {
		p.arrivals = r.arrival.schedule
	}
	watching := r.watch(ctx)
	p.ending = watching.ending()
	l, err := r.playPhase(ctx, p)
	r.endPeriod()
	used := measure.ReadProcessUsage().Since(before)
	facts.ExpectedDuration = l.deadlines.duration.Seconds()
	facts.PhaseDuration, facts.Deadline = r.periods[len(r.periods)-1].length.Seconds(), l.cutoff.Deadline.Seconds()
	facts.CPU, facts.PeakRSS, facts.Cores = used.CPU.Seconds(), used.PeakRSS, runtime.GOMAXPROCS(0)
	facts.PrefillLimit, facts.Standstills = r.Limits.Prefill, r.standstills
	n := l.conductor.Counts()
	facts.Load, facts.Arrivals = r.results.occupancy.load(), l.backlog.facts(n)
	facts.Prompts, _ = r.results.prompts.reuse(r.Cache, r.Endpoint, r.Marker, r.sampler.played) // nil says that the cache cannot be read
	facts.Branches, facts.Cancelled = measure.BranchCounts{Branches: n.Branches, IdleSkipped: n.IdleSkipped.Seconds()}, l.endedEarly()
	watching.finish(r.results, facts)
	return err
}

// close ends everything that the run has started.
func (r *run) close() {
	_ = r.together.endClock() // told before, unless the run has failed
	r.scraping.close()
	r.servers.close()
	r.sampler.close()
	r.reporter.close()
}
