package replay

import (
	"fmt"
	"time"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// correlation returns the id of a session, which it has from its first request on.
func (p *player) correlation(t *opened, session int) string {
	if t.sessions[session] == "" {
		t.sessions[session] = p.NewID()
	}
	return t.sessions[session]
}

// launch puts one turn on the wire, in a goroutine of its own.
func (p *player) launch(s conductor.Dispatch) {
	t := p.sampler.trees[s.Tree]
	r := p.record(s, t)
	p.launched[s.ID] = &r
	go func(r measure.Record) {
		o := p.play(s, t, r)
		p.post(event{outcome: &o})
	}(r)
}

// post hands an event to the phase, unless that is over.
func (p *player) post(e event) {
	select {
	case p.events <- e:
	case <-p.over:
	}
}

// abort cancels what is in flight.
func (p *player) abort() { p.cancel() }

// lost is the outcome of a request of which nothing was heard after it had been cancelled.
func (p *player) lost(s conductor.Dispatch) outcome {
	r := *p.launched[s.ID]
	o := p.unsent(s, r, wire.Cancelled, "no answer to its cancellation")
	o.record.Sent = r.Admitted // as far as is known
	return o
}

// record is what is known of a request before it is sent.
func (p *player) record(s conductor.Dispatch, t *opened) measure.Record {
	session := t.plan.Sessions[s.Session]
	turn := t.plan.Turns[int(session.FirstTurn)+s.Turn]
	r := measure.Record{
		Phase: measure.ProfilingPhase,
		Lane:  s.Lane, Tree: s.Tree, Pass: t.pass, Trace: t.plan.Trace.ID, Session: session.ID, Turn: s.Turn,
		SourceOuter: int(turn.Outer), SourceKind: session.Kind.String(),
		RequestID: p.NewID(), CorrelationID: p.correlation(t, s.Session),
		Due: s.Due.Seconds(), Admitted: s.Issued.Seconds(),
		RecordedISL: int64(turn.In), MaxTokens: int64(p.Cache.Facts.Rules.MaxTokens(session.Kind, turn)),
	}
	if session.Parent != mmapcache.None {
		r.Parent = t.plan.Sessions[session.Parent].ID
	}
	if turn.Inner != mmapcache.None {
		inner := int(turn.Inner)
		r.SourceInner = &inner
	}
	return r
}

// play sends one turn and returns what became of it.
func (p *player) play(s conductor.Dispatch, t *opened, r measure.Record) outcome {
	tree, err := t.load()
	if err != nil {
		return p.unread(s, r, err)
	}
	b, err := p.encoder.Body(tree, int(t.plan.Sessions[s.Session].FirstTurn)+s.Turn, t.marker, int(r.MaxTokens))
	if err != nil {
		return p.unread(s, r, err)
	}
	defer b.Release()
	req := &wire.Request{
		Path: p.encoder.Path(), Stream: true, Body: b, PerChunkUsage: p.encoder.PerChunkUsage(),
		Header: []wire.HeaderField{
			{Name: "X-Request-ID", Value: r.RequestID}, {Name: "X-Correlation-ID", Value: r.CorrelationID},
			{Name: "X-Session-Affinity", Value: r.CorrelationID},
		},
	}
	if p.Options.Limits.Prefill > 0 {
		req.OnFirstToken = func(time.Duration) { p.post(event{token: true, id: s.ID}) }
	}
	res := p.client.Do(p.flights, req)
	describe(&r, &res)
	o := outcome{send: s, record: r, end: res.End}
	if res.Err != nil && res.Err.Category == wire.Internal { // the body could not be read while it was written
		o.broken = unreadable(s, r, res.Err)
	}
	return o
}

// unsent is the outcome of a turn that has no answer.
func (p *player) unsent(s conductor.Dispatch, r measure.Record, category wire.Category, message string) outcome {
	now := p.now()
	r.Sent, r.End = now.Seconds(), now.Seconds()
	r.Error = &measure.Error{Category: category, Message: message}
	return outcome{send: s, record: r, end: now}
}

// unread is the outcome of a turn whose prompt cannot be read. It ends the run.
func (p *player) unread(s conductor.Dispatch, r measure.Record, err error) outcome {
	o := p.unsent(s, r, wire.Internal, err.Error())
	o.broken = unreadable(s, r, err)
	return o
}

func unreadable(s conductor.Dispatch, r measure.Record, err error) error {
	return fmt.Errorf("lane %d, trace %q, session %q, turn %d: the cache cannot be read any more: %w", s.Lane, r.Trace, r.Session, r.Turn, err)
}

// describe copies the result of a request into its record.
func describe(r *measure.Record, res *wire.Result) {
	r.Sent, r.End = measure.Seconds(res.Sent, 0), measure.Seconds(res.End, 0)
	r.FirstToken, r.LastToken = measure.Seconds(res.FirstToken, 0), measure.Seconds(res.LastToken, 0)
	r.Status, r.Chunks, r.Reused = res.Status, res.Chunks, res.Reused
	r.Resent, r.Redirected, r.SingleBody = res.Resent, res.Redirected, res.SingleBody
	r.BytesSent, r.BytesReceived = res.BytesSent, res.BytesReceived
	r.FirstChunkTokens = max(0, res.FirstChunkTokens)
	r.PromptTokens, r.CachedTokens = measure.Tokens(res.Usage.Prompt), measure.Tokens(res.Usage.Cached)
	r.OutputTokens, r.ReasoningTokens = measure.Tokens(res.Usage.Output()), measure.Tokens(res.Usage.Reasoning)
	if res.Err != nil {
		r.Error = &measure.Error{Category: res.Err.Category, Message: res.Err.Message}
	}
}
