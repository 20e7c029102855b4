package capture

import (
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/agentx/agentx/capture/agents"
	"github.com/agentx/agentx/capture/canon"
	"github.com/agentx/agentx/capture/chain"
	"github.com/agentx/agentx/capture/journal"
	"github.com/agentx/agentx/capture/session"
)

// recorder records one session. What it is told it does one after the other, in a goroutine that lives while there is something
// to do: that goroutine owns everything but the inbox, and is the only one that writes the journal.
type recorder struct {
	c     *Capture
	trace string
	tree  *chain.Tree

	mu       sync.Mutex
	inbox    []func()
	running  bool
	settling map[int]bool // requests that ended, and whose replies the recorder does not know yet
	ended    map[int]bool // requests whose exchange is over

	journal  *journal.Writer // nil: the session is not recorded
	by       journal.By
	tracker  agents.Tracker
	models   map[string]int
	requests map[int]*request
	began    int // requests of which the journal knows
	applied  int // requests whose prompts have been taken
	why      journal.Why
	over     bool
	failed   bool // the journal could not be written

	incomplete atomic.Bool // a prompt is missing

	replies   []int // requests whose replies came, and are not concluded
	concluded int
}

// request is what a recorder knows of a request.
type request struct {
	ticket session.Ticket[*recorder]
	after  map[int]bool // requests whose replies have to be known before
	prompt *prompt
	reply  *replied
	ids    bool // it has blocks
	place  journal.Place
	end    int64 // milliseconds; -1 before it has ended
}

// record makes the recorder of a session.
func (c *Capture) record(s *session.Session[*recorder]) *recorder {
	r := &recorder{
		c: c, trace: s.Trace, by: s.By, models: map[string]int{}, requests: map[int]*request{}, settling: map[int]bool{}, ended: map[int]bool{},
	}
	key, err := c.key()
	if err == nil {
		r.tree, err = chain.New(key, chain.Options{Tokenizer: c.options.Tokenizer, Name: c.options.TokenizerName, BlockSize: c.options.BlockSize})
	}
	clear(key[:])
	r.tell(func() { r.open(err) })
	return r
}

// open creates the journal. Without one nothing of the session is recorded.
func (r *recorder) open(err error) {
	if err == nil && r.c.full.Load() {
		err = errDiskFull
	}
	if err == nil {
		r.journal, err = r.c.folder.Create(journal.Head{
			Trace: r.trace, BlockSize: r.c.options.BlockSize, Canon: canon.Version, Tokenizer: r.c.options.TokenizerName, By: r.by, Export: r.c.options.Export,
		})
	}
	if err != nil {
		r.journal = nil
		r.incomplete.Store(true)
		r.c.unrecorded(r.trace, err)
	}
}

// tell puts something to do at the end of the inbox. It returns at once.
func (r *recorder) tell(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.inbox = append(r.inbox, f)
	if !r.running {
		r.running = true
		go r.run()
	}
}

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
			f()
		}
		r.advance()
	}
}

// arrive takes a request that has joined the session.
func (r *recorder) arrive(t session.Ticket[*recorder]) {
	r.mu.Lock()
	after := maps.Clone(r.settling)
	r.mu.Unlock()
	r.tell(func() { r.requests[t.Q] = &request{ticket: t, after: after, end: -1} })
}

// ending says that an exchange is over, before anybody can tell how.
func (r *recorder) ending(q int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settling[q], r.ended[q] = true, true
}

// prompted takes the prompt of a request.
func (r *recorder) prompted(q int, p *prompt) {
	if req := r.requests[q]; req != nil {
		req.prompt = p
	}
}

// replied takes the reply to a request.
func (r *recorder) replied(q int, reply *replied) {
	if req := r.requests[q]; req != nil {
		req.reply = reply
		r.replies = append(r.replies, q)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.settling, q)
}

// Finish ends the session.
func (r *recorder) Finish(why journal.Why) {
	r.tell(func() { r.why = why })
}

// advance does what the order of the requests allows.
func (r *recorder) advance() {
	if r.over {
		return
	}
	for req := r.requests[r.began]; req != nil; req = r.requests[r.began] {
		r.write(func(w *journal.Writer) error {
			return w.Begin(journal.Begin{Q: r.began, T: millis(req.ticket.T), Place: req.ticket.Place})
		})
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
	return !r.ended[q]
}

// may reports whether the prompt of a request can be taken: it is there, and so are the replies that came before it arrived.
func (r *recorder) may(req *request) bool {
	if req.prompt == nil {
		return false
	}
	for q := range req.after {
		if before := r.requests[q]; before == nil || before.end < 0 {
			return false
		}
		delete(req.after, q)
	}
	return true
}

// settled reports whether nothing more can come of the session but of requests that are given up.
func (r *recorder) settled() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.applied == len(r.requests) && len(r.settling) == 0 && r.concluded == len(r.ended)
}

// write writes a line, if the session has a journal. The journal keeps its first error, and finish counts what it lacks.
func (r *recorder) write(line func(*journal.Writer) error) {
	if r.journal == nil {
		return
	}
	if err := line(r.journal); err != nil && !r.failed {
		r.failed = true
		r.incomplete.Store(true)
		r.c.unrecorded(r.trace, err)
	}
}

func millis(ns int64) int64 { return max(0, ns) / 1e6 }

