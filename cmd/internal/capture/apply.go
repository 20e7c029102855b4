package capture

import (
	"crypto/sha256"
	"slices"
	"sort"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/cmd/internal/capture/chain"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
)

// conclude writes how requests ended whose replies are known.
func (r *recorder) conclude() {
	late := r.replies[:0]
	for _, q := range r.replies {
		if q >= r.began { // an earlier request is still on its way to the recorder
			late = append(late, q)
			continue
		}
		req := r.requests[q]
		end := req.reply.end
		begin, start := millis(req.ticket.T), r.session.Start()
		end.Q = q
		end.T = max(begin, millis(end.T-start))
		if end.First >= 0 {
			end.First = min(max(begin, millis(end.First-start)), end.T)
		}
		req.end = end.T
		r.done++
		r.write(end)
		r.c.metrics.ended(req.format, end)
		if q < r.applied {
			r.goOn(q, req)
		}
	}
	r.replies = late
}

// apply numbers the blocks of a prompt and writes them.
func (r *recorder) apply(q int, req *request) {
	p := req.prompt
	req.prompt = nil
	if p.lost == "" && p.canon != nil && p.prepared == nil { // it goes on from a response
		if !r.c.pool.call(func() { p.prepare(r.tree) }) { // the worker still has it
			p = &prompt{lost: journal.HoleAborted, pool: r.c.pool}
		}
	}
	defer p.erase()
	if p.lost == "" && p.prepared != nil {
		if p.lost = r.number(q, req, p); p.lost != "" {
			r.c.options.Log.Error("a prompt could not be numbered", "trace", r.trace, "reason", string(p.lost))
		}
	}
	if p.lost != "" {
		r.incomplete.Store(true)
		r.write(journal.Hole{Q: q, Reason: p.lost})
	}
	if req.end >= 0 {
		r.goOn(q, req)
	}
	if r.tree != nil && (r.tree.Blocks() > r.c.options.Limits.Blocks || r.tree.Nodes() > r.c.options.Limits.Nodes) || q+1 >= maxRequests {
		r.c.sessions.Close(r.session, journal.WhyLimit, r.c.options.Now())
	}
}

// number numbers the blocks of a prompt. It returns why it could not.
func (r *recorder) number(q int, req *request, p *prompt) journal.Reason {
	blocks, err := r.tree.Apply(q, p.prepared)
	if err != nil {
		return reasonOf(err)
	}
	r.shared = r.tree.AppendShared(r.shared[:0], q)
	place, learnt := r.tracker.put(asking{
		q: q, place: req.ticket.place, marked: req.ticket.marked || p.canon.Subagent, blocks: blocks.Keep + blocks.New, shared: r.sharedWith, results: p.canon.Results,
	})
	req.ids, req.place, req.tokens = true, place, blocks.Tokens
	predecessor := r.predecessor(req)
	ids := journal.IDs{
		Q: q, Model: r.model(p.canon.Model), Stream: p.canon.Stream, In: blocks.Tokens, Tools: blocks.Tools, System: blocks.System,
		Base: blocks.Base, Keep: blocks.Keep, New: blocks.New, Media: p.canon.MediaTokens, Input: r.tree.InputKinds(q, predecessor, r.sharedWith(predecessor)),
	}
	if place != req.ticket.place {
		ids.Moved = &place
	}
	r.write(ids)
	for _, a := range learnt {
		r.write(a)
	}
	r.blocks.Add(int64(blocks.New))
	r.c.metrics.numbered(blocks.Keep, blocks.New)
	if predecessor >= 0 {
		r.c.metrics.deficit.Observe(float64(r.requests[predecessor].tokens/r.c.options.BlockSize - r.sharedWith(predecessor)))
	}
	return ""
}

// sharedWith returns how many blocks the request that is applied shares with an earlier one.
func (r *recorder) sharedWith(q int) int {
	k := sort.Search(len(r.shared), func(k int) bool { return r.shared[k].Q >= q })
	if k == len(r.shared) || r.shared[k].Q != q {
		return 0
	}
	return r.shared[k].Blocks
}

// model returns the index of a model, whose name the journal has. A name that no journal takes is known by its digest.
func (r *recorder) model(name string) int {
	written := journal.ModelName(name, len(r.models))
	if written != name {
		sum := sha256.Sum256([]byte(name))
		name = " " + string(sum[:])
	}
	k, known := r.models[name]
	if !known {
		k = len(r.models)
		r.models[name] = k
		r.write(journal.Model{Index: k, Name: written})
	}
	return k
}

// predecessor returns the request that the one that is applied goes on from: of its agent, over before it arrived, with most blocks
// shared, and of these the one that ended last; -1 for none.
func (r *recorder) predecessor(req *request) int {
	best, most, last := -1, 0, int64(-1)
	arrived := millis(req.ticket.T)
	for _, s := range slices.Backward(r.shared) { // the latest has most of them, as a rule
		if s.Blocks == 0 || s.Blocks < most {
			continue
		}
		before := r.requests[s.Q]
		if before.place.Agent != req.place.Agent || before.end < 0 || before.end > arrived || !before.reply.end.X.Recorded() {
			continue
		}
		if s.Blocks > most || before.end > last {
			best, most, last = s.Q, s.Blocks, before.end
		}
	}
	return best
}

// goOn takes what a reply means for later requests: subagents that it calls, and a response to go on from. Prompt and reply are
// there.
func (r *recorder) goOn(q int, req *request) {
	reply := req.reply
	if req.ids && reply.end.API > 0 && reply.end.X.Recorded() {
		r.c.metrics.usageRatio.Observe(float64(req.tokens) / float64(reply.end.API))
	}
	r.tracker.replied(q, reply.calls)
	if reply.id != "" && req.ids {
		r.remember(q, reply)
	}
	clear(reply.items)
	reply.calls, reply.id, reply.items = nil, "", nil
}

// remember keeps where a prompt goes on that names a response. Without it such prompts have no stream.
func (r *recorder) remember(q int, reply *replied) {
	output, err := canon.ParseOutput(reply.items)
	if err != nil {
		return
	}
	var prepared *chain.Prepared
	called := r.c.pool.call(func() {
		defer func() { _ = recover() }() // the same as an error
		if p, err := r.tree.PrepareOutput(q, output); err == nil {
			prepared = p
		}
	})
	switch {
	case !called:
		reply.items = nil // the worker still has it
	case prepared != nil:
		_ = r.tree.Remember(reply.id, prepared) // its only error: the tree was erased
	}
}
