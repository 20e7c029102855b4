package planner

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Records that come in runs, with equal ends among them, are brought into order, and equal ones keep theirs.
func TestRecordsAreSorted(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	p := &Planner{}
	for n := range 300 {
		p.records = p.records[:0]
		end := int64(0)
		for k := range n {
			if end += draw.Int64N(3); draw.IntN(1+n/7) == 0 {
				end = draw.Int64N(10)
			}
			p.records = append(p.records, record{end: end, pool: draw.Int32N(2), worker: draw.Int32N(2), kv: k})
		}
		want := slices.Clone(p.records)
		slices.SortStableFunc(want, func(a, b record) int {
			switch {
			case a.before(&b):
				return -1
			case b.before(&a):
				return 1
			}
			return 0
		})
		p.sortRecords()
		require.Equal(t, want, p.records)
	}
}
