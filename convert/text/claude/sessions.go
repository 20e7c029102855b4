package claude

import (
	"cmp"
	"slices"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/claude/links"
)

// trace makes the trace of a session with its agents. An agent whose session has no reply is a session of its own.
func (f *forest) trace(s links.Session) {
	main := s.Chains[0]
	alone := len(f.agents[main].turns) == 0 || f.Chains[main].Agent != 0
	var chains []int32
	for _, n := range s.Chains {
		switch a, c := &f.agents[n], &f.Chains[n]; {
		case len(a.turns) == 0:
			f.Data.Warn("no_turn")
			continue
		case c.Agent == 0:
			a.trace = f.Data.NewTrace(f.Name(s.Name))
		case alone:
			a.trace = f.Data.NewTrace(f.Name(c.Agent))
			f.Data.Warn("parent_missing")
		default:
			a.trace = f.agents[main].trace
		}
		chains = append(chains, n)
	}
	for _, n := range chains {
		f.prompts(n)
	}
	for _, n := range chains {
		f.sortTurns(n)
	}
	slices.SortStableFunc(chains, func(a, b int32) int {
		return cmp.Or(cmp.Compare(min(f.Chains[a].Agent, 1), min(f.Chains[b].Agent, 1)), cmp.Compare(f.agents[a].turns[0].At, f.agents[b].turns[0].At))
	})
	for _, n := range chains {
		a := &f.agents[n]
		a.trace.HiddenPrefix, a.trace.RecordedEnds = true, true
		if agent := f.Chains[n].Agent; agent != 0 && !alone {
			a.place = int32(len(a.trace.Sessions))
			a.trace.Subagent(f.Name(agent))
		}
		a.trace.Sessions[a.place].Turns = a.turns
	}
	for _, n := range chains {
		if a := &f.agents[n]; a.place > 0 {
			f.attach(a, &a.trace.Sessions[a.place])
		}
	}
	for _, n := range chains {
		f.agents[n].trace.Done()
	}
}

// attach links a subagent to the turns of its parent.
func (f *forest) attach(a *agent, s *text.Session) {
	parent := a
	for range a.trace.Sessions { // a circle of agents that start each other has no beginning
		if parent.spawn == text.None {
			break
		}
		parent = &f.agents[f.replies[parent.spawn].chain]
	}
	if a.spawn == text.None || parent.spawn != text.None {
		f.Data.Warn("subagent_without_call")
		return
	}
	s.SpawnTurn = f.replies[a.spawn].turn
	s.Parent = f.agents[f.replies[a.spawn].chain].place
	for _, q := range a.joins {
		if turn := f.replies[q].turn; f.replies[q].chain == f.replies[a.spawn].chain && (s.JoinTurn == text.None || turn < s.JoinTurn) {
			s.JoinTurn = turn
		}
	}
}

// sortTurns puts the turns of a chain in the order of their instants, each behind the one before it.
func (f *forest) sortTurns(n int32) {
	a := &f.agents[n]
	keys := make([]int64, len(a.turns))
	order := make([]int32, len(a.turns))
	for k := range a.turns {
		keys[k], order[k] = a.turns[k].At, int32(k)
		if b := a.turns[k].Before; b != text.None && int(b) < k {
			keys[k] = max(keys[k], keys[b])
		}
	}
	slices.SortStableFunc(order, func(x, y int32) int { return cmp.Compare(keys[x], keys[y]) })
	if slices.IsSorted(order) {
		return
	}
	places := make([]int32, len(order))
	turns := make([]text.Turn, len(order))
	for place, k := range order {
		places[k], turns[place] = int32(place), a.turns[k]
	}
	for place := range turns {
		if b := turns[place].Before; b != text.None {
			if turns[place].Before = places[b]; int(places[b]) >= place {
				turns[place].Before = text.None
			}
		}
	}
	a.turns = turns
	for _, i := range f.RowsOf(n) {
		if q := f.replyOf[i]; f.begins(i) && f.replies[q].turn != text.None {
			f.replies[q].turn = places[f.replies[q].turn]
		}
	}
}
