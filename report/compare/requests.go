package compare

import (
	"math"
	"slices"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/report/interval"
)

// requests are those of the profiling phase of a run, a column for each number, in the order of its records. Instants are seconds
// of the phase; NaN stands for what a request does not have.
type requests struct {
	tree  []int32
	state []state

	start, firstToken, end []float64

	values map[string][]float64 // by the name of a metric, of requests that ended well: of the metrics that are drawn, or of all
}

// state says in which numbers a request is.
type state uint8

const (
	headline state = iota // it ended well, and the published numbers are over it
	late                  // it ended well, behind the deadline
	failed
	apart // the end of the run cancelled it, or it did not fit the context: it is in no number, also not in the error rate
)

// states are those of the requests that are measured, that failed, and that ended, as ratios of metrics name them.
var states = map[string][]int{"measured": {int(headline)}, "failed": {int(failed)}, "ended": {int(headline), int(late), int(failed)}}

func stateOf(r *measure.Record) state {
	switch {
	case r.Bucket != measure.Profiling && r.Bucket != measure.Cooldown:
		return apart
	case r.Error != nil:
		return failed
	case r.Bucket == measure.Cooldown:
		return late
	}
	return headline
}

var none = math.NaN()

// add adds a record of the profiling phase.
func (q *requests) add(r *measure.Record, rules measure.Rules) {
	first := none
	if r.FirstToken > 0 {
		first = r.FirstToken.Seconds()
	}
	q.addTimes(int32(r.Tree), stateOf(r), r.Sent.Seconds(), first, r.End.Seconds())
	for _, m := range drawn {
		v, ok := m.Of(&r.Numbers, rules)
		q.addValue(m.Name, v, ok && r.Error == nil)
	}
}

// addTimes adds what every request has.
func (q *requests) addTimes(tree int32, s state, start, firstToken, end float64) {
	q.tree, q.state = append(q.tree, tree), append(q.state, s)
	q.start, q.firstToken, q.end = append(q.start, start), append(q.firstToken, firstToken), append(q.end, end)
}

// addValue adds the value of one metric of the request that was added last.
func (q *requests) addValue(metric string, v float64, ok bool) {
	if q.values == nil {
		q.values = map[string][]float64{}
	}
	if !ok {
		v = none
	}
	q.values[metric] = append(q.values[metric], v)
}

func (q *requests) n() int { return len(q.start) }

// first returns when the first request was sent.
func (q *requests) first() float64 {
	if len(q.start) == 0 {
		return 0
	}
	return slices.Min(q.start)
}

// last returns when the last request was over.
func (q *requests) last() float64 {
	return slices.Max(append([]float64{q.first()}, q.end...))
}

// span returns the seconds from the first request to the end of the last one.
func (q *requests) span() float64 { return q.last() - q.first() }

// shift moves all instants.
func (q *requests) shift(by float64) {
	for _, list := range [][]float64{q.start, q.firstToken, q.end} {
		for k := range list {
			list[k] += by
		}
	}
}

// sample returns the values of a metric over the headline, with their trees.
func (q *requests) sample(metric string) (s interval.Sample) {
	for k, v := range q.values[metric] {
		if q.state[k] == headline && !math.IsNaN(v) {
			s.Values, s.Trees = append(s.Values, v), append(s.Trees, q.tree[k])
		}
	}
	return s
}

// treeCount returns how many trees have a request.
func (q *requests) treeCount() int {
	trees := map[int32]bool{}
	for _, tree := range q.tree {
		trees[tree] = true
	}
	return len(trees)
}
