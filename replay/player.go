package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/timeline"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// Options say what to play, how, and against which server.
type Options struct {
	Cache *mmapcache.Cache
	URL   string
	Model string
	Form  mmapcache.Form // Text: chat completions; IDs: completions with token ids

	Concurrency int // lanes
	Traces      int // play only the first so many traces; 0: all
	MaxContext  int // play only traces whose prompts and completions fit into so many tokens; 0: all
	Pace        Pace
	Marker      bool // put a cache-bust marker before the first user message of every tree

	// At most one bound; none means that every trace is played once.
	Duration time.Duration
	Requests int
	Trees    int

	Grace   time.Duration // how long running requests may go on after the end
	Timeout time.Duration // of a request; 0: six hours
	Header  []wire.Field
	APIKey  string
	Out     string // directory for the results; "": none are written

	Progress func(Progress) // called about every second from the conductor's goroutine; may be nil
	NewID    func() string  // ids of requests and sessions, called from several goroutines; nil: random UUIDs
}

// Progress is how far a run has come.
type Progress struct {
	Elapsed   time.Duration
	Requests  int // sent
	InFlight  int
	Completed int
	Errors    int
	Trees     int // opened
	Drained   int // trees that are over
}

// RecordsFile and SummaryFile are the names of the results in Options.Out.
const (
	RecordsFile = "records.jsonl"
	SummaryFile = "summary.json"
)

// maxInterruptGrace is the longest grace after an interrupt; progressEvery is how often Progress is called.
const (
	maxInterruptGrace = 30 * time.Second
	progressEvery     = time.Second
)

// Run plays until its bound is reached, ctx ends or a record cannot be written, then lets running requests finish within
// the grace, and returns the summary. The results are written whatever ended the run. An error without a summary means
// that nothing could be measured; one beside it, that the results could not be written or that the cache became
// unreadable on the way.
func Run(ctx context.Context, o Options) (*measure.Summary, error) {
	p, err := newPlayer(o)
	if err != nil {
		return nil, err
	}
	summary, err := p.run(ctx)
	p.client.Close()
	if summary != nil {
		err = errors.Join(err, p.write(summary))
	}
	return summary, err
}

// player is the driver of one run: clock, requests in flight, records.
type player struct {
	Options
	sampler   *sampler
	client    *wire.Client
	model     []byte // as JSON
	epoch     time.Time
	events    chan outcome
	conductor *conductor.Conductor
	flights   context.Context // of all requests
	cancel    context.CancelFunc
	aggregate *measure.Aggregate
	records   *measure.Writer // nil without Out
	end       endings
	cutoff    measure.Cutoff
	progress  Progress

	unwritable bool // a record could not be written, which ends the run
}

// outcome is a request that is over.
type outcome struct {
	send   conductor.Send
	record measure.Record
	end    time.Duration
}

func newPlayer(o Options) (*player, error) {
	if o.NewID == nil {
		o.NewID = func() string { return uuid.NewString() }
	}
	traces, err := selected(o)
	if err != nil {
		return nil, err
	}
	p := &player{Options: o, model: quote(o.Model), events: make(chan outcome, 1024), aggregate: measure.NewAggregate()}
	p.sampler = &sampler{
		cache: o.Cache, pace: o.Pace, form: o.Form, traces: traces, markers: o.Marker, benchID: o.NewID(),
		once:   o.Duration == 0 && o.Requests == 0 && o.Trees == 0,
		passes: map[int]int{}, scripts: map[int]*script{}, trees: map[int]*lane{}, lanes: make([]*lane, o.Concurrency),
	}
	p.end = endings{duration: o.Duration, grace: o.Grace}
	p.cutoff.Deadline = o.Duration
	if o.Out != "" {
		if err := os.MkdirAll(o.Out, 0o777); err != nil {
			return nil, fmt.Errorf("results: %w", err)
		}
		if p.records, err = measure.Create(filepath.Join(o.Out, RecordsFile)); err != nil {
			return nil, fmt.Errorf("results: %w", err)
		}
	}
	p.epoch = time.Now()
	p.client, err = wire.New(o.URL, wire.Options{Epoch: p.epoch, Timeout: o.Timeout, Header: o.Header, APIKey: o.APIKey})
	if err != nil {
		return nil, errors.Join(err, p.closeRecords())
	}
	p.flights, p.cancel = context.WithCancel(context.Background())
	p.conductor = conductor.New(o.Concurrency, p.sampler, conductor.Limits{Requests: o.Requests, Trees: o.Trees}, p.launch)
	return p, nil
}

