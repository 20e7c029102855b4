package carry

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// Observer hears of every request that arrives. Arrive is called by the goroutine that carries the request, with the head
// read and nothing sent yet: it must return at once.
type Observer interface {
	Arrive(*Arrival) Course
}

// Arrival is the head of a request.
type Arrival struct {
	At         int64  // nanoseconds of Options.Now
	Session    string // from the prefix of the path, "" without one
	Agent      string // from the prefix of the path
	Method     string
	Path       string      // raw, without prefix and query
	Header     http.Header // as received, X-Agentx-Capture included; must not be changed
	RemoteAddr string
	room       bool // whether the budget of copies has room for this exchange: without it, no chunks come
}

// Course is what an observer wants of an exchange.
type Course struct {
	Exchange Exchange // hears what passes; nil: no one does
	Copy     bool     // bodies are copied: without it Exchange gets no chunks
	Hold     bool     // the body is read whole before Exchange.Dispatch is asked, and 413 is answered beyond Options.Held
}

// Exchange observes one request and its reply. No call may block, wait for a lock that is held while somebody works or
// writes, or keep a slice of a header that it changes. RequestChunk and RequestEnd may run beside Head and ReplyChunk.
type Exchange interface {
	// RequestChunk gives a copy of the next bytes of the body: of one of up to 8 MiB, all at its end. The chunk now belongs to the
	// exchange, which releases it. After false no more chunks come, of the request or of the reply.
	RequestChunk(*Chunk) bool
	// RequestEnd comes once, before End: nil after the whole body, else why its copy is not whole, as one of ErrOversize,
	// ErrBudget and errUpload.
	RequestEnd(error)
	// Dispatch is asked before the upstream is contacted. A refusal is answered in place of the upstream.
	Dispatch(at int64) *Refusal
	// Head gives the head of the final reply of the upstream, whose header must not be changed.
	Head(at int64, status int, header http.Header)
	// ReplyChunk gives a copy of the next bytes of the reply's body, as RequestChunk does.
	ReplyChunk(*Chunk) bool
	// End comes exactly once, after every other call.
	End(End)
}

// Why the copy of a body is not whole.
var (
	ErrOversize = errors.New("the body is longer than the limit of its copy")
	ErrBudget   = errors.New("the budget of copies is used up")
	errUpload   = errors.New("the exchange ended before the whole body was read")
)

// Refusal is an answer in place of the upstream's.
type Refusal struct {
	Status     int
	Message    string // ASCII, nothing that a client sent
	RetryAfter int    // seconds, 0 for no Retry-After
}

// Outcome is how an exchange ended.
type Outcome int

// The outcomes.
const (
	Aborted     Outcome = iota // a panic, or Proxy.Abort
	Whole                      // the reply was read to its end
	Broken                     // the upstream broke off in mid-reply, or was silent longer than Options.Stall
	Left                       // the client left before the end of the reply, or broke its upload off
	Unreachable                // no head of a reply: answered 502
	TimedOut                   // no head of a reply within Options.HeaderTimeout: answered 504
	Refused                    // answered in place of the upstream: Exchange.Dispatch said so, or a held body was too long
	Upgraded                   // another protocol was spoken on the connection
)

// End says how an exchange ended.
type End struct {
	At           int64 // of the last byte that the upstream sent, or of the disconnect
	Outcome      Outcome
	ClientGone   bool  // with Options.Detach: the client left, and the reply was read on
	Panicked     bool  // a call of Exchange panicked: no other calls followed it
	ReplyLost    error // why the copy of the reply is not whole: ErrOversize, ErrBudget, or nil
	RequestBytes int64 // of bodies, as they passed
	ReplyBytes   int64
}

// watch is the observed side of one exchange: it copies, counts, and keeps what the observer does from what is carried.
type watch struct {
	x      Exchange // nil: no observer
	budget *budget
	limits *Options
	deaf   atomic.Bool // no more copies
	failed atomic.Bool // the observer panicked: no more calls but End

	upload                  uploading
	replyBytes, replyCopied int64
	replyLimit              int64
	replyLost               error
}

// uploading is the body of a request as far as it has come. The server's goroutine and that of the transport meet here.
type uploading struct {
	sync.Mutex
	ended    bool
	bytes    int64
	copied   int64
	declared int64  // its length; below 0 where that is not known
	open     *Chunk // its end, which is not handed on yet; nil: none
}

