package capture

import (
	"cmp"
	"errors"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/cmd/internal/capture/carry"
	"github.com/agentx/agentx/cmd/internal/capture/chain"
	"github.com/agentx/agentx/cmd/internal/capture/coding"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/cmd/internal/capture/reply"
)

// exchange is one request and its reply, as they pass. The calls of carry.Exchange return at once.
//
// It comes to exactly one of two ends: it joins a session, whose recorder counts it, or it leaves, and is counted at once. Who claims
// it decides.
type exchange struct {
	c        *Capture
	format   canon.Format
	suspense int64 // wall clock minus monotonic clock at the arrival
	head     *carry.Arrival
	client   identity
	unnamed  bool // the head names no session

	mu       sync.Mutex
	claimed  bool
	gone     bool           // it has left
	waits    bool           // to join by its body
	body     []*carry.Chunk // of the request
	bodySize int            // bytes
	bodyRoom int            // bytes of memory
	share    *share
	lost     journal.Reason // why the exchange is not observed any more
	status   int
	reader   *reply.Reader
	replies  []*carry.Chunk // that are not read yet
	kept     int64          // bytes that the reader keeps, as the pool knows
	reading  bool           // a worker reads, or will
	ended    *carry.End
	joined   bool
	ticket   ticket  // once it has joined
	prompt   *prompt // that no recorder has yet
	reply    *replied
	told     bool // a recorder has the reply
}

// lose drops the copies. The first reason counts. Its lock is held.
func (x *exchange) lose(why journal.Reason) {
	if x.lost == "" {
		x.lost = why
	}
	x.dropBody()
	for _, c := range x.replies {
		x.c.pool.release(x.share, int64(c.Size()+overhead))
		c.Release()
	}
	x.replies = nil
}

// dropBody drops the copy of the request. Its lock is held.
func (x *exchange) dropBody() {
	for _, c := range x.body {
		c.Release()
	}
	x.body = nil
}

// claim reports whether the caller is the first that wants to say what becomes of the exchange.
func (x *exchange) claim() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	first := !x.claimed
	x.claimed = true
	return first
}

// leave counts an exchange that joins no session, and forgets what it said. It does nothing if it was claimed before.
func (x *exchange) leave(why journal.Reason) {
	if x.claim() {
		x.left(why)
	}
}

// left is leave of an exchange that the caller has claimed.
func (x *exchange) left(why journal.Reason) {
	x.c.leave(why)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lose(why)
	x.gone = true
	if x.prompt != nil {
		x.prompt.erase()
	}
}

// RequestChunk keeps a piece of the body until the body is whole.
func (x *exchange) RequestChunk(chunk *carry.Chunk) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lost != "" {
		chunk.Release()
		return false
	}
	x.body = append(x.body, chunk)
	x.bodySize += len(chunk.Bytes())
	x.bodyRoom += chunk.Size()
	return true
}

// holes has the reason for which a copy is not whole. There is none where the client broke off, and no prompt was served.
var holes = map[error]journal.Reason{carry.ErrOversize: journal.HoleOversize, carry.ErrBudget: journal.HoleBudget}

// RequestEnd lets a worker read the prompt, or notes why its copy is not whole. An exchange whose head names no session then joins one by
// its body.
func (x *exchange) RequestEnd(err error) {
	x.mu.Lock()
	switch why := holes[err]; {
	case why != "":
		x.lose(why)
	case err != nil:
		x.dropBody()
	case x.lost == "" && !x.c.pool.hold(x.share, int64(x.bodyRoom+overhead)):
		x.lose(journal.HoleQueue)
	}
	p := &prompt{lost: x.lost, pool: x.c.pool, share: x.share}
	known := err != nil || x.lost != ""
	if !known {
		p.held = int64(x.bodyRoom + overhead)
	}
	if !known && x.joined {
		p.lane = &x.ticket.session.recorder.lane
	}
	x.waits = !x.c.options.Linear && x.unnamed
	waits := x.waits
	x.mu.Unlock()
	task := func() {
		if !known {
			x.c.metrics.timed(stagePrompt, func() { x.parse(p) })
		}
		x.parsed(p)
	}
	switch {
	case waits: // exchanges join in the order in which their bodies were there
		x.c.await(x, true)
		x.c.pool.run(&x.c.unnamed, func() {
			task()
			x.c.joinByBody(x)
			x.c.pool.free(&x.c.unnamed)
		})
	case known:
		task()
	default:
		x.c.pool.run(p.lane, task)
	}
}

