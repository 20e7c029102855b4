package convert

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/trace"
)

// answerTraces adds to an answer what the traces of the inputs become. turns tells turns one by one, each with all ids of its prompt; ids names
// sessions as the input does.
func (c *conversion) answerTraces(ctx context.Context, a *text.Answer, turns, ids bool) error {
	first := math.Inf(1)
	o := c.options
	o.each = func(p plannedTrace) {
		if p.trace.Start.OK {
			first = min(first, p.trace.Start.V)
		}
		answerTrace(a, p, turns, ids)
	}
	_, facts, err := planInputs(ctx, c.snapshot, c.recordings, o, bounds{})
	if err != nil {
		return err
	}
	a.Format = strings.Join(slices.Sorted(maps.Keys(facts.Generations)), ", ")
	for _, odd := range facts.Oddities {
		if odd.Kind != trace.OddityLengths { // that is what the format is
			a.Warnings[odd.Kind] += odd.Count
		}
	}
	for k := range a.List {
		if at := a.List[k].Start; at != nil {
			*at -= int64(first)
		}
	}
	return nil
}

// answerTrace adds the sessions of a trace, with the recorded start as it is.
func answerTrace(a *text.Answer, p plannedTrace, turns, ids bool) {
	n := a.Sessions + 1
	at := map[int]int{} // the session of an entry
	for k, s := range p.plan.Sessions {
		if s.Kind == mmapcache.Subagent {
			at[int(s.Outer)] = k
		}
	}
	for k, s := range p.plan.Sessions {
		of := text.AnswerSession{ID: fmt.Sprintf("s%d/a%d", n, k), Kind: "subagent", Parent: fmt.Sprintf("s%d", n), Turns: []text.AnswerTurn{}}
		switch links := linksOf(p.trace, s); {
		case s.Kind == mmapcache.Main:
			of.ID, of.Kind, of.Parent = of.Parent, "main", ""
			if p.trace.Start.OK {
				of.Start = new(int64(p.trace.Start.V))
			}
			a.Sessions++
		case links != nil && links.Branch:
			of.Kind = "branch"
			a.Branches++
		default:
			a.Subagents++
		}
		a.Turns += int(s.Turns)
		if s.SpawnTurn != mmapcache.None {
			of.Spawn = new(s.SpawnTurn)
		}
		if s.JoinTurn != mmapcache.None {
			of.Join = new(s.JoinTurn)
		}
		nameSession(&of, p, s, at, ids)
		a.List = append(a.List, of)
		list := p.plan.Turns[s.FirstTurn:][:s.Turns]
		for k := 0; k < len(list) && turns; k++ {
			a.Add(answerTurn(p, list, k))
		}
	}
}

// linksOf returns what the recording says of where a session hangs, nil for nothing.
func linksOf(t *trace.Trace, s mmapcache.Session) *trace.Links {
	if s.Kind != mmapcache.Subagent {
		return nil
	}
	return t.Entries[s.Outer].Subagent.Links
}

// nameSession completes a session with links: its parent and the turns of that, which a cache may not have; and with ids the names of the
// input. at has the session of each entry that is a subagent.
func nameSession(of *text.AnswerSession, p plannedTrace, s mmapcache.Session, at map[int]int, ids bool) {
	links := linksOf(p.trace, s)
	if ids {
		of.ID = s.ID
		if s.Kind != mmapcache.Main {
			of.Parent = p.trace.ID
		}
	}
	if links == nil {
		return
	}
	if of.Spawn = new(int32(links.After)); links.Before != trace.None {
		of.Join = new(int32(links.Before))
	}
	if ids {
		of.ID = s.Agent
	}
	if links.Parent == trace.None {
		return
	}
	if k, planned := at[links.Parent]; planned {
		if of.Parent += fmt.Sprintf("/a%d", k); ids {
			of.Parent = p.plan.Sessions[k].Agent
		}
	}
}

// answerTurn says what a turn becomes.
func answerTurn(p plannedTrace, turns []mmapcache.Turn, k int) text.AnswerTurn {
	turn := &turns[k]
	start := math.Round(p.plan.Turns[0].T * 1000)
	at := func(seconds float64) *int64 { return new(int64(math.Round(seconds*1000) - start)) }
	a := text.AnswerTurn{N: k, T: at(turn.T), In: new(int32(turn.In)), Out: new(turn.Out)}
	if turn.Model != "unknown" {
		a.Model = turn.Model
	}
	if !math.IsNaN(turn.APITime) {
		a.End = at(turn.T + turn.APITime)
	}
	if k > 0 && !math.IsNaN(turns[k-1].APITime) {
		a.Gap = new(max(0, *a.T-*at(turns[k-1].T + turns[k-1].APITime)))
	}
	entry := &p.trace.Entries[turn.Outer]
	q := &entry.Request
	if entry.Subagent != nil {
		q = &entry.Subagent.Requests[turn.Inner]
	}
	if r := q.Recorded; r != nil {
		a.Stop = r.Stop
		for to, v := range map[**int64]int64{&a.First: r.First, &a.Tool: r.Tool} {
			if v != trace.None {
				*to = new(v)
			}
		}
		if a.Tool != nil && a.Gap != nil {
			a.Think = new(*a.Gap - *a.Tool)
		}
		if r.Cached != trace.None {
			a.Cached = new(int32(r.Cached))
		}
	}
	for _, run := range q.IDs.Runs {
		for k := range run.N {
			a.HashIDs = append(a.HashIDs, run.First+int64(k))
		}
	}
	return a
}
