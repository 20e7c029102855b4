package replay

import (
	"cmp"
	"slices"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/resume"
	"github.com/agentx/agentx/timeline"
)

// schedule is a trace as it is played: the tree for the conductor, and the recorded times that decide where a lane may
// take it up.
type schedule struct {
	resume.Trace
	branchIDs []string // by branch
}

// newSchedule resolves the times of a trace at a pace. The error says that the trace cannot be played.
func newSchedule(p *mmapcache.Plan, pace Pace, rules mmapcache.TimeRules) (*schedule, error) {
	times, err := p.Times(rules, mmapcache.View{}) // no pace changes the recorded order
	if err != nil {
		return nil, err
	}
	s := &schedule{Trace: resume.Trace{Tree: &conductor.Tree{}, Pace: pace.offset}}
	ranks := ranksByID(p.Sessions)
	for n, session := range p.Sessions {
		c, starts := newSession(session, times, pace)
		c.Rank = ranks[n]
		if session.Parent != mmapcache.None {
			spawn := times.Sessions[n]
			c.Depth = 1 // every session hangs on the root
			c.OnIssue = spawn.From == timeline.FromIssue
			c.Offset = pace.gap(spawn.Offset)
			c.Unplayable = session.Turns == 0
		}
		s.Sessions, s.Starts = append(s.Sessions, c), append(s.Starts, starts)
	}
	for n, b := range times.Branches {
		s.addBranch(n, b)
	}
	return s, s.Validate()
}

// newSession returns the turns of a session, and when each started, in milliseconds.
func newSession(session mmapcache.Session, times *mmapcache.Times, pace Pace) (c conductor.Session, starts []float64) {
	c.Turns, starts = make([]conductor.Turn, session.Turns), make([]float64, session.Turns)
	for k := range c.Turns {
		row := int(session.FirstTurn) + k
		played := times.Turns[row]
		c.Turns[k].Delay = pace.gap(played.Delay)
		c.Turns[k].JoinDelay = c.Turns[k].Delay
		starts[k] = played.Start
		for _, r := range times.After[row] {
			c.Turns[k].After = append(c.Turns[k].After, conductor.TurnRef{Session: r.Stream, Turn: r.Turn})
		}
	}
	return c, starts
}

// addBranch adds a branch of the root.
func (s *schedule) addBranch(n int, b mmapcache.Branch) {
	branch := conductor.Branch{Spawn: int(b.Spawn), Sessions: b.Sessions}
	for _, k := range b.Sessions {
		s.Sessions[k].Branch = n
		branch.OnIssue = branch.OnIssue || s.Sessions[k].OnIssue
	}
	turns := s.Sessions[0].Turns
	if int(b.Spawn) < len(turns) {
		turns[b.Spawn].Spawns = append(turns[b.Spawn].Spawns, n)
	}
	if b.Join != mmapcache.None && int(b.Join) < len(turns) {
		turns[b.Join].Joins = append(turns[b.Join].Joins, n)
	}
	s.Branches, s.BranchStarts, s.branchIDs = append(s.Branches, branch), append(s.BranchStarts, b.Start), append(s.branchIDs, b.ID)
}

// ranksByID returns the place of every session in the order of their ids.
func ranksByID(sessions []mmapcache.Session) []int {
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