// parse reads the prompt of an exchange that has joined its session, and of another one what it joins by. A worker calls it.
func (x *exchange) parse(p *prompt) {
	defer p.guard()
	x.mu.Lock()
	chunks, size := x.body, x.bodySize
	p.lost, x.body = x.lost, nil
	var tree *chain.Tree
	if x.joined {
		tree = x.ticket.session.recorder.tree
	}
	x.mu.Unlock()
	if p.unread = p.lost == ""; p.unread {
		p.join(chunks, size)
	}
	if name := x.head.Header.Get("Content-Encoding"); p.unread && !coding.Identity(name) {
		p.decode(name, x.c.options.Limits.RequestCopy)
	}
	switch {
	case !p.unread:
	case tree != nil:
		p.read(x.format, tree)
	case x.unnamed && !x.c.options.Linear:
		p.identify(x.format, x.c.recent.of(x.client))
	}
}

// parsed takes the prompt on: to the recorder, where there is one.
func (x *exchange) parsed(p *prompt) {
	x.mu.Lock()
	joined := x.joined
	if !joined {
		x.prompt = p
	}
	if x.gone {
		p.erase()
	}
	x.mu.Unlock()
	if joined {
		x.prompted(p)
	}
}

// prompted takes the prompt to the recorder. A worker calls it, except for a prompt that is lost.
func (x *exchange) prompted(p *prompt) {
	rec, q := x.ticket.session.recorder, x.ticket.q
	if p.unread {
		x.c.metrics.timed(stagePrompt, func() { p.read(x.format, rec.tree) })
	}
	rec.tell(func() {
		rec.prompted(q, p)
		rec.advance()
	})
}

// Dispatch takes the slot of a session, where sessions are linear.
func (x *exchange) Dispatch(int64) *carry.Refusal {
	if !x.c.options.Linear {
		return nil
	}
	id, ok := ofHead(x.head, x.c.options.SessionHeader)
	if !ok {
		id = x.client
	}
	err := x.join(id)
	if err == nil || refusals[err] == 0 {
		return nil
	}
	r := &carry.Refusal{Status: refusals[err], Message: err.Error()}
	if errors.Is(err, errBusy) {
		r.RetryAfter = 1
	}
	return r
}

// join puts the exchange into a session, whose recorder hears that it began. It does nothing if the exchange has left. If there
// is an error, it leaves.
func (x *exchange) join(id identity) error {
	if !x.claim() {
		return nil
	}
	ticket, err := x.c.sessions.Join(id, x.head)
	if err != nil {
		why := journal.HoleInternal
		if refusals[err] != 0 { // it is answered so
			why = journal.ReasonStatus
		}
		x.left(why)
		return err
	}
	rec := ticket.session.recorder
	x.c.pool.join(x.share, &rec.share)
	rec.arrive(ticket, x.format)
	x.mu.Lock()
	x.ticket, x.joined = ticket, true
	p, over := x.prompt, x.ended
	x.prompt = nil
	if over != nil { // it ended before it joined
		rec.ending(ticket.q)
	}
	x.mu.Unlock()
	switch {
	case p != nil && p.unread:
		p.lane = &rec.lane
		x.c.pool.run(p.lane, func() { x.prompted(p) })
	case p != nil:
		x.prompted(p)
	}
	x.replied()
	if over != nil {
		x.c.sessions.leave(ticket.session, over.At)
	}
	if isFinal(x.head.Header) && ticket.place.Agent == 0 { // a subagent's last request ends no session
		x.c.sessions.Close(ticket.session, journal.WhyFinal, x.head.At)
	}
	return nil
}

// Head notes the status, and begins to read a reply of status 200.
func (x *exchange) Head(_ int64, status int, header http.Header) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.status = status
	if status == http.StatusOK && x.lost == "" {
		x.reader = reply.New(reply.Options{
			Format: x.format, Type: header.Get("Content-Type"), Encoding: header.Get("Content-Encoding"), Limit: x.c.options.Limits.ReplyCopy,
		})
	}
}

