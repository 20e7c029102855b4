package engine

// extents is a pool in runs of blocks. An extent is blocks that are alike: their chain numbers are consecutive, or they have no content
// or are one private block, and the same requests lease them, one after another. Of those it holds, an inactive extent is evicted from
// its end, the order in which a request releases them.
//
// A chain number stands for a whole prefix, so that it follows only one number: who walks along a chain never enters an extent in its
// middle. Copies of an extent have the same numbers as it.
type extents struct {
	usage
	list           []extent
	spare          []int32 // places in list
	oldest, newest int32   // inactive
	index          index   // of the oldest copies
	order          []int32
}

// extent is some blocks of a pool.
type extent struct {
	key        uint32 // chain number of the first + 1, private, or 0: no content that anybody finds
	generation uint32 // counts what stood at its place
	count      int32
	refs       int32 // leases
	rest       int32 // the blocks that followed when these were leased as one extent
	prev, next int32 // neighbours among the inactive ones
	newer      int32 // the next younger copy, if key is a chain number
}

func newExtents(blocks int) *extents {
	return &extents{usage: usage{blocks: blocks}, oldest: none, newest: none}
}

// newExtent returns a place for an extent. Pointers into the list end.
func (p *extents) newExtent(e extent) (at int32) {
	if n := len(p.spare); n > 0 {
		at, p.spare = p.spare[n-1], p.spare[:n-1]
		e.generation = p.list[at].generation
		p.list[at] = e
		return at
	}
	p.list = append(p.list, e)
	return int32(len(p.list) - 1)
}

// free gives the place of an extent back.
func (p *extents) free(at int32) {
	p.list[at] = extent{generation: p.list[at].generation + 1}
	p.spare = append(p.spare, at)
}

// visible reports whether an extent has chain numbers.
func (e *extent) visible() bool { return e.key != 0 && e.key != private }

// split makes two extents of one and each of its copies, and returns the second of it.
func (p *extents) split(at, count int32) (rest int32) {
	if !p.list[at].visible() {
		return p.cut(at, count)
	}
	chain, before := p.list[at].key-1, int32(none)
	for c := p.index.find(chain); c != none; c = p.list[c].newer {
		r := p.cut(c, count)
		if before == none {
			p.index.put(chain+uint32(count), r)
		} else {
			p.list[before].newer = r
		}
		if before = r; c == at {
			rest = r
		}
	}
	return rest
}

// cut makes two extents of one, and returns the second.
func (p *extents) cut(at, count int32) (rest int32) {
	second := p.list[at]
	second.count -= count
	if second.visible() {
		second.key += uint32(count)
	}
	rest = p.newExtent(second)
	first := &p.list[at]
	first.count, first.rest = count, rest
	if first.refs == 0 { // the end was released first
		p.list[rest].next = at
		if first.prev == none {
			p.oldest = rest
		} else {
			p.list[first.prev].next = rest
		}
		first.prev = rest
	}
	return rest
}

// exact makes a piece of leases one extent of at most so many blocks. What is left of it is the next piece.
func (p *extents) exact(l *leases, k int, most int32) {
	q := l.list[k]
	if p.list[q.at].count > most {
		p.split(q.at, most)
	}
	if n := p.list[q.at].count; n < q.count {
		l.list = append(l.list, piece{})
		copy(l.list[k+2:], l.list[k+1:])
		l.list[k].count = n
		l.list[k+1] = piece{p.list[q.at].rest, q.count - n}
	}
}

// locate returns the piece that begins with block i of leases, and makes one begin there.
func (p *extents) locate(l *leases, i int) int {
	k, at := len(l.list), l.blocks
	for at > i {
		k--
		at -= int(l.list[k].count)
	}
	for ; at < i; k++ {
		p.exact(l, k, int32(i-at))
		at += int(l.list[k].count)
	}
	return k
}

// end returns the last extent of a piece.
func (p *extents) end(q piece) int32 {
	for n := p.list[q.at].count; n < q.count; n = p.list[q.at].count {
		q = piece{p.list[q.at].rest, q.count - n}
	}
	return q.at
}

