package tokenizer

// links says, by part of a long piece, which part is behind it and which is before it. Parts that have merged stay in their place.
type links struct{ after, before []int32 }

// candidate is a pair that may merge: the rank, and below it the part with the one behind it.
type candidate uint64

func candidateOf(rank uint32, part int32) candidate { return candidate(rank)<<32 | candidate(part) }

// mergeLong merges the parts of a long piece.
func (m *merger) mergeLong(ids []uint32, piece string) []uint32 {
	n := int32(len(m.parts) - 1)
	l := &m.links
	l.reset(n)
	m.queue = m.queue[:0]
	for k := range m.parts {
		m.offer(int32(k))
	}
	for len(m.queue) > 0 {
		c := m.pop()
		a := int32(c & 0xffffffff)
		if m.parts[a].next.rank != uint32(c>>32) { // one that has changed since
			continue
		}
		b := l.after[a]
		m.parts[a].id = m.parts[a].next.id
		m.parts[b].next.rank = none
		l.after[a] = l.after[b]
		l.before[l.after[b]] = a
		m.refresh(piece, a, n)
		if k := l.before[a]; k >= 0 {
			m.refresh(piece, k, n)
		}
	}
	for k := int32(0); k < n; k = l.after[k] {
		ids = append(ids, m.parts[k].id)
	}
	m.forget()
	return ids
}

// reset links n parts, and the end, in their order.
func (l *links) reset(n int32) {
	l.after, l.before = l.after[:0], l.before[:0]
	for k := range n + 1 {
		l.after = append(l.after, min(k+1, n))
		l.before = append(l.before, k-1)
	}
}

// refresh looks up what a part and the one behind it become; n is the end.
func (m *merger) refresh(piece string, k, n int32) {
	p := &m.parts[k]
	p.next = pair{rank: none}
	if b := m.links.after[k]; b < n {
		p.next = m.pair(piece, *p, m.parts[b], m.parts[m.links.after[b]].from)
		m.offer(k)
	}
}

// offer adds a part and the one behind it to the queue, if they merge. The queue is a heap.
func (m *merger) offer(k int32) {
	if m.parts[k].next.rank == none {
		return
	}
	m.queue = append(m.queue, candidateOf(m.parts[k].next.rank, k))
	q := m.queue
	for at := len(q) - 1; at > 0; {
		up := (at - 1) / 2
		if q[up] <= q[at] {
			break
		}
		q[up], q[at] = q[at], q[up]
		at = up
	}
}

// pop removes the lowest candidate.
func (m *merger) pop() candidate {
	q := m.queue
	lowest := q[0]
	last := len(q) - 1
	q[0] = q[last]
	q = q[:last]
	m.queue = q
	for at := 0; ; {
		child := 2*at + 1
		if child >= last {
			break
		}
		if child+1 < last && q[child+1] < q[child] {
			child++
		}
		if q[at] <= q[child] {
			break
		}
		q[at], q[child] = q[child], q[at]
		at = child
	}
	return lowest
}

// maxKeptParts is how many parts a merger keeps room for, between pieces.
const maxKeptParts = 1 << 16

// forget gives the memory of a huge piece back.
func (m *merger) forget() {
	if cap(m.parts) > maxKeptParts {
		m.parts, m.links, m.queue = nil, links{}, nil
	}
}
