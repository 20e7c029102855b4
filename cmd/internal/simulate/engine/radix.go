package engine

import "github.com/agentx/agentx/internal/heap"

// radix is the pool of SGLang: a tree of the full blocks that its requests have computed, in which a node is a row of blocks that the same
// requests lease. Blocks are evicted from the end of the leaf that was used longest ago, of those that no request leases:
// doc/spec/simulate.md 5.7.
type radix struct {
	usage
	nodes  []node // the first is the root
	spare  []int32
	first  map[uint64]int32 // nodes by their first key
	clock  int64            // uses
	leaves []leaf           // a heap of the leaves that no request leases, and of what were such
	apart  map[uint64]int32 // blocks with content that their requests have beside the tree, by key, of those that events tell of
}

// node is a row of blocks.
type node struct {
	keys     []keys
	blocks   int
	parent   int32
	children int32
	leases   int32 // of requests whose last node is this one or below it
	used     int64
}

// keys are consecutive keys of blocks: chain numbers, or above them what only one request has. A key stands for all blocks before it, too.
type keys struct {
	first uint64
	count int
}

// leaf is a node that could be evicted when it was put in the heap.
type leaf struct {
	used int64
	at   int32
}

func (l leaf) before(other leaf) bool { return l.used < other.used }

// branch is what a request has of a tree, and could have.
type branch struct {
	keys   []keys // of all full blocks until its end
	last   int32  // node
	cached int    // blocks in the tree, the first ones
	told   int    // blocks that events have told of
	tokens int    // that have room in its blocks
}

// newRadix returns a tree without blocks.
func newRadix(blocks int) *radix {
	return &radix{usage: usage{blocks: blocks}, nodes: []node{{}}, first: map[uint64]int32{}, apart: map[uint64]int32{}}
}

// newBranch returns the branch of a request with its chain numbers, and others of its own for so many blocks in all.
func newBranch(r *Request, serial, blocks int) *branch {
	b := &branch{}
	for _, run := range r.Chain {
		b.keys = append(b.keys, keys{uint64(run.First), int(run.Count)})
	}
	if own := blocks - r.shared; own > 0 {
		b.keys = append(b.keys, keys{uint64(serial) << 32, own})
	}
	return b
}

// cut returns the keys of blocks from one on to before another.
func cut(list []keys, from, to int) (part []keys) {
	at := 0
	for _, k := range list {
		if lo, hi := max(from, at), min(to, at+k.count); lo < hi {
			part = append(part, keys{k.first + uint64(lo-at), hi - lo})
		}
		at += k.count
	}
	return part
}

// join appends keys to a list.
func join(list, more []keys) []keys {
	if last := &list[len(list)-1]; last.first+uint64(last.count) == more[0].first {
		last.count += more[0].count
		more = more[1:]
	}
	return append(list, more...)
}

// key returns the key of block i.
func key(list []keys, i int) uint64 {
	for _, k := range list {
		if i < k.count {
			return k.first + uint64(i)
		}
		i -= k.count
	}
	panic("engine: a block without a key")
}

// common returns how many leading blocks of a node are those of keys from a block on.
func (n *node) common(list []keys, from int) (blocks int) {
	i, used := 0, 0 // of the keys of the node
	for _, k := range list {
		if from >= k.count {
			from -= k.count
			continue
		}
		for from < k.count {
			if i == len(n.keys) || n.keys[i].first+uint64(used) != k.first+uint64(from) {
				return blocks
			}
			same := min(n.keys[i].count-used, k.count-from)
			blocks, from, used = blocks+same, from+same, used+same
			if used == n.keys[i].count {
				i, used = i+1, 0
			}
		}
		from = 0
	}
	return blocks
}

// find returns how many leading blocks of keys are in the tree, at most so many.
func (p *radix) find(list []keys, most int) (blocks int) {
	for blocks < most {
		at, ok := p.first[key(list, blocks)]
		if !ok {
			break
		}
		n := &p.nodes[at]
		same := n.common(list, blocks)
		if blocks += same; same < n.blocks {
			break
		}
	}
	return min(blocks, most)
}