func (p *extents) find(hits *leases, chain []Run, most int) {
	at, next := int32(none), uint32(0) // the extent of the hits so far has a block of this number next
	used := int32(0)                   // blocks of it
	for _, run := range chain {
		for c, left := run.First, int32(min(int(run.Count), most-hits.blocks)); left > 0; {
			if at == none || used == p.list[at].count || c != next {
				if at, used = p.index.find(c), 0; at == none {
					return
				}
				hits.add(piece{at, 0})
			}
			n := min(p.list[at].count-used, left)
			hits.list[len(hits.list)-1].count += n
			hits.blocks += int(n)
			used, left, c = used+n, left-n, c+uint32(n)
			next = c
		}
		if hits.blocks == most {
			return
		}
	}
}

func (p *extents) holds(s saved) bool {
	e := &p.list[s.at]
	return e.key == private && e.generation == s.generation
}

func (p *extents) leased(hits *leases) (active int) {
	for _, q := range hits.list {
		if p.list[q.at].refs > 0 {
			active += int(q.count)
		}
	}
	return active
}

func (p *extents) lease(l, hits *leases) {
	for _, q := range hits.list {
		if q.count < p.list[q.at].count {
			p.split(q.at, q.count)
		}
		p.refer(q.at)
		l.add(q)
	}
	hits.reset()
}

// refer adds a lease of an extent.
func (p *extents) refer(at int32) {
	e := &p.list[at]
	if e.refs++; e.refs > 1 {
		return
	}
	p.unlink(at)
	p.inactive -= int(e.count)
	p.active += int(e.count)
}

// unlink takes an extent out of the inactive ones.
func (p *extents) unlink(at int32) {
	e := &p.list[at]
	if e.prev == none {
		p.oldest = e.next
	} else {
		p.list[e.prev].next = e.next
	}
	if e.next == none {
		p.newest = e.prev
	} else {
		p.list[e.next].prev = e.prev
	}
}

func (p *extents) take(l *leases, count int) {
	p.evict(count - p.unused())
	p.active += count
	if n := len(l.list); n > 0 {
		if at := p.end(l.list[n-1]); p.list[at].key == 0 {
			p.list[at].count += int32(count)
			l.list[n-1].count += int32(count)
			l.blocks += count
			return
		}
	}
	l.add(piece{p.newExtent(extent{count: int32(count), refs: 1}), int32(count)})
}

// evict drops so many of the blocks that were released longest ago.
func (p *extents) evict(count int) {
	for count > 0 {
		at := p.oldest
		e := &p.list[at]
		n := min(int(e.count), count)
		count -= n
		p.inactive -= n
		p.evictions += int64(n)
		switch {
		case e.key == private:
			p.unlink(at)
			p.free(at)
			p.log.addPrivate(true)
		case n < int(e.count) && p.alone(at):
			e.count -= int32(n)
			p.log.add(e.key-1+uint32(e.count), n, true)
		default:
			if n < int(e.count) {
				at = p.split(at, e.count-int32(n))
			}
			p.unlink(at)
			p.forget(at)
		}
	}
}

// alone reports whether a visible extent has no copy.
func (p *extents) alone(at int32) bool {
	e := &p.list[at]
	return e.newer == none && p.index.find(e.key-1) == at
}

// forget removes an extent from the copies of its chain numbers.
func (p *extents) forget(at int32) {
	e := &p.list[at]
	chain := e.key - 1
	switch c := p.index.find(chain); {
	case c != at:
		for p.list[c].newer != at {
			c = p.list[c].newer
		}
		p.list[c].newer = e.newer
	case e.newer == none:
		p.index.remove(chain)
		p.log.add(chain, int(e.count), true)
	default:
		p.index.put(chain, e.newer)
	}
	p.free(at)
}

func (p *extents) release(l *leases) {
	for k := len(l.list) - 1; k >= 0; k-- {
		p.order = p.order[:0]
		for at, left := l.list[k].at, l.list[k].count; left > 0; at = p.list[at].rest {
			p.order = append(p.order, at)
			left -= p.list[at].count
		}
		for i := len(p.order) - 1; i >= 0; i-- {
			p.endLease(p.order[i])
		}
	}
	l.reset()
}

// endLease ends a lease of an extent.
func (p *extents) endLease(at int32) {
	e := &p.list[at]
	if e.refs--; e.refs > 0 {
		return
	}
	p.active -= int(e.count)
	if e.key == 0 {
		p.free(at)
		return
	}
	p.inactive += int(e.count)
	e.prev, e.next = p.newest, none
	if p.newest == none {
		p.oldest = at
	} else {
		p.list[p.newest].next = at
	}
	p.newest = at
}
