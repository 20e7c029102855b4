package capture

import (
	"slices"

	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/cmd/internal/capture/reply"
)

// firstInferred is the number of the first subagent that is inferred; those with ids have lower ones. maxInferred bounds those of a
// session that are told apart.
const firstInferred, maxInferred = 1 << 15, 1 << 14

// asking is what is known of a request when its prompt has blocks.
type asking struct {
	q       int
	place   journal.Place // as its client says
	marked  bool          // a mark says that a subagent asks
	blocks  int
	shared  func(q int) int // blocks that it shares with an earlier request
	results []string        // ids of the calls whose results it has
}

// tracker tells which requests of a session are those of subagents whose clients do not say so: by marks on requests, and by the calls with
// which agents begin others: doc/spec/capture.md 8.1. It is a function of what it is told, in the order of the requests.
type tracker struct {
	calls  []*call
	made   []*subagent // that were inferred
	main   []int       // requests of the main agent
	places map[int]journal.Place
	named  map[int]bool // agents with ids that have been seen
}

// call is the call of a tool that begins a subagent.
type call struct {
	id     string
	kind   journal.AgentType
	by     int // agent
	result int // request with its result; 0: not seen
	agent  int // that it began; 0: not seen
}

// subagent is one that was inferred.
type subagent struct {
	place journal.Place
	last  int // its last request
	size  int // blocks of that
}

// put returns the agent of a request, which comes behind all before it, and what is learnt of agents by it.
func (t *tracker) put(r asking) (place journal.Place, learnt []journal.Agent) {
	if t.places == nil {
		t.places, t.named = map[int]journal.Place{}, map[int]bool{}
	}
	pending := false // a subagent may be at work: a call has no result yet
	for _, c := range t.calls {
		if c.result == 0 && slices.Contains(r.results, c.id) {
			if c.result = r.q; c.agent != 0 {
				learnt = append(learnt, journal.Agent{Agent: c.agent, Result: r.q})
			}
		}
		pending = pending || c.result == 0
	}
	var began *call // the one that asked for the agent, where that is new
	switch place = r.place; {
	case place.Agent != 0:
		if !t.named[place.Agent] {
			t.named[place.Agent] = true
			began = t.unanswered(func(c *call) bool { return c.by == place.Parent })
		}
	case r.marked || pending && !t.ofMain(r):
		a := t.goesOn(r)
		if a == nil && len(t.made) < maxInferred {
			a = &subagent{place: journal.Place{Agent: firstInferred + len(t.made), Via: journal.TierLinkage}}
			if r.marked {
				a.place.Via = journal.TierMark
			}
			if began = t.unanswered(func(*call) bool { return true }); began != nil {
				a.place.Parent = began.by
			}
			t.made = append(t.made, a)
		}
		if a != nil {
			a.last, a.size, place = r.q, r.blocks, a.place
		}
	}
	if began != nil {
		began.agent = place.Agent
		learnt = append(learnt, journal.Agent{Agent: place.Agent, Type: began.kind})
	}
	if place.Agent == 0 {
		t.main = append(t.main, r.q)
	}
	t.places[r.q] = place
	return place, learnt
}

// ofMain reports whether a request shares at least half of its blocks with one of the main agent, or is the first.
func (t *tracker) ofMain(r asking) bool {
	return len(t.main) == 0 || slices.ContainsFunc(t.main, func(q int) bool { return 2*r.shared(q) >= r.blocks })
}

// goesOn returns the inferred subagent whose last prompt a request goes on from, at least for half; nil: there is none.
func (t *tracker) goesOn(r asking) (best *subagent) {
	most := 0
	for _, a := range t.made {
		if n := r.shared(a.last); 2*n >= a.size && n > most {
			best, most = a, n
		}
	}
	return best
}

// unanswered returns the first call that fits, of those without a result whose subagent was not seen; nil: there is none.
func (t *tracker) unanswered(fits func(*call) bool) *call {
	for _, c := range t.calls {
		if c.agent == 0 && c.result == 0 && fits(c) {
			return c
		}
	}
	return nil
}

// replied notes the calls in the reply to a request.
func (t *tracker) replied(q int, calls []reply.Call) {
	for _, c := range calls {
		if c.MakesSubagent() && c.ID != "" {
			t.calls = append(t.calls, &call{id: c.ID, kind: journal.AgentTypeOf(c.Type), by: t.places[q].Agent})
		}
	}
}
