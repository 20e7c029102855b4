package carry

import (
	"errors"
	"net/http"
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
	// RequestChunk gives a copy of the next bytes of the body. The chunk now belongs to the exchange, which releases it.
	// After false no more chunks come, of the request or of the reply.
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
