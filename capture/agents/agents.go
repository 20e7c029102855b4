// Package agents tells which requests of a session are those of subagents whose clients do not say so: by marks on requests,
// and by the calls with which agents begin others. doc/spec/capture.md 8.1 has the rules.
//
// It is a function of what it is told, in the order of the requests: no clock, no chance.
package agents

import (
	"github.com/agentx/agentx/capture/journal"
	"github.com/agentx/agentx/capture/reply"
)

// First is the number of the first subagent that is inferred; those with ids have lower ones.
const First = 1 << 15

// Limit bounds the subagents of a session that are told apart.
const Limit = 1 << 14

// Request is what is known of a request when its prompt has blocks.
type Request struct {
	Q       int
	Place   journal.Place // as its client says
	Marked  bool          // a mark says that a subagent asks
	Blocks  int
	Shared  func(q int) int // blocks that it shares with an earlier request
	Results []string        // ids of the calls whose results it has
}

// Tracker follows the requests of one session.
type Tracker struct {
	calls  []*call
	made   []*subagent
	main   []int // requests of agents with ids, and of the main one
	places map[int]journal.Place
	named  map[int]bool // agents with ids that have been seen
}

// call is the call of a tool that begins a subagent.
type call struct {
	id     string
	kind   journal.AgentType
	by     journal.Place // who called
	result int           // request with its result; 0: not seen
	agent  *subagent     // nil: not seen
}

// subagent is one that was inferred.
type subagent struct {
	place journal.Place
	last  int // its last request
	size  int // blocks of that
	call  *call
}

// Place returns the agent of a request, which comes behind all before it, and what is learnt of agents by it.
func (t *Tracker) Place(r Request) (journal.Place, []journal.Agent) {
	learnt := t.results(r)
	place := r.Place
	var agent *subagent
	if place.Agent == 0 {
		switch {
		case r.Marked:
			agent = t.subagent(r, journal.TierMark)
		case t.pending() && !t.ofMain(r):
			agent = t.subagent(r, journal.TierLinkage)
		}
	}
	if place.Agent != 0 && !t.named[place.Agent] {
		learnt = append(learnt, t.name(place)...)
	}
	if agent != nil {
		agent.last, agent.size = r.Q, r.Blocks
		place = agent.place
		if agent.call != nil && agent.call.agent == nil {
			agent.call.agent = agent
			learnt = append(learnt, journal.Agent{Agent: place.Agent, Type: agent.call.kind, Result: agent.call.result})
		}
	} else if place.Agent == 0 {
		t.main = append(t.main, r.Q)
	}
	if t.places == nil {
		t.places = map[int]journal.Place{}
	}
	t.places[r.Q] = place
	return place, learnt
}

// results notes which calls a request has the results of.
func (t *Tracker) results(r Request) (learnt []journal.Agent) {
	if len(t.calls) == 0 || len(r.Results) == 0 {
		return nil
	}
	has := make(map[string]bool, len(r.Results))
	for _, id := range r.Results {
		has[id] = true
	}
	for _, c := range t.calls {
		if c.result != 0 || !has[c.id] {
			continue
		}
		c.result = r.Q
		if c.agent != nil {
			learnt = append(learnt, journal.Agent{Agent: c.agent.place.Agent, Result: r.Q})
		}
	}
	return learnt
}

// pending reports whether a subagent may be at work: a call has no result yet.
func (t *Tracker) pending() bool {
	for _, c := range t.calls {
		if c.result == 0 {
			return true
		}
	}
	return false
}

// ofMain reports whether a request shares at least half of its blocks with one of the main agent.
func (t *Tracker) ofMain(r Request) bool {
	for _, q := range t.main {
		if 2*r.Shared(q) >= r.Blocks {
			return true
		}
	}
	return len(t.main) == 0
}

// subagent returns the inferred subagent whose last prompt a request goes on from, at least for half, or a new one.
func (t *Tracker) subagent(r Request, via journal.Tier) *subagent {
	var best *subagent
	most := 0
	for _, a := range t.made {
		if n := r.Shared(a.last); 2*n >= a.size && n > most {
			best, most = a, n
		}
	}
	if best != nil || len(t.made) == Limit {
		return best
	}
	a := &subagent{place: journal.Place{Agent: First + len(t.made), Via: via}}
	if a.call = t.unanswered(func(*call) bool { return true }); a.call != nil {
		a.place.Parent = a.call.by.Agent
	}
	t.made = append(t.made, a)
	return a
}

// unanswered returns the first call that fits, of those without a result whose subagent was not seen; nil: there is none.
func (t *Tracker) unanswered(fits func(*call) bool) *call {
	for _, c := range t.calls {
		if c.agent == nil && c.result == 0 && fits(c) {
			return c
		}
	}
	return nil
}

// name notes the first request of an agent with an id, and returns what a call of its parent says of it.
func (t *Tracker) name(place journal.Place) []journal.Agent {
	if t.named == nil {
		t.named = map[int]bool{}
	}
	t.named[place.Agent] = true
	c := t.unanswered(func(c *call) bool { return c.by.Agent == place.Parent })
	if c == nil {
		return nil
	}
	c.agent = &subagent{place: place, call: c}
	return []journal.Agent{{Agent: place.Agent, Type: c.kind}}
}

// Reply notes the calls in the reply to a request.
func (t *Tracker) Reply(q int, calls []reply.Call) {
	for _, c := range calls {
		if c.MakesSubagent() && c.ID != "" {
			t.calls = append(t.calls, &call{id: c.ID, kind: journal.AgentTypeOf(c.Type), by: t.places[q]})
		}
	}
}

// Erase forgets everything.
func (t *Tracker) Erase() { *t = Tracker{} }
