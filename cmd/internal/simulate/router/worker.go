package router

import (
	"math"
	"slices"

	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
)

// flight is a request from its dispatch to its end.
type flight struct {
	request *fleet.Request
	worker  *worker
	private int   // prompt blocks without a chain number
	prefill int   // tokens to compute, until the first token
	expect  int64 // nanoseconds that they take; negative: not known
}

// worker is what the router knows of a worker.
type worker struct {
	id         int
	index      Index
	flights    []*flight // in the order of dispatch
	prefills   []*flight // those without a first token
	prefillSum int       // their tokens
	oldest     int64     // when the first of them became the first
	active     int       // prompt blocks of flights, those with the same chain number once
	dispatched int
}

// lead returns how many blocks at the beginning of a request's chain belong to flights. All flights with a chain number have all
// numbers before it, so that one flight has the whole lead.
func (w *worker) lead(r *fleet.Request) (blocks int) {
	for _, f := range w.flights {
		blocks = max(blocks, shared(f.request.Chain, r.Chain))
	}
	return blocks
}

// dispatch adds a flight.
func (w *worker) dispatch(now int64, f *flight) {
	w.active += f.private + chained(f.request) - w.lead(f.request)
	w.flights = append(w.flights, f)
	if len(w.prefills) == 0 {
		w.oldest = now
	}
	w.prefills = append(w.prefills, f)
	w.prefillSum += f.prefill
	w.dispatched++
}

// firstToken ends the prefill of a flight, if it has not ended.
func (w *worker) firstToken(now int64, f *flight) {
	k := slices.Index(w.prefills, f)
	if k < 0 {
		return
	}
	w.prefills = slices.Delete(w.prefills, k, k+1)
	w.prefillSum -= f.prefill
	if k == 0 {
		w.oldest = now
	}
}

// end removes a flight.
func (w *worker) end(now int64, f *flight) {
	w.firstToken(now, f)
	k := slices.Index(w.flights, f)
	w.flights = slices.Delete(w.flights, k, k+1)
	w.active -= f.private + chained(f.request) - w.lead(f.request)
}

// prefillTokens returns the tokens of the prefills in flight: doc/spec/simulate.md 8.3.
func (w *worker) prefillTokens(now int64) int {
	if len(w.prefills) == 0 {
		return 0
	}
	f := w.prefills[0]
	return w.prefillSum - f.prefill + remaining(f.prefill, now-w.oldest, f.expect)
}

// remaining returns what is left of the tokens of a prefill. A negative duration is unknown.
func remaining(tokens int, elapsed, expect int64) int {
	switch {
	case expect < 0:
		return tokens
	case elapsed >= expect:
		return 0
	}
	return int(math.Ceil(float64(tokens) * (1 - float64(elapsed)/float64(expect))))
}

// chained returns how many blocks of a prompt have a chain number.
func chained(r *fleet.Request) (blocks int) {
	for _, run := range r.Chain {
		blocks += int(run.Count)
	}
	return blocks
}
