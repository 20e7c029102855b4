package imports

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/cmd/internal/capture/chain"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/convert/text"
)

// recorder writes the journal of a trace: what a capture in front of its agents would have written.
type recorder struct {
	stream
	trace    *text.Trace
	number   int // of the trace
	tree     *chain.Tree
	journal  interface{ Write(journal.Entry) error }
	recorded bool           // prompts are as long as the log says
	numbers  *chain.Numbers // of the blocks of all traces; nil: each trace has its own

	requests []request
	heads    []*text.Session // sessions with tools, messages in front and a filler that none before has
	head     []int           // of each session, the index of its head
	places   map[spot]chain.Place
	sums     []sums  // by node
	roots    []int32 // of each session, the first node of the prompt before; text.None before the first one
	models   map[text.Text]int
	results  map[int][]int // agents whose results a request has first
	shared   []chain.Shared
}

// request is a turn with its times, milliseconds since the first of the trace.
type request struct {
	session, turn   int
	at, end, first  int64 // first is -1 where it was not recorded
	tokens, counted int   // of the prompt in the journal; of what the log has of it, and the filler
}

// spot is a node of the trace's tree of messages behind a head; node text.None is the head's own end.
type spot struct {
	head int
	node int32
}

// sums are tokens of a prompt up to a node, its head left out.
type sums struct {
	root          int32
	media, system int
	leads         bool // all of it are messages of the system
}

// maxSpan bounds the times of a journal.
const maxSpan = 1 << 40

// prepare orders the requests of a trace by their times, and finds which sessions begin with the same tools and filler.
func (r *recorder) prepare() {
	t := r.trace
	r.sums = make([]sums, len(t.Nodes))
	r.places, r.models, r.results = map[spot]chain.Place{}, map[text.Text]int{}, map[int][]int{}
	for k := range t.Sessions {
		s := &t.Sessions[k]
		h := slices.IndexFunc(r.heads, func(o *text.Session) bool {
			return fillerOf(o) == fillerOf(s) && slices.Equal(o.Tools, s.Tools) && slices.Equal(o.Front, s.Front)
		})
		if h < 0 {
			h = len(r.heads)
			r.heads = append(r.heads, s)
		}
		r.head, r.roots = append(r.head, h), append(r.roots, text.None)
		last := int64(0)
		if p := s.Parent; p != text.None && s.SpawnTurn != text.None {
			last = since(t.Sessions[p].Turns[s.SpawnTurn].End, t.Start, 0)
		}
		for n := range s.Turns {
			u := &s.Turns[n]
			if u.Last == text.None || u.NoContent {
				continue
			}
			q := request{session: k, turn: n, at: since(u.At, t.Start, last), first: -1}
			q.end = max(q.at, since(u.End, t.Start, q.at))
			if u.First != text.NoTime {
				q.first = min(max(q.at, since(u.First, t.Start, q.at)), q.end)
			}
			last = q.end
			r.requests = append(r.requests, q)
		}
	}
	slices.SortStableFunc(r.requests, func(a, b request) int { return cmp.Compare(a.at, b.at) })
	r.findResults()
}

// since returns an instant of a trace, another value where it was not recorded.
func since(instant, start, otherwise int64) int64 {
	if instant == text.NoTime || start == text.NoTime {
		return otherwise
	}
	return min(max(0, instant-start), maxSpan)
}

// findResults finds which request is the first with the result of each subagent.
func (r *recorder) findResults() {
	of := map[[2]int]int{}
	for q := range r.requests {
		of[[2]int{r.requests[q].session, r.requests[q].turn}] = q
	}
	for k := range r.trace.Sessions {
		s := &r.trace.Sessions[k]
		if q, found := of[[2]int{int(s.Parent), int(s.JoinTurn)}]; found && q > 0 {
			r.results[q] = append(r.results[q], k)
		}
	}
}

// record writes all lines behind the first.
func (r *recorder) record(ctx context.Context) error {
	for q := range r.requests {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.request(q); err != nil {
			return err
		}
	}
	return r.journal.Write(journal.Final{Why: journal.WhyFinal})
}

// request writes the lines of a request.
func (r *recorder) request(q int) error {
	at := &r.requests[q]
	turn := &r.trace.Sessions[at.session].Turns[at.turn]
	place := r.place(at.session)
	err := r.journal.Write(journal.Begin{Q: q, T: at.at, Place: place})
	ids, idsErr := r.numberBlocks(q)
	if err = errors.Join(err, idsErr); err != nil {
		return err
	}
	model, known := r.models[turn.Model]
	if !known {
		model = len(r.models)
		r.models[turn.Model] = model
		err = r.journal.Write(journal.Model{Index: model, Name: journal.ModelName(string(r.bytes(turn.Model)), model)})
	}
	ids.Model = model
	err = errors.Join(err, r.journal.Write(ids))
	for _, agent := range r.results[q] {
		err = errors.Join(err, r.journal.Write(journal.Agent{Agent: agent, Result: q}))
	}
	return errors.Join(err, r.journal.Write(r.ended(q, turn)), r.sizes.Err(), r.stream.err)
}

