package engine

// Run is a range of chain numbers: First, First+1, ... A chain is a list of them.
type Run struct {
	First, Count uint32
}

// Status says how far a request has come.
type Status uint8

// The statuses.
const (
	Waiting     Status = iota // no pass has taken it yet
	Running                   // a pass has; it has not ended
	Preempted                 // it lost its blocks and waits
	Done                      // it emitted all its tokens
	Rejected                  // the engine can never hold its prompt
	KVExhausted               // it outgrew the pool, and ended with the tokens that it had
)

// String returns the word of a status that files have.
func (s Status) String() string {
	return [...]string{"waiting", "running", "preempted", "done", "rejected", "kv_exhausted"}[s]
}

// Ended reports whether nothing more can happen to a request.
func (s Status) Ended() bool { return s >= Done }

// Request is a request, what a worker knows of it, and what came of it. The caller fills the first fields; a worker owns a
// request from Submit until it is in Completed.
type Request struct {
	ID     int // the caller's
	Prompt int // tokens, more than 0
	Output int // tokens to emit, more than 0
	Chain  []Run

	Admitted, First, Second, Last int64 // start of its first pass; ends of the passes with its first, second, last token
	Tokens                        int   // emitted
	Reused                        int   // prompt tokens found at the first admission
	ReusedMax                     int   // the most found at any admission
	Recomputed                    int   // tokens computed again after preemptions
	Preemptions, Admissions       int
	Status                        Status

	limit    int // tokens that it may emit
	reached  int // known tokens that were computed at some time
	farthest int // the same, those included whose pass was undone
	shared   int // blocks that its chain numbers
	computed int // known tokens whose KV is in its blocks
	leases   leases
	private  []saved // blocks of its own that it lost in a preemption
	used     taken   // by this pass
}

// taken is what a request took of a pass; a preemption gives it back.
type taken struct {
	pass                int64
	tokens              int // budget
	chunk, prefix       int // of the prompt
	reached, recomputed int // of the request before
}

// length is the number of known tokens.
func (r *Request) length() int { return r.Prompt + r.Tokens }

// blocksOf returns how many blocks so many tokens fill or begin.
func blocksOf(tokens, size int) int { return (tokens + size - 1) / size }

// prepare computes what a worker needs of a request.
func (r *Request) prepare(maxLength int) {
	r.limit = r.Output
	if maxLength > r.Prompt {
		r.limit = min(r.limit, maxLength-r.Prompt)
	}
	r.shared = 0
	for _, run := range r.Chain {
		r.shared += int(run.Count)
	}
}

// chainOf returns the chain number of block i, which is below shared.
func (r *Request) chainOf(i int) uint32 {
	for _, run := range r.Chain {
		if i < int(run.Count) {
			return run.First + uint32(i)
		}
		i -= int(run.Count)
	}
	panic("engine: a block that no chain number names")
}