// begin starts to watch an exchange in the way that its observer answered (course). Bodies are copied only if the budget of copies has
// room for that, which ample says: otherwise the copies of both are marked as lost.
func (w *watch) begin(course Course, ample bool) {
	w.x = course.Exchange
	w.replyLimit = w.limits.ReplyCopy
	w.deaf.Store(w.x == nil || !course.Copy)
	if w.x != nil && course.Copy && !ample {
		w.deaf.Store(true)
		w.replyLost = ErrBudget
		w.endUpload(ErrBudget)
	}
}

// tell calls the observer, if there is one that has not panicked.
func (w *watch) tell(call func()) {
	if w.x == nil || w.failed.Load() {
		return
	}
	defer w.caught()
	call()
}

// caught is deferred around every call of an observer: one that panics is called no more, but for End.
func (w *watch) caught() {
	if recover() != nil {
		w.failed.Store(true)
		w.deaf.Store(true)
	}
}

// uploaded takes bytes of the request's body, and what ended it. After the exchange's end it does nothing.
func (w *watch) uploaded(p []byte, at int64, err error) {
	w.upload.Lock()
	defer w.upload.Unlock()
	w.upload.bytes += int64(len(p))
	if len(p) > 0 && !w.deaf.Load() && !w.upload.ended {
		if w.upload.copied += int64(len(p)); w.upload.copied > w.limits.RequestCopy {
			w.ended(ErrOversize)
		} else if !w.gather(p, at) {
			w.ended(ErrBudget)
		}
	}
	switch {
	case err == nil:
	case errors.Is(err, io.EOF):
		w.ended(nil)
	default:
		w.ended(errUpload)
	}
}

// endUpload tells the observer once that the request's body ended.
func (w *watch) endUpload(err error) {
	w.upload.Lock()
	defer w.upload.Unlock()
	w.ended(err)
}

// ended is endUpload under its lock.
func (w *watch) ended(err error) {
	if w.upload.ended {
		return
	}
	w.upload.ended = true
	if c := w.upload.open; c != nil {
		if w.upload.open = nil; err == nil && !w.deaf.Load() {
			w.hand(c, false)
		} else {
			c.Release()
		}
	}
	w.tell(func() { w.x.RequestEnd(err) })
}

// mostAhead is how many times what has come of a body the buffer may be that waits for the rest: a client that declares a length and sends
// nothing takes little of the budget.
const mostAhead = 8

// gather copies p behind what has come of the request's body. It reports false where the budget has no room.
func (w *watch) gather(p []byte, at int64) bool {
	u := &w.upload
	for len(p) > 0 && !w.deaf.Load() {
		if u.open == nil || u.open.n == len(u.open.buffer) {
			if u.open != nil && u.open.class == len(sizes)-1 {
				full := u.open
				u.open = nil
				w.hand(full, false)
				continue
			}
			c := w.budget.take(u.room(len(p)), at)
			if c == nil {
				return false
			}
			if u.open != nil {
				c.n = copy(c.buffer, u.open.Bytes())
				u.open.Release()
			}
			u.open = c
		}
		n := copy(u.open.buffer[u.open.n:], p)
		u.open.n += n
		p = p[n:]
	}
	return true
}

// room returns the buffer that is wanted for what is open and behind it n bytes, which are counted as copied, with what may follow.
func (u *uploading) room(n int) int64 {
	least := int64(n)
	if u.open != nil {
		least += int64(u.open.n)
	}
	switch rest := u.declared - u.copied; {
	case u.declared < 0:
		return max(least, 2*u.copied)
	case rest > 0:
		return max(least, min(least+rest, mostAhead*u.copied))
	}
	return least
}

// give hands copies of p, of a reply, to the observer; the error says why not.
func (w *watch) give(p []byte, at int64) error {
	for len(p) > 0 && !w.deaf.Load() {
		c := w.budget.take(int64(min(len(p), longest)), at)
		if c == nil {
			return ErrBudget
		}
		c.n = copy(c.buffer, p)
		p = p[c.n:]
		w.hand(c, true)
	}
	return nil
}

