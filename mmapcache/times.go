package mmapcache

import (
	"fmt"
	"math"
	"strings"

	"github.com/agentx/agentx/timeline"
)

// TimeRules are the rules of the reconstruction that a reader applies: they decide what is made of recorded values that
// the tables keep as they are.
type TimeRules struct {
	timeline.Rules
	ParsedScope  bool   `json:"parsed_scope"`  // replay scopes are read from session names
	EmittedClock bool   `json:"emitted_clock"` // predecessors are judged by the times that are played, not by those recorded
	RefuseJoin   bool   `json:"refuse_join"`   // a join that would not come after its spawn turn is an error
	ShortFiller  bool   `json:"short_filler"`  // filler longer than the corpus is cut, not continued
	MaxOutput    *int64 `json:"max_output"`    // cap on the completions of main and flat turns, tokens; nil: none
}

// MaxTokens is the completion length to ask for: the recorded one, capped for the turns of a trace's own list, at least 1.
func (r TimeRules) MaxTokens(k SessionKind, t Turn) int {
	if r.MaxOutput != nil && k != Subagent {
		return max(1, min(t.MaxTokens(), int(*r.MaxOutput)))
	}
	return t.MaxTokens()
}

// View says how the times of a trace are read.
type View struct {
	timeline.View
	Warped   bool
	TraceCap float64 // if Warped: longest stretch in which no request of the trace starts, seconds
}

// Times are the times of a trace under a view.
type Times struct {
	Turns    []timeline.Played // by turn of the trace
	Sessions []Spawn           // by session
	Branches []Branch
	After    [][]timeline.TurnRef // turns of other sessions (Ref.Stream) that must have completed before a turn is sent
}

// Spawn says when a session starts and who waits for it. The root's is zero.
type Spawn struct {
	Join   int32 // turn of the root, None: nobody waits
	From   timeline.Origin
	Offset float64 // milliseconds
}

// Branch is a group of sessions that the same turn spawns and the same turn joins.
type Branch struct {
	ID       string
	Spawn    int32 // turn of the root
	Join     int32 // turn of the root, None for a background branch
	Sessions []int
	Start    float64 // milliseconds on the root clock, never negative
	Shift    float64 // milliseconds added to all times of its sessions: a branch recorded before time 0 is moved to 0
}

// Times returns the times of the trace under a view. The error is about something that the rules refuse.
func (p *Plan) Times(r TimeRules, v View) (*Times, error) {
	t := &Times{Turns: make([]timeline.Played, len(p.Turns)), Sessions: make([]Spawn, len(p.Sessions))}
	var warp *timeline.Warp
	if v.Warped && !v.IgnoreDelays {
		starts := make([]float64, len(p.Turns))
		for k, u := range p.Turns {
			starts[k] = u.T
		}
		warp = timeline.NewWarp(starts, v.TraceCap)
	}
	if err := p.spawns(t, r, v, warp); err != nil {
		return nil, err
	}
	t.Branches = p.branches(t.Sessions, warp)
	if err := refuseShifted(t.Branches, r); err != nil {
		return nil, err
	}
	if v.BranchSpawns && !v.IgnoreDelays {
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
	shift := make([]float64, len(p.Sessions))
	for _, b := range t.Branches {
		for _, n := range b.Sessions {
			shift[n] = b.Shift
		}
	}
	for n, s := range p.Sessions {
		turns, err := v.Play(r.Rules, p.recorded(s), s.Parent != None, warp)
		if err != nil {
			return nil, fmt.Errorf("session %q: %w", s.ID, err)
		}
		for k := range turns {
			turns[k].Start += shift[n]
		}
		copy(t.Turns[s.FirstTurn:], turns)
	}
	if !v.IgnoreDelays {
		t.After = p.predecessors(r, t.Turns)
	} else {
		t.After = make([][]timeline.TurnRef, len(p.Turns))
	}
	return t, nil
}

// recorded returns the recorded times of a session.
func (p *Plan) recorded(s Session) []timeline.Recorded {
	out := make([]timeline.Recorded, s.Turns)
	for k, u := range p.Turns[s.FirstTurn:][:s.Turns] {
		out[k] = timeline.Recorded{Start: u.T, API: u.APITime, Think: u.ThinkTime}
	}
	return out
}

// spawns finds joins and spawn offsets: as planned, or again where the trace is warped.
func (p *Plan) spawns(t *Times, r TimeRules, v View, warp *timeline.Warp) error {
	root := p.Turns[:p.Sessions[0].Turns]
	var main []timeline.MainTurn
	for _, u := range root {
		main = append(main, timeline.MainTurn{Outer: int(u.Outer), Start: warp.Map(u.T)})
	}
	for n, s := range p.Sessions {
		sp := &t.Sessions[n]
		*sp = Spawn{Join: s.JoinTurn, From: s.SpawnFrom, Offset: s.SpawnOffset}
		if s.Parent == None {
			continue
		}
		if warp != nil {
			join, err := timeline.JoinTurn(main, int(s.Outer), warp.Map(s.End), int(s.SpawnTurn), r.RefuseJoin)
			if err != nil {
				return fmt.Errorf("session %q: %w", s.ID, err)
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
	return nil
}

// branches groups the sessions, those of subagents first: section 5.7 of the specification.
func (p *Plan) branches(spawns []Spawn, warp *timeline.Warp) []Branch {
	var list []Branch
	for _, kind := range []SessionKind{Subagent, Flat} {
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
	}
	for k := range list {
		if b := &list[k]; b.Start < 0 {
			b.Start, b.Shift = 0, -b.Start
		}
	}
	return list
}

// refuseShifted refuses a branch that would have to be moved to time 0, where the rules do not move it. Without a warp
// there is none such: its trace was refused when it was planned.
func refuseShifted(branches []Branch, r TimeRules) error {
	for _, b := range branches {
		if b.Shift > 0 && r.RefuseJoin {
			return fmt.Errorf("branch %q: starts %g s before time 0", b.ID, b.Shift/1000)
		}
	}
	return nil
}

// ReplayScope names the streams among which the recorded order is kept: a root with its side chains, or one subagent
// with its own. parsed reads that of a subagent from the session's name, as AIPerf does.
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
// chain. A trace or an agent whose own id has such parts is misread.
func parseScope(session string) string {
	root, agent, _ := strings.Cut(session, "::sa:")
	for _, mark := range []string{":aux:", ":fa:", ":wg:"} {
		if k := strings.LastIndex(agent, mark); k >= 0 {
			agent = agent[:k]
		}
	}
	return root + "::sa:" + agent
}

// predecessors returns for every turn the turns of other sessions that must have completed before it is sent: section
// 6.5.
func (p *Plan) predecessors(r TimeRules, played []timeline.Played) [][]timeline.TurnRef {
	scopes := map[string][]int{}
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
			s := p.Sessions[n]
			streams[k].ID = s.ID
			for i, u := range p.Turns[s.FirstTurn:][:s.Turns] {
				start := u.T * 1000
				if r.EmittedClock {
					start = played[int(s.FirstTurn)+i].Start
				}
				streams[k].Intervals = append(streams[k].Intervals, timeline.Interval{Start: start, End: start + timeline.Duration(u.APITime)})
			}
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
