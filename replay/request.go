package replay

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/meet"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/wire"
)

// A request passes through this file from top to bottom: launch, send, do, onReturn. doc.go has the whole way.

// request is one turn in flight. Only the loop changes it.
type request struct {
	dispatch conductor.Dispatch
	tree     *activeTree
	record   measure.Record

	// Of a turn whose server has asked to send it later.
	throttled          int           // times
	waited, waitsUntil time.Duration // in all; the last time
	answer             *answer       // the last, while it waits

	history []byte // messages before those of its prompt, where the session keeps the answers

	own, ahead *leaving // its request, and the one that it leaves behind; nil: none

	// Where trees arrive, when the turn was ordered.
	openTrees, queuedTrees int
}

// answer is the outcome of a request on the wire. Its instants count from the start of the phase.
type answer struct {
	wire.Result
	cacheErr error  // the cache cannot be read, which ends the run
	history  []byte // of the session with this request and its answer
}

// since makes the instants of a result count from a later instant.
func since(origin time.Duration, r wire.Result) wire.Result {
	for _, at := range []*time.Duration{
		&r.Sent, &r.FirstToken, &r.SecondToken, &r.FirstOutput, &r.LastToken, &r.LastMessage, &r.End, &r.Acknowledged,
		&r.Exchange.WaitEnd, &r.Exchange.ConnectStart, &r.Exchange.ConnectEnd, &r.Exchange.SendStart, &r.Exchange.SendEnd,
		&r.Exchange.FirstByte, &r.Exchange.LastByte,
	} {
		if *at != wire.Never {
			*at -= origin
		}
	}
	return r
}

// launch sends the request of a turn. The conductor calls it.
func (l *loop) launch(d conductor.Dispatch) error {
	r := &request{dispatch: d}
	if w := l.throttle.waiting[d.ID]; w != nil {
		delete(l.throttle.waiting, d.ID)
		r.throttled, r.waited = w.throttled, w.waited
	}
	if len(l.inFlight) == 0 {
		l.busySince = d.Issued
	}
	if l.backlog != nil {
		n := l.conductor.Counts()
		r.openTrees, r.queuedTrees = n.TreesOpen, n.TreesWaiting
	}
	l.inFlight[d.ID], l.lastSent = r, d.Issued
	l.transport.send(r)
	return nil
}

// requestSender is the transport of a phase.
type requestSender struct {
	*run
	servers servers
	rules   mmapcache.TimeRules
	newID   func() string

	phase       string
	firstCredit int           // number of the first request
	oneToken    bool          // every request asks for one token
	epoch       time.Time     // start of the run, from which the client counts
	origin      time.Duration // start of the phase
	recordsFrom time.Duration // from where the instants of records count to the start of the phase

	ctx         context.Context // of every request
	cancel      context.CancelFunc
	events      chan event
	idle        chan request  // goroutines that wait for a request
	closed      chan struct{} // nothing takes events any more
	inFlight    atomic.Int64  // requests
	firstTokens bool          // the first token of a request is an event
}