// hand gives a chunk to the observer, of the request or of the reply. If the observer panics or wants no more, no further chunks follow.
func (w *watch) hand(c *Chunk, reply bool) {
	defer w.caught()
	taken := false
	defer func() {
		if !taken {
			c.abandon()
		}
	}()
	more := false
	if reply {
		more = w.x.ReplyChunk(c)
	} else {
		more = w.x.RequestChunk(c)
	}
	taken = true
	if !more {
		w.deaf.Store(true)
	}
}

// dispatch asks the observer whether the upstream may be contacted.
func (w *watch) dispatch(at int64) (refusal *Refusal) {
	w.tell(func() { refusal = w.x.Dispatch(at) })
	return refusal
}

// head tells the observer of a reply. The copy of a stream has no limit of its own: it is read as it comes.
func (w *watch) head(at int64, status int, header http.Header) {
	if isStream(header) {
		w.replyLimit = 1 << 62
	}
	w.tell(func() { w.x.Head(at, status, header) })
}

// replied counts bytes of the reply's body, and hands copies of them to the observer.
func (w *watch) replied(p []byte, at int64) {
	w.replyBytes += int64(len(p))
	if w.deaf.Load() || w.replyLost != nil {
		return
	}
	if w.replyCopied += int64(len(p)); w.replyCopied > w.replyLimit {
		w.replyLost = ErrOversize
		return
	}
	w.replyLost = w.give(p, at)
}

// end tells the observer of the end, after that of the upload.
func (w *watch) end(e End) {
	w.endUpload(errUpload)
	if w.x == nil {
		return
	}
	e.Panicked, e.ReplyLost, e.ReplyBytes = w.failed.Load(), w.replyLost, w.replyBytes
	w.upload.Lock()
	e.RequestBytes = w.upload.bytes
	w.upload.Unlock()
	defer w.caught()
	w.x.End(e)
}

// sizes are the lengths of pooled buffers, from that of an event of a stream to that of a body.
var sizes = [...]int{
	512, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, longest, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20, 8 << 20,
}

// longest is the buffer of a piece of a reply.
const longest = 32 << 10

// budget bounds the bytes of all copies that are alive.
type budget struct {
	limit int64
	used  atomic.Int64 // of the buffers of all chunks that are not released
	pools [len(sizes)]sync.Pool
}

// ample reports whether a new exchange may begin to copy: at most nine tenths are used.
func (b *budget) ample() bool { return b.used.Load() <= b.limit-b.limit/10 }

// take returns an empty chunk for n bytes, at most the longest buffer; nil when the budget has no room.
func (b *budget) take(n, at int64) *Chunk {
	class := 0
	for class < len(sizes)-1 && n > int64(sizes[class]) {
		class++
	}
	if b.used.Add(int64(sizes[class])) > b.limit {
		b.used.Add(-int64(sizes[class]))
		return nil
	}
	c, _ := b.pools[class].Get().(*Chunk)
	if c == nil {
		c = &Chunk{budget: b, class: class, buffer: make([]byte, sizes[class])}
	}
	c.At, c.n = at, 0
	c.alive.Store(true)
	return c
}

// Chunk is a copy of bytes of a body in a pooled buffer.
type Chunk struct {
	At     int64 // nanoseconds of Options.Now: when the bytes were read
	n      int
	buffer []byte
	class  int // of its size, in sizes
	budget *budget
	alive  atomic.Bool
}

// Bytes returns the bytes, which are valid until Release.
func (c *Chunk) Bytes() []byte { return c.buffer[:c.n] }

// Size returns the bytes of memory that the chunk takes until Release.
func (c *Chunk) Size() int { return len(c.buffer) }

// Release overwrites the bytes and gives the buffer back. Its owner calls it once.
func (c *Chunk) Release() {
	if c.alive.Swap(false) {
		clear(c.buffer[:c.n])
		c.budget.used.Add(-int64(len(c.buffer)))
		c.budget.pools[c.class].Put(c)
	}
}

// abandon gives the bytes back to the budget and leaves the buffer to the garbage collector, for an owner that panicked
// and may still read it.
func (c *Chunk) abandon() {
	if c.alive.Swap(false) {
		c.budget.used.Add(-int64(len(c.buffer)))
	}
}
