package mock

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"
)

// writeSize bounds the bytes of a stream that are buffered for one write: more than a thousand chunks.
const writeSize = 256 << 10

// exchange is one request to a completion endpoint and its answer. Exchanges are pooled, to reuse their buffers.
type exchange struct {
	server   *Server
	endpoint *served
	number   uint64 // 0 for the first request since New
	fault    *plannedFault

	w   http.ResponseWriter
	rc  *http.ResponseController
	ctx context.Context

	body    []byte
	request request
	names   []uint64 // of the prompt's blocks
	slots   []int32

	promptTokens  int
	cachedTokens  int
	writtenTokens int // of the prompt, that the prefix cache took
	outputTokens  int // of the whole answer

	job   *job // nil: without an engine
	there int  // tokens that the engine has made, as of the last look

	start    time.Time          // when the body had been read
	now      time.Time          // last reading of the clock
	first    time.Time          // when the first token was there
	last     time.Time          // when the last token was there; zero: the answer was not written to its end
	out      []byte             // buffered, not written yet
	head     []byte             // what each chunk of completions begins with
	events   int                // of a stream of the Responses API
	known    [len(words)][]byte // events that come again with the same word; empty: not known
	unsent   int                // tokens in out
	produced int                // tokens so far
}

// infer serves one request to a completion endpoint.
func (s *Server) infer(w http.ResponseWriter, r *http.Request, e *served) {
	arrived := s.clock.Now()
	s.counters.arrive(r, arrived.Sub(s.started))
	s.counters.openRequests.Add(1)
	defer s.counters.openRequests.Add(-1)

	x := s.exchanges.Get().(*exchange)
	defer func() {
		x.w, x.rc, x.ctx = nil, nil, nil
		s.exchanges.Put(x)
	}()
	x.endpoint = e
	x.number = s.numbers.Add(1) - 1
	x.fault = s.faults.of(x.number)
	x.w, x.rc, x.ctx = w, http.NewResponseController(w), r.Context()
	x.out, x.unsent, x.produced, x.events, x.last = x.out[:0], 0, 0, 0, time.Time{}
	x.serve(r)
	s.log.add(x, r, arrived)
}

// serve reads the body and answers it, or lets the request's fault do so.
func (x *exchange) serve(r *http.Request) {
	if hook := x.fault.kind.onArrival; hook != nil {
		x.inject(hook)
		return
	}
	var err error
	x.body, err = readBody(x.body, r, x.server.config.maxBody)
	x.server.counters.bytesIn.Add(int64(len(x.body)))
	if err != nil {
		if errors.Is(err, errTooLong) { // else the client has disconnected
			x.reject(http.StatusRequestEntityTooLarge, err)
		}
		return
	}
	x.start = x.server.clock.Now()
	x.now = x.start
	x.request.clear()
	if err := x.request.parse(x.body, x.endpoint); err != nil {
		x.reject(http.StatusBadRequest, err)
		return
	}
	if x.request.model == nil {
		x.request.model = quotedModel
	}
	if hook := x.fault.kind.answer; hook != nil {
		x.inject(hook)
		return
	}
	x.answer(x.request.outputTokens())
}

// reject answers a request that cannot be served with the reason.
func (x *exchange) reject(status int, err error) {
	x.server.counters.rejected.Add(1)
	x.fail(status, apiError{Message: err.Error(), Type: "invalid_request_error"})
}

// inject counts the fault of x and runs it.
func (x *exchange) inject(hook func(*exchange)) {
	if n := x.server.counters.faults[x.fault.name]; n != nil {
		n.Add(1)
	}
	hook(x)
}

// answer looks the prompt up in the prefix cache and sends an answer of the given number of tokens.
func (x *exchange) answer(tokens int) {
	x.server.counters.answering.Add(1)
	defer x.server.counters.answering.Add(-1)
	x.outputTokens = tokens
	x.prefill()
	if e := x.server.engine; e != nil {
		x.there = 0
		x.job = e.arrive(x.server.config.prefillTime(x.promptTokens-x.cachedTokens), tokens)
		defer func() {
			e.leave(x.job)
			x.job = nil
		}()
	}
	if x.request.stream {
		x.answerStream()
	} else {
		x.answerWhole()
	}
}

// prefill counts the tokens of the prompt and the cached ones, in proportion to the cached part of its stream.
func (x *exchange) prefill() {
	s, p := x.server, &x.request.prompt
	x.promptTokens = p.tokens()
	if count := s.config.CountTokens; count != nil && !p.isIDs {
		s.counters.estimatedTokens.Add(int64(x.promptTokens))
		x.promptTokens = p.count(count)
		s.counters.reencodedTokens.Add(int64(x.promptTokens))
		s.counters.reencodedPrompts.Add(1)
	}
	x.names = appendBlockNames(x.names[:0], cacheRoot(&x.request), p.stream)
	var hits int
	hits, x.slots = s.cache.admit(x.names, x.slots)
	x.cachedTokens, x.writtenTokens = 0, 0
	if len(p.stream) > 0 && s.cache.capacity > 0 {
		x.cachedTokens = x.promptTokens * (hits * blockBytes) / len(p.stream)
		x.writtenTokens = x.promptTokens*(len(x.names)*blockBytes)/len(p.stream) - x.cachedTokens
	}
	s.counters.promptTokens.Add(int64(x.promptTokens))
	s.counters.cachedTokens.Add(int64(x.cachedTokens))
}