// ReplyChunk puts a piece of the reply into the queue of those that a worker reads. Without room there the reply is lost.
func (x *exchange) ReplyChunk(chunk *carry.Chunk) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lost != "" || x.reader == nil {
		chunk.Release()
		return x.lost == ""
	}
	if !x.c.pool.hold(x.share, int64(chunk.Size()+overhead)) {
		x.lose(journal.HoleQueue)
		chunk.Release()
		return false
	}
	x.replies = append(x.replies, chunk)
	if !x.reading {
		x.reading = true
		x.c.pool.run(nil, x.read)
	}
	return true
}

// read reads the pieces of the reply that have come, and what they say when it is over. One worker at a time runs it.
func (x *exchange) read() {
	for {
		x.mu.Lock()
		chunks, end := x.replies, x.ended
		x.replies = nil
		if len(chunks) == 0 {
			x.reading = false
			x.mu.Unlock()
			if end != nil {
				x.conclude(end)
			}
			return
		}
		x.mu.Unlock()
		for _, c := range chunks {
			x.c.metrics.timed(stageReply, func() { x.piece(c) })
		}
	}
}

// piece reads a piece of the reply. A panic of an observer ends its exchange alone.
func (x *exchange) piece(c *carry.Chunk) {
	defer func() {
		failed := recover() != nil
		x.c.pool.release(x.share, int64(c.Size()+overhead))
		c.Release()
		if failed {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.lose(journal.HoleInternal)
		}
	}()
	x.reader.Write(c.Bytes(), c.At)
	if more := x.reader.Held() - x.kept; more <= 0 || x.c.pool.hold(x.share, more) {
		x.c.pool.release(x.share, max(0, -more))
		x.kept += more
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lose(journal.HoleQueue)
}

// End ends the exchange. What it came to is known at once where no reply has to be read for it, and no worker does.
func (x *exchange) End(e carry.End) {
	x.c.carried(e)
	x.mu.Lock()
	if e.Panicked {
		x.lose(journal.HoleInternal)
	} else if e.ReplyLost != nil && x.reader != nil && x.lost == "" {
		x.lose(holes[e.ReplyLost])
	}
	x.ended = &e
	joined, known := x.joined, !x.waits
	if joined {
		x.ticket.session.recorder.ending(x.ticket.q) // before anybody can tell how
	}
	busy := x.reading
	if !busy && x.reader != nil && x.lost == "" {
		busy, x.reading = true, true
		x.c.pool.run(nil, x.read)
	}
	x.mu.Unlock()
	if !busy {
		x.conclude(&e)
	}
	if joined {
		x.c.sessions.leave(x.ticket.session, e.At)
	} else if known { // nothing will make it join any more
		why := cmp.Or(unjoined[e.Outcome], journal.ReasonTransport)
		if e.Panicked {
			why = journal.HoleInternal
		}
		x.leave(why)
	}
}

// unjoined has why a request is not recorded that ended so before it could join a session. Any other one is ReasonTransport.
var unjoined = map[carry.Outcome]journal.Reason{carry.Refused: journal.ReasonStatus, carry.Aborted: journal.HoleAborted}

// conclude finds out what the exchange came to. Nobody reads its reply any more.
func (x *exchange) conclude(end *carry.End) {
	x.mu.Lock()
	lost := x.lost
	x.mu.Unlock()
	var r *replied
	x.c.metrics.timed(stageOutcome, func() { r = x.outcome(end, lost) })
	x.c.pool.release(x.share, x.kept)
	x.mu.Lock()
	x.reply, x.reader, x.kept = r, nil, 0
	x.mu.Unlock()
	x.replied()
}

// replied takes to the recorder what the exchange came to, when both are known.
func (x *exchange) replied() {
	x.mu.Lock()
	r := x.reply
	if !x.joined || x.told || r == nil {
		x.mu.Unlock()
		return
	}
	x.told = true
	rec, q := x.ticket.session.recorder, x.ticket.q
	x.mu.Unlock()
	rec.tell(func() { rec.replied(q, r) })
}

// replied is how an exchange ended, and what its reply says.
type replied struct {
	end   journal.End // without Q; T and First are nanoseconds of the monotonic clock
	calls []reply.Call
	id    string // of a response to go on from
	items []byte
}

// suspended is how far wall clock and monotonic clock may part before an exchange is marked.
const suspended = int64(5 * time.Second)

// outcome reads what an exchange came to. A worker calls it when everything has passed.
func (x *exchange) outcome(e *carry.End, lost journal.Reason) (r *replied) {
	r = &replied{end: journal.End{T: e.At, First: -1, X: journal.Transport, Status: x.status}}
	defer func() {
		if recover() != nil {
			r.end = journal.End{T: e.At, First: -1, X: journal.Aborted, Status: x.status, Lost: journal.HoleInternal}
			r.calls, r.id, r.items = nil, "", nil
		}
	}()
	if x.reader != nil {
		defer x.reader.Close()
	}
	if drift := x.c.suspense() - x.suspense; drift > suspended || drift < -suspended {
		r.end.Marks |= journal.MarkClock
	}
	switch {
	case e.Outcome == carry.Aborted:
		r.end.X = journal.Aborted
		return r
	case x.status == 0:
		return r
	case x.status != http.StatusOK:
		r.end.X = journal.BadStatus
		return r
	case lost != "" || x.reader == nil:
		r.end.X, r.end.Lost = journal.Aborted, lost
		return r
	}
	f := x.reader.End(e.Outcome != carry.Whole)
	if f.Lost != "" {
		r.end.X, r.end.Lost = journal.Aborted, f.Lost
		return r
	}
	x.judge(r, e, f)
	return r
}

// judge completes the end of an exchange by what its reply says.
func (x *exchange) judge(r *replied, e *carry.End, f *reply.Facts) {
	end := &r.end
	switch {
	case f.Whole && !(f.Failed && !f.HasOutput):
		end.X = journal.Complete
		if e.ClientGone {
			end.X = journal.ClientGone
			end.Marks |= journal.MarkClientGone
		}
	case f.HasOutput:
		end.X = journal.Partial
		end.Marks |= journal.MarkPartial
	default:
		end.X = journal.NoOutput
		return
	}
	end.First, end.Output, end.Stop, end.Word = f.First, f.Output, f.Stop, f.Word
	end.Marks |= f.Marks
	end.Calls = len(f.Calls)
	if f.Prompt > 0 && f.Prompt <= math.MaxInt32 {
		end.API = int(f.Prompt)
	}
	if end.Out = int(f.Out); f.Out < 0 || f.Out > journal.MaxTokens { // no answer is that long
		end.Out = x.c.count(f.Texts)
		end.Marks |= journal.MarkOutCounted
	}
	if f.HasOutput {
		end.Out = max(1, end.Out)
	}
	r.calls, r.id, r.items = f.Calls, f.ID, f.Items
}

// count returns how many tokens the output has.
func (c *Capture) count(texts []string) (n int) {
	var ids []uint32
	for _, text := range texts {
		ids = c.options.Tokenizer.AppendIDs(ids[:0], text)
		n += len(ids)
	}
	return n
}

// reasonOf returns the reason for an error of canon or chain, for which a prompt has no blocks.
func reasonOf(err error) journal.Reason {
	var why *canon.Error
	if errors.As(err, &why) {
		return why.Reason
	}
	return journal.HoleInvariant
}

// prompt is what was read of a request, or why it was not. One goroutine has it at a time.
type prompt struct {
	lost     journal.Reason // "" without a prompt: the client broke off, and none was served
	options  *canon.Prompt  // without the prompt itself, where the session was not known
	reading  *chain.Reading // of the text, by a session that knows its beginning; may be nil
	canon    *canon.Prompt
	unread   bool
	text     []byte       // the body, until it is tokenized: canon refers to it
	copied   *carry.Chunk // that has the text; nil: none has
	prepared *chain.Prepared

	pool  *pool
	share *share // of its exchange
	held  int64  // bytes of it
	lane  *lane  // that it has until it is applied; nil: none
}

// hold says how many bytes the prompt takes now. It reports false where there is no room.
func (p *prompt) hold(bytes int64) bool {
	if more := bytes - p.held; more > 0 && !p.pool.hold(p.share, more) {
		return false
	} else if more < 0 {
		p.pool.release(p.share, -more)
	}
	p.held = bytes
	return true
}

// guard is deferred where a prompt is read: a panic loses it.
func (p *prompt) guard() {
	if recover() != nil {
		p.lose(journal.HoleInternal)
	}
}

// lose forgets what was read of a prompt, which is lost for a reason.
func (p *prompt) lose(why journal.Reason) {
	p.lost = why
	p.drop()
	p.unread, p.canon, p.prepared = false, nil, nil
}

// drop overwrites the text.
func (p *prompt) drop() {
	if p.copied != nil {
		p.copied.Release()
	} else {
		clear(p.text)
	}
	p.text, p.copied, p.reading = nil, nil, nil
}

// rest gives back the room in the queue that the prompt no longer needs.
func (p *prompt) rest() {
	room := cap(p.text)
	if p.prepared != nil {
		room += p.prepared.Size()
	}
	p.hold(min(p.held, int64(room)+overhead))
}

// join makes one text of the pieces in which the body came. One piece is it.
func (p *prompt) join(pieces []*carry.Chunk, size int) {
	if len(pieces) == 1 {
		p.copied, p.text = pieces[0], pieces[0].Bytes()
		return
	}
	if p.hold(p.held + int64(size)) {
		p.text = make([]byte, 0, size)
	} else {
		p.lose(journal.HoleQueue)
	}
	for _, c := range pieces {
		if p.unread {
			p.text = append(p.text, c.Bytes()...)
		}
		c.Release()
	}
	p.rest()
}

// decode undoes the coding of the body.
func (p *prompt) decode(name string, limit int64) {
	defer p.guard()
	decoded, err := coding.Decode(name, p.text, limit)
	p.drop()
	p.text = decoded
	switch {
	case errors.Is(err, coding.ErrTooLong):
		p.lose(journal.HoleOversize)
	case errors.Is(err, coding.ErrUnknown):
		p.lose(journal.HoleEncoding)
	case err != nil:
		p.lose(journal.HoleParse)
	case !p.hold(int64(cap(p.text)) + overhead):
		p.lose(journal.HoleQueue)
	}
}

// identify reads the members of the body beside the prompt, by which an exchange joins a session. What one of some sessions has had is not
// read again, whichever it joins.
func (p *prompt) identify(format canon.Format, known []*chain.Tree) {
	defer p.guard()
	var err error
	for _, tree := range known {
		if p.reading = tree.Begin(format, p.text); p.reading.Found() {
			break
		}
	}
	if p.reading != nil {
		p.options, err = p.reading.Options()
	} else {
		p.options, err = canon.ParseOptions(format, p.text, nil)
	}
	if err != nil {
		p.lose(reasonOf(err))
	}
}

// read parses the body, and tokenizes what is new to its session. It leaves that where the prompt goes on behind a response.
func (p *prompt) read(format canon.Format, tree *chain.Tree) {
	defer p.guard()
	p.unread = false
	var err error
	if p.reading == nil || !p.reading.Of(tree) {
		p.reading = tree.Begin(format, p.text)
	}
	p.canon, p.prepared, err = p.reading.Read()
	p.reading = nil
	p.settle(err)
}

// prepare tokenizes what is new to a session, where read has left that.
func (p *prompt) prepare(t *chain.Tree) {
	defer p.guard()
	var err error
	p.prepared, err = t.Prepare(p.canon)
	p.settle(err)
}

// settle loses a prompt that has an error, and forgets the text of one that is tokenized.
func (p *prompt) settle(err error) {
	switch {
	case err != nil:
		p.lose(reasonOf(err))
	case p.prepared != nil && p.prepared.Tokens() > journal.MaxTokens:
		p.lose(journal.HoleOversize)
	case p.prepared != nil:
		p.drop()
		p.canon.Segments, p.canon.Elements, p.canon.List, p.canon.ToolsText = nil, nil, nil, nil
	}
	p.rest()
}

// erase forgets the prompt, and gives its room back.
func (p *prompt) erase() {
	p.lose(p.lost)
	p.hold(0)
}