// newSender returns the transport of a phase that starts at an instant of the run. The instants of its records count from
// recordsOrigin.
func (r *run) newSender(p phase, origin, recordsOrigin time.Duration) *requestSender {
	s := &requestSender{
		run: r, servers: r.servers, rules: r.Cache.Facts.Rules, newID: r.NewID,
		phase: p.name, firstCredit: p.firstCredit, oneToken: p.oneToken, epoch: r.epoch, origin: origin, recordsFrom: origin - recordsOrigin,
		events: make(chan event, 1024), idle: make(chan request), closed: make(chan struct{}), firstTokens: p.limits.Prefill > 0,
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// close ends the requests in flight. Their answers are dropped.
func (s *requestSender) close() {
	close(s.closed)
	s.cancel()
}

// send hands the request to a goroutine that has none, or starts one. A new goroutine for every request takes up to 5 % more CPU: its stack
// grows anew to the depth of the readers of bodies and answers.
func (s *requestSender) send(r *request) {
	r.tree = s.sampler.lanes[r.dispatch.Lane]
	r.record = s.newRecord(r)
	r.own, r.ahead = r.tree.leaveBehindParent(r.dispatch)
	if s.rules.LiveAnswers {
		r.history = r.tree.historyOf(r.dispatch.Session)
	}
	s.routeOf(r.tree)
	s.inFlight.Add(1)
	select {
	case s.idle <- *r: // a copy: the loop may give the original up meanwhile
	default:
		go s.work(*r)
	}
}

// routeOf returns the route of a tree, which it gets at its first request.
func (r *run) routeOf(t *activeTree) *wire.Route {
	if t.route == nil {
		t.route = r.servers.route(r.Part.whole(t.ordinal))
	}
	return t.route
}

// work sends one request after the other, until the sender closes.
func (s *requestSender) work(r request) {
	for {
		a := s.do(&r)
		r.own.wasWritten()
		s.inFlight.Add(-1)
		s.post(event{kind: returned, id: r.dispatch.ID, answer: a})
		r = request{} // holds on to nothing while it waits
		select {
		case r = <-s.idle:
		case <-s.closed:
			return
		}
	}
}

// newRecord returns what is known of a request before it is sent.
func (s *requestSender) newRecord(r *request) measure.Record {
	d, plan := r.dispatch, r.tree.plan
	session := plan.Sessions[d.Session]
	planTurn := int(session.FirstTurn) + d.Turn
	turn := plan.Turns[planTurn]
	record := measure.Record{
		Phase: s.phase, PlanTurn: planTurn,
		Lane: s.Part.whole(d.Lane), Credit: s.firstCredit + d.ID, Tree: r.tree.ordinal, Pass: r.tree.pass, Trace: plan.Trace.ID, Session: session.ID, Turn: d.Turn,
		SourceOuter: int(turn.Outer), SourceKind: session.Kind.String(),
		RequestID: s.newID(), CorrelationID: r.tree.correlationID(d.Session, s.newID), RootID: r.tree.correlationID(0, s.newID),
		Numbers: measure.Numbers{Due: measure.Time(s.recordsFrom + d.Due), Admitted: measure.Time(s.recordsFrom + d.Issued), Queued: measure.Time(d.Queued),
			OpenTrees: r.openTrees, QueuedTrees: r.queuedTrees,
			RecordedISL: int64(promptTokens(plan, int(session.FirstTurn), d.Turn, s.rules)), RecordedBlocks: int64(turn.HashIDs), RecordedHits: int64(turn.CacheHits), MaxTokens: int64(s.rules.MaxTokens(session.Kind, turn))}, URL: s.servers.indexOf(s.Part.whole(r.tree.ordinal)),
	}
	if s.oneToken {
		record.MaxTokens = 1
	}
	if session.Parent != mmapcache.None {
		record.Parent, record.ParentID = plan.Sessions[session.Parent].ID, r.tree.correlationID(int(session.Parent), s.newID)
	}
	for up := session.Parent; up != mmapcache.None; up = plan.Sessions[up].Parent {
		record.Depth++
	}
	if turn.Inner != mmapcache.None {
		inner := int(turn.Inner)
		record.SourceInner = &inner
	}
	return record
}

// do sends the request and returns its answer.
func (s *requestSender) do(r *request) *answer {
	trace, err := r.tree.render()
	if err != nil {
		return s.cacheFailure(r, err)
	}
	session := r.tree.plan.Sessions[r.dispatch.Session]
	row := int(session.FirstTurn) + r.dispatch.Turn
	body, err := s.encoder.Body(trace, row, r.tree.marker, int(r.record.MaxTokens))
	if err != nil {
		return s.cacheFailure(r, err)
	}
	defer body.Release()
	q := &wire.Request{Path: s.encoder.Path(), API: s.Endpoint.API(), Stream: true, Body: body, PerChunkUsage: s.encoder.PerChunkUsage()}
	q.Header, q.Affinity = s.idsOf(&r.record)
	if s.KeepCookies {
		q.Jar = r.tree.cookies
	}
	q.Session, q.EndsSession = r.record.CorrelationID, r.dispatch.Turn+1 == int(session.Turns)
	q.OnWritten, q.Route = r.own.wasWritten, r.tree.route
	var said *payload.Answer
	if s.rules.LiveAnswers { // the turns of a session are what is new: its history stands before them
		said = new(payload.Answer)
		body.Behind(r.history)
		q.OnPayload = said.Add
	}
	if s.firstTokens {
		q.OnFirstToken = func(time.Duration) { s.post(event{kind: firstToken, id: r.dispatch.ID}) }
	}
	r.ahead.await(s.ctx, time.After)
	a := &answer{Result: since(s.origin, s.servers.of(s.Part.whole(r.tree.ordinal)).Do(s.ctx, q))}
	if a.Err != nil && a.Err.Category == wire.Internal && !a.Limited { // the body could not be read while it was written
		a.cacheErr = cacheError(r, a.Err)
		return a
	}
	if s.rules.LiveAnswers {
		if a.history, err = body.AppendTo(r.history); err != nil {
			a.cacheErr = cacheError(r, err)
		}
		a.history = said.Append(a.history)
	}
	return a
}

// A child that is spawned at the issue of a turn of its parent may be due at that instant. Both turns have goroutines and connections of
// their own, so either could be on the wire first. The child leaves when the request of its parent has been written, or maxBehind later.

// maxBehind is the longest that a turn waits for the request of its parent. What is longer in being written is so for its server.
const maxBehind = 10 * time.Millisecond

// leaving is a turn that was ordered.
type leaving struct {
	issued  time.Duration
	written chan struct{} // closed when its request has been written, or is over
}

// leaveBehindParent notes that a turn was ordered, and returns the request that it leaves behind: that of the turn which spawned it at this
// instant; nil: it may leave. The loop calls it.
func (t *activeTree) leaveBehindParent(d conductor.Dispatch) (own, ahead *leaving) {
	if len(t.plan.Sessions) == 1 {
		return nil, nil
	}
	if t.leaving == nil {
		t.leaving = make([]*leaving, len(t.plan.Sessions))
	}
	if parent := t.plan.Sessions[d.Session].Parent; parent != mmapcache.None && d.Turn == 0 {
		if p := t.leaving[parent]; p != nil && p.issued == d.Due {
			ahead = p
		}
	}
	own = &leaving{issued: d.Issued, written: make(chan struct{})}
	t.leaving[d.Session] = own
	return own, ahead
}

// wasWritten says that the request has been written, or is over. It may say so again. Nil is a turn that nothing waits for.
func (l *leaving) wasWritten() {
	if l == nil {
		return
	}
	select {
	case <-l.written:
	default:
		close(l.written)
	}
}

// await waits until the request has been written, the time is up, or ctx ends. Nil is waited for by nobody.
func (l *leaving) await(ctx context.Context, after func(time.Duration) <-chan time.Time) {
	if l == nil {
		return
	}
	select {
	case <-l.written: // mostly by now
		return
	default:
	}
	select {
	case <-l.written:
	case <-after(maxBehind):
	case <-ctx.Done():
	}
}

// cacheFailure returns the answer of a request whose prompt cannot be read.
func (s *requestSender) cacheFailure(r *request, err error) *answer {
	now := time.Since(s.epoch) - s.origin
	return &answer{Result: failedResult(now, now, wire.Internal, err.Error()), cacheErr: cacheError(r, err)}
}

// cacheError says of which request the prompt cannot be read.
func cacheError(r *request, err error) error {
	return fmt.Errorf("lane %d, trace %q, session %q, turn %d: the cache cannot be read any more: %w",
		r.record.Lane, r.record.Trace, r.record.Session, r.record.Turn, err)
}

// failedResult returns the result of a request without an answer from the server.
func failedResult(sent, end time.Duration, category wire.Category, message string) wire.Result {
	return wire.Result{
		Sent: sent, End: end, FirstToken: wire.Never, SecondToken: wire.Never, FirstOutput: wire.Never, LastToken: wire.Never,
		LastMessage: wire.Never, Acknowledged: wire.Never, Exchange: wire.NoExchange, Usage: wire.NoUsage,
		Err: &wire.Failure{Category: category, Message: message},
	}
}

// post hands an event to the loop. When the loop is over, the event is dropped.
func (s *requestSender) post(e event) {
	select {
	case s.events <- e:
	case <-s.closed:
	}
}

// look ends the requests whose servers have stalled at an instant. It returns when the newest bytes of any answer came.
func (s *requestSender) look(now time.Duration) (heard time.Duration) {
	for _, c := range s.servers.clients {
		heard = max(heard, c.EndStalled(s.origin+now))
	}
	return heard - s.origin
}

// cancelAll cancels every request in flight. Each returns as cancelled.
func (s *requestSender) cancelAll() { s.cancel() }

// giveUp ends a request that was cancelled and has not returned. Its answer will be ignored.
func (l *loop) giveUp(r *request, now time.Duration) {
	sent := r.dispatch.Issued // the real instant is not known
	l.onReturn(r.dispatch.ID, &answer{Result: failedResult(sent, now, wire.Cancelled, "no answer to its cancellation")}, now)
}

// onReturn acts on an answer: the request is over, and has a record, or its turn is sent again. It tells the conductor, which may send others.
func (l *loop) onReturn(id int, a *answer, now time.Duration) {
	r, ok := l.inFlight[id]
	if !ok {
		return // given up before
	}
	delete(l.inFlight, id)
	pause := l.backoff.after(r.dispatch.Lane, a)
	if l.throttled(r, a, now) {
		l.sendAgain(r, a, now)
		return
	}
	if pause > 0 && !l.conductor.Stopped() {
		r.record.BackOff = measure.Time(pause)
		l.conductor.Hold(r.dispatch.Lane, a.End+pause)
	}
	l.expire(now)
	outcome := l.finish(r, a, now)
	if a.history != nil {
		r.tree.histories[r.dispatch.Session] = a.history
	}
	l.news.returned(r, outcome)
	l.fail(a.cacheErr)
	l.fail(l.tooManyFailed()) // before another is sent
	l.fail(l.gone(&r.record))
	if l.fatal != nil && !l.interrupted && l.fatal(&r.record) {
		l.abort(&r.record, now)
	}
	l.fail(l.conductor.Returned(id, a.End, now, outcome))
}

// finish counts a request that is over, and completes and writes its record.
func (l *loop) finish(r *request, a *answer, now time.Duration) conductor.Outcome {
	outcome := outcomeOf(a.Err)
	l.count(outcome)
	result := since(-l.recordsFrom, a.Result)
	fillRecord(&r.record, &result)
	r.record.Throttled, r.record.Waited = r.throttled, measure.Time(r.waited)
	r.record.Bucket = l.cutoff.Bucket(a.End, a.category())
	if l.name == measure.ProfilingPhase {
		l.cutoff.Deliver(&r.record)
	}
	if r.record.Bucket == measure.CancelledAtEnd {
		r.record.CancelledAt = measure.Since(l.recordsFrom + l.cancelledAt)
	}
	if l.recorder.record(&r.record) != nil && !l.unwritable { // closing the results says why
		l.unwritable = true
		l.together.stop(meet.Failed, "its records cannot be written")
		l.stop(now)
	}
	return outcome
}

// category returns the category of the failure, "" for a request that ended well.
func (a *answer) category() wire.Category {
	if a.Err == nil {
		return ""
	}
	return a.Err.Category
}

// fillRecord copies the result of a request into its record. The two stay apart because a client counts from the start of the run, whose
// phases it does not know: to move the instants, and to copy, takes 0.3 µs a request (BenchmarkFillRecord).
func fillRecord(r *measure.Record, res *wire.Result) {
	r.Sent, r.End = measure.Since(res.Sent), measure.Since(res.End)
	r.Acknowledged, r.FirstToken, r.SecondToken = measure.Since(res.Acknowledged), measure.Since(res.FirstToken), measure.Since(res.SecondToken)
	r.FirstOutput, r.LastToken, r.LastMessage = measure.Since(res.FirstOutput), measure.Since(res.LastToken), measure.Since(res.LastMessage)
	x := &res.Exchange
	r.WaitEnd, r.ConnectStart, r.ConnectEnd = measure.Since(x.WaitEnd), measure.Since(x.ConnectStart), measure.Since(x.ConnectEnd)
	r.SendStart, r.SendEnd = measure.Since(x.SendStart), measure.Since(x.SendEnd)
	r.FirstByte, r.LastByte = measure.Since(x.FirstByte), measure.Since(x.LastByte)
	r.Contents, r.FinishReason = res.Contents, res.FinishReason
	r.Status, r.Transfer, r.Address, r.EventsAs, r.Burst, r.Silent = res.Status, res.Transfer, res.Address, res.EventsAs, res.Burst, res.Silent
	r.FirstChunkTokens = measure.Tokens(res.FirstChunkTokens)
	r.PromptTokens, r.CachedTokens = measure.Tokens(res.Usage.Prompt), measure.Tokens(res.Usage.Cached)
	r.OutputTokens, r.ReasoningTokens = measure.Tokens(res.Usage.Output()), measure.Tokens(res.Usage.Reasoning)
	r.TotalTokens, r.CacheWriteTokens, r.CacheMissTokens = measure.Tokens(res.Usage.Total), measure.Tokens(res.Usage.CacheWrite), measure.Tokens(res.Usage.CacheMiss)
	r.Error = res.Err
}
