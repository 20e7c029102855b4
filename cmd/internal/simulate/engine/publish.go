package engine

func (p *extents) publish(l *leases, first int, numbers Run) {
	chain, left := numbers.First, int32(numbers.Count)
	for k := p.locate(l, first); left > 0; k++ {
		p.exact(l, k, left)
		if p.list[l.list[k].at].key == 0 {
			p.register(l, k, chain)
		}
		n := l.list[k].count
		chain, left = chain+uint32(n), left-n
		if p.join(l, k) {
			k--
		}
	}
}

// register makes the first blocks of a piece visible from a chain number on: those that have no copy, or those that have the same one.
func (p *extents) register(l *leases, k int, chain uint32) {
	count := l.list[k].count
	there := p.index.find(chain)
	if there == none {
		p.exact(l, k, int32(p.index.next(chain+1, chain+uint32(count))-chain))
	} else {
		if p.list[there].count > count {
			p.split(there, count)
		}
		p.exact(l, k, p.list[there].count)
	}
	at := l.list[k].at
	e := &p.list[at]
	e.key, e.newer = chain+1, none
	if there == none {
		p.index.put(chain, at)
		p.log.add(chain, int(e.count), false)
		return
	}
	for p.list[there].newer != none {
		there = p.list[there].newer
	}
	p.list[there].newer = at
}

// join makes one extent of a piece and the extent before it, where they are alike.
func (p *extents) join(l *leases, k int) bool {
	if k == 0 {
		return false
	}
	last := l.list[k]
	before := p.end(l.list[k-1])
	a, b := &p.list[before], &p.list[last.at]
	if !a.visible() || a.key+uint32(a.count) != b.key || a.refs > 1 || b.refs > 1 || !p.alone(before) || !p.alone(last.at) {
		return false
	}
	p.index.remove(b.key - 1)
	a.count += b.count
	p.free(last.at)
	l.list[k-1].count += last.count
	l.list = append(l.list[:k], l.list[k+1:]...)
	return true
}

func (p *extents) own(l *leases, first, end int) {
	if first >= end {
		return
	}
	for k := p.locate(l, first); first < end; k++ {
		if p.list[l.list[k].at].key == 0 {
			p.exact(l, k, 1)
			p.list[l.list[k].at].key = private
			p.log.addPrivate(false)
		}
		first += int(l.list[k].count)
	}
}

func (p *extents) privates(list []saved, l *leases) []saved {
	i := int32(0)
	for _, q := range l.list {
		if e := &p.list[q.at]; e.key == private {
			list = append(list, saved{index: i, at: q.at, generation: e.generation})
		}
		i += q.count
	}
	return list
}

// single returns an extent of one block: the oldest visible one of a chain number, or none.
func (p *extents) single(chain uint32) int32 {
	least := chain - min(chain, uint32(p.blocks))
	first, ok := p.index.before(least, chain)
	if !ok {
		return none
	}
	at := p.index.find(first)
	skip := int32(chain - first)
	if skip >= p.list[at].count {
		return none
	}
	if skip > 0 {
		at = p.split(at, skip)
	}
	if p.list[at].count > 1 {
		p.split(at, 1)
	}
	return at
}

func (p *extents) share(l *leases, chain uint32) bool {
	at := p.single(chain)
	if at == none {
		return false
	}
	p.refer(at)
	l.add(piece{at, 1})
	return true
}

func (p *extents) merge(l *leases, i int, chain uint32) bool {
	there := p.single(chain)
	if there == none {
		return false
	}
	k := p.locate(l, i)
	p.exact(l, k, 1)
	p.refer(there)
	p.endLease(l.list[k].at)
	l.list[k].at = there
	return true
}