// conclude writes how requests ended whose replies are known.
func (r *recorder) conclude() {
	for _, q := range r.replies {
		req := r.requests[q]
		end := req.reply.end
		begin, start := millis(req.ticket.T), req.ticket.Session.Start()
		end.Q = q
		end.T = max(begin, millis(end.T-start))
		if end.First >= 0 {
			end.First = min(max(begin, millis(end.First-start)), end.T)
		}
		req.end = end.T
		r.concluded++
		r.write(func(w *journal.Writer) error { return w.End(end) })
		r.c.metrics.ended(end.X, end.Marks)
		if q < r.applied {
			r.goOn(q, req)
		}
	}
	r.replies = r.replies[:0]
}

// apply numbers the blocks of a prompt and writes them.
func (r *recorder) apply(q int, req *request) {
	p := req.prompt
	defer p.erase()
	if p.lost == "" && p.canon != nil && p.prepared == nil { // it goes on from a response
		r.c.pool.call(func() { p.prepare(r.tree) })
	}
	if p.lost == "" && p.canon != nil {
		if err := r.number(q, req); err != nil {
			p.lost = reasonOf(err)
			r.c.options.Log.Error("a prompt could not be numbered", "trace", r.trace, "reason", string(p.lost))
		}
	}
	if p.lost != "" {
		r.incomplete.Store(true)
		r.write(func(w *journal.Writer) error { return w.Hole(journal.Hole{Q: q, Reason: p.lost}) })
	}
	if req.end >= 0 {
		r.goOn(q, req)
	}
}

func (r *recorder) number(q int, req *request) error {
	p := req.prompt
	blocks, err := r.tree.Apply(q, p.prepared)
	if err != nil {
		return err
	}
	shared := map[int]int{}
	for _, s := range r.tree.AppendShared(nil, q) {
		shared[s.Q] = s.Blocks
	}
	place, learnt := r.tracker.Place(agents.Request{
		Q: q, Place: req.ticket.Place, Marked: req.ticket.Marked || p.canon.Subagent, Blocks: blocks.Keep + blocks.New,
		Shared: func(q int) int { return shared[q] }, Results: p.canon.Results,
	})
	req.ids, req.place = true, place
	ids := journal.IDs{
		Q: q, Model: r.model(p.canon.Model), Stream: p.canon.Stream, In: blocks.Tokens, Tools: blocks.Tools, System: blocks.System,
		Base: blocks.Base, Keep: blocks.Keep, New: blocks.New, Media: p.canon.MediaTokens,
		Input: journal.Kinds(r.tree.InputTypes(q, r.predecessor(q, req, shared))),
	}
	if place != req.ticket.Place {
		ids.Moved = &place
	}
	r.write(func(w *journal.Writer) error { return w.IDs(ids) })
	for _, a := range learnt {
		r.write(func(w *journal.Writer) error { return w.Agent(a) })
	}
	r.c.metrics.blocks(blocks.Keep, blocks.New)
	if r.tree.Blocks() > r.c.options.Limits.Blocks || r.tree.Nodes() > r.c.options.Limits.Nodes {
		r.c.sessions.Close(req.ticket.Session, journal.WhyLimit, r.c.options.Now())
	}
	return nil
}

// model returns the index of a model, whose name the journal has.
func (r *recorder) model(name string) int {
	k, known := r.models[name]
	if !known {
		k = len(r.models)
		r.models[name] = k
		r.write(func(w *journal.Writer) error {
			return w.Model(journal.Model{Index: k, Name: journal.ModelName(name, k)})
		})
	}
	return k
}

// predecessor returns the request that a request goes on from: of its agent, over before it arrived, with most blocks shared, and
// of these the one that ended last; -1 for none.
func (r *recorder) predecessor(q int, req *request, shared map[int]int) int {
	best, most, last := -1, 0, int64(-1)
	for p, n := range shared {
		before := r.requests[p]
		if n == 0 || before.place.Agent != req.place.Agent || before.end < 0 || before.end > millis(req.ticket.T) || !before.reply.recorded() {
			continue
		}
		if n > most || n == most && (before.end > last || before.end == last && p > best) {
			best, most, last = p, n, before.end
		}
	}
	return best
}

// recorded reports whether a request that ended so is in the trace.
func (r *replied) recorded() bool {
	return r.end.X == journal.Complete || r.end.X == journal.Partial || r.end.X == journal.ClientGone
}

// goOn takes what a reply means for later requests: subagents that it calls, and a response to go on from. Prompt and reply are
// there.
func (r *recorder) goOn(q int, req *request) {
	r.tracker.Reply(q, req.reply.calls)
	req.reply.calls = nil
	if req.reply.id == "" || !req.ids {
		return
	}
	output, err := canon.ParseOutput(req.reply.items)
	if err != nil {
		return // prompts that name the response have no stream
	}
	var prepared *chain.Prepared
	r.c.pool.call(func() {
		defer func() { _ = recover() }() // the same
		prepared, err = r.tree.PrepareOutput(q, output)
	})
	if err == nil && prepared != nil {
		_ = r.tree.Remember(req.reply.id, prepared) // its only error: the tree was erased
	}
	clear(req.reply.items)
	req.reply.items = nil
}

// blocks returns how many blocks the session has. Any goroutine may call it.
func (r *recorder) blocks() int {
	if r.tree == nil {
		return 0
	}
	return r.tree.Blocks()
}

// finish ends the journal, makes a trace of it and forgets the session.
func (r *recorder) finish() {
	r.over = true
	r.tree.Erase()
	r.tracker.Erase()
	n := len(r.requests)
	r.requests = map[int]*request{}
	defer r.c.alive.Done()
	if r.journal == nil {
		r.c.unwritten(n)
		return
	}
	err := errors.Join(r.journal.Final(journal.Final{Why: r.why}), r.journal.Close())
	if err != nil && !r.failed {
		r.c.unrecorded(r.trace, err)
	}
	r.c.finished(r.trace, n)
}
