package capture

import (
	"errors"
	"net/http"
	"sync"

	"github.com/agentx/agentx/capture/canon"
	"github.com/agentx/agentx/capture/carry"
	"github.com/agentx/agentx/capture/coding"
	"github.com/agentx/agentx/capture/journal"
	"github.com/agentx/agentx/capture/reply"
	"github.com/agentx/agentx/capture/session"
)

// exchange is one request and its reply, as they pass. The calls of carry.Exchange return at once.
type exchange struct {
	c        *Capture
	format   canon.Format
	at       int64 // arrival
	suspense int64 // wall clock minus monotonic clock at the arrival
	head     session.Head
	coding   string // of the request's body
	final    bool   // the client says that its session ends with this request
	client   session.Identity
	unnamed  bool  // the head names no session
	turn     *turn // in the line of those that join by their bodies

	mu       sync.Mutex
	body     []*carry.Chunk // of the request
	bodySize int64
	lost     journal.Reason // why the exchange is not observed any more
	status   int
	reader   *reply.Reader
	replies  []*carry.Chunk // that are not read yet
	reading  bool           // a worker reads, or will
	ended    *carry.End
	joined   bool
	ticket   session.Ticket[*recorder] // once it has joined
	prompt   *prompt                   // that no recorder has yet
	reply    *replied
	told     bool // a recorder has the reply
}

// lose drops the copies. The first reason counts. Its lock is held.
func (x *exchange) lose(why journal.Reason) {
	if x.lost == "" {
		x.lost = why
	}
	for _, c := range x.body {
		c.Release()
	}
	for _, c := range x.replies {
		x.c.pool.release(int64(len(c.Bytes())))
		c.Release()
	}
	x.body, x.replies = nil, nil
}

func (x *exchange) RequestChunk(chunk *carry.Chunk) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lost != "" {
		chunk.Release()
		return false
	}
	x.body = append(x.body, chunk)
	x.bodySize += int64(len(chunk.Bytes()))
	return true
}

// holes are the reasons for which copies are not whole.
func hole(err error) journal.Reason {
	switch {
	case errors.Is(err, carry.ErrOversize):
		return journal.HoleOversize
	case errors.Is(err, carry.ErrBudget):
		return journal.HoleBudget
	}
	return "" // the client broke off: no prompt was served
}

func (x *exchange) RequestEnd(err error) {
	x.mu.Lock()
	if err != nil {
		x.lose(hole(err))
	}
	held := x.bodySize
	if x.lost == "" && err == nil && !x.c.pool.hold(held) {
		x.lose(journal.HoleQueue)
	}
	lost := x.lost
	x.mu.Unlock()
	if !x.c.options.Linear && x.unnamed {
		x.turn = x.c.line.take(x)
	}
	if err != nil || lost != "" {
		x.c.pool.run(func() { x.parsed(&prompt{lost: lost}) })
		return
	}
	x.c.pool.run(func() {
		defer x.c.pool.release(held)
		x.parsed(x.parse())
	})
}

// parse reads the prompt. A worker calls it.
func (x *exchange) parse() (p *prompt) {
	defer func() {
		if recover() != nil {
			p = &prompt{lost: journal.HoleInternal}
		}
	}()
	x.mu.Lock()
	chunks := x.body
	x.body = nil
	size := x.bodySize
	x.mu.Unlock()
	body := make([]byte, 0, size)
	for _, c := range chunks {
		body = append(body, c.Bytes()...)
		c.Release()
	}
	if !coding.Identity(x.coding) { // else it is what the prompt refers to
		defer clear(body)
	}
	decoded, err := coding.Decode(x.coding, body, x.c.options.Limits.RequestCopy)
	switch {
	case errors.Is(err, coding.ErrTooLong):
		return &prompt{lost: journal.HoleOversize}
	case errors.Is(err, coding.ErrUnknown):
		return &prompt{lost: journal.HoleEncoding}
	case err != nil:
		return &prompt{lost: journal.HoleParse}
	}
	parsed, err := canon.Parse(x.format, decoded)
	if err != nil {
		clear(decoded)
		return &prompt{lost: reasonOf(err)}
	}
	return &prompt{canon: parsed, body: decoded}
}

// parsed takes the prompt on: to the recorder, or to the line of those that join a session by their bodies.
func (x *exchange) parsed(p *prompt) {
	x.mu.Lock()
	x.prompt = p
	joined := x.joined
	x.mu.Unlock()
	switch {
	case joined:
		x.deliver()
	case x.turn != nil:
		x.c.line.ready(x.turn)
	}
}