// place returns the agent of a session.
func (r *recorder) place(session int) journal.Place {
	if session == 0 {
		return journal.Place{}
	}
	return journal.Place{Agent: session, Parent: max(0, int(r.trace.Sessions[session].Parent)), Via: journal.TierHeader}
}

// ended returns how a request ended.
func (r *recorder) ended(q int, turn *text.Turn) journal.End {
	at := &r.requests[q]
	kinds, calls := r.outputKinds(turn.Output)
	e := journal.End{Q: q, T: at.end, First: at.first, X: journal.Complete, Status: 200, Out: int(min(max(turn.Out, 0), journal.MaxTokens)),
		Output: kinds, Calls: calls, Word: journal.StopWord(turn.Stop), API: int(max(r.trace.Sessions[at.session].Recorded(turn), 0))}
	e.Stop = journal.StopOf(e.Word)
	return e
}

// numberBlocks numbers the blocks of a request's prompt.
func (r *recorder) numberBlocks(q int) (journal.IDs, error) {
	at := &r.requests[q]
	session := &r.trace.Sessions[at.session]
	turn := &session.Turns[at.turn]
	behind, segments, ends := r.newSegments(r.head[at.session], turn.Last)
	prepared, places, err := r.tree.PrepareBehind(behind, segments)
	if err != nil {
		return journal.IDs{}, err
	}
	for _, e := range ends {
		r.places[e.spot] = behind
		if e.segments > 0 {
			r.places[e.spot] = places[e.segments-1]
		}
	}
	at.counted = prepared.Tokens()
	if tail := int(session.Recorded(turn)) - at.counted; r.recorded && tail > 0 {
		if prepared, err = r.withTail(q, tail, behind, segments); err != nil {
			return journal.IDs{}, err
		}
	}
	if at.tokens = prepared.Tokens(); at.tokens < 1 || at.tokens > journal.MaxTokens {
		return journal.IDs{}, fmt.Errorf("session %d, turn %d: a prompt of %d tokens: want 1 to %d", at.session, at.turn, at.tokens, journal.MaxTokens)
	}
	blocks, err := r.tree.Apply(q, prepared)
	if err != nil {
		return journal.IDs{}, err
	}
	r.shared = r.tree.AppendShared(r.shared[:0], q)
	before, common := chain.Predecessor(r.shared, func(p int) (int64, bool) {
		o := &r.requests[p]
		return o.end, o.session == at.session && o.end <= at.at
	})
	sum, tools := r.sums[turn.Last], r.sizes.Tools(session.Tools)
	var global []int64
	if r.numbers != nil {
		global = r.numbers.AppendRuns(nil, r.tree, q)
	}
	root := r.roots[at.session]
	r.roots[at.session] = sum.root
	return journal.IDs{
		Q: q, Anew: root != text.None && root != sum.root, Tool: min(max(turn.ToolTime, 0), maxSpan), Global: global, Stream: at.first >= 0 || r.trace.HiddenPrefix, In: blocks.Tokens, Tools: tools, System: r.sizes.Head(session) - tools + fillerOf(session) + sum.system,
		Base: blocks.Base, Keep: blocks.Keep, New: blocks.New, Media: sum.media, Input: r.tree.InputKinds(q, before, common),
	}, nil
}

// withTail prepares a prompt that ends in so many tokens of its own, which no other has.
func (r *recorder) withTail(q, tokens int, behind chain.Place, segments []canon.Segment) (*chain.Prepared, error) {
	segments = append(slices.Clip(segments), canon.Segment{Role: canon.RoleUser, Parts: []canon.Part{
		{Kind: canon.MediaTokens, Data: fmt.Appendf(nil, "tail %d of %d", q, r.number), Count: tokens},
	}})
	prepared, _, err := r.tree.PrepareBehind(behind, segments)
	return prepared, err
}

// ending is a spot, and how many of the new segments of a prompt stand before its end.
type ending struct {
	spot
	segments int
}

// newSegments returns the segments of a prompt that no earlier prompt has, the place behind which they stand, and where its nodes end.
func (r *recorder) newSegments(head int, last int32) (behind chain.Place, list []canon.Segment, ends []ending) {
	var path []int32
	node, known := last, false
	for ; node != text.None; node = r.trace.Nodes[node].Parent {
		if behind, known = r.places[spot{head, node}]; known {
			break
		}
		path = append(path, node)
	}
	if !known {
		if behind, known = r.places[spot{head, text.None}]; !known {
			list = r.stream.head(list, r.heads[head])
			ends = append(ends, ending{spot{head, text.None}, len(list)})
		}
	}
	for _, node := range slices.Backward(path) {
		n := &r.trace.Nodes[node]
		m := &r.data.Messages[n.Message]
		list = r.message(list, m)
		ends = append(ends, ending{spot{head, node}, len(list)})
		sum := sums{root: node, leads: true}
		if n.Parent != text.None {
			sum = r.sums[n.Parent]
		}
		if sum.leads = sum.leads && (m.Role == text.System || m.Role == text.Developer); sum.leads {
			sum.system += r.sizes.Message(n.Message)
		}
		sum.media += mediaTokens(m.Parts)
		r.sums[node] = sum
	}
	return behind, list, ends
}
