package capture

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture/chain"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
)

// resumed returns a recorder in whose session each request goes on from the one before, except that all share a first block, and the
// request that is applied.
func resumed(n int) (*recorder, *request) {
	r := &recorder{requests: map[int]*request{}}
	for q := range n {
		r.requests[q] = &request{end: int64(q), reply: &replied{end: journal.End{X: journal.Complete}}}
		r.shared = append(r.shared, chain.Shared{Q: q, Blocks: 1})
	}
	r.shared[n-1].Blocks = 2
	return r, &request{ticket: ticket{T: int64(n) * 1e6}, end: -1}
}

// Of requests with which as much is shared the one that ended last counts, and of those that ended at once the last.
func TestPredecessorEndedLast(t *testing.T) {
	r, next := resumed(6)
	require.Equal(t, 5, r.predecessor(next))
	r.shared[5].Blocks = 1
	r.requests[2].end = 6
	require.Equal(t, 2, r.predecessor(next))
	r.requests[3].end = 6
	require.Equal(t, 3, r.predecessor(next))
	r.requests[3].end = 7
	require.Equal(t, 2, r.predecessor(next), "it had not ended")
}

// BenchmarkPredecessor looks for it in a session of 1,000 requests and of 30,000.
func BenchmarkPredecessor(b *testing.B) {
	for _, n := range []int{1000, 30_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r, next := resumed(n)
			for b.Loop() {
				r.predecessor(next)
			}
		})
	}
}