// enter leases the leading blocks of a request that are in the tree, at most so many, and takes others until it has blocks. Without
// room it returns false.
func (p *radix) enter(r *Request, most, blocks int) bool {
	b := r.branch
	b.last, b.cached = 0, 0
	p.clock++
	for b.cached < most {
		at, ok := p.first[key(b.keys, b.cached)]
		if !ok {
			break
		}
		same := min(p.nodes[at].common(b.keys, b.cached), most-b.cached)
		b.cached += same
		if same < p.nodes[at].blocks {
			b.last = p.split(at, same)
			break
		}
		b.last = at
		p.nodes[at].used = p.clock
	}
	p.lease(b.last)
	if blocks-b.cached > p.blocks-p.active {
		p.unlease(b.last)
		return false
	}
	p.take(blocks - b.cached)
	r.leases.blocks, b.told = blocks, b.cached
	return true
}

// lease adds a lease to a node and those above it.
func (p *radix) lease(at int32) {
	for ; at != 0; at = p.nodes[at].parent {
		n := &p.nodes[at]
		if n.leases++; n.leases == 1 {
			p.active += n.blocks
			p.inactive -= n.blocks
		}
	}
}

// unlease ends a lease of a node and those above it.
func (p *radix) unlease(at int32) {
	for ; at != 0; at = p.nodes[at].parent {
		n := &p.nodes[at]
		if n.leases--; n.leases == 0 {
			p.active -= n.blocks
			p.inactive += n.blocks
			p.offer(at)
		}
	}
}

// offer puts a node into the heap, if it can be evicted.
func (p *radix) offer(at int32) {
	if n := &p.nodes[at]; at != 0 && n.leases == 0 && n.children == 0 {
		if len(p.leaves) > 2*len(p.nodes)+64 { // most are none any more
			old := p.leaves
			p.leaves = nil
			for _, l := range old {
				if p.evictable(l) {
					heap.Push(&p.leaves, l, leaf.before)
				}
			}
		}
		heap.Push(&p.leaves, leaf{n.used, at}, leaf.before)
	}
}

// evictable reports whether a leaf of the heap still is what it was.
func (p *radix) evictable(l leaf) bool {
	n := &p.nodes[l.at]
	return n.used == l.used && n.blocks > 0 && n.leases == 0 && n.children == 0
}

// split makes the first blocks of a node one above the others, and returns it. It counts as used when the node was.
func (p *radix) split(at int32, blocks int) (above int32) {
	n := p.nodes[at]
	above = p.add(node{keys: cut(n.keys, 0, blocks), blocks: blocks, parent: n.parent, children: 1, leases: n.leases, used: n.used})
	rest := &p.nodes[at]
	rest.keys, rest.blocks, rest.parent = cut(n.keys, blocks, n.blocks), n.blocks-blocks, above
	p.first[rest.keys[0].first] = at
	return above
}

// add puts a node into the tree. Pointers into the list end.
func (p *radix) add(n node) (at int32) {
	if last := len(p.spare) - 1; last >= 0 {
		at, p.spare = p.spare[last], p.spare[:last]
		p.nodes[at] = n
	} else {
		at, p.nodes = int32(len(p.nodes)), append(p.nodes, n)
	}
	p.first[n.keys[0].first] = at
	return at
}

// take takes so many unused blocks, and evicts others where there are too few.
func (p *radix) take(count int) {
	p.evict(count - p.unused())
	p.active += count
}

// evict drops so many blocks that no request leases, as far as there are.
func (p *radix) evict(count int) {
	for count > 0 && len(p.leaves) > 0 {
		l := heap.Pop(&p.leaves, leaf.before)
		if !p.evictable(l) {
			continue
		}
		n := &p.nodes[l.at]
		left := max(n.blocks-count, 0)
		gone := cut(n.keys, left, n.blocks)
		p.inactive -= n.blocks - left
		p.evictions += int64(n.blocks - left)
		count -= n.blocks - left
		p.tell(gone, true)
		if left > 0 {
			n.keys, n.blocks = cut(n.keys, 0, left), left
			p.offer(l.at)
			continue
		}
		delete(p.first, n.keys[0].first)
		parent := n.parent
		*n = node{}
		p.spare = append(p.spare, l.at)
		p.nodes[parent].children--
		p.offer(parent)
	}
}

