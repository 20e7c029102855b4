package heap

import (
	"container/heap"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

type pair struct{ key, number int }

func before(a, b pair) bool { return a.key < b.key }

type oracle []pair

func (o oracle) Len() int           { return len(o) }
func (o oracle) Less(i, j int) bool { return before(o[i], o[j]) }
func (o oracle) Swap(i, j int)      { o[i], o[j] = o[j], o[i] }
func (o *oracle) Push(x any)        { *o = append(*o, x.(pair)) }
func (o *oracle) Pop() any {
	last := (*o)[len(*o)-1]
	*o = (*o)[:len(*o)-1]
	return last
}

// Values come in the order of container/heap, equal ones too.
func TestOrderIsThatOfContainerHeap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var list []pair
	var want oracle
	for n := range 5000 {
		if r.IntN(3) > 0 || len(list) == 0 {
			p := pair{r.IntN(20), n}
			Push(&list, p, before)
			heap.Push(&want, p)
		} else {
			require.Equal(t, heap.Pop(&want), Pop(&list, before))
		}
		require.Equal(t, []pair(want), list)
	}
}
