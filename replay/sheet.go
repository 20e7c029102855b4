package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/resume"
	"github.com/agentx/agentx/timeline"
)

// Pace says how recorded gaps are played. The zero value plays them as recorded.
type Pace struct {
	Speed  float64       // gaps are divided by it; 0 means 1
	MaxGap time.Duration // longest gap that is played, after Speed; 0: no limit
	ASAP   bool          // gaps are 0
}

// gap returns how long a recorded gap, in milliseconds, is played.
func (p Pace) gap(ms float64) time.Duration {
	d := p.offset(ms)
	if p.MaxGap > 0 {
		d = min(d, p.MaxGap)
	}
	return d
}

// offset is gap for what MaxGap does not bound: how far a lane's first turns lie behind its start.
func (p Pace) offset(ms float64) time.Duration {
	if p.ASAP {
		return 0
	}
	if p.Speed > 0 {
		ms /= p.Speed
	}
	if !(ms > 0) { // NaN too
		return 0
	}
	const most = float64(1<<56) / 1e6 // about two years: clocks that are put forward by many of them do not overflow
	return time.Duration(min(ms, most) * 1e6)
}

// sheet is a trace as it is played: what the conductor gets, and what decides where a lane may take it up.
type sheet struct {
	tree     *conductor.Tree
	start    *resume.Trace
	branches []string // their names, for reports
}

// newSheet resolves what is played of a trace. The error says that it cannot be.
func newSheet(p *mmapcache.Plan, pace Pace, rules mmapcache.TimeRules) (*sheet, error) {
	times, err := p.Times(rules, mmapcache.View{}) // no pace changes the recorded order
	if err != nil {
		return nil, err
	}
	s := &sheet{
		tree:  &conductor.Tree{Sessions: make([]conductor.Session, len(p.Sessions)), Branches: make([]conductor.Branch, len(times.Branches))},
		start: &resume.Trace{Sessions: make([]resume.Session, len(p.Sessions)), Branches: make([]resume.Branch, len(times.Branches))},
	}
	for n, session := range p.Sessions {
		c, from := &s.tree.Sessions[n], int(session.FirstTurn)
		c.Turns = make([]conductor.Turn, session.Turns)
		starts := make([]float64, session.Turns)
		for k := range c.Turns {
			u := times.Turns[from+k]
			c.Turns[k].Delay = pace.gap(u.Delay)
			c.Turns[k].Deadline = c.Turns[k].Delay
			starts[k] = u.Start
			for _, r := range times.After[from+k] {
				c.Turns[k].After = append(c.Turns[k].After, conductor.TurnRef{Session: r.Stream, Turn: r.Turn})
			}
		}
		s.start.Sessions[n] = resume.Session{Starts: starts, Parent: int(session.Parent)}
		if session.Parent != mmapcache.None {
			spawn := times.Sessions[n]
			c.Depth, s.start.Sessions[n].Depth = 1, 1 // every session hangs on the root
			c.OnIssue = spawn.From == timeline.FromIssue
			c.Offset = pace.gap(spawn.Offset)
			c.Unplayable = session.Turns == 0
		}
	}
	for n, rank := range ranks(p.Sessions) {
		s.tree.Sessions[n].Rank = rank
	}
	for n, b := range times.Branches {
		s.branches = append(s.branches, b.ID)
		branch := &s.tree.Branches[n]
		*branch = conductor.Branch{Spawn: int(b.Spawn), Sessions: b.Sessions}
		s.start.Branches[n] = resume.Branch{Spawn: int(b.Spawn), Sessions: b.Sessions, Start: b.Start}
		for _, k := range b.Sessions {
			s.tree.Sessions[k].Branch = n
			branch.OnIssue = branch.OnIssue || s.tree.Sessions[k].OnIssue
		}
		turns := s.tree.Sessions[0].Turns
		if int(b.Spawn) < len(turns) {
			turns[b.Spawn].Spawns = append(turns[b.Spawn].Spawns, n)
		}
		if b.Join != mmapcache.None && int(b.Join) < len(turns) {
			turns[b.Join].Joins = append(turns[b.Join].Joins, n)
			s.start.Branches[n].Joins = []int{int(b.Join)}
		}
	}
	return s, s.tree.Validate()
}

// ranks returns the place of every session in the order of their names.
func ranks(sessions []mmapcache.Session) []int {
	order, rank := make([]int, len(sessions)), make([]int, len(sessions))
	for n := range order {
		order[n] = n
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(sessions[a].ID, sessions[b].ID) })
	for k, n := range order {
		rank[n] = k
	}
	return rank
}

// at returns the state of the trace at t*, as the conductor takes it up: shift is what is subtracted from all offsets,
// in milliseconds as played.
func (s *sheet) at(state *resume.Start, pace Pace, shift float64) *conductor.StartState {
	out := &conductor.StartState{TurnsDone: make([]int, len(s.tree.Sessions))}
	for n, place := range state.Places {
		switch place {
		case resume.Over:
			out.TurnsDone[n] = len(s.tree.Sessions[n].Turns)
		case resume.Live:
			out.TurnsDone[n] = state.Finished[n]
		}
	}
	for _, l := range state.States {
		out.Live = append(out.Live, conductor.LiveSession{
			Session: l.Session, Turn: l.Next, Parked: l.Waiting,
			Due: time.Duration(resume.Due(float64(pace.offset(l.Offset))/1e6, shift, 0) * 1e6),
		})
	}
	return out
}

// laneOf returns the offsets of a state, in milliseconds as played.
func laneOf(state *resume.Start, pace Pace) (l resume.Lane) {
	for _, s := range state.States {
		if at := float64(pace.offset(s.Offset)) / 1e6; s.Waiting {
			l.Parked = append(l.Parked, at)
		} else {
			l.Ready = append(l.Ready, at)
		}
	}
	return l
}
