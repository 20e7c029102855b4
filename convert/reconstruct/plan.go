package reconstruct

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/timeline"
	"github.com/agentx/agentx/trace"
)

// Notes report what MakePlan noticed in a trace. None of it is an error.
type Notes struct {
	Unknown   map[string]int // how often unknown keys and types occurred, by name
	Oddities  trace.Oddities
	Dropped   []string // ids of subagents before the first request of the trace
	Ambiguous int      // subagents whose clock was guessed

	Seams        int // places where an agent goes on after its context was shortened
	Unclassified int // requests without ids in a list that was searched for side chains
	ChainBreaks  int // times a block followed another block than at its first appearance

	Start   float64      // recorded, in milliseconds on the clock of the recording; NaN where the format has none
	Format  string       // of the trace
	Queries []CacheQuery // of a trace of global scope, whose cache hits depend on all such traces of one namespace and block size

	Namespace int  // see trace.Trace
	Live      bool // a replay puts its prompts behind the answers of the server
}

// MakePlan turns a trace into sessions, turns, segments and blocks. The error is always a *trace.Error.
func MakePlan(tr *trace.Trace, r rules.Rules) (*mmapcache.Plan, Notes, error) {
	r = r.WithDefaults()
	if err := tr.Check(); err != nil {
		return nil, Notes{}, err
	}
	p := planner{tr: tr, rules: r, blockSize: int(tr.BlockSize), plan: &mmapcache.Plan{}}
	p.blockNumbers = blockNumbers{runs: &p.plan.Runs, budget: tr.Budget}
	if r.BlockSize > 0 {
		p.blockSize = r.BlockSize
	}
	p.notes.Unknown, p.notes.Format, p.notes.Start = tr.Unknown, tr.Format, orMissing(tr.Start)
	p.notes.Namespace, p.notes.Live = tr.Namespace, tr.Live
	p.oddities = odditiesOf(tr)
	err := checkTraceID(tr.ID, r)
	if err == nil {
		err = p.run()
	}
	if refused := p.budget.Refused(); refused != nil {
		err = refused
	}
	if err != nil {
		err.Trace = tr.ID
		return nil, p.notes, err
	}
	p.notes.Oddities = p.oddities
	return p.plan, p.notes, nil
}

// checkTraceID refuses an id in which readers of results would find that of another trace: the text before the first "::" of a
// session's name is the trace's. With the refusals of AIPerf, which has no such one, it refuses none.
func checkTraceID(id string, r rules.Rules) *trace.Error {
	if r.Refusals == "error" || !strings.Contains(id, "::") {
		return nil
	}
	return &trace.Error{Kind: trace.BadTraceID, Where: "id", Problem: `it has "::", which separates a trace from its subagents in the names of sessions`, Hint: "use another separator in the ids of traces, or skip invalid traces"}
}

// planner builds the plan of one trace.
type planner struct {
	tr        *trace.Trace
	rules     rules.Rules
	blockSize int
	plan      *mmapcache.Plan
	notes     Notes
	oddities  trace.Oddities
	blockNumbers

	main      []turn               // of the trace's main conversation
	mainTurns []timeline.MainTurn  // the same, to find where children spawn and join
	agents    map[string]bool      // agent ids of the subagents that were planned
	tops      map[int]*trace.Links // by entry the links of the subagent above it that hangs on the main conversation, or its own

	numbers map[string]*numbering // by scope
	queries []CacheQuery          // every turn, for the prefix cache
}

// turn is a request placed in a conversation.
type turn struct {
	*trace.Request
	t            float64 // start on the clock of the trace, seconds
	outer, inner int     // index in the trace's list, and in that of a subagent
}

