package replay

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/resume"
	"github.com/agentx/agentx/replay/wire"
)

// Options say what to play, how, and against which server.
type Options struct {
	Cache    *mmapcache.Cache
	URL      string
	Model    string
	Endpoint payload.Endpoint
	Fields   payload.Fields // of the bodies, beside prompt and model

	Concurrency    int // lanes
	Traces         int // play only the first so many traces; 0: all
	MaxContext     int // play only traces whose prompts and completions fit into so many tokens; 0: all
	Pace           Pace
	Marker         payload.MarkerTarget // where the cache-bust marker of every tree stands
	Start          Start
	Order          Order // in which traces are dealt
	Limits         Limits
	Seed           string // of what is drawn, in decimal
	AllowWrap      bool   // more lanes than traces, also without a marker
	StopOnDeadlock bool   // a wedged tree ends the run, else its lane goes on

	// Bounds, of which the first that is reached ends the run; none means that every trace is played once.
	Duration time.Duration
	Requests int
	Trees    int
	Once     bool // every trace is played once

	Backoff      Backoff // of lanes whose connections fail
	MaxErrorRate float64 // share of failed requests above which the run ends, from the 20th on; 0: none

	Grace   time.Duration // how long running requests may go on after the end
	Timeout time.Duration // of a request; 0: six hours

	KeepAlive time.Duration    // how long an unused connection is kept; 0: 4 s; negative: every request has its own
	Overflow  []*regexp.Regexp // tell a context overflow, beside the words of known servers

	Header []wire.HeaderField
	APIKey string

	Out        string      // directory for the results; "": none are written
	OutNew     bool        // Out is not there: with a number behind it, if need be
	Overwrite  bool        // results that Out has, else they are an error that wraps ErrResultsExist
	Provenance measure.Run // version, commit, options, and of the dataset what the cache does not know: for the results

	Preflight bool // look at the server once, before the first lane

	// All may be nil. They are called one at a time, and may take their time: a run does not wait for them, but two
	// seconds at its end.
	Warn     func(string)   // told of what is odd but no error
	Notice   func(string)   // told what an interrupt waits for
	Progress func(Progress) // told about every second how far the run has come
	NewID    func() string  // ids of requests and sessions, called from several goroutines; nil: random UUIDs
}

// Start says where lanes begin in their first traces. The zero value is the first turn of each.
type Start struct {
	Sampled  bool    // at an instant drawn from the seed, the trace and the lane
	Min, Max float64 // in which part of the trace that lies, 0 to 1
	Burst    bool    // every lane at once, else as far apart as they were drawn
}

// Limits are the caps on what recorded times may do to a run; 0 means none.
type Limits struct {
	LaneStart  time.Duration // longest time to a lane's first request
	TreeIdle   time.Duration // longest time in which a tree has nothing on the wire
	SystemIdle time.Duration // longest time in which nothing is on the wire
	Prefill    int           // requests without a first token
}

// Progress is how far a run has come.
type Progress struct {
	Elapsed      time.Duration
	Requests     int // sent
	InFlight     int
	Completed    int
	Errors       int
	Overflows    int // of the context
	Cancelled    int
	TreesOpened  int // opened
	TreesDrained int // trees that are over
}

// maxInterruptGrace is the longest grace after an interrupt, cancelDrain the longest wait for the returns of requests that
// were cancelled; progressEvery is how often Progress is called.
const (
	maxInterruptGrace = 30 * time.Second
	cancelDrain       = 10 * time.Second
	progressEvery     = time.Second
)

// Run looks at the server if it is to, plays until its bound is reached, ctx ends, a record cannot be written or the cache
// cannot be read, then lets running requests finish within the grace, and returns the summary. The results are written whatever ended the run. An error without a summary means
// that nothing could be measured; one beside it, that the server cannot serve the run, a *PreflightError, that the results
// could not be written or that the cache became unreadable on the way.
func Run(ctx context.Context, o Options) (*measure.Summary, error) {
	p := newPlayer(o)
	defer p.close()
	err := p.ready(ctx)
	var refused *PreflightError
	if err != nil && !errors.As(err, &refused) {
		return nil, err
	}
	if err := p.open(); err != nil {
		return nil, err
	}
	if refused != nil {
		s := p.summary(measure.Facts{})
		return s, errors.Join(refused, p.write(s))
	}
	s, err := p.run(ctx)
	p.tellRest(s)
	return s, errors.Join(err, p.write(s))
}

