package capture

import (
	"crypto/sha256"
	"errors"
	"maps"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/cmd/internal/capture/chain"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
)

// maxRequests bounds the requests of a session: one more finishes it.
const maxRequests = 1 << 15

// recorder records one session. The functions that it is told run in order on one goroutine, which is started on demand: that
// goroutine owns everything but what mu guards, and is the only one that writes the journal.
type recorder struct {
	c       *Capture
	session *session
	trace   string
	tree    *chain.Tree // nil: no key could be drawn

	share share // of the queue
	lane  lane  // of the prompts that are read

	mu       sync.Mutex
	inbox    []func()
	running  bool
	settling map[int]bool // requests that ended, and whose replies the recorder does not know yet
	ended    map[int]bool // requests whose exchange is over

	journal  *journal.Writer // nil: the session is not recorded
	tracker  tracker
	models   map[string]int
	requests map[int]*request
	shared   []chain.Shared // of the request that is applied
	began    int            // requests of which the journal knows
	applied  int            // requests whose prompts have been taken
	leads    bool           // a prompt has the lane
	leading  int            // the request that it is of; -1: of none that is known
	replies  []int          // requests whose replies came, and are not concluded
	done     int            // requests that are concluded
	why      journal.Why    // the session is over, but for what is still on its way to the recorder
	given    bool           // nothing more is on its way
	over     bool           // the journal is finished
	failed   bool           // the journal could not be written

	incomplete atomic.Bool // a prompt is missing
	blocks     atomic.Int64
}

// request is what a recorder knows of a request.
type request struct {
	ticket ticket
	format canon.Format
	after  map[int]bool // requests whose replies have to be known before
	prompt *prompt      // until it is applied
	reply  *replied
	ids    bool // it has blocks
	tokens int
	place  journal.Place
	end    int64 // milliseconds; -1 before it has ended
}

// record gives a session its recorder.
func (c *Capture) record(s *session) {
	r := &recorder{c: c, session: s, trace: s.Trace, models: map[string]int{}, requests: map[int]*request{}, settling: map[int]bool{}, ended: map[int]bool{}}
	key, err := c.key()
	if err == nil {
		r.tree, err = chain.New(key, chain.Options{Tokenizer: c.options.Tokenizer, Name: c.options.TokenizerName, BlockSize: c.options.BlockSize})
	}
	clear(key[:])
	c.begin(r)
	s.recorder = r
	r.tell(func() { r.open(err) })
}

// open creates the journal. Without one nothing of the session is recorded.
func (r *recorder) open(err error) {
	if err == nil {
		err = r.c.unwritable()
	}
	if err == nil {
		r.journal, err = r.c.folder.Create(journal.Head{
			Trace: r.trace, BlockSize: r.c.options.BlockSize, Canon: canon.Version, Tokenizer: r.c.options.TokenizerName, By: r.session.by, Export: r.c.options.Export,
		})
	}
	if err != nil {
		r.journal = nil
		r.incomplete.Store(true)
		r.c.unrecorded(r.trace, err)
	}
}

// tell puts a function that the recorder's goroutine will run at the end of the inbox. It returns at once.
func (r *recorder) tell(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inbox = append(r.inbox, f)
	if !r.running {
		r.running = true
		go r.run()
	}
}

