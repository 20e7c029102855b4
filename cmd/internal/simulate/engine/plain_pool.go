package engine

// plainPool is a pool block by block, with a Go map of its content: the oracle of extents.
type plainPool struct {
	usage
	slots          []slot
	empty          []int32          // slots without a block
	copies         map[uint32]int32 // by chain number: the oldest visible copy
	oldest, newest int32            // inactive
}

// slot is a block of a plain pool.
type slot struct {
	key        uint32 // chain number + 1, private, or 0: no content that anybody finds
	refs       int32  // leases
	prev, next int32  // neighbours among the inactive ones
	newer      int32  // the next younger copy of the same chain, if key is one
	generation uint32 // counts the blocks that the slot has held
}

// newPlainPool returns a pool of so many unused blocks.
func newPlainPool(blocks int) *plainPool {
	p := &plainPool{usage: usage{blocks: blocks}, slots: make([]slot, blocks), copies: map[uint32]int32{}, oldest: none, newest: none}
	for s := blocks - 1; s >= 0; s-- {
		p.empty = append(p.empty, int32(s))
	}
	return p
}

// find looks up block after block, until one has no visible copy.
func (p *plainPool) find(hits *leases, chain []Run, most int) {
	for _, run := range chain {
		for c := run.First; c < run.First+run.Count; c++ {
			s, ok := p.copies[c]
			if hits.blocks == most || !ok {
				return
			}
			hits.add(piece{s, 1})
		}
	}
}

func (p *plainPool) holds(s saved) bool {
	b := &p.slots[s.at]
	return b.key == private && b.generation == s.generation
}

func (p *plainPool) leased(hits *leases) (active int) {
	for _, q := range hits.list {
		if p.slots[q.at].refs > 0 {
			active++
		}
	}
	return active
}

// lease adds a lease to each block of hits. A block without one becomes active.
func (p *plainPool) lease(l, hits *leases) {
	for _, q := range hits.list {
		b := &p.slots[q.at]
		if b.refs++; b.refs == 1 {
			p.unlink(b)
			p.inactive--
			p.active++
		}
		l.add(q)
	}
	hits.reset()
}

// take leases empty slots; where there are none it evicts a block first.
func (p *plainPool) take(l *leases, count int) {
	for range count {
		if len(p.empty) == 0 {
			p.evict()
		}
		s := p.empty[len(p.empty)-1]
		p.empty = p.empty[:len(p.empty)-1]
		p.slots[s] = slot{refs: 1, generation: p.slots[s].generation + 1}
		p.active++
		l.add(piece{s, 1})
	}
}

// evict drops the inactive block that was released longest ago.
func (p *plainPool) evict() {
	s := p.oldest
	b := &p.slots[s]
	p.unlink(b)
	p.inactive--
	p.evictions++
	if b.key == private {
		p.log.addPrivate(true)
	} else {
		p.forget(s, b.key-1)
	}
	b.key = 0
	p.empty = append(p.empty, s)
}

// forget removes a block from the copies of its chain number.
func (p *plainPool) forget(s int32, chain uint32) {
	newer, c := p.slots[s].newer, p.copies[chain]
	switch {
	case c != s:
		for p.slots[c].newer != s {
			c = p.slots[c].newer
		}
		p.slots[c].newer = newer
	case newer != none:
		p.copies[chain] = newer
	default:
		delete(p.copies, chain)
		p.lost(chain, 1)
	}
}

// unlink takes a block out of the inactive ones.
func (p *plainPool) unlink(b *slot) {
	if b.prev == none {
		p.oldest = b.next
	} else {
		p.slots[b.prev].next = b.next
	}
	if b.next == none {
		p.newest = b.prev
	} else {
		p.slots[b.next].prev = b.prev
	}
}

// share leases the oldest visible copy of a chain number.
func (p *plainPool) share(l *leases, chain uint32) bool {
	s, ok := p.copies[chain]
	if ok {
		p.lease(l, &leases{list: []piece{{s, 1}}})
	}
	return ok
}

// release ends the leases from the last block to the first.
func (p *plainPool) release(l *leases) {
	for i := len(l.list) - 1; i >= 0; i-- {
		p.endLease(l.list[i].at)
	}
	l.reset()
}

// endLease ends a lease of a block.
func (p *plainPool) endLease(s int32) {
	b := &p.slots[s]
	if b.refs--; b.refs > 0 {
		return
	}
	p.active--
	if b.key == 0 {
		p.empty = append(p.empty, s)
		return
	}
	p.inactive++
	b.prev, b.next = p.newest, none
	if p.newest == none {
		p.oldest = s
	} else {
		p.slots[p.newest].next = s
	}
	p.newest = s
}

// publish gives blocks without content chain numbers. A number that has copies gets its block as the youngest of them.
func (p *plainPool) publish(l *leases, first int, numbers Run) {
	for k := range numbers.Count {
		s, chain := l.list[first+int(k)].at, numbers.First+k
		b := &p.slots[s]
		if b.key != 0 {
			continue
		}
		b.key, b.newer = chain+1, none
		there, ok := p.copies[chain]
		if !ok {
			p.copies[chain] = s
			p.shown(chain, 1)
			continue
		}
		for p.slots[there].newer != none {
			there = p.slots[there].newer
		}
		p.slots[there].newer = s
	}
}

// merge ends the lease of block i and leases the visible copy of a chain number instead.
func (p *plainPool) merge(l *leases, i int, chain uint32) bool {
	var there leases
	if !p.share(&there, chain) {
		return false
	}
	p.endLease(l.list[i].at)
	l.list[i] = there.list[0]
	return true
}

// own marks blocks without content as private: only their own request finds them.
func (p *plainPool) own(l *leases, first, end int) {
	for i := first; i < end; i++ {
		if b := &p.slots[l.list[i].at]; b.key == 0 {
			b.key = private
			p.log.addPrivate(false)
		}
	}
}

// privates appends the private blocks among leases, with their positions.
func (p *plainPool) privates(list []saved, l *leases) []saved {
	for i, q := range l.list {
		if b := &p.slots[q.at]; b.key == private {
			list = append(list, saved{index: int32(i), at: q.at, generation: b.generation})
		}
	}
	return list
}