// player is one run: what is played, the transport, and what is recorded.
type player struct {
	Options
	info      measure.RunInfo // what no record knows
	traces    []int           // that are played
	wraps     bool            // lanes share traces, by leave of their markers
	sampler   *sampler
	client    *wire.Client
	encoder   *payload.Encoder
	epoch     time.Time
	events    chan event
	over      chan struct{}   // closed when nobody takes events any more
	flights   context.Context // of all requests
	cancel    context.CancelFunc
	aggregate *measure.Aggregate
	records   *measure.Writer // nil without Out
	lanes     []measure.LaneReport
	wedges    []measure.DeadlockReport
	launched  map[int]*measure.Record // by request in flight, as it was launched
	teller    *teller
	phase     *phase
}

func newPlayer(o Options) *player {
	if o.NewID == nil {
		o.NewID = func() string { return uuid.NewString() }
	}
	if o.Warn == nil {
		o.Warn = func(string) {}
	}
	if o.Notice == nil {
		o.Notice = func(string) {}
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	o.Marker = o.Marker.Resolve(o.Cache)
	p := &player{
		Options: o, events: make(chan event, 1024), over: make(chan struct{}),
		aggregate: measure.NewAggregate(), launched: map[int]*measure.Record{}, teller: newTeller(o),
	}
	p.info = p.about()
	return p
}

// ready makes the tail of all bodies, chooses what is played, looks at the server, and deals the first traces.
func (p *player) ready(ctx context.Context) (err error) {
	var conflicts []string
	p.encoder, conflicts, err = payload.NewEncoder(p.Cache, payload.Options{Endpoint: p.Endpoint, Model: p.Model, Marker: p.Marker, Fields: p.Fields})
	if err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	for _, c := range conflicts {
		p.teller.warn(c)
	}
	if err := p.choose(); err != nil {
		return err
	}
	before := p.overhead()
	if err := p.look(ctx); err != nil {
		return err
	}
	if p.MaxContext > 0 && p.overhead() > before { // fewer may fit
		if err := p.choose(); err != nil {
			return err
		}
	}
	if err := p.warnOfMarkers(); err != nil {
		return err
	}
	return p.deal()
}

// look looks at the server, if the run is to.
func (p *player) look(ctx context.Context) error {
	if !p.Options.Preflight {
		return nil
	}
	found, err := lookAt(ctx, p.Options, p.encoder)
	p.info.Preflight = &found
	return err
}

// open opens the results and the transport. The clock starts last.
func (p *player) open() (err error) {
	o := p.Options
	p.info.Start = utc()
	if err := p.openResults(); err != nil {
		return err
	}
	p.epoch = time.Now()
	p.client, err = wire.New(o.URL, wire.Options{
		Epoch: p.epoch, Timeout: o.Timeout, KeepAlive: o.KeepAlive, OverflowRegexps: o.Overflow, Header: o.Header, APIKey: o.APIKey,
	})
	if err != nil {
		return errors.Join(err, p.closeRecords())
	}
	p.flights, p.cancel = context.WithCancel(context.Background())
	return nil
}

// once reports whether every trace is played once, also for want of another bound.
func (o *Options) once() bool { return o.Once || o.Duration == 0 && o.Requests == 0 && o.Trees == 0 }

// choose selects the traces. The error is about what cannot be played so, or would not be what was asked for.
func (p *player) choose() (err error) {
	if p.traces, err = selected(p.Options, p.overhead()); err != nil {
		return err
	}
	load := resume.WrapPolicy{
		Lanes: p.Concurrency, Traces: len(p.traces), AllowWrap: p.AllowWrap, MarkerPermits: p.Marker != payload.NoMarker, OnePass: p.once(), Trees: p.Trees,
	}
	if p.once() && p.Order == Random {
		return fmt.Errorf("replay: every trace once cannot be had in random order, which repeats: choose shuffle")
	}
	if p.wraps, err = load.Check(); err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	return nil
}

// warnOfMarkers says what markers do to this run that may not be meant.
func (p *player) warnOfMarkers() error {
	if p.wraps {
		p.teller.warn(fmt.Sprintf("%d lanes share %d traces: each tree has a cache-bust marker of its own", p.Concurrency, len(p.traces)))
	}
	cost, err := markerCost(p.Cache, p.Marker)
	if cost != "" {
		p.teller.warn(cost)
	}
	return err
}

// overhead is how many tokens a prompt has on its way beside its own: of the marker, and of the chat template as far as
// the preflight has measured it.
func (p *player) overhead() (tokens int) {
	if p.Marker != payload.NoMarker {
		tokens = payload.MarkerTokens(p.Cache.Arenas.Marker)
	}
	if p.info.Preflight != nil && p.info.Preflight.TemplateTokens != nil {
		tokens += max(0, int(*p.info.Preflight.TemplateTokens))
	}
	return tokens
}

// deal deals the first traces, before the clock starts. The error is about what cannot be played.
func (p *player) deal() error {
	once := p.once()
	s := newSampler(p.Cache, p.Concurrency)
	s.pace, s.encoding, s.order, s.once, s.plain, s.warn = p.Pace, p.Endpoint.Encoding(), order{traces: p.traces, how: p.Order, seed: p.Seed}, once, p.Marker == payload.NoMarker, p.teller.warn
	s.ledger = newLedger(p.NewID())
	p.sampler = s
	lanes := p.Concurrency
	if p.Trees > 0 {
		lanes = min(lanes, p.Trees)
	}
	at := begin{
		sampled: p.Start.Sampled, ratios: resume.Ratios{Min: p.Start.Min, Max: p.Start.Max}, anchor: resume.Spread, seed: p.Seed,
		cap: math.Inf(1),
	}
	if p.Start.Burst {
		at.anchor = resume.Burst
	}
	if p.Options.Limits.LaneStart > 0 {
		at.cap = float64(p.Options.Limits.LaneStart) / 1e6
	}
	if err := at.ratios.Validate(); p.Start.Sampled && err != nil {
		return fmt.Errorf("replay: %w", err)
	}
	begun := s.prepare(lanes, at)
	switch {
	case len(begun) == 0:
		return fmt.Errorf("replay: none of %d traces can be played: see the warnings", len(p.traces))
	case len(begun) < lanes && !once:
		p.teller.warn(fmt.Sprintf("only %d of %d lanes have a trace to begin with: the load is capped", len(begun), lanes))
	}
	p.lanes = make([]measure.LaneReport, p.Concurrency)
	for n := range p.lanes {
		p.lanes[n] = measure.LaneReport{Lane: n, Finished: measure.Missing, FirstRequest: measure.Missing, TStar: measure.Missing}
		if n < len(begun) {
			p.lanes[n].Trace, p.lanes[n].TStar = begun[n].Trace, measure.Number(begun[n].TStar/1000)
			p.lanes[n].StartSkipped = begun[n].Skipped / 1000
		}
	}
	return nil
}

// selected returns the positions of the traces that a run plays: with MaxContext those of which every request fits, when so
// many tokens come to each prompt.
func selected(o Options, overhead int) (kept []int, err error) {
	rules := o.Cache.Facts.Rules
	peaks := make([]int, o.Cache.Structure.Traces.Len())
	for i := range peaks {
		if o.MaxContext == 0 {
			break
		}
		p := o.Cache.Structure.Plan(i)
		for _, session := range p.Sessions {
			for _, t := range p.Turns[session.FirstTurn:][:session.Turns] {
				peaks[i] = max(peaks[i], int(t.In)+overhead+rules.MaxTokens(session.Kind, t))
			}
		}
	}
	kept = selectTraces(peaks, o.MaxContext, o.Traces)
	if len(kept) == 0 && len(peaks) > 0 {
		return nil, fmt.Errorf("none of %d traces fits a context of %d tokens: the smallest needs %d", len(peaks), o.MaxContext, slices.Min(peaks))
	}
	return kept, nil
}

func (p *player) closeRecords() error {
	if p.records == nil {
		return nil
	}
	return p.records.Close()
}

func (p *player) now() time.Duration { return time.Since(p.epoch) }

// run plays the phase, in this goroutine.
func (p *player) run(ctx context.Context) (*measure.Summary, error) {
	defer p.cancel()
	defer close(p.over)
	before := measure.ReadProcessUsage()
	alarm := newAlarm()
	defer alarm.close()
	o := p.Options
	o.Progress = p.teller.show
	p.phase = newPhase(o, p.sampler, &realClock{epoch: p.epoch, alarm: alarm, events: p.events, interrupted: ctx.Done()}, p)
	p.sampler.place()
	err := p.phase.play()
	used := measure.ReadProcessUsage().Since(before)
	return p.summary(measure.Facts{
		PhaseDuration: p.phase.clock.now().Seconds(), CPU: used.CPU.Seconds(), PeakRSS: used.PeakRSS,
		Branches: branchCounts(p.phase.conductor.Counts()), Deadlocks: p.wedges,
	}), err
}

// branchCounts are the counters of the conductor that a summary has.
func branchCounts(n conductor.Counts) measure.BranchCounts {
	return measure.BranchCounts{
		ChildrenResumed: n.ChildrenResumed, ChildrenSpawned: n.ChildrenSpawned, ChildrenDelayed: n.ChildrenDelayed,
		ChildrenCompleted: n.ChildrenCompleted, ChildrenErrored: n.ChildrenErrored, ChildrenTruncated: n.ChildrenTruncated,
		ParentsSuspended: n.ParentsSuspended, ParentsResumed: n.ParentsResumed, JoinsSuppressed: n.JoinsSuppressed,
		TreesOpened: n.TreesOpened, TreesDrained: n.TreesDrained, TreesReleased: n.TreesReleased, TreesDeadlocked: n.TreesDeadlocked,
		IdleJumps: n.IdleJumps, IdleSkipped: n.IdleSkipped.Seconds(),
	}
}

// book takes a request that is over into the results. The error says that its record cannot be written.
func (p *player) book(o *outcome) error {
	delete(p.launched, o.send.ID)
	lane := &p.lanes[o.send.Lane]
	lane.Requests++
	if first := measure.Number(o.record.Sent); lane.FirstRequest.IsMissing() || first < lane.FirstRequest {
		lane.FirstRequest = first
	}
	for _, n := range p.aggregate.Add(&o.record) {
		if !explains(p.Fields, n.Kind) {
			p.teller.warn(n.Message + " (the summary counts them)")
		}
	}
	if p.records == nil {
		return nil
	}
	return p.records.Write(&o.record)
}

// explains reports whether a kind of deviation is what the fields of the bodies ask for.
func explains(f payload.Fields, kind string) bool {
	switch kind {
	case "short_output":
		return !f.IgnoresEOS()
	case "long_output":
		return f.Length == payload.NoLength
	case "no_usage":
		return f.OmitStreamOptions
	}
	return false
}

// happened takes what the conductor tells of into the results.
func (p *player) happened(e conductor.Event) {
	switch e.Kind {
	case conductor.TreeOpened:
		p.lanes[e.Lane].Trees++
	case conductor.TreeIdleSkipped:
		p.lanes[e.Lane].Skipped += e.Skipped.Seconds()
	case conductor.LaneFinished:
		p.sampler.leave(e.Lane)
		p.lanes[e.Lane].Finished = measure.Number(e.At.Seconds())
		if e.Err != nil {
			p.teller.warn(fmt.Sprintf("lane %d ends: %v", e.Lane, e.Err))
		}
	case conductor.TreeDeadlocked:
		p.wedged(e)
		if p.StopOnDeadlock {
			p.phase.ended = true
		}
	}
}

// wedged reports a tree in which nothing can happen any more, by name.
func (p *player) wedged(e conductor.Event) {
	t := p.sampler.trees[e.Tree]
	name := func(session int) string { return t.plan.Sessions[session].ID }
	w := measure.DeadlockReport{
		At: e.At.Seconds(), Lane: e.Lane, Tree: e.Tree, Trace: t.plan.Trace.ID, Root: p.correlation(t, 0),
		Last: measure.LastEvent{
			At: e.Deadlock.Last.At.Seconds(), Kind: "sent", Session: name(e.Deadlock.Last.Session), Turn: e.Deadlock.Last.Turn,
		},
	}
	switch e.Deadlock.Last.Kind {
	case conductor.TurnReturned:
		w.Last.Kind = "returned"
	case conductor.TreeOpened: // it has sent nothing
		w.Last.Kind = "opened"
	}
	for _, b := range e.Deadlock.Blocked {
		r := measure.BlockedSession{Session: name(b.Session), CorrelationID: p.correlation(t, b.Session), Turn: b.Turn, BlockedBy: "predecessor"}
		for _, n := range b.Branches {
			r.BlockedBy, r.WaitsFor = "gate", append(r.WaitsFor, t.branches[n])
		}
		for _, a := range b.After {
			r.WaitsFor = append(r.WaitsFor, fmt.Sprintf("%s#%d", name(a.Session), a.Turn))
		}
		w.Blocked = append(w.Blocked, r)
	}
	if len(p.wedges) < measure.MaxDeadlocks {
		p.wedges = append(p.wedges, w)
		p.teller.warn(w.String())
	}
}

// close ends what has been begun.
func (p *player) close() {
	if p.client != nil {
		p.cancel()
		p.client.Close()
	}
	if p.sampler != nil {
		p.sampler.close()
	}
	p.teller.end()
}

// waits says what an interrupt waits for.
func (p *player) waits(running int, most time.Duration) {
	n := "1 running request"
	if running != 1 {
		n = fmt.Sprintf("%d running requests", running)
	}
	p.teller.notice(fmt.Sprintf("interrupted: waiting for %s, %v at most; a second interrupt leaves at once", n, most.Round(10*time.Millisecond)))
}

// tellRest warns of lanes that sent nothing and of wedged trees that were not named.
func (p *player) tellRest(s *measure.Summary) {
	dark := 0
	for _, l := range p.lanes {
		if l.Trace != "" && l.Requests == 0 {
			if dark++; dark <= maxDark {
				p.teller.warn(l.DescribeSilence())
			}
		}
	}
	if dark > maxDark {
		p.teller.warn(fmt.Sprintf("and %d more lanes sent nothing: %s names them", dark-maxDark, LanesFile))
	}
	if more := int(s.DeadlockedTrees) - len(p.wedges); more > 0 {
		p.teller.warn(fmt.Sprintf("and %d more trees are wedged", more))
	}
}

// maxDark is how many lanes that sent nothing are named.
const maxDark = 10
