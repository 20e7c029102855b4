package mmapcache

import (
	"fmt"
	"math"
	"strings"

	"github.com/agentx/agentx/timeline"
)

// TimeRules are the rules of the reconstruction that a reader applies. They say how to read recorded values, which the
// tables keep as they are.
type TimeRules struct {
	timeline.Rules
	ParsedScope  bool   `json:"parsed_scope"`  // replay scopes are read from session names
	EmittedClock bool   `json:"emitted_clock"` // predecessors are judged by the times of the view, not by those recorded
	RefuseJoin   bool   `json:"refuse_join"`   // a join that would not come after its spawn turn is an error
	ShortFiller  bool   `json:"short_filler"`  // filler longer than the corpus is cut, not continued
	MaxOutput    *int64 `json:"max_output"`    // cap on the completions of main and flat turns, tokens; nil: none

	// LiveAnswers says that the turns of a session are what is new: a replay sends them behind those before and the answers to these.
	LiveAnswers bool `json:"live_answers,omitempty"`
}

// MaxTokens is the completion length to ask for, at least 1: the recorded one, capped for main and flat turns. 0: none is asked for.
func (r TimeRules) MaxTokens(k SessionKind, t Turn) int {
	if r.MaxOutput != nil && k != Subagent && t.Out != NoLength {
		return max(1, min(t.MaxTokens(), int(*r.MaxOutput)))
	}
	return t.MaxTokens()
}

// View says how the times of a trace are read. The zero value reads them as they were recorded.
type View struct {
	timeline.View
	Warped   bool    // idle gaps of the whole trace are cut to TraceCap
	TraceCap float64 // if Warped: longest stretch in which no request of the trace starts, seconds
}

// Validate returns an error about a cap that is negative or no number.
func (v View) Validate() error {
	if !(v.TraceCap >= 0) {
		return fmt.Errorf("view: trace cap %g s: want 0 or more", v.TraceCap)
	}
	return v.View.Validate()
}

// warp returns the warp of a trace, nil where the view has none.
func (v View) warp(p *Plan) *timeline.Warp {
	if !v.Warped || v.IgnoreDelays {
		return nil
	}
	starts := make([]float64, len(p.Turns))
	for k, u := range p.Turns {
		starts[k] = u.T
	}
	return timeline.NewWarp(starts, v.TraceCap)
}

// Times are the times of a trace under a view.
type Times struct {
	Turns    []timeline.TurnTimes // by turn of the trace
	Sessions []Spawn              // by session
	Branches []Branch
	After    [][]timeline.TurnRef // by turn: turns of other sessions (TurnRef.Stream) that must have completed before it is sent
}

// Spawn says when a session starts and which turn waits for it. The root's is zero.
type Spawn struct {
	Join   int32           // turn of the root; None: no turn waits
	From   timeline.Origin // from when Offset counts
	Offset float64         // milliseconds
}

// Branch is a group of sessions that the same turn spawns and the same turn joins.
type Branch struct {
	ID       string
	Spawn    int32 // turn of the root
	Join     int32 // turn of the root; None for a background branch
	Sessions []int
	Start    float64 // milliseconds on the root clock, never negative
	Shift    float64 // milliseconds added to all times of its sessions: a branch recorded before time 0 moves to 0
}

// Times returns the times of the trace under a view. The error is about a view that is not valid, or about a value that
// the rules refuse.
func (p *Plan) Times(r TimeRules, v View) (*Times, error) {
	if err := v.Validate(); err != nil {
		return nil, err
	}
	t := &Times{Turns: make([]timeline.TurnTimes, len(p.Turns)), After: make([][]timeline.TurnRef, len(p.Turns))}
	warp := v.warp(p)
	var err error
	if t.Sessions, err = p.spawns(r, v, warp); err != nil {
		return nil, err
	}
	t.Branches = p.branches(t.Sessions, warp)
	if err := refuseShifted(t.Branches, r); err != nil {
		return nil, err
	}
	if v.BranchSpawns && !v.IgnoreDelays {
		p.spawnByBranch(t, warp)
	}
	if err := p.playSessions(t, r, v, warp); err != nil {
		return nil, err
	}
	if !v.IgnoreDelays {
		t.After = p.predecessors(r, t.Turns)
	}
	return t, nil
}

