package weka

import (
	"fmt"
	"math"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/timeline"
)

// Notes are what planning a trace found worth telling; nothing of them is an error.
type Notes struct {
	Unknown   map[string]int // keys and types that were tolerated, by name
	Oddities  []mmapcache.Oddity
	Dropped   []string // agents whose marker stands before any request of the trace
	Ambiguous int      // markers whose clock was guessed

	Seams        int // places where an agent goes on after its context was shortened
	Unclassified int // requests without ids in a list that was searched for side chains
	ChainBreaks  int // times a block followed another one than where it was first seen

	Format  string       // of the format
	Queries []CacheQuery // of a trace of global scope, whose cache counts depend on all such traces
}

// MakePlan turns a trace into sessions, turns, segments and blocks. The error is always an *Error.
func MakePlan(tr *Trace, r Rules) (*mmapcache.Plan, Notes, error) {
	p := planner{tr: tr, rules: r, blockSize: int(tr.BlockSize), plan: &mmapcache.Plan{}, meter: tr.meter}
	if r.BlockSize > 0 {
		p.blockSize = r.BlockSize
	}
	p.notes.Unknown, p.notes.Format = tr.Unknown, tr.Format()
	p.odd = tr.oddities()
	err := p.run()
	if refused := p.meter.refused(); refused != nil {
		err = refused
	}
	if err != nil {
		err.Trace = tr.ID
		return nil, p.notes, err
	}
	p.notes.Oddities = p.odd
	return p.plan, p.notes, nil
}

type planner struct {
	tr        *Trace
	rules     Rules
	blockSize int
	plan      *mmapcache.Plan
	notes     Notes
	odd       oddities
	numbers   map[string]*numbering // by scope
	blocks    uint32                // numbered so far
	before    []uint32              // the first block seen before each, plus 1; 0 for one that began a list
	queries   []CacheQuery          // every turn, for the prefix cache
	meter     *meter
}

// turn is a request placed in a conversation.
type turn struct {
	*Request
	t            float64 // on the root clock, seconds
	outer, inner int
}

func (p *planner) run() *Error {
	tr := p.tr
	p.plan.Trace = mmapcache.Trace{ID: tr.ID, Scope: tr.Scope.String(), BlockSize: uint32(p.blockSize)}
	top := p.retained()
	a := takeApart(top, true, p.rules)
	p.note(a)
	main := pick(top, a.main)
	root := mmapcache.Session{ID: tr.ID, Kind: mmapcache.Main, Parent: mmapcache.None, SpawnTurn: mmapcache.None,
		JoinTurn: mmapcache.None, Start: math.NaN(), End: math.NaN()}
	scope := tr.Scope.Namespace(tr.ID, "", p.blockSize)
	if err := p.session(root, scope, main, tr.ToolTokens, tr.SystemTokens); err != nil {
		return err
	}
	agents := map[string]bool{}
	for k := range tr.Entries {
		if m := tr.Entries[k].Marker; m != nil {
			if err := p.subagent(m, k, main, agents); err != nil {
				return err
			}
		}
	}
	base := firstIDs(top, a.main, a.preamble)
	for _, w := range a.workers {
		tool, system := inherit(p.blockSize, tr.ToolTokens, tr.SystemTokens, base, top[w.requests[0]].IDs)
		if err := p.flat(pick(top, w.requests), w.suffix, scope, main, tool, system); err != nil {
			return err
		}
	}
	if err := p.refuseNegativeBranches(); err != nil {
		return err
	}
	if err := p.refuseSameNames(); err != nil {
		return err
	}
	p.plan.Trace.Blocks = p.blocks
	if tr.Scope == ScopeGlobal {
		p.notes.Queries = p.queries
	} else {
		countHits(p.queries, p.blocks, p.rules.CacheMetric == "causal", func(q *CacheQuery, hits int) {
			p.plan.Turns[q.Row].CacheHits = uint32(hits)
		})
	}
	return nil
}

// retained returns the top-level requests that the filter lets through: section 5.1.
func (p *planner) retained() (list []turn) {
	r := p.rules
	for k := range p.tr.Entries {
		e := &p.tr.Entries[k]
		if e.Marker != nil || r.MaxInput != nil && e.In > *r.MaxInput ||
			r.StartOffset != nil && e.T*1000 < float64(*r.StartOffset) ||
			r.EndOffset != nil && e.T*1000 > float64(*r.EndOffset) {
			continue
		}
		list = append(list, turn{&e.Request, e.T, k, mmapcache.None})
	}
	return list
}

