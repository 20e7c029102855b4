package engine

// none is no slot.
const none = -1

// slot is a block of the pool.
type slot struct {
	key        uint32 // chain number + 1, private, or 0: no content that anybody finds
	refs       int32  // leases
	prev, next int32  // neighbours in the list of inactive blocks; next of the last is none
	newer      int32  // the next younger visible copy of the same chain, if key is one
	generation uint32 // counts the private blocks that the slot held: one is found again by slot and generation
}

// private is the key of a full block that only its own request finds.
const private = ^uint32(0)

// pool holds the blocks of a worker. A block is free, active (leased) or inactive (cached, leased by no request). Inactive blocks
// stand in the order of their release, from oldest to newest.
type pool struct {
	slots          []slot
	free           []int32 // slots that held a block and hold none now
	fresh          int     // slots from here on never held one
	active         int
	inactive       int
	oldest, newest int32
	evictions      int64
	index          index
	log            *eventLog // nil: the caller does not ask
}

func newPool(blocks int) *pool {
	return &pool{slots: make([]slot, blocks), oldest: none, newest: none}
}

// unused returns how many blocks hold nothing.
func (p *pool) unused() int { return len(p.slots) - p.active - p.inactive }

// lease gives a request the block of a slot.
func (p *pool) lease(s int32) {
	b := &p.slots[s]
	if b.refs == 0 {
		p.unlink(s, b)
		p.inactive--
		p.active++
	}
	b.refs++
}

// take leases a block without content: a free one, else the one that was released longest ago. The caller knows that there is one.
func (p *pool) take() int32 {
	s := int32(none)
	switch n := len(p.free); {
	case n > 0:
		s = p.free[n-1]
		p.free = p.free[:n-1]
	case p.fresh < len(p.slots):
		s = int32(p.fresh)
		p.fresh++
	default:
		s = p.evict()
	}
	b := &p.slots[s]
	b.key, b.refs = 0, 1
	p.active++
	return s
}

// evict drops the inactive block that was released longest ago.
func (p *pool) evict() int32 {
	s := p.oldest
	b := &p.slots[s]
	p.unlink(s, b)
	p.inactive--
	p.evictions++
	if b.key == private {
		p.log.addPrivate(true)
	} else {
		p.forget(s, b.key-1)
	}
	return s
}

// own makes the content of a block, if it has none that is found, one that only its own request finds.
func (p *pool) own(s int32) {
	if b := &p.slots[s]; b.key == 0 {
		b.key = private
		b.generation++
		p.log.addPrivate(false)
	}
}

// forget removes a copy of a chain from those that are found.
func (p *pool) forget(s int32, chain uint32) {
	newer := p.slots[s].newer
	first := p.index.swap(chain, s, newer)
	if first == s {
		if newer == none {
			p.log.add(chain, true)
		}
		return
	}
	for p.slots[first].newer != s {
		first = p.slots[first].newer
	}
	p.slots[first].newer = newer
}

// publish makes the block of a slot visible under its chain number, as the youngest copy.
func (p *pool) publish(s int32, chain uint32) {
	b := &p.slots[s]
	b.key, b.newer = chain+1, none
	there := p.index.put(chain, s)
	if there == none {
		p.log.add(chain, false)
		return
	}
	for p.slots[there].newer != none {
		there = p.slots[there].newer
	}
	p.slots[there].newer = s
}

// release ends a lease. The last one makes the block inactive if it has content, else free.
func (p *pool) release(s int32) {
	b := &p.slots[s]
	if b.refs--; b.refs > 0 {
		return
	}
	p.active--
	if b.key == 0 {
		p.free = append(p.free, s)
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

// unlink takes a block out of the list of inactive ones. What the oldest says of a block before it does not count, so an eviction
// touches no other block.
func (p *pool) unlink(s int32, b *slot) {
	switch {
	case s == p.oldest && s == p.newest:
		p.oldest, p.newest = none, none
	case s == p.oldest:
		p.oldest = b.next
	case s == p.newest:
		p.newest = b.prev
		p.slots[b.prev].next = none
	default:
		p.slots[b.prev].next = b.next
		p.slots[b.next].prev = b.prev
	}
}

// KVEvent says that the blocks of a range of chain numbers became visible on a worker, or that none of their copies is left. A
// private one says the same of Count blocks that only their own requests find.
type KVEvent struct {
	Run
	Removed, Private bool
}

// eventLog collects the events of a pass in their order, neighbours as ranges.
type eventLog struct{ list []KVEvent }

// add adds a block, if anybody asks.
func (l *eventLog) add(chain uint32, removed bool) {
	if l != nil {
		l.append(chain, removed)
	}
}

func (l *eventLog) append(chain uint32, removed bool) {
	if n := len(l.list); n > 0 {
		e := &l.list[n-1]
		switch {
		case e.Removed != removed || e.Private:
		case e.First+e.Count == chain:
			e.Count++
			return
		case removed && chain+1 == e.First: // a sequence is evicted from its end
			e.First, e.Count = chain, e.Count+1
			return
		}
	}
	l.list = append(l.list, KVEvent{Run: Run{chain, 1}, Removed: removed})
}

// addPrivate adds a private block.
func (l *eventLog) addPrivate(removed bool) {
	if l == nil {
		return
	}
	if n := len(l.list); n > 0 && l.list[n-1].Private && l.list[n-1].Removed == removed {
		l.list[n-1].Count++
		return
	}
	l.list = append(l.list, KVEvent{Run: Run{Count: 1}, Removed: removed, Private: true})
}
