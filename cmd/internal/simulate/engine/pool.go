package engine

import "math/bits"

// none is no block, and no extent.
const none = -1

// private is the key of a full block that only its own request finds.
const private = ^uint32(0)

// pool holds the blocks of a worker. A block is unused, active (leased) or inactive (cached, leased by no request). Inactive blocks
// stand in the order of their release; the one that was released longest ago is evicted first. Of copies of a chain number the oldest
// is found.
type pool interface {
	// state returns the counts of the pool, which it keeps up to date.
	state() *usage

	// find appends the blocks of the leading numbers of a chain that are visible, at most so many.
	find(hits *leases, chain []Run, most int)
	// holds reports whether the pool still has a private block.
	holds(saved) bool
	// leased returns how many blocks of hits are active.
	leased(hits *leases) int

	// lease moves hits to the end of a list of leases.
	lease(l, hits *leases)
	// take appends leases of so many blocks without content: unused ones, then those that it evicts. The caller knows that there are.
	take(l *leases, count int)
	// share appends a lease of the visible block of a chain number, if there is one.
	share(l *leases, chain uint32) bool
	// release ends all leases of a list, the last first. The last lease of a block makes it inactive if it has content, else unused.
	release(l *leases)

	// publish makes the blocks from first on visible under consecutive chain numbers, as the youngest copies. Those that have content stay.
	publish(l *leases, first int, numbers Run)
	// merge replaces block i by the visible one of a chain number. It reports false where there is none.
	merge(l *leases, i int, chain uint32) bool
	// own makes blocks without content, from first to before end, ones that only their request finds.
	own(l *leases, first, end int)
	// privates appends what a request needs to find its private blocks again.
	privates(list []saved, l *leases) []saved
}

// usage counts the blocks of a pool.
type usage struct {
	blocks, active, inactive int
	evictions                int64
	log                      *eventLog // nil: the caller does not ask
	below                    *below    // nil: there is no tier below the pool
}

// shown notes that blocks have become visible: those leave the tiers below.
func (u *usage) shown(first uint32, count int) {
	u.log.add(first, count, false)
	if u.below != nil {
		u.below.remove(Run{first, uint32(count)})
	}
}

// lost notes that blocks were evicted and have no copy: those go to the first tier below.
func (u *usage) lost(first uint32, count int) {
	u.log.add(first, count, true)
	if u.below != nil {
		u.below.put(0, Run{first, uint32(count)})
	}
}

func (u *usage) state() *usage { return u }

// unused returns how many blocks are neither leased nor cached.
func (u *usage) unused() int { return u.blocks - u.active - u.inactive }

// leases is the blocks of a request in order, or those that it would find.
type leases struct {
	list   []piece
	blocks int
}

// piece is some blocks of a pool. What at names is the pool's.
type piece struct{ at, count int32 }

// add appends a piece.
func (l *leases) add(p piece) {
	l.list = append(l.list, p)
	l.blocks += int(p.count)
}

func (l *leases) reset() { l.list, l.blocks = l.list[:0], 0 }

// cutTo drops the last blocks until at most so many are left.
func (l *leases) cutTo(blocks int) {
	for l.blocks > blocks {
		last := &l.list[len(l.list)-1]
		n := min(int32(l.blocks-blocks), last.count)
		last.count -= n
		if l.blocks -= int(n); last.count == 0 {
			l.list = l.list[:len(l.list)-1]
		}
	}
}

// saved is a full block that no other request finds, as it was when its request lost it.
type saved struct {
	index, at  int32
	generation uint32
}

// KVEvent says that the blocks of a range of chain numbers became visible on a worker, or that none of their copies is left. A
// private one says the same of Count blocks that only their own requests find.
type KVEvent struct {
	Run
	Removed, Private bool
}

// eventLog collects the events of a pass in their order, neighbours as ranges.
type eventLog struct{ list []KVEvent }

// add adds blocks with consecutive chain numbers, if anybody asks.
func (l *eventLog) add(chain uint32, count int, removed bool) {
	if l != nil {
		l.append(Run{chain, uint32(count)}, removed)
	}
}

// append adds a range of numbers, and joins it with the last event where both are neighbours.
func (l *eventLog) append(r Run, removed bool) {
	if n := len(l.list); n > 0 {
		e := &l.list[n-1]
		switch {
		case e.Removed != removed || e.Private:
		case e.First+e.Count == r.First:
			e.Count += r.Count
			return
		case removed && r.First+r.Count == e.First: // a sequence is evicted from its end
			e.First, e.Count = r.First, e.Count+r.Count
			return
		}
	}
	l.list = append(l.list, KVEvent{Run: r, Removed: removed})
}

// addPrivate adds the event that a private block appeared, or was removed.
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

