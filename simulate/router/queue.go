package router

import (
	"container/heap"

	"github.com/agentx/agentx/simulate/fleet"
)

// waiting is a request that the router keeps.
type waiting struct {
	request *fleet.Request
	key     float64
	order   int // of arrival
}

// queue has the requests that the router keeps, the one of the highest key first: doc/spec/simulate.md 8.4.
type queue []waiting

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].key > q[j].key || q[i].key == q[j].key && q[i].order < q[j].order
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(waiting)) }

func (q *queue) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	(*q)[last] = waiting{}
	*q = (*q)[:last]
	return x
}

// add keeps a request.
func (q *queue) add(w waiting) { heap.Push(q, w) }

// take returns the request that leaves first.
func (q *queue) take() *fleet.Request { return heap.Pop(q).(waiting).request }

// keyOf returns the key of a request that arrives as number order and needs so many new tokens. No trace has priorities, so that
// all are 0.
func keyOf(policy string, order, tokens int) float64 {
	switch policy {
	case LCFS:
		return float64(order)
	case WSPT:
		return 1 / float64(max(tokens, 1))
	}
	return -float64(order)
}