// spawns finds joins and spawn offsets: those of the plan, or under a warp new ones.
func (p *Plan) spawns(r TimeRules, v View, warp *timeline.Warp) ([]Spawn, error) {
	spawns := make([]Spawn, len(p.Sessions))
	root := p.Turns[:p.Sessions[0].Turns]
	var main []timeline.MainTurn
	for _, u := range root {
		main = append(main, timeline.MainTurn{Outer: int(u.Outer), Start: warp.Map(u.T)})
	}
	for n, s := range p.Sessions {
		sp := &spawns[n]
		*sp = Spawn{Join: s.JoinTurn, From: s.SpawnFrom, Offset: s.SpawnOffset}
		if s.Parent == None {
			continue
		}
		if warp != nil {
			join, err := timeline.JoinTurn(main, int(s.Outer), warp.Map(s.End), int(s.SpawnTurn), r.RefuseJoin)
			if err != nil {
				return nil, fmt.Errorf("session %q: %w", s.ID, err)
			}
			sp.Join = int32(join)
			if s.Turns > 0 {
				at := root[s.SpawnTurn]
				sp.From, sp.Offset = timeline.SpawnOffset(warp.Map(at.T), at.APITime, warp.Map(p.Turns[s.FirstTurn].T))
			}
		}
		if v.IgnoreDelays {
			sp.From, sp.Offset = timeline.FromReturn, 0
		}
	}
	return spawns, nil
}

// branches returns the sessions but the root in groups that one turn spawns and one turn joins, those of subagents before side chains
// (doc/spec/reconstruction.md 5.7). A group that begins before time 0 is moved to 0. spawns are by session; warp maps recorded times, and
// may be nil.
func (p *Plan) branches(spawns []Spawn, warp *timeline.Warp) []Branch {
	list := p.group(nil, Subagent, spawns, warp)
	list = p.group(list, Flat, spawns, warp)
	for k := range list {
		if b := &list[k]; b.Start < 0 {
			b.Start, b.Shift = 0, -b.Start
		}
	}
	return list
}

// group appends the branches of the sessions of one kind.
func (p *Plan) group(list []Branch, kind SessionKind, spawns []Spawn, warp *timeline.Warp) []Branch {
	from, number := len(list), 0 // side chains are numbered in the order of their sessions
	for n, s := range p.Sessions {
		if s.Kind != kind {
			continue
		}
		join := spawns[n].Join
		at := from
		for at < len(list) && (list[at].Spawn != s.SpawnTurn || list[at].Join != join) {
			at++
		}
		if at == len(list) {
			id := p.Trace.ID + ":spawn:" + s.Agent
			if kind == Flat {
				id = fmt.Sprintf("%s:flatspawn:%d", p.Trace.ID, number)
			}
			list = append(list, Branch{ID: id, Spawn: s.SpawnTurn, Join: join, Start: math.Inf(1)})
		}
		b := &list[at]
		b.Sessions = append(b.Sessions, n)
		b.Start = min(b.Start, warp.Map(s.Start)*1000)
		number++
	}
	return list
}

// refuseShifted refuses a branch that would have to move to time 0, where the rules do not move it. Without a warp there
// is none: its trace was refused when it was planned.
func refuseShifted(branches []Branch, r TimeRules) error {
	for _, b := range branches {
		if b.Shift > 0 && r.RefuseJoin {
			return fmt.Errorf("branch %q: starts %g s before time 0", b.ID, b.Shift/1000)
		}
	}
	return nil
}

// spawnByBranch counts the spawn offsets of sessions from the start of their branch.
func (p *Plan) spawnByBranch(t *Times, warp *timeline.Warp) {
	for _, b := range t.Branches {
		for _, n := range b.Sessions {
			if s := p.Sessions[n]; s.Turns > 0 {
				at, child := p.Turns[s.SpawnTurn], warp.Map(p.Turns[s.FirstTurn].T)+b.Shift/1000
				sp := &t.Sessions[n]
				sp.From, sp.Offset = timeline.BranchSpawnOffset(warp.Map(at.T), at.APITime, b.Start/1000, child)
			}
		}
	}
}

