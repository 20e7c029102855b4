package replay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// virtualRun is a run on virtual time. It is the medium of its phases, and answers requests as a script says.
type virtualRun struct {
	*run
	t           *testing.T
	around      func(play func(context.Context)) // calls play
	script      func(s sentTurn) answerTo
	at          time.Duration
	interruptAt time.Duration // 0: never

	interruptBefore int // number of the phase, from 1, that begins with an interrupt; 0: none
	pending         []pendingEvent
	sent            []sentTurn
	cancels         []time.Duration
	phases          []phase
	summary         *measure.Summary
	records         []measure.Record
	warned          []string
}

// sentTurn is a request as it was handed to the transport, at an instant of the run.
type sentTurn struct {
	at             time.Duration
	phase          int // number of the phase among those of the run
	name           string
	lane, turn     int
	trace, session string
	tokens         int64 // asked for
	marker         payload.Marker
	correlation    string
	ordinal        int // of the tree
	phaseOfPrimers bool
}

// String returns what was sent, without the tree's name if that is the session's too.
func (s sentTurn) String() string { return fmt.Sprintf("%d:%s#%d", s.lane, s.session, s.turn) }

// answerTo is the answer to a request.
type answerTo struct {
	takes    time.Duration
	category wire.Category // "": it ends well
	retry    time.Duration // Retry-After of one that does not
	never    bool          // there is none
	deaf     bool          // not even to a cancellation
}

// second is the answer of a server that takes a second for each request.
func second(sentTurn) answerTo { return answerTo{takes: time.Second} }

// virtually plays a run on virtual time, and returns it with its error.
func virtually(t *testing.T, o Options, script func(sentTurn) answerTo, prepare ...func(*virtualRun)) (*virtualRun, error) {
	t.Helper()
	v := &virtualRun{t: t, script: script, around: func(play func(context.Context)) { play(t.Context()) }}
	o.Warn = func(text string) {
		if !strings.HasPrefix(text, "preset ") { // of the cache, which has the profile default
			v.warned = append(v.warned, text)
		}
	}
	require.NoError(t, o.Validate())
	v.run = newRun(o.withDefaults())
	v.medium = v
	require.NoError(t, v.prepare(t.Context()))
	require.NoError(t, v.open(t.Context()))
	require.NoError(t, v.start())
	for _, f := range prepare {
		f(v)
	}
	var err error
	v.around(func(ctx context.Context) { v.summary, err = v.play(ctx) })
	v.results.warnAtEnd(v.summary)
	require.NoError(t, v.results.write(v.summary))
	v.run.close() // then all warnings have been given
	v.records = readRecords(t, v.results.dir.path)
	requireIdentified(t, v.records)
	return v, err
}

func (v *virtualRun) now() time.Duration { return v.at }

func (v *virtualRun) begin(_ context.Context, p phase, origin, recordsOrigin time.Duration) (clock, transport, func()) {
	require.Equal(v.t, v.at, origin)
	require.Empty(v.t, v.pending, "nothing is in flight between two phases")
	v.phases = append(v.phases, p)
	if v.interruptBefore > 0 && len(v.phases) == v.interruptBefore {
		v.interruptAt = v.at
	}
	m := &virtualPhase{v, origin, v.newSender(p, origin, recordsOrigin)}
	return m, m, func() {
		m.sender.close()
		v.pending = nil // what comes later is dropped
	}
}

// virtualPhase is the clock and the transport of a phase.
type virtualPhase struct {
	*virtualRun
	origin time.Duration
	sender *requestSender
}

func (p *virtualPhase) now() time.Duration { return p.at - p.origin }

func (p *virtualPhase) await(until time.Duration) (event, bool) {
	if i := p.interruptAt; i > 0 && i <= p.origin+until && (len(p.pending) == 0 || i <= p.pending[0].at) {
		p.at, p.interruptAt = max(p.at, i), 0
		return event{kind: interrupted}, true
	}
	if len(p.pending) > 0 && p.pending[0].at <= p.origin+until {
		e := p.pending[0]
		p.pending = p.pending[1:]
		p.at = max(p.at, e.at)
		return e.event, true
	}
	p.at = max(p.at, p.origin+until)
	return event{}, false
}

func (p *virtualPhase) send(r *request) {
	r.tree = p.sampler.lanes[r.dispatch.Lane]
	r.record = p.sender.newRecord(r)
	s := sentTurn{
		at: p.at, phase: len(p.phases) - 1, name: r.record.Phase, lane: r.record.Lane, turn: r.record.Turn, trace: r.record.Trace,
		session: r.record.Session, tokens: r.record.MaxTokens, marker: r.tree.marker, correlation: r.record.CorrelationID, ordinal: r.tree.ordinal,
	}
	s.phaseOfPrimers = s.name == measure.WarmupPhase && !p.phases[s.phase].handsOff
	p.virtualRun.sent = append(p.virtualRun.sent, s)
	switch a := p.script(s); {
	case a.deaf:
	case a.never:
		p.pending = append(p.pending, pendingEvent{1 << 62, event{kind: returned, id: r.dispatch.ID}}) // waits for its cancellation
	default:
		p.returns(r.dispatch.ID, p.at, p.at+a.takes, a.category, wire.Usage{Prompt: r.record.RecordedISL, Completion: r.record.MaxTokens})
		p.pending[slices.IndexFunc(p.pending, func(e pendingEvent) bool { return e.id == r.dispatch.ID })].answer.RetryAfter = a.retry
	}
}