// run does what is in the inbox until that is empty.
func (r *recorder) run() {
	for {
		r.mu.Lock()
		list := r.inbox
		r.inbox = nil
		if len(list) == 0 {
			r.running = false
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		for _, f := range list {
			r.guard(f)
		}
		r.guard(r.advance)
	}
}

// guard runs a function. If it panics, the session ends, and the requests that its journal lacks are counted.
func (r *recorder) guard(f func()) {
	defer func() {
		if recover() != nil && !r.over {
			r.c.options.Log.Error("a session ends early", "trace", r.trace, "reason", string(journal.HoleInternal))
			r.c.sessions.Close(r.session, journal.WhyLimit, r.c.options.Now())
			r.why = journal.WhyLimit
			r.finish()
		}
	}()
	f()
}

// arrive notes a request that has joined the session, and which earlier replies its prompt has to wait for.
func (r *recorder) arrive(t ticket, format canon.Format) {
	r.mu.Lock()
	after := maps.Clone(r.settling)
	r.mu.Unlock()
	r.tell(func() {
		if r.over {
			r.c.leave(journal.HoleAborted)
			return
		}
		r.requests[t.q] = &request{ticket: t, format: format, after: after, end: -1}
	})
}

// ending notes that the exchange of request q is over. How it ended comes later, by replied.
func (r *recorder) ending(q int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settling[q], r.ended[q] = true, true
}

// prompted takes the prompt of a request. One that has the lane and is the next to be applied keeps it until then.
func (r *recorder) prompted(q int, p *prompt) {
	req := r.requests[q]
	waits := req != nil && q >= r.applied
	if p.lane != nil {
		r.leads, r.leading = true, -1
		if waits {
			r.leading = q
		}
	}
	if waits {
		req.prompt = p
		return
	}
	p.erase()
}

// replied notes how the exchange of request q ended, for conclude.
func (r *recorder) replied(q int, reply *replied) {
	if req := r.requests[q]; req != nil {
		req.reply = reply
		r.replies = append(r.replies, q)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.settling, q)
}

// giveUp makes the session end with what is known of it: nothing more is waited for.
func (r *recorder) giveUp() {
	r.tell(func() { r.given = true })
}

// freeLane lets the next prompt be read, unless the one that has the lane is the next to be applied, and waits for replies alone. One behind
// a prompt that is still on its way must not keep the lane, which that prompt needs.
func (r *recorder) freeLane() {
	if r.leads && (r.over || r.leading != r.applied) {
		r.leads = false
		r.c.pool.free(&r.lane)
	}
}

// advance writes what the order of the requests allows: which began, how they ended, the blocks of their prompts, and the end.
func (r *recorder) advance() {
	defer r.freeLane()
	if r.over {
		return
	}
	for req := r.requests[r.began]; req != nil; req = r.requests[r.began] {
		r.write(journal.Begin{Q: r.began, T: millis(req.ticket.T), Place: req.ticket.place})
		r.began++
	}
	r.conclude()
	for ; r.applied < r.began; r.applied++ {
		req := r.requests[r.applied]
		if r.givenUp(r.applied, req) {
			continue
		}
		if !r.may(req) {
			break
		}
		r.apply(r.applied, req)
	}
	if r.why != "" && r.settled() {
		r.finish()
	}
}

// givenUp reports whether a request will never have a prompt: the session is over, and its body is still on its way.
func (r *recorder) givenUp(q int, req *request) bool {
	if r.why == "" || req.prompt != nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.given || !r.ended[q]
}

// may reports whether the prompt of a request can be applied: it is there, and so are the replies that ended before it arrived.
func (r *recorder) may(req *request) bool {
	if req.prompt == nil {
		return false
	}
	for q := range req.after {
		if before := r.requests[q]; !r.given && (before == nil || before.end < 0) {
			return false
		}
		delete(req.after, q)
	}
	req.after = nil
	return true
}

// settled reports whether nothing more can come of the session but of requests that are given up.
func (r *recorder) settled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.applied == len(r.requests) && (r.given || len(r.settling) == 0 && r.done == len(r.ended))
}

// write writes a line, if the session has a journal. The journal keeps its first error, and finish counts what it lacks.
func (r *recorder) write(line journal.Entry) {
	if r.journal == nil {
		return
	}
	if err := r.journal.Write(line); err != nil && !r.failed {
		r.failed = true
		r.incomplete.Store(true)
		r.c.unrecorded(r.trace, err)
	}
}

func millis(ns int64) int64 { return max(0, ns) / 1e6 }

// finish ends the journal, makes a trace of it and forgets the session.
func (r *recorder) finish() {
	r.over = true
	defer r.c.end(r)
	n := len(r.requests)
	for _, req := range r.requests {
		if req.prompt != nil {
			req.prompt.erase()
		}
	}
	if r.tree != nil {
		r.tree.Erase()
	}
	r.tracker = tracker{}
	r.requests, r.models, r.shared, r.replies = nil, nil, nil, nil
	if r.journal == nil {
		r.c.unwritten(n)
		return
	}
	err := errors.Join(r.journal.Write(journal.Final{Why: r.why}), r.journal.Close())
	if err != nil && !r.failed {
		r.c.unrecorded(r.trace, err)
	}
	r.c.finished(r.trace, n)
}

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
