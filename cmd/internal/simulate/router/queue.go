package router

import "github.com/agentx/agentx/cmd/internal/simulate/fleet"

// waiting is a request that the router keeps.
type waiting struct {
	request *fleet.Request
	key     float64
	order   int // of arrival
}

// before says which of two requests leaves first: that of the higher key (doc/spec/simulate.md 8.4).
func (w waiting) before(other waiting) bool {
	return w.key > other.key || w.key == other.key && w.order < other.order
}

// keyOf returns the key of a request that arrives as number order and needs so many new tokens. No trace has priorities, so that
// all are 0.
func keyOf(policy string, order, tokens int) float64 {
	switch policy {
	case lcfs:
		return float64(order)
	case wspt:
		return 1 / float64(max(tokens, 1))
	}
	return -float64(order)
}