// returns lets a request return at an instant of the run.
func (p *virtualPhase) returns(id int, sent, at time.Duration, category wire.Category, usage wire.Usage) {
	result := wire.Result{
		Sent: sent, End: at, FirstToken: at, LastToken: at, SecondToken: wire.Never, FirstOutput: wire.Never, LastMessage: at, Usage: usage,
	}
	if category != "" {
		result = failedResult(sent, at, category, "scripted")
	}
	p.pending = append(p.pending, pendingEvent{at, event{kind: returned, id: id, answer: &answer{Result: since(p.origin, result)}}})
	slices.SortStableFunc(p.pending, func(a, b pendingEvent) int { return cmp.Compare(a.at, b.at) })
}

func (p *virtualPhase) look(time.Duration) time.Duration { return 0 }

func (p *virtualPhase) cancelAll() {
	p.cancels = append(p.cancels, p.at)
	inFlight := p.pending
	p.pending = nil
	for _, e := range inFlight {
		p.returns(e.id, p.at, p.at, wire.Cancelled, wire.NoUsage)
	}
}

// of returns what was sent in the phases of a name, in the order of sending.
func (v *virtualRun) of(name string) (list []sentTurn) {
	return slices.DeleteFunc(slices.Clone(v.sent), func(s sentTurn) bool { return s.name != name })
}

// texts returns what was sent, sorted.
func texts(list []sentTurn) (all []string) {
	for _, s := range list {
		all = append(all, s.String())
	}
	slices.Sort(all)
	return all
}

// call is a recorded request: when it started, and how long it took, in seconds. Requests of an agent stand in its list.
type call struct {
	at, took float64
	agent    []call
}

// recording returns the JSON line of a trace of these requests.
func recording(id string, calls ...call) string {
	blocks := func(n int) string {
		var list []string
		for b := range n {
			list = append(list, fmt.Sprint(b))
		}
		return strings.Join(list, ",")
	}
	request := func(c call, base, k int) string {
		return fmt.Sprintf(`{"t":%g,"type":"n","model":"m","in":%d,"out":2,"hash_ids":[%s],"input_types":[],"output_types":[],"stop":"","api_time":%g}`,
			c.at, 64*(base+k+1), blocks(base+k+1), c.took)
	}
	var list []string
	for k, c := range calls {
		if c.agent == nil {
			list = append(list, request(c, 0, k))
			continue
		}
		var inner []string
		for n, a := range c.agent {
			inner = append(inner, request(a, 2, n))
		}
		last := c.agent[len(c.agent)-1]
		list = append(list, fmt.Sprintf(`{"t":%g,"type":"subagent","agent_id":"a%d","subagent_type":"x","status":"completed","duration_ms":%g,"models":["m"],"requests":[%s]}`,
			c.at, k, 1000*(last.at+last.took-c.at), strings.Join(inner, ",")))
	}
	return fmt.Sprintf(`{"id":%q,"models":["m"],"block_size":64,"hash_id_scope":"local","tool_tokens":0,"system_tokens":64,"requests":[%s]}`+"\n", id, strings.Join(list, ","))
}

// recorded returns a cache of traces.
func recorded(t *testing.T, lines ...string) *mmapcache.Cache {
	return cachetest.Prepare(t, strings.Join(lines, ""), "code")
}

// warming are options of a run on virtual time: at recorded speed, with a marker, from the middle of every trace, and with a
// warmup.
func warming(t *testing.T, c *mmapcache.Cache, name string, w Warmup) Options {
	o := optionsFor(t, c, unreachable)
	o.Concurrency, o.Pace, o.Marker, o.Warmup, o.Start = 1, Pace{}, payload.FirstTurnPrefix, w, Start{Sampled: true}
	s, ok := preset.Named(name)
	require.True(t, ok)
	o.Preset, o.Switches, o.AllowWrap = name, &s, true
	o.Overwrite = true
	return o
}

// at sets t* of lanes, in seconds of their traces. A trace without times keeps the turn that was drawn.
func at(tStar ...float64) func(*virtualRun) {
	return func(v *virtualRun) {
		for lane, s := range tStar {
			if _, _, timed := v.sampler.lanes[lane].Bounds(); !timed {
				continue
			}
			state := v.sampler.lanes[lane].At(1000 * s)
			require.NotEmpty(v.t, state.Live)
			v.begun[lane].tStar, v.sampler.first[lane].Start = 1000*s, state
		}
	}
}