// cache puts the blocks of a request before block end into the tree. Where the tree has one already, the request gives its own back.
func (p *radix) cache(r *Request, end int) {
	b := r.branch
	if end <= b.cached {
		return
	}
	last := p.insert(r, end)
	if last != b.last {
		p.lease(last)
		p.unlease(b.last)
		b.last = last
	}
	b.cached = end
}

// insert puts blocks into the tree and returns the last node. Blocks that were there already are unused then.
func (p *radix) insert(r *Request, end int) (at int32) {
	b, k := r.branch, r.branch.cached
	p.settle(b, end)
	p.clock++
	now := p.clock
	for at = b.last; at != 0; at = p.nodes[at].parent {
		p.nodes[at].used = now
	}
	for at = b.last; k < end; {
		n := &p.nodes[at]
		if at != 0 && n.children == 0 && (n.leases == 0 || at == b.last && n.leases == 1) { // it grows
			n.keys = join(n.keys, cut(b.keys, k, end))
			n.blocks, n.used = n.blocks+end-k, now
			if n.leases == 0 {
				p.active, p.inactive = p.active-(end-k), p.inactive+end-k
				p.offer(at)
			}
			return at
		}
		next, ok := p.first[key(b.keys, k)]
		if !ok {
			return p.child(at, cut(b.keys, k, end), end-k)
		}
		same := min(p.nodes[next].common(b.keys, k), end-k)
		p.active -= same
		if k += same; same < p.nodes[next].blocks {
			at = p.split(next, same)
			if k < end {
				return p.child(at, cut(b.keys, k, end), end-k)
			}
			return at
		}
		at, p.nodes[next].used = next, now
		p.offer(at)
	}
	return at
}

// child adds a node with the blocks that a request has had.
func (p *radix) child(parent int32, list []keys, blocks int) int32 {
	p.clock++
	p.nodes[parent].children++
	at := p.add(node{keys: list, blocks: blocks, parent: parent, used: p.clock})
	p.active, p.inactive = p.active-blocks, p.inactive+blocks
	p.offer(at)
	return at
}

// finish ends the leases of a request. Its full blocks stay in the tree, if there is one.
func (p *radix) finish(r *Request, full int, caching bool) {
	b := r.branch
	if caching && full > b.cached {
		p.active -= r.leases.blocks - full
		p.insert(r, full)
		p.unlease(b.last)
	} else {
		p.drop(r)
	}
	r.leases.blocks, b.tokens = 0, 0
}

// drop ends the leases of a request. Blocks beside the tree are unused then.
func (p *radix) drop(r *Request) {
	b := r.branch
	if p.settle(b, b.told); p.log != nil && b.told > b.cached {
		p.tell(cut(b.keys, max(p.find(b.keys, b.told), b.cached), b.told), true)
	}
	p.active -= r.leases.blocks - b.cached
	p.unlease(b.last)
	r.leases.blocks, b.tokens = 0, 0
}

// announce tells that a request has its first blocks, which are beside the tree until they are cached.
func (p *radix) announce(b *branch, end int) {
	if p.log == nil || end <= b.told {
		return
	}
	list := cut(b.keys, b.told, end)
	for _, k := range list {
		for i := range k.count {
			p.apart[k.first+uint64(i)]++
		}
	}
	p.tell(list, false)
	b.told = end
}

// settle tells of what changes when the blocks of a request before block end come into the tree; or, where they do not, are unused.
func (p *radix) settle(b *branch, end int) {
	if p.log == nil {
		return
	}
	for _, k := range cut(b.keys, b.cached, b.told) {
		for i := range k.count {
			if one := k.first + uint64(i); p.apart[one] > 1 {
				p.apart[one]--
			} else {
				delete(p.apart, one)
			}
		}
	}
	if end > b.told {
		p.tell(cut(b.keys, b.told, end), false)
	}
	b.told = max(b.told, end)
}

// tell adds the event that blocks are there, or that none of their copies is left.
func (p *radix) tell(list []keys, removed bool) {
	if p.log == nil {
		return
	}
	for _, k := range list {
		for i := range k.count {
			one := k.first + uint64(i)
			switch {
			case removed && p.apart[one] > 0:
			case one >= 1<<32:
				p.log.addPrivate(removed)
			default:
				p.log.add(uint32(one), 1, removed)
			}
		}
	}
}
