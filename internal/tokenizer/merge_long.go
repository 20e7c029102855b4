package tokenizer

import "container/heap"

// mergeLong merges the parts of a long piece. Parts that have merged stay in their place, and each names the one behind it.
func (m *merger) mergeLong(ids []uint32, piece string) []uint32 {
	n := len(m.parts) - 1
	after, before := make([]int, n+1), make([]int, n+1) // by part: the one behind it and the one before it
	for k := range after {
		after[k], before[k] = min(k+1, n), k-1
	}
	m.queue = m.queue[:0]
	for k, p := range m.parts {
		if p.next.rank != none {
			m.queue = append(m.queue, candidate{p.next.rank, k})
		}
	}
	heap.Init(&m.queue)
	refresh := func(k int) {
		m.parts[k].next = pair{rank: none}
		if after[k] < n {
			m.parts[k].next = m.pair(piece, k, after[k], after[after[k]])
		}
		if rank := m.parts[k].next.rank; rank != none {
			heap.Push(&m.queue, candidate{rank, k})
		}
	}
	for len(m.queue) > 0 {
		c := heap.Pop(&m.queue).(candidate)
		if m.parts[c.part].next.rank != c.rank { // one that has changed since
			continue
		}
		b := after[c.part]
		m.parts[c.part].id = m.parts[c.part].next.id
		m.parts[b].next.rank = none
		after[c.part] = after[b]
		before[after[b]] = c.part
		refresh(c.part)
		if k := before[c.part]; k >= 0 {
			refresh(k)
		}
	}
	for k := 0; k < n; k = after[k] {
		ids = append(ids, m.parts[k].id)
	}
	return ids
}

// candidate is a pair that may merge: a part with the one behind it.
type candidate struct {
	rank uint32
	part int
}

// mergeQueue is a heap of candidates.
type mergeQueue []candidate

func (q mergeQueue) Len() int { return len(q) }
func (q mergeQueue) Less(i, j int) bool {
	return q[i].rank < q[j].rank || q[i].rank == q[j].rank && q[i].part < q[j].part
}
func (q mergeQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *mergeQueue) Push(x any)   { *q = append(*q, x.(candidate)) }
func (q *mergeQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