// selected returns the positions of the traces that a run plays: with MaxContext those of which every request fits.
func selected(o Options) (kept []int, err error) {
	rules := o.Cache.Facts.Rules
	peaks := make([]int, o.Cache.Structure.Traces.Len())
	for i := range peaks {
		if o.MaxContext == 0 {
			break
		}
		p, err := o.Cache.Plan(i)
		if err != nil {
			return nil, err
		}
		for _, session := range p.Sessions {
			for _, t := range p.Turns[session.FirstTurn:][:session.Turns] {
				peaks[i] = max(peaks[i], timeline.Peak(int(t.In), rules.MaxTokens(session.Kind, t)))
			}
		}
	}
	kept = timeline.Select(peaks, o.MaxContext, o.Traces)
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

// run is the conductor's goroutine. It ends when nothing is in flight and nothing will be.
func (p *player) run(ctx context.Context) (*measure.Summary, error) {
	defer p.cancel()
	before := measure.ReadProcess()
	c := p.conductor
	c.Start(p.now())
	if err := p.sampler.err; c.Counts().TreesOpened == 0 {
		if err == nil {
			err = fmt.Errorf("replay: the cache has no trace with a request")
		}
		return nil, errors.Join(err, p.closeRecords())
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	interrupted := ctx.Done()
	for !c.Done() {
		now := p.now()
		p.advance(now)
		timer.Reset(p.sleep(now))
		select {
		case e := <-p.events:
			p.take(e, p.now())
		case <-timer.C:
		case <-interrupted:
			interrupted = nil
			p.interrupt(p.now())
		}
	}
	n := c.Counts()
	info := measure.RunInfo{
		Lanes: p.Concurrency, PhaseDuration: p.now(), Process: measure.ReadProcess().Since(before), Out: p.Out,
		WedgedTrees: n.TreesOpened - n.TreesDrained,
	}
	if p.records != nil {
		info.Records = RecordsFile
	}
	s := p.aggregate.Summary(info)
	return &s, p.sampler.err
}

// advance does what has become due.
func (p *player) advance(now time.Duration) {
	p.expire(now)
	p.conductor.Wake(now)
	if p.end.cancelAt > 0 && now >= p.end.cancelAt {
		p.cancel()
		p.end.cancelAt = 0
	}
	p.report(now)
}

// expire ends the sending when its time is up. It comes before all that could send.
func (p *player) expire(now time.Duration) {
	if p.end.check(now) {
		p.conductor.Stop(now)
	}
}

// interrupt ends the sending as a deadline at this instant would.
func (p *player) interrupt(now time.Duration) {
	if !p.end.stopped {
		p.cutoff.Deadline = now
	}
	p.end.interrupt(now)
	p.conductor.Stop(now)
}

// endings knows when a run ends.
type endings struct {
	duration, grace time.Duration
	stopped         bool
	cancelAt        time.Duration // when running requests are cancelled; 0: never, or done
}

// check reports whether the bound of time has just been reached.
func (e *endings) check(now time.Duration) bool {
	if e.stopped || e.duration == 0 || now < e.duration {
		return false
	}
	e.stopped = true
	e.cancelAt = e.duration + max(e.grace, 1)
	return true
}

// interrupt ends the run now, with a grace of its own.
func (e *endings) interrupt(now time.Duration) {
	grace := min(e.grace, maxInterruptGrace)
	if e.stopped && e.cancelAt > 0 {
		e.cancelAt = min(e.cancelAt, now+grace)
		return
	}
	e.stopped = true
	e.cancelAt = now + max(grace, 1)
}

// sleep returns how long there is nothing to do but wait for events.
func (p *player) sleep(now time.Duration) time.Duration {
	wake, end := now+progressEvery, &p.end
	if at, ok := p.conductor.Next(); ok {
		wake = min(wake, at)
	}
	if !end.stopped && end.duration > 0 {
		wake = min(wake, end.duration)
	}
	if end.cancelAt > 0 {
		wake = min(wake, end.cancelAt)
	}
	return max(0, wake-now)
}

// report calls Progress about every second.
func (p *player) report(now time.Duration) {
	if p.Progress == nil || now < p.progress.Elapsed+progressEvery {
		return
	}
	n := p.conductor.Counts()
	p.progress.Elapsed, p.progress.Requests, p.progress.InFlight = now, n.Sent, n.InFlight
	p.progress.Trees, p.progress.Drained = n.TreesOpened, n.TreesDrained
	p.Options.Progress(p.progress)
}

// take books a request that is over.
func (p *player) take(e outcome, now time.Duration) {
	category := ""
	if e.record.Error != nil {
		category = e.record.Error.Category
		p.progress.Errors++
	} else {
		p.progress.Completed++
	}
	e.record.Bucket = p.cutoff.Bucket(e.end, category)
	p.aggregate.Add(&e.record)
	p.expire(now)
	if p.records != nil && p.records.Write(&e.record) != nil && !p.unwritable {
		p.unwritable = true // Close returns why
		p.interrupt(now)
	}
	p.conductor.Returned(e.send.ID, e.end, now, category == string(wire.ContextOverflow))
}

// launch puts one turn on the wire, in a goroutine of its own.
func (p *player) launch(s conductor.Send) {
	l := p.sampler.trees[s.Tree]
	if l.sessions[s.Session] == "" {
		l.sessions[s.Session] = p.NewID()
	}
	correlation := l.sessions[s.Session]
	go func() { p.events <- p.play(s, l, correlation) }()
}

// play sends one turn and returns what became of it.
func (p *player) play(s conductor.Send, l *lane, correlation string) outcome {
	session := l.plan.Sessions[s.Session]
	row := int(session.FirstTurn) + s.Turn
	turn := l.plan.Turns[row]
	maxTokens := p.Cache.Facts.Rules.MaxTokens(session.Kind, turn)
	r := measure.Record{
		Lane: s.Lane, Tree: s.Tree, Pass: l.pass, Trace: l.plan.Trace.ID, Session: session.ID, Turn: s.Turn,
		SourceOuter: int(turn.Outer), SourceKind: session.Kind.String(),
		RequestID: p.NewID(), CorrelationID: correlation,
		Due: s.Due.Seconds(), RecordedIn: int64(turn.In), MaxTokens: int64(maxTokens),
	}
	if session.Parent != mmapcache.None {
		r.Parent = l.plan.Sessions[session.Parent].ID
	}
	if turn.Inner != mmapcache.None {
		inner := int(turn.Inner)
		r.SourceInner = &inner
	}
	tree, err := l.load()
	if err != nil {
		return p.unsent(s, r, err)
	}
	mark, path := l.marker.text(), "/v1/chat/completions"
	if p.Form == mmapcache.IDs {
		mark, path = l.marker.ids(p.Cache.Arenas.Marker), "/v1/completions"
	}
	b := bodies.Get().(*body)
	defer bodies.Put(b)
	err = p.Cache.Guard(func() error {
		b.fill(tree, row, p.Form, mark, p.model, maxTokens)
		return nil
	})
	if err != nil {
		return p.unsent(s, r, err)
	}
	res := p.client.Do(p.flights, &wire.Request{
		Path: path, Stream: true, Body: b,
		Header: []wire.Field{{Name: "X-Request-ID", Value: r.RequestID}, {Name: "X-Correlation-ID", Value: correlation}, {Name: "X-Session-Affinity", Value: correlation}},
	})
	describe(&r, &res)
	return outcome{s, r, res.End}
}

// unsent is the outcome of a turn whose request could not be made.
func (p *player) unsent(s conductor.Send, r measure.Record, err error) outcome {
	now := p.now()
	r.Sent, r.End = now.Seconds(), now.Seconds()
	r.Error = &measure.Error{Category: string(wire.Internal), Message: err.Error()}
	return outcome{s, r, now}
}

// describe copies the result of a request into its record.
func describe(r *measure.Record, res *wire.Result) {
	r.Sent, r.End = measure.Seconds(res.Sent, 0), measure.Seconds(res.End, 0)
	r.FirstToken, r.LastToken = measure.Seconds(res.FirstToken, 0), measure.Seconds(res.LastToken, 0)
	r.Status, r.Chunks, r.Reused = res.Status, res.Chunks, res.Reused
	r.Resent = res.Resent
	r.BytesSent, r.BytesReceived = res.BytesSent, res.BytesReceived
	r.FirstTokens = max(0, res.FirstTokens)
	r.PromptTokens, r.CachedTokens = measure.Tokens(res.Usage.Prompt), measure.Tokens(res.Usage.Cached)
	r.OutputTokens, r.ReasoningTokens = measure.Tokens(res.Usage.Output()), measure.Tokens(res.Usage.Reasoning)
	if res.Err != nil {
		r.Error = &measure.Error{Category: string(res.Err.Category), Message: res.Err.Message}
	}
}

// write writes the summary.
func (p *player) write(s *measure.Summary) error {
	if p.Out == "" {
		return nil
	}
	var errs []error
	if err := p.closeRecords(); err != nil {
		errs = append(errs, fmt.Errorf("results: %s: %w", filepath.Join(p.Out, RecordsFile), err))
	}
	data, err := json.Marshal(s)
	if err == nil {
		err = durable.WriteFile(filepath.Join(p.Out, SummaryFile), append(data, '\n'))
	}
	return errors.Join(append(errs, err)...)
}
