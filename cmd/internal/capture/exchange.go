package capture

import (
	"errors"
	"math/bits"
	"sync"

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
		p.identify()
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

// texts are the buffers in which bodies stand in one piece, by the power of two that is their length. A body comes with each turn of a
// session, and making room for it anew would cost more than reading it.
var texts [mostText - leastText + 1]sync.Pool

const leastText, mostText = 16, 23 // powers of two: 64 KiB to 8 MiB

// textPool returns the pool of the buffers of a capacity, nil if there is none.
func textPool(room int) *sync.Pool {
	if power := bits.Len(uint(room)) - 1; power >= leastText && power <= mostText && room == 1<<power {
		return &texts[power-leastText]
	}
	return nil
}

// textRoom returns the capacity of the buffer for a text of a size: less than twice that.
func textRoom(size int) int {
	if power := bits.Len(uint(max(1, size) - 1)); power >= leastText && power <= mostText {
		return 1 << power
	}
	return size
}

// newText returns an empty buffer for a text of a size.
func newText(size int) []byte {
	room := textRoom(size)
	if pool := textPool(room); pool != nil {
		if b, _ := pool.Get().(*[]byte); b != nil {
			return *b
		}
	}
	return make([]byte, 0, room)
}

// dropText overwrites a text, whose buffer another one then takes.
func dropText(text []byte) {
	clear(text)
	if pool := textPool(cap(text)); pool != nil {
		text = text[:0]
		pool.Put(&text)
	}
}