// deliver takes what is known of the prompt and of the reply to the recorder. A worker calls it, once the exchange has joined a
// session.
func (x *exchange) deliver() {
	x.mu.Lock()
	p, r := x.prompt, x.reply
	x.prompt = nil
	if r != nil && x.told {
		r = nil
	}
	x.told = x.told || r != nil
	x.mu.Unlock()
	rec, q := x.ticket.Session.Recorder, x.ticket.Q
	if p != nil {
		if p.canon != nil && p.canon.Previous == "" {
			p.prepare(rec.tree)
		}
		rec.tell(func() { rec.prompted(q, p) })
	}
	if r != nil {
		rec.tell(func() { rec.replied(q, r) })
	}
}

// Dispatch takes the slot of a session, where sessions are linear.
func (x *exchange) Dispatch(int64) *carry.Refusal {
	if !x.c.options.Linear {
		return nil
	}
	id, ok := session.OfHead(x.head, x.c.options.SessionHeader)
	if !ok {
		id = x.client
	}
	switch err := x.join(id); {
	case errors.Is(err, session.ErrClosing):
		return &carry.Refusal{Status: http.StatusNotFound, Message: err.Error()}
	case errors.Is(err, session.ErrBusy):
		return &carry.Refusal{Status: http.StatusConflict, Message: err.Error(), RetryAfter: 1}
	}
	return nil
}

// join puts the exchange into a session, whose recorder hears that it began.
func (x *exchange) join(id session.Identity) error {
	ticket, err := x.c.sessions.Join(id, x.head, x.at)
	if err != nil {
		return err
	}
	ticket.Session.Recorder.arrive(ticket)
	x.mu.Lock()
	x.ticket, x.joined = ticket, true
	known, over := x.prompt != nil || x.reply != nil, x.ended
	x.mu.Unlock()
	if known {
		x.c.pool.run(x.deliver)
	}
	if over != nil { // it ended before it joined
		ticket.Session.Recorder.ending(ticket.Q)
		x.c.sessions.Leave(ticket.Session, over.At)
	}
	if x.final {
		x.c.sessions.Close(ticket.Session, journal.WhyFinal, x.at)
	}
	return nil
}

func (x *exchange) Head(_ int64, status int, header http.Header) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.status = status
	if status == http.StatusOK {
		x.reader = reply.New(reply.Options{
			Format: x.format, Type: header.Get("Content-Type"), Encoding: header.Get("Content-Encoding"), Limit: x.c.options.Limits.ReplyCopy,
		})
	}
}

func (x *exchange) ReplyChunk(chunk *carry.Chunk) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lost != "" || x.reader == nil {
		chunk.Release()
		return x.lost == ""
	}
	if !x.c.pool.hold(int64(len(chunk.Bytes()))) {
		x.lose(journal.HoleQueue)
		chunk.Release()
		return false
	}
	x.replies = append(x.replies, chunk)
	x.read()
	return true
}

// read makes a worker read what there is. Its lock is held.
func (x *exchange) read() {
	if !x.reading {
		x.reading = true
		x.c.pool.run(x.readReplies)
	}
}

// readReplies reads the pieces of the reply that have come, and what they say when it is over. One worker at a time runs it.
func (x *exchange) readReplies() {
	for {
		x.mu.Lock()
		chunks, end := x.replies, x.ended
		x.replies = nil
		if len(chunks) == 0 {
			if end == nil || x.reply != nil {
				x.reading = false
				x.mu.Unlock()
				return
			}
			lost := x.lost
			x.mu.Unlock()
			r := x.outcome(end, lost)
			x.mu.Lock()
			x.reply, x.reading = r, false
			joined := x.joined
			x.mu.Unlock()
			if joined {
				x.deliver()
			}
			return
		}
		x.mu.Unlock()
		for _, c := range chunks {
			x.guard(func() { x.reader.Write(c.Bytes(), c.At) })
			x.c.pool.release(int64(len(c.Bytes())))
			c.Release()
		}
	}
}

// guard keeps a panic of an observer from the worker.
func (x *exchange) guard(f func()) {
	defer func() {
		if recover() != nil {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.lose(journal.HoleInternal)
		}
	}()
	f()
}

func (x *exchange) End(e carry.End) {
	x.c.carried(e)
	x.mu.Lock()
	if e.Panicked {
		x.lose(journal.HoleInternal)
	} else if e.ReplyLost != nil && x.reader != nil && x.lost == "" {
		x.lose(hole(e.ReplyLost))
	}
	x.ended = &e
	joined := x.joined
	if joined {
		x.ticket.Session.Recorder.ending(x.ticket.Q) // before a worker can tell how
	}
	x.read()
	x.mu.Unlock()
	switch {
	case joined:
		x.c.sessions.Leave(x.ticket.Session, e.At)
	case e.Outcome == carry.Refused:
		x.c.leave(journal.ReasonStatus)
	}
}