// run plans the main conversation first, then those of subagents, then side chains of the trace's own list.
func (p *planner) run() *trace.Error {
	tr := p.tr
	p.plan.Trace = mmapcache.Trace{ID: tr.ID, Scope: tr.Scope.String(), BlockSize: uint32(p.blockSize)}
	top := p.keptRequests()
	rules := p.rules
	rules.SplitAgents = rules.SplitAgents && !tr.Live && !tr.Linked
	a := splitAgents(top, true, rules)
	p.noteSplit(a)
	p.setMain(pick(top, a.main))
	scope := tr.Scope.Context(tr.ID, "", p.blockSize)
	if tr.Namespace > 0 {
		scope = fmt.Sprintf("%s:%d", scope, tr.Namespace)
	}
	if err := p.planSession(p.root(), scope, p.main, prefixSizes{tr.ToolTokens, tr.SystemTokens}); err != nil {
		return err
	}
	if err := p.planSubagents(); err != nil {
		return err
	}
	if err := p.planSideChains(a, top, scope); err != nil {
		return err
	}
	if err := p.check(); err != nil {
		return err
	}
	p.plan.Trace.Blocks, p.notes.ChainBreaks = p.blocks, p.ChainBreaks
	p.countHits()
	return p.placeStart()
}

// placeStart moves the recorded start to that of the first turn, where a filter or another agent took the first request.
func (p *planner) placeStart() *trace.Error {
	if !p.tr.Start.OK || len(p.main) == 0 || p.main[0].outer == 0 {
		return nil
	}
	p.notes.Start += (p.main[0].t - p.tr.Entries[0].T) * 1000
	if !(p.notes.Start <= mmapcache.MaxRecordedStart) {
		return &trace.Error{Kind: trace.TooLarge, Where: requestPath(p.main[0].outer), Problem: fmt.Sprintf("starts %g ms after 0: beyond %g ms, which are 292 years", p.notes.Start, float64(mmapcache.MaxRecordedStart))}
	}
	return nil
}

// keptRequests returns the top-level requests that the filter keeps: doc/spec/reconstruction.md 5.1.
func (p *planner) keptRequests() (list []turn) {
	list = make([]turn, 0, len(p.tr.Entries))
	for k := range p.tr.Entries {
		e := &p.tr.Entries[k]
		if e.Subagent != nil || p.rules.MaxInput != nil && e.In > *p.rules.MaxInput || !inWindow(p.rules, e.T) {
			continue
		}
		list = append(list, turn{&e.Request, e.T, k, mmapcache.None})
	}
	return list
}

// setMain stores the turns of the main conversation, where children spawn and join.
func (p *planner) setMain(main []turn) {
	p.main = main
	p.mainTurns = make([]timeline.MainTurn, len(main))
	for k, t := range main {
		p.mainTurns[k] = timeline.MainTurn{Outer: t.outer, Start: t.t}
	}
}

// root returns the session of the main conversation.
func (p *planner) root() mmapcache.Session {
	return mmapcache.Session{ID: p.tr.ID, Kind: mmapcache.Main, Parent: mmapcache.None, SpawnTurn: mmapcache.None,
		JoinTurn: mmapcache.None, Start: math.NaN(), End: math.NaN()}
}

func (p *planner) noteSplit(a agents) {
	p.notes.Seams += a.seams
	p.notes.Unclassified += a.unclassified
}

// pick returns the turns at some positions of a list.
func pick(list []turn, positions []int) []turn {
	out := make([]turn, len(positions))
	for k, at := range positions {
		out[k] = list[at]
	}
	return out
}

// check refuses a finished plan that the rules, or the format of a cache, do not allow.
func (p *planner) check() *trace.Error {
	if err := p.refuseNegativeBranches(); err != nil {
		return err
	}
	return p.refuseSameNames()
}

// refuseNegativeBranches refuses a branch that starts before time 0, where the rules do not move it there (D20).
func (p *planner) refuseNegativeBranches() *trace.Error {
	if p.rules.Refusals != "error" {
		return nil
	}
	for _, s := range p.plan.Sessions {
		if s.Start < 0 {
			return &trace.Error{Kind: trace.NegativeBranch, Where: fmt.Sprintf("session %q", s.ID), Problem: fmt.Sprintf("starts %g s before time 0", -s.Start)}
		}
	}
	return nil
}

// refuseSameNames refuses two sessions with one name: the id of an agent can equal the name of a side chain.
func (p *planner) refuseSameNames() *trace.Error {
	names := make(map[string]bool, len(p.plan.Sessions))
	for _, s := range p.plan.Sessions {
		if names[s.ID] {
			return &trace.Error{Kind: trace.DuplicateSession, Where: requestPath(int(s.Outer)), Problem: fmt.Sprintf("a second session of the name %q", s.ID)}
		}
		names[s.ID] = true
	}
	return nil
}