// newExtents returns a pool of so many unused blocks.
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

// cut splits an extent behind its first count blocks, and returns the second part.
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

// end returns the last of the extents that a piece spans.
func (p *extents) end(q piece) int32 {
	for n := p.list[q.at].count; n < q.count; n = p.list[q.at].count {
		q = piece{p.list[q.at].rest, q.count - n}
	}
	return q.at
}

// find walks along a chain extent by extent. Hits may end within an extent.
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

// lease splits the last extent of hits where they end in it, and adds a lease to each.
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

// refer adds a lease to an extent, which becomes active with its first.
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

// take leases blocks without content. Those behind others without content become part of their extent.
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
			p.lost(e.key-1+uint32(e.count), n)
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
		p.lost(chain, int(e.count))
	default:
		p.index.put(chain, e.newer)
	}
	p.free(at)
}

// release ends the leases from the last extent to the first: blocks are evicted in this order.
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

// publish registers chain numbers piece by piece. A piece is cut where blocks differ, and joined with the one before where they are alike.
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
		p.shown(chain, int(e.count))
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

// own marks blocks without content as private, each as an extent of its own.
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

// privates appends the private blocks among leases, with their positions.
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

// share leases the visible block of a chain number, cut out of its extent.
func (p *extents) share(l *leases, chain uint32) bool {
	at := p.single(chain)
	if at == none {
		return false
	}
	p.refer(at)
	l.add(piece{at, 1})
	return true
}

// merge ends the lease of block i and leases the visible block of a chain number instead.
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

// index finds extents by the chain number that they begin with. Chain numbers come in runs, so the table is in pages of consecutive
// numbers, which exist while an extent begins in them: its size follows the pool, not the load.
type index struct {
	pages  []int32 // of each pageSize chain numbers: the page + 1; 0: none
	list   []indexPage
	unused []int32
}

// indexPage is the extents that begin in a page, and which numbers have one.
type indexPage struct {
	begins  uint64
	extents [pageSize]int32
}

const (
	pageBits = 6
	pageSize = 1 << pageBits
)

// find returns the extent that begins with a chain number, or none.
func (x *index) find(chain uint32) int32 {
	p := chain >> pageBits
	if int(p) >= len(x.pages) || x.pages[p] == 0 {
		return none
	}
	page := &x.list[x.pages[p]-1]
	if page.begins>>(chain%pageSize)&1 == 0 {
		return none
	}
	return page.extents[chain%pageSize]
}

// put stores the extent that begins with a chain number. Another one that did is forgotten.
func (x *index) put(chain uint32, extent int32) {
	p := chain >> pageBits
	if int(p) >= len(x.pages) {
		x.pages = append(x.pages, make([]int32, int(p)+1-len(x.pages))...)
	}
	if x.pages[p] == 0 {
		x.pages[p] = x.newPage() + 1
	}
	page := &x.list[x.pages[p]-1]
	page.begins |= 1 << (chain % pageSize)
	page.extents[chain%pageSize] = extent
}

// remove forgets the extent that begins with a chain number.
func (x *index) remove(chain uint32) {
	p := chain >> pageBits
	page := &x.list[x.pages[p]-1]
	if page.begins &^= 1 << (chain % pageSize); page.begins == 0 {
		x.unused = append(x.unused, x.pages[p]-1)
		x.pages[p] = 0
	}
}

// newPage returns an empty page.
func (x *index) newPage() int32 {
	if n := len(x.unused); n > 0 {
		page := x.unused[n-1]
		x.unused = x.unused[:n-1]
		return page
	}
	x.list = append(x.list, indexPage{})
	return int32(len(x.list) - 1)
}

// next returns the first chain number from first on, before end, with which an extent begins; end without one.
func (x *index) next(first, end uint32) uint32 {
	for first < end {
		p := first >> pageBits
		if int(p) >= len(x.pages) {
			return end
		}
		if x.pages[p] > 0 {
			if begins := x.list[x.pages[p]-1].begins >> (first % pageSize); begins != 0 {
				return min(first+uint32(bits.TrailingZeros64(begins)), end)
			}
		}
		first = (p + 1) << pageBits
	}
	return end
}

// before returns the last chain number from first on, at most last, with which an extent begins; false without one.
func (x *index) before(first, last uint32) (uint32, bool) {
	for at := int64(last); at >= int64(first); at = at>>pageBits<<pageBits - 1 {
		p := at >> pageBits
		if int(p) >= len(x.pages) || x.pages[p] == 0 {
			continue
		}
		if begins := x.list[x.pages[p]-1].begins << (pageSize - 1 - at%pageSize); begins != 0 {
			at -= int64(bits.LeadingZeros64(begins))
			return uint32(at), at >= int64(first)
		}
	}
	return 0, false
}