func (p *planner) note(a agents) {
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

// firstIDs returns the first list of ids that is not empty among some positions, the one left out aside.
func firstIDs(list []turn, positions []int, but int) IDs {
	for _, at := range positions {
		if at != but && list[at].IDs.Len > 0 {
			return list[at].IDs
		}
	}
	return IDs{}
}

// subagent plans the sessions of one marker: sections 5.5 to 5.7 and 6.7.
func (p *planner) subagent(m *Marker, outer int, main []turn, agents map[string]bool) *Error {
	spawn := timeline.SpawnTurn(placed(main), outer)
	if spawn == none {
		p.notes.Dropped = append(p.notes.Dropped, m.AgentID)
		p.odd.add(oddDropped, "%s: agent_id %q", spot{outer, none}, m.AgentID)
		return nil
	}
	if agents[m.AgentID] {
		return &Error{Kind: DuplicateID, Where: fmt.Sprintf("requests[%d]", outer), Problem: fmt.Sprintf("a second subagent with agent_id %q", m.AgentID)}
	}
	agents[m.AgentID] = true
	clock := m.Clock(p.rules)
	if clock.Ambiguous {
		p.notes.Ambiguous++
	}
	list := make([]turn, len(m.Requests))
	for k := range m.Requests {
		list[k] = turn{&m.Requests[k], clock.Times[k], outer, k}
	}
	a := takeApart(list, false, p.rules)
	p.note(a)
	join, err := p.joinTurn(main, outer, clock.End, spawn)
	if err != nil {
		return err
	}
	s := mmapcache.Session{
		ID: p.tr.ID + "::sa:" + m.AgentID, Agent: m.AgentID, Kind: mmapcache.Subagent, Outer: uint32(outer),
		SpawnTurn: int32(spawn), JoinTurn: int32(join), Start: clock.Start, End: clock.End,
		Clock: clock.Basis + "/" + clock.Reading,
	}
	scope := p.tr.Scope.Namespace(p.tr.ID, m.AgentID, p.blockSize)
	if err := p.child(s, scope, pick(list, a.main), main, m.ToolTokens, m.SystemTokens); err != nil {
		return err
	}
	base := firstIDs(list, a.main, a.preamble)
	for _, w := range a.workers {
		worker := s
		worker.ID += ":" + w.suffix
		tool, system := inherit(p.blockSize, m.ToolTokens, m.SystemTokens, base, firstIDs(list, w.requests, none))
		if err := p.child(worker, scope, pick(list, w.requests), main, tool, system); err != nil {
			return err
		}
	}
	return nil
}

// flat plans the session of a side chain of the trace's own list.
func (p *planner) flat(turns []turn, suffix, scope string, main []turn, tool, system int64) *Error {
	outer := turns[0].outer
	spawn := max(0, timeline.SpawnTurn(placed(main), outer))
	end := math.Inf(-1)
	for _, t := range turns {
		end = max(end, t.end(t.t))
	}
	join, err := p.joinTurn(main, outer, end, spawn)
	if err != nil {
		return err
	}
	s := mmapcache.Session{
		ID: p.tr.ID + "::" + suffix, Kind: mmapcache.Flat, Outer: uint32(outer),
		SpawnTurn: int32(spawn), JoinTurn: int32(join), Start: turns[0].t, End: end,
	}
	return p.child(s, scope, turns, main, tool, system)
}

// child plans a session that a turn of the root spawns.
func (p *planner) child(s mmapcache.Session, scope string, turns, main []turn, tool, system int64) *Error {
	if len(turns) > 0 {
		at := main[s.SpawnTurn]
		s.SpawnFrom, s.SpawnOffset = timeline.SpawnOffset(at.t, seconds(at.APITime), turns[0].t)
	}
	return p.session(s, scope, turns, tool, system)
}

// placed returns the main turns as what branches are hung on.
func placed(main []turn) []timeline.MainTurn {
	out := make([]timeline.MainTurn, len(main))
	for k, t := range main {
		out[k] = timeline.MainTurn{Outer: t.outer, Start: t.t}
	}
	return out
}

// joinTurn returns the main turn that waits for what stands at an outer index, none if nobody does.
func (p *planner) joinTurn(main []turn, outer int, end float64, spawn int) (int, *Error) {
	join, err := timeline.JoinTurn(placed(main), outer, end, spawn, p.rules.Refusals == "error")
	if err != nil {
		return none, &Error{Kind: JoinBeforeSpawn, Where: fmt.Sprintf("requests[%d]", outer), Problem: err.Error()}
	}
	return join, nil
}

// refuseNegativeBranches refuses a branch that starts before time 0, where the rules do not move it there (D20).
func (p *planner) refuseNegativeBranches() *Error {
	if p.rules.Refusals != "error" {
		return nil
	}
	for _, s := range p.plan.Sessions {
		if s.Start < 0 {
			return &Error{Kind: NegativeBranch, Where: fmt.Sprintf("session %q", s.ID), Problem: fmt.Sprintf("starts %g s before time 0", -s.Start)}
		}
	}
	return nil
}

// refuseSameNames refuses two sessions of one name: an agent may be called as a side chain of another is named.
func (p *planner) refuseSameNames() *Error {
	names := make(map[string]bool, len(p.plan.Sessions))
	for _, s := range p.plan.Sessions {
		if names[s.ID] {
			return &Error{Kind: DuplicateSession, Where: fmt.Sprintf("requests[%d]", s.Outer), Problem: fmt.Sprintf("a second session of the name %q", s.ID)}
		}
		names[s.ID] = true
	}
	return nil
}

func seconds(s Seconds) float64 {
	if !s.OK {
		return timeline.Missing
	}
	return s.V
}

// session plans one conversation: its turns, and the segments of their prompts.
func (p *planner) session(s mmapcache.Session, scope string, turns []turn, tool, system int64) *Error {
	s.FirstTurn, s.Turns = uint32(len(p.plan.Turns)), uint32(len(turns))
	p.plan.Sessions = append(p.plan.Sessions, s)
	chain := len(p.plan.Sessions) - 1

	common := make([]int, len(turns))
	shapes := make([]Geometry, len(turns))
	for k, t := range turns {
		shapes[k] = geometry(p.blockSize, t.IDs.Len, int(t.In))
		if k > 0 {
			common[k] = commonPrefix(turns[k-1].IDs, t.IDs)
		}
	}
	repaired := p.rules.LengthRule == "repaired"
	caps := assistantCaps(common, shapes, repaired)
	buf := buffer{blockSize: p.blockSize, repaired: repaired, shaped: p.rules.ToolShaped, plan: p.plan, meter: p.meter}
	numbers := p.numbering(scope)
	var list []span // blocks of the turn's hash_ids
	for k, t := range turns {
		row := len(p.plan.Turns)
		list = p.number(numbers, list, t.IDs, common[k])
		if p.meter.needs(requestBytes); p.meter.over() {
			return p.meter.refused()
		}
		covered := cut(nil, list, 0, shapes[k].Covered)
		behind := tail{mmapcache.Filler, uint32(row)}
		if n := shapes[k].Covered; p.tr.TailIDs && t.IDs.Len > n && shapes[k].Filler > 0 {
			behind = tail{mmapcache.Head, cut(nil, list, n, n+1)[0].first}
		}
		if k == 0 {
			if err := buf.init(shapes[k], t.IDs.Len, covered, tool, system, behind); err != nil {
				e := err.(*Error)
				e.Where = fmt.Sprintf("session %q", s.ID)
				return e
			}
		} else {
			buf.advance(shapes[k], covered, advanceStep{
				common: common[k], prevOut: turns[k-1].Out, cap: caps[k],
				behind: behind, tool: inputKind(turns, k) == mmapcache.ToolResult,
			})
		}
		p.plan.Turns = append(p.plan.Turns, mmapcache.Turn{
			T: t.t, APITime: seconds(t.APITime), ThinkTime: seconds(t.ThinkTime),
			In: uint32(t.In), Out: int32(t.Out), HashIDs: uint32(t.IDs.Len), Last: buf.last(),
			Outer: uint32(t.outer), Inner: int32(t.inner), Model: p.tr.Models[t.Model], Input: inputKind(turns, k),
		})
		p.queries = append(p.queries, CacheQuery{
			Start: t.t, End: t.end(t.t), Row: row, ids: t.IDs, blocks: list, order: [3]int{t.outer, chain, k},
		})
	}
	return nil
}

// inputKind says what the new input of turn k is: section 4.7.
func inputKind(turns []turn, k int) mmapcache.InputKind {
	switch t := turns[k]; {
	case t.Input == InputTool:
		return mmapcache.ToolResult
	case t.Input == InputUser:
		return mmapcache.UserInput
	case k == 0 || turns[k-1].Stop == StopUnknown:
		return mmapcache.InputUnknown
	case turns[k-1].Stop == StopTool:
		return mmapcache.ToolResult
	}
	return mmapcache.UserInput
}