// countHits counts the hits of the trace in its own prefix cache. A trace of global scope shares a cache with other traces,
// so its queries go into the notes.
func (p *planner) countHits() {
	if p.tr.Scope == trace.ScopeGlobal {
		p.notes.Queries = p.queries
		return
	}
	countHits(p.queries, p.blocks, p.rules.CacheMetric == "causal", func(q *CacheQuery, hits int) {
		p.plan.Turns[q.row].CacheHits = uint32(hits)
	})
}

// Bytes that the parts of a plan take, with room to grow.
const (
	stretchBytes = 64 // of block numbers
	blockBytes   = 96 // a run of blocks
	spanBytes    = 24
	segmentBytes = 64
)

// largestBlock is the largest block size, in tokens, that is not odd: eight times that of Mooncake.
const largestBlock = 4096

// odditiesOf returns the oddities of the trace, besides those that only its plan shows.
func odditiesOf(t *trace.Trace) trace.Oddities {
	o := slices.Clone(t.Oddities)
	if t.BlockSize > largestBlock || bits.OnesCount64(uint64(t.BlockSize)) != 1 {
		o.Add(trace.OddityBlockSize, "block_size %d", t.BlockSize)
	}
	if t.LengthsAlone {
		o.Add(trace.OddityLengths, "%d requests", len(t.Entries))
	}
	if len(t.Entries) == 0 {
		o.Add(trace.OddityNoRequests, "requests: []")
	}
	var above *trace.Request // in the trace's list
	for k := range t.Entries {
		e, where := &t.Entries[k], trace.Place{Outer: k, Inner: none}
		if m := e.Subagent; m != nil {
			addSubagent(&o, m, where, t)
			continue
		}
		addRequest(&o, &e.Request, above, where, t)
		above = &e.Request
	}
	return o
}

// addSubagent adds the oddities of a subagent and of its requests.
func addSubagent(o *trace.Oddities, m *trace.Subagent, where trace.Place, t *trace.Trace) {
	addTime(o, where, m.T)
	if m.HasDuration && m.DurationMS < 0 {
		o.Add("negative_duration", "%s: duration_ms = %d", where, m.DurationMS)
	}
	if len(m.Requests) == 0 {
		o.Add(trace.OddityEmptyAgent, "%s: agent_id %q", where, m.AgentID)
	}
	var above *trace.Request
	for k := range m.Requests {
		addRequest(o, &m.Requests[k], above, trace.Place{Outer: where.Outer, Inner: k}, t)
		above = &m.Requests[k]
	}
}

// addRequest adds the oddities of a request. above is the one above it in its list, nil for the first.
func addRequest(o *trace.Oddities, r, above *trace.Request, where trace.Place, t *trace.Trace) {
	addTime(o, where, r.T)
	if r.Out < 0 {
		o.Add("negative_out", "%s: out = %d", where, r.Out)
	}
	if r.APITime.OK && r.APITime.V < 0 {
		o.Add("negative_api_time", "%s: api_time = %g", where, r.APITime.V)
	}
	if r.ThinkTime.OK && r.ThinkTime.V < 0 {
		o.Add("negative_think_time", "%s: think_time = %g", where, r.ThinkTime.V)
	}
	switch full, n := r.In/t.BlockSize, int64(r.IDs.Len); {
	case n < full && !t.LengthsAlone:
		o.Add(trace.OddityShortIDs, "%s: %d hash_ids for in = %d, which has %d blocks of %d", where, n, r.In, full, t.BlockSize)
	case n > (r.In+t.BlockSize-1)/t.BlockSize:
		o.Add(trace.OddityLongIDs, "%s: %d hash_ids for in = %d and blocks of %d", where, n, r.In, t.BlockSize)
	}
	if above != nil && r.T < above.T {
		o.Add(trace.OddityBackward, "%s: t = %g, below t = %g", where, r.T, above.T)
	}
}

// addTime adds what is odd about the start of a request or a subagent.
func addTime(o *trace.Oddities, where trace.Place, t float64) {
	switch {
	case t < 0:
		o.Add("negative_t", "%s: t = %g", where, t)
	case trace.SinceEpoch(t) == "milliseconds":
		o.Add(trace.OddityEpoch, "%s: t = %.0f", where, t)
	}
}