// playSessions fills in the times of the turns.
func (p *Plan) playSessions(t *Times, r TimeRules, v View, warp *timeline.Warp) error {
	shift := make([]float64, len(p.Sessions)) // milliseconds
	for _, b := range t.Branches {
		for _, n := range b.Sessions {
			shift[n] = b.Shift
		}
	}
	for n, s := range p.Sessions {
		turns, err := v.TurnTimes(r.Rules, p.recorded(s), s.Parent != None, warp)
		if err != nil {
			return fmt.Errorf("session %q: %w", s.ID, err)
		}
		for k := range turns {
			turns[k].Start += shift[n]
		}
		copy(t.Turns[s.FirstTurn:], turns)
	}
	return nil
}

// recorded returns the recorded times of a session.
func (p *Plan) recorded(s Session) []timeline.Recorded {
	out := make([]timeline.Recorded, s.Turns)
	for k, u := range p.Turns[s.FirstTurn:][:s.Turns] {
		out[k] = timeline.Recorded{Start: u.T, API: u.APITime, Think: u.ThinkTime}
	}
	return out
}

// ReplayScope names the sessions among which the recorded order is kept: a root with its side chains, or one subagent
// with its own. parsed reads the scope of a subagent from the name of session n, as AIPerf does.
func (p *Plan) ReplayScope(n int, parsed bool) string {
	switch s := p.Sessions[n]; {
	case s.Kind != Subagent:
		return p.Trace.ID
	case parsed:
		return parseScope(s.ID)
	default:
		return p.Trace.ID + "::sa:" + s.Agent
	}
}

// parseScope reads a replay scope from the name of a subagent's session, without what looks like the suffix of a side
// chain. It misreads a trace or an agent whose own id has such parts.
func parseScope(session string) string {
	root, agent, _ := strings.Cut(session, "::sa:")
	for _, mark := range []string{":aux:", ":fa:", ":wg:"} {
		if k := strings.LastIndex(agent, mark); k >= 0 {
			agent = agent[:k]
		}
	}
	return root + "::sa:" + agent
}

// predecessors returns for every turn the turns of other sessions that must have completed before it is sent:
// doc/spec/reconstruction.md 6.5.
func (p *Plan) predecessors(r TimeRules, played []timeline.TurnTimes) [][]timeline.TurnRef {
	scopes := map[string][]int{} // sessions
	for n := range p.Sessions {
		name := p.ReplayScope(n, r.ParsedScope)
		scopes[name] = append(scopes[name], n)
	}
	after := make([][]timeline.TurnRef, len(p.Turns))
	for _, sessions := range scopes {
		if len(sessions) < 2 {
			continue
		}
		streams := make([]timeline.Stream, len(sessions))
		for k, n := range sessions {
			streams[k] = p.stream(n, r, played)
		}
		for k, turns := range timeline.Predecessors(streams) {
			first := int(p.Sessions[sessions[k]].FirstTurn)
			for i, list := range turns {
				for _, c := range list {
					after[first+i] = append(after[first+i], timeline.TurnRef{Stream: sessions[c.Stream], Turn: c.Turn})
				}
			}
		}
	}
	return after
}

// stream returns when the requests of session n ran, on the clock of the rules.
func (p *Plan) stream(n int, r TimeRules, played []timeline.TurnTimes) timeline.Stream {
	s := &p.Sessions[n]
	stream := timeline.Stream{ID: s.ID}
	for i, u := range p.Turns[s.FirstTurn:][:s.Turns] {
		start := u.T * 1000
		if r.EmittedClock {
			start = played[int(s.FirstTurn)+i].Start
		}
		stream.Intervals = append(stream.Intervals, timeline.Interval{Start: start, End: start + timeline.Duration(u.APITime)})
	}
	return stream
}