// due returns the instant of the answer's i-th token, from 0.
func (x *exchange) due(i int) time.Time {
	return x.start.Add(x.server.config.TTFT + time.Duration(i)*x.server.itl)
}

// waitToken returns when the answer's i-th token is there, or with an error when the client disconnects before.
func (x *exchange) waitToken(i int) error {
	if x.job == nil {
		return x.waitUntil(x.due(i))
	}
	for x.there <= i {
		if x.there = x.server.engine.out(x.job); x.there > i {
			break
		}
		if len(x.out) > 0 {
			if err := x.flush(); err != nil {
				return err
			}
		}
		select {
		case <-x.job.more:
		case <-x.ctx.Done():
			return context.Cause(x.ctx)
		}
	}
	return nil
}

// waitUntil returns at an instant, or with an error when the client disconnects before. Before it sleeps it flushes what is
// buffered. It reads the clock only if the last reading is before the instant: tokens that are due together cost one
// reading, and tokens whose time has passed during an overlong sleep follow at once.
func (x *exchange) waitUntil(due time.Time) error {
	if !due.After(x.now) {
		return nil
	}
	x.now = x.server.clock.Now()
	wait := due.Sub(x.now)
	if wait <= 0 {
		return nil
	}
	if len(x.out) > 0 {
		if err := x.flush(); err != nil {
			return err
		}
	}
	return x.server.clock.Sleep(x.ctx, wait)
}

// send hands what is buffered to the response, which may buffer it in turn.
func (x *exchange) send() error {
	x.server.counters.outputTokens.Add(int64(x.unsent))
	_, err := x.w.Write(x.out)
	x.out, x.unsent = x.out[:0], 0
	return err
}

// flush writes what is buffered, headers included, to the connection.
func (x *exchange) flush() error {
	if err := x.send(); err != nil {
		return err
	}
	return x.rc.Flush()
}

// answerStream sends the answer as server-sent events. It ends early where the client has disconnected.
func (x *exchange) answerStream() {
	x.w.Header().Set("Content-Type", "text/event-stream")
	if x.waitToken(0) != nil {
		return
	}
	if x.server.config.TTFT > 0 || x.job != nil { // else the last reading will do
		x.now = x.server.clock.Now()
	}
	x.first = x.now
	x.server.counters.ttft.observe(x.first.Sub(x.start))
	x.put(x.endpoint.head)
	x.head, x.out = append(x.head[:0], x.out...), x.out[:0]
	for k := range x.known {
		x.known[k] = x.known[k][:0]
	}
	x.put(x.answers().begin)
	for i := range x.outputTokens {
		if x.waitToken(i) != nil {
			return
		}
		if hook := x.fault.kind.midway; hook != nil && i == x.outputTokens/2 {
			x.breakOff(hook)
			return
		}
		x.token()
		if len(x.out) >= writeSize && x.send() != nil {
			return
		}
	}
	x.end()
	x.last = x.loggedNow()
	_ = x.send()
}

// loggedNow reads the clock for the log; without one the last reading will do.
func (x *exchange) loggedNow() time.Time {
	if x.server.log == nil {
		return x.now
	}
	return x.server.clock.Now()
}

// token appends the event of the next token.
func (x *exchange) token() {
	known, from := &x.known[x.produced%len(words)], len(x.out)
	x.produced++
	x.unsent++
	if len(*known) > 0 {
		x.out = append(x.out, *known...)
		return
	}
	a := x.answers()
	x.put(a.token)
	if a.same && !x.request.continuousUsage {
		*known = append(*known, x.out[from:]...)
	}
}

// end appends what stands behind the last token.
func (x *exchange) end() { x.put(x.answers().end) }

// whole appends an answer that is not streamed.
func (x *exchange) whole() {
	x.produced = x.outputTokens
	x.put(x.answers().whole)
}

// answerWhole sends the answer as one JSON document, when its last token is due.
func (x *exchange) answerWhole() {
	ttft := x.server.config.TTFT // without an engine: this answer does not show when the first token was there
	if x.job != nil {
		if x.waitToken(0) != nil {
			return
		}
		ttft = x.server.clock.Now().Sub(x.start)
	}
	if x.waitToken(max(0, x.outputTokens-1)) != nil {
		return
	}
	x.server.counters.ttft.observe(ttft)
	if hook := x.fault.kind.whole; hook != nil {
		x.inject(hook)
		return
	}
	x.whole()
	if hook := x.fault.kind.midway; hook != nil {
		x.w.Header().Set("Content-Type", "application/json")
		x.out = x.out[:len(x.out)/2]
		x.breakOff(hook)
		return
	}
	x.first = x.loggedNow()
	x.last = x.first
	x.server.counters.outputTokens.Add(int64(x.outputTokens))
	writeBody(x.w, http.StatusOK, "application/json", x.out)
}

// breakOff sends the part of the answer that is buffered and leaves the rest to a fault.
func (x *exchange) breakOff(hook func(*exchange)) {
	if x.flush() == nil {
		x.inject(hook)
	}
}

// fail answers with an error.
func (x *exchange) fail(status int, e apiError) {
	writeBody(x.w, status, "application/json", x.endpoint.failure(status, e))
}

// limit returns the number of tokens that q asks for, 0 where it sets none.
func (q *request) limit() int { return cmp.Or(q.maxCompletionTokens, q.maxTokens) }

// outputTokens returns the number of tokens of the answer to q.
func (q *request) outputTokens() int { return cmp.Or(q.limit(), defaultOutput) }
