package engine

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
}

func (u *usage) state() *usage { return u }

// unused returns how many blocks hold nothing.
func (u *usage) unused() int { return u.blocks - u.active - u.inactive }

// leases is the blocks of a request in order, or those that it would find.
type leases struct {
	list   []piece
	blocks int
}

// piece is some blocks of a pool. What at names is the pool's.
type piece struct{ at, count int32 }

func (l *leases) add(p piece) {
	l.list = append(l.list, p)
	l.blocks += int(p.count)
}

func (l *leases) reset() { l.list, l.blocks = l.list[:0], 0 }

// cutTo drops all blocks but the first so many.
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
