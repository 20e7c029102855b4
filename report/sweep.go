package report

import (
	"cmp"
	"slices"

	"github.com/agentx/agentx/internal/heap"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// The curves that a sweep computes: step functions of time.
const (
	concurrency = iota
	prefillConcurrency
	decodeConcurrency
	prefillRate // tokens per second
	decodeRate
	totalRate
	prefillRatePerUser
	decodeRatePerUser
	tokensInFlight
	curveCount
)

// levels are the values of the curves at one time.
type levels [curveCount]float64

// sweep goes through the requests in the order of time and calls visit for every stretch, from one instant up to the next, in which
// no curve changes. It holds the requests in flight alone. Stretches cover the time from `from` to `to`.
func sweep(list []*row, rules *measure.Rules, chunks *chunkFile, from, to measure.Time, visit func(from, to measure.Time, at *levels)) error {
	s := sweeper{rules: rules, chunks: chunks}
	now := from
	for next := 0; ; {
		at := to
		if next < len(list) {
			at = min(at, list[next].Sent)
		}
		if len(s.heap) > 0 {
			at = min(at, s.heap[0].at)
		}
		if at > now {
			v := s.levels()
			visit(now, at, &v)
			now = at
		}
		if at >= to {
			return nil
		}
		if next < len(list) && list[next].Sent <= at {
			if err := s.open(list[next]); err != nil {
				return err
			}
			next++
			continue
		}
		s.step()
	}
}

// sortedBySent returns the requests of several sets in the order in which they were sent.
func sortedBySent(sets []*rows) (list []*row) {
	each(sets, func(r *row) { list = append(list, r) })
	slices.SortStableFunc(list, func(x, y *row) int { return cmp.Compare(x.Sent, y.Sent) })
	return list
}

// sweeper is a sweep at one instant.
type sweeper struct {
	rules  *measure.Rules
	chunks *chunkFile

	heap []*openRequest // the request with the earliest next step first
	free []*openRequest

	inFlight, prefilling, decoding int
	prefill, decode, tokens        sum
	even                           sum // the rate of output with Rules.AIPerfCurves
}

// openRequest is a request in flight.
type openRequest struct {
	row    *row
	at     measure.Time // of its next step
	steps  []flowStep
	next   int     // of the steps
	stage  stage   // that it is in
	rate   float64 // of decoding, now
	input  float64 // rate of prefilling
	even   float64 // rate of decoding, if it were even
	tokens float64 // that it holds
}

func (q *openRequest) before(other *openRequest) bool { return q.at < other.at }

// stage says what a request in flight waits for.
type stage uint8

const (
	prefilling stage = iota
	decoding
	ending // of a failed request, with Rules.AIPerfCurves
)

// open begins a request.
func (s *sweeper) open(r *row) error {
	q := &openRequest{}
	if n := len(s.free); n > 0 {
		q, s.free = s.free[n-1], s.free[:n-1]
	}
	*q = openRequest{row: r, steps: q.steps[:0]}
	contents, err := wire.Contents{}, error(nil)
	if !r.failed {
		contents, err = s.chunks.of(r)
	}
	if err != nil {
		return err
	}
	q.steps = flow(q.steps, r, contents)
	s.inFlight++
	if r.failed && s.rules.AIPerfCurves {
		q.stage = ending
	} else {
		s.prefilling++
	}
	if !r.failed && r.PromptTokens.N() != unknown {
		q.tokens = float64(r.PromptTokens.N())
		if rate, ok := prefillPerUser(r, s.rules); ok {
			q.input = rate.Float64()
		}
	}
	s.tokens.add(q.tokens)
	s.prefill.add(q.input)
	q.schedule()
	heap.Push(&s.heap, q, (*openRequest).before)
	return nil
}

// schedule finds the instant of the next step.
func (q *openRequest) schedule() {
	q.at = q.row.End
	if q.stage == prefilling && q.row.FirstToken != never {
		q.at = min(q.at, q.row.FirstToken)
	}
	if q.next < len(q.steps) {
		q.at = min(q.at, q.steps[q.next].at)
	}
}

// step takes the next step of the request whose step is the earliest.
func (s *sweeper) step() {
	q := s.heap[0]
	at := q.at
	if q.stage == prefilling && q.row.FirstToken != never && q.row.FirstToken <= at {
		q.stage = decoding
		s.prefilling--
		s.decoding++
		s.prefill.add(-q.input)
		q.input = 0
		q.even = evenRate(q.row)
		s.even.add(q.even)
	}
	for ; q.next < len(q.steps) && q.steps[q.next].at <= at; q.next++ {
		step := q.steps[q.next]
		s.decode.add(step.rate*1e9 - q.rate)
		q.rate = step.rate * 1e9
		s.tokens.add(step.tokens)
		q.tokens += step.tokens
	}
	if at >= q.row.End {
		s.close(q)
		return
	}
	q.schedule()
	heap.Sink(s.heap, (*openRequest).before)
}

// close ends the request at the top of the heap.
func (s *sweeper) close(q *openRequest) {
	s.inFlight--
	switch q.stage {
	case prefilling:
		s.prefilling--
	case decoding:
		s.decoding--
	}
	s.prefill.add(-q.input)
	s.decode.add(-q.rate)
	s.even.add(-q.even)
	s.tokens.add(-q.tokens)
	s.free = append(s.free, heap.Pop(&s.heap, (*openRequest).before))
}

func (s *sweeper) levels() levels {
	prefill, decode := s.prefill.value(s.prefilling), s.decode.value(s.decoding)
	total := prefill + decode
	if s.rules.AIPerfCurves {
		total = prefill + s.even.value(s.decoding)
	}
	return levels{
		concurrency: float64(s.inFlight), prefillConcurrency: float64(s.prefilling), decodeConcurrency: float64(s.decoding),
		prefillRate: prefill, decodeRate: decode, totalRate: total,
		prefillRatePerUser: perRequest(prefill, s.prefilling), decodeRatePerUser: perRequest(decode, s.decoding),
		tokensInFlight: s.tokens.value(s.inFlight),
	}
}

// evenRate returns the rate at which the tokens after the first come, if they come evenly from then on until the end.
func evenRate(r *row) float64 {
	if r.failed || r.OSL() == unknown || r.End <= r.FirstToken {
		return 0
	}
	return float64(max(0, r.OSL()-1)) * 1e9 / float64(r.End-r.FirstToken)
}

func perRequest(rate float64, n int) float64 {
	if n == 0 {
		return 0
	}
	return rate / float64(n)
}

// sum adds up numbers, and takes them away again, with the rounding errors kept apart (Neumaier).
type sum struct{ sum, lost, peak float64 }

func (s *sum) add(x float64) {
	t := s.sum + x
	if max(s.sum, -s.sum) >= max(x, -x) {
		s.lost += s.sum - t + x
	} else {
		s.lost += x - t + s.sum
	}
	s.sum = t
	s.peak = max(s.peak, t)
}

// rest is the share of its peak below which a sum is what rounding has left of terms that are gone.
const rest = 1e-12

// value returns the sum, which is 0 when nothing is left that n counts.
func (s *sum) value(n int) float64 {
	if n == 0 {
		return 0
	}
	if v := s.sum + s.lost; v > rest*s.peak {
		return v
	}
	return 0
}
