package capture

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/cmd/internal/capture/reply"
)

// world is a session whose prompts are lists of block ids.
type world struct {
	tracker
	prompts [][]int
}

func (w *world) shared(a, b int) (n int) {
	for n < len(w.prompts[a]) && n < len(w.prompts[b]) && w.prompts[a][n] == w.prompts[b][n] {
		n++
	}
	return n
}

// ask places the next request.
func (w *world) ask(prompt []int, change func(*asking)) (journal.Place, []journal.Agent) {
	q := len(w.prompts)
	w.prompts = append(w.prompts, prompt)
	r := asking{q: q, blocks: len(prompt), shared: func(p int) int { return w.shared(p, q) }}
	if change != nil {
		change(&r)
	}
	return w.put(r)
}

func results(ids ...string) func(*asking) { return func(r *asking) { r.results = ids } }
func marked(r *asking)                    { r.marked = true }

// ids returns a prompt: a first block, and numbers from there on.
func ids(first, n int) (list []int) {
	for k := range n {
		list = append(list, 1000*first+k)
	}
	return list
}

// A call begins a subagent; prompts that share less than half with the main agent's are its own, until the result is seen.
//
// Covers C-31.
func TestLinkage(t *testing.T) {
	var w world
	place, _ := w.ask(ids(1, 4), nil)
	require.Zero(t, place)
	place, _ = w.ask(ids(9, 2), nil) // a call for a title: nothing has begun a subagent
	require.Zero(t, place)
	w.replied(0, []reply.Call{{ID: "c1", Name: "Task", Type: "Explore"}, {ID: "c2", Name: "Agent", Type: "my-own"}, {ID: "c3", Name: "ls"}})
	place, learnt := w.ask(ids(2, 3), nil)
	require.Equal(t, journal.Place{Agent: firstInferred, Via: journal.TierLinkage}, place)
	require.Equal(t, []journal.Agent{{Agent: firstInferred, Type: journal.Explore}}, learnt)
	place, learnt = w.ask(ids(3, 3), nil) // beside it
	require.Equal(t, firstInferred+1, place.Agent)
	require.Equal(t, []journal.Agent{{Agent: firstInferred + 1, Type: journal.Custom}}, learnt)
	place, learnt = w.ask(ids(2, 5), nil) // goes on
	require.Equal(t, firstInferred, place.Agent)
	require.Empty(t, learnt)
	place, learnt = w.ask(ids(1, 6), results("c1", "unknown"))
	require.Zero(t, place)
	require.Equal(t, []journal.Agent{{Agent: firstInferred, Result: 5}}, learnt)
	place, _ = w.ask(ids(3, 6), nil) // the other one still runs
	require.Equal(t, firstInferred+1, place.Agent)
	_, learnt = w.ask(ids(1, 8), results("c1", "c2"))
	require.Equal(t, []journal.Agent{{Agent: firstInferred + 1, Result: 7}}, learnt)
	place, _ = w.ask(ids(7, 3), nil) // nothing is pending: a compaction, or a rewind
	require.Zero(t, place)
}

// Half of the blocks is enough to belong to the main agent, or to go on from a subagent. A call whose result is there asks for nothing.
//
// Covers C-31.
func TestHalfOfTheBlocks(t *testing.T) {
	var w world
	w.ask(ids(1, 4), nil)
	w.replied(0, []reply.Call{{ID: "c1", Name: "Task", Type: "Plan"}, {ID: "c2", Name: "Task", Type: "Explore"}})
	place, _ := w.ask(append(ids(1, 2), ids(9, 2)...), nil)
	require.Zero(t, place, "half of it is the main agent's")
	place, _ = w.ask(ids(1, 6), results("c1"))
	require.Zero(t, place)
	place, learnt := w.ask(append(ids(1, 1), ids(8, 3)...), nil)
	require.Equal(t, firstInferred, place.Agent, "a quarter is")
	require.Equal(t, []journal.Agent{{Agent: firstInferred, Type: journal.Explore}}, learnt, "the other call has its result")
	place, _ = w.ask(append(ids(1, 1), append(ids(8, 1), ids(7, 5)...)...), nil)
	require.Equal(t, firstInferred, place.Agent, "half of its last prompt")
	place, _ = w.ask(append(ids(1, 1), append(ids(8, 1), ids(6, 5)...)...), nil)
	require.Equal(t, firstInferred+1, place.Agent, "two of seven blocks")
}

