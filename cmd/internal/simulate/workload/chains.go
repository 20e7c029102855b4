package workload

import "github.com/agentx/agentx/cmd/internal/simulate/engine"

// IDRun is a range of hash ids in a scope: ID, ID+1, ... Ids of different scopes are different.
type IDRun struct {
	Scope uint32
	ID    int64
	Count int
}

// Chains numbers engine blocks: two prompts share their first k blocks exactly when their first k chain numbers are the same
// (doc/spec/simulate.md 3.3). It is a radix tree of lists of ids. Engine block i of a prompt is decided by the ids that cover tokens up
// to its end, so the blocks of an edge are those whose last id lies on it, with consecutive numbers.
type Chains struct {
	traceBlock, block int
	nodes             []node
	children          map[child]int32
	next              uint32
	chain             []engine.Run // of the prompt that is added
	arena             []engine.Run
}

// node is a list of ids after another one.
type node struct {
	ids    []IDRun
	before int    // ids before it
	count  int    // ids of it
	first  uint32 // chain number of its first block

	last   child // the child that was found last, and
	lastAt int32 // where it is; 0: none
}

// child is a node with the first id of one that follows it.
type child struct {
	node  int32
	scope uint32
	id    int64
}

// NewChains returns a numbering of engine blocks of so many tokens, for ids that stand for traceBlock tokens.
func NewChains(traceBlock, block int) *Chains {
	return &Chains{traceBlock: traceBlock, block: block, nodes: make([]node, 1), children: map[child]int32{}}
}

// Count returns how many numbers have been given.
func (c *Chains) Count() int { return int(c.next) }

// covered returns how many whole engine blocks so many ids cover.
func (c *Chains) covered(ids int) int { return ids * c.traceBlock / c.block }

// Add returns the chain of the full blocks of a prompt that ids cover, and numbers those that are new. A block of which a token is
// covered by no id is private to its request, and has no number.
func (c *Chains) Add(ids []IDRun, tokens int) []engine.Run {
	total := 0
	for _, r := range ids {
		total += r.Count
	}
	c.chain = c.chain[:0]
	left := min(tokens/c.block, c.covered(total))
	at, depth := int32(0), 0
	for list := (cursor{list: ids}); depth < total; {
		key := child{at, list.scope(), list.id()}
		next := c.child(key)
		if next == 0 {
			next = c.grow(key, list, depth, total)
		}
		n := &c.nodes[next]
		same := min(list.match(n.ids), n.count)
		if same < n.count {
			next = c.split(key, next, same)
			n = &c.nodes[next]
		}
		list.skip(same)
		blocks := min(c.covered(depth+same)-c.covered(depth), left)
		c.push(n.first, blocks)
		left -= blocks
		at, depth = next, depth+same
	}
	return c.keep()
}

// child returns the node that follows key.node with the id of the key; 0: none.
func (c *Chains) child(key child) int32 {
	n := &c.nodes[key.node]
	if n.lastAt == 0 || n.last != key {
		n.last, n.lastAt = key, c.children[key]
	}
	return n.lastAt
}

// push appends the numbers first, first+1, ... of so many blocks to the chain of the prompt.
func (c *Chains) push(first uint32, blocks int) {
	switch n := len(c.chain); {
	case blocks == 0:
	case n > 0 && c.chain[n-1].First+c.chain[n-1].Count == first:
		c.chain[n-1].Count += uint32(blocks)
	default:
		c.chain = append(c.chain, engine.Run{First: first, Count: uint32(blocks)})
	}
}

// keep returns a copy of the chain of the prompt, in memory that many chains share.
func (c *Chains) keep() []engine.Run {
	n := len(c.chain)
	if len(c.arena) < n {
		c.arena = make([]engine.Run, max(1024, n))
	}
	kept := c.arena[:n:n]
	c.arena = c.arena[n:]
	copy(kept, c.chain)
	return kept
}

// grow adds a leaf with the ids of list, of a prompt of total ids of which depth stand above it.
func (c *Chains) grow(key child, list cursor, depth, total int) int32 {
	n := node{ids: list.rest(), before: depth, count: total - depth, first: c.next}
	c.next += uint32(c.covered(total) - c.covered(depth))
	c.nodes = append(c.nodes, n)
	return c.put(key, int32(len(c.nodes)-1))
}

// put makes a node the one that a key leads to.
func (c *Chains) put(key child, at int32) int32 {
	c.children[key] = at
	c.nodes[key.node].last, c.nodes[key.node].lastAt = key, at
	return at
}

// split cuts a node after so many ids, and returns its upper part. The lower part keeps the place, so its children stay.
func (c *Chains) split(key child, at int32, ids int) int32 {
	lower := &c.nodes[at]
	list := cursor{list: lower.ids}
	list.skip(ids)
	upper := node{ids: cutRuns(lower.ids, ids), before: lower.before, count: ids, first: lower.first}
	lower.ids = list.rest()
	lower.first += uint32(c.covered(lower.before+ids) - c.covered(lower.before))
	lower.before += ids
	lower.count -= ids
	c.nodes = append(c.nodes, upper)
	above := c.put(key, int32(len(c.nodes)-1))
	c.put(child{above, list.scope(), list.id()}, at)
	return above
}

// cutRuns returns the first ids of a list.
func cutRuns(list []IDRun, ids int) (head []IDRun) {
	for _, r := range list {
		r.Count = min(r.Count, ids)
		if r.Count == 0 {
			break
		}
		head = append(head, r)
		ids -= r.Count
	}
	return head
}

// cursor is a place in a list of ids.
type cursor struct {
	list []IDRun
	used int // ids of the first range
}

func (c *cursor) scope() uint32 { return c.list[0].Scope }
func (c *cursor) id() int64     { return c.list[0].ID + int64(c.used) }

// skip goes forward by so many ids.
func (c *cursor) skip(ids int) {
	c.used += ids
	for len(c.list) > 0 && c.used >= c.list[0].Count {
		c.used -= c.list[0].Count
		c.list = c.list[1:]
	}
}

// rest returns a copy of the ids from here on.
func (c *cursor) rest() []IDRun {
	rest := append([]IDRun(nil), c.list...)
	rest[0].ID += int64(c.used)
	rest[0].Count -= c.used
	return rest
}

// match returns how many ids from here on are those of a list.
func (c cursor) match(list []IDRun) (same int) {
	other := cursor{list: list}
	for len(c.list) > 0 && len(other.list) > 0 && c.scope() == other.scope() && c.id() == other.id() {
		n := min(c.list[0].Count-c.used, other.list[0].Count-other.used)
		same += n
		c.skip(n)
		other.skip(n)
	}
	return same
}
