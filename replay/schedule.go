package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/resume"
	"github.com/agentx/agentx/timeline"
)

// schedule is a trace as it is played: the tree for the conductor, and the recorded times that decide where a lane may
// take it up.
type schedule struct {
	resume.Trace
	branchIDs []string        // by branch
	fast      *conductor.Tree // see accelerated; nil: not asked for
}

// newSchedule resolves the times of a trace in a view. The error says that the trace cannot be played.
func newSchedule(p *mmapcache.Plan, v view, rules mmapcache.TimeRules) (*schedule, error) {
	times, err := v.times(p, rules)
	if err != nil {
		return nil, err
	}
	s := &schedule{Trace: resume.Trace{Tree: &conductor.Tree{}, Pace: v.pace.offset, ImmediateJoins: v.immediateJoins}}
	ranks := ranksByID(p.Sessions)
	for n, session := range p.Sessions {
		c, starts := newSession(session, times, v)
		c.Rank = ranks[n]
		if session.Parent != mmapcache.None {
			spawn := times.Sessions[n]
			c.Depth = 1 // every session hangs on the root
			c.OnIssue = spawn.From == timeline.FromIssue
			c.Offset = v.pace.gap(spawn.Offset)
			c.Unplayable = session.Turns == 0
		}
		s.Sessions, s.Starts = append(s.Sessions, c), append(s.Starts, starts)
	}
	for n, b := range times.Branches {
		s.addBranch(n, b)
	}
	if v.absolute {
		if err := s.playInstants(v.pace); err != nil {
			return nil, err
		}
	}
	return s, s.Validate()
}

// playInstants makes turns due at their recorded instants, counted from the first turn of the root.
func (s *schedule) playInstants(pace Pace) error {
	s.Absolute = true
	for n := range s.Sessions {
		for k := range s.Sessions[n].Turns {
			at := s.Starts[n][k] - s.Starts[0][0]
			if math.IsNaN(at) {
				return fmt.Errorf("session %d, turn %d: it has no recorded instant, so it cannot be due at it", n, k)
			}
			s.Sessions[n].Turns[k].At = pace.offset(at)
		}
	}
	return nil
}

// newSession returns the turns of a session, and when each started, in milliseconds.
func newSession(session mmapcache.Session, times *mmapcache.Times, v view) (c conductor.Session, starts []float64) {
	c.Turns, starts = make([]conductor.Turn, session.Turns), make([]float64, session.Turns)
	for k := range c.Turns {
		row := int(session.FirstTurn) + k
		played := times.Turns[row]
		c.Turns[k].Delay = v.pace.gap(played.Delay)
		if !v.immediateJoins {
			c.Turns[k].JoinDelay = c.Turns[k].Delay
		}
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

// accelerated returns the tree as the pressure stage plays it: every delay, spawn offset and join deadline is 0. Recorded
// predecessors and joins stay. The first call makes it; calls must not overlap.
func (s *schedule) accelerated() *conductor.Tree {
	if s.fast != nil {
		return s.fast
	}
	s.fast = &conductor.Tree{Sessions: slices.Clone(s.Sessions), Branches: s.Branches}
	for n := range s.fast.Sessions {
		c := &s.fast.Sessions[n]
		c.Offset, c.Turns = 0, slices.Clone(c.Turns)
		for k := range c.Turns {
			c.Turns[k].Delay, c.Turns[k].JoinDelay = 0, 0
		}
	}
	return s.fast
}

// byStarts returns the accelerated tree with every turn due at its recorded start, which counts from an instant of the recording, in
// milliseconds. A turn whose start is not known can go at once.
func (s *schedule) byStarts(origin float64) *conductor.Tree {
	fast := s.accelerated()
	tree := &conductor.Tree{Sessions: slices.Clone(fast.Sessions), Branches: fast.Branches, Absolute: true}
	for n := range tree.Sessions {
		turns := slices.Clone(tree.Sessions[n].Turns)
		for k := range turns {
			if at := s.Starts[n][k] - origin; !math.IsNaN(at) {
				turns[k].At = time.Duration(at * float64(time.Millisecond))
			}
		}
		tree.Sessions[n].Turns = turns
	}
	return tree
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