// An agent with an id is what the first unanswered call of its parent asked for, and the result of that call is its own.
//
// Covers C-31.
func TestTypesOfAgentsWithIDs(t *testing.T) {
	named := func(agent, parent int) func(*asking) {
		return func(r *asking) {
			r.place = journal.Place{Agent: agent, Parent: parent, Via: journal.TierHeader}
		}
	}
	var w world
	w.ask(ids(1, 4), nil)
	w.replied(0, []reply.Call{{ID: "c1", Name: "Task", Type: "Explore"}, {ID: "c2", Name: "Agent", Type: "Plan"}})
	place, learnt := w.ask(ids(2, 3), named(1, 0))
	require.Equal(t, journal.Place{Agent: 1, Via: journal.TierHeader}, place)
	require.Equal(t, []journal.Agent{{Agent: 1, Type: journal.Explore}}, learnt)
	w.replied(1, []reply.Call{{ID: "c3", Name: "Task", Type: "general-purpose"}})
	_, learnt = w.ask(ids(3, 3), named(2, 1)) // begun by the first one, though a call of the main agent is older
	require.Equal(t, []journal.Agent{{Agent: 2, Type: journal.GeneralPurpose}}, learnt)
	_, learnt = w.ask(ids(4, 3), named(3, 0))
	require.Equal(t, []journal.Agent{{Agent: 3, Type: journal.PlanAgent}}, learnt)
	_, learnt = w.ask(ids(2, 5), named(1, 0)) // goes on
	require.Empty(t, learnt)
	_, learnt = w.ask(ids(5, 5), named(4, 0)) // no agent has asked for it
	require.Empty(t, learnt)
	_, learnt = w.ask(ids(1, 6), results("c1"))
	require.Equal(t, []journal.Agent{{Agent: 1, Result: 6}}, learnt)
}

// A mark says that a subagent asks; what its prompt goes on from says which.
//
// Covers C-31.
func TestMarks(t *testing.T) {
	var w world
	w.ask(ids(1, 4), nil)
	place, learnt := w.ask(ids(2, 3), marked)
	require.Equal(t, journal.Place{Agent: firstInferred, Via: journal.TierMark}, place)
	require.Empty(t, learnt)
	place, _ = w.ask(ids(3, 3), marked)
	require.Equal(t, firstInferred+1, place.Agent)
	place, _ = w.ask(ids(2, 4), marked)
	require.Equal(t, firstInferred, place.Agent)
	place, _ = w.ask(ids(1, 5), marked) // a fork of the main agent, with a mark
	require.Equal(t, firstInferred+2, place.Agent)
	place, _ = w.ask(ids(5, 5), func(r *asking) { r.marked, r.place = true, journal.Place{Agent: 3, Via: journal.TierHeader} })
	require.Equal(t, journal.Place{Agent: 3, Via: journal.TierHeader}, place, "an id is better than a mark")
}

// A subagent that a subagent begins has it for its parent.
//
// Covers C-31.
func TestNested(t *testing.T) {
	var w world
	w.ask(ids(1, 4), nil)
	w.replied(0, []reply.Call{{ID: "c1", Name: "Task", Type: "Plan"}})
	w.ask(ids(2, 4), nil)
	w.replied(1, []reply.Call{{ID: "c2", Name: "Task"}})
	place, learnt := w.ask(ids(3, 4), nil)
	require.Equal(t, journal.Place{Agent: firstInferred + 1, Parent: firstInferred, Via: journal.TierLinkage}, place)
	require.Equal(t, journal.Custom, learnt[0].Type)
	for k := range maxInferred + 10 {
		place, _ = w.ask(ids(10+k, 2), marked)
	}
	require.Zero(t, place, "too many to tell apart")
	w.tracker = tracker{}
	place, _ = w.ask(ids(2, 4), nil)
	require.Zero(t, place)
}
