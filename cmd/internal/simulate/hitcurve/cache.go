package hitcurve

import "github.com/agentx/agentx/cmd/internal/simulate/engine"

// cache is an LRU cache of one pool, of which a router hears. What a prompt was the last to use stands together in it: a piece of that
// prompt, from where later prompts have left it to where evictions have come.
type cache struct {
	size, used int64
	owner      []int32 // by chain number: the access that used it last, plus 1; 0: none has
	held       []held  // by access
	oldest     int     // no access before it holds a block
	told       []engine.KVEvent
}

// held is the blocks of an access that it was the last to use, and that are there.
type held struct {
	chain    []engine.Run
	from, to int64
}

// take returns how many blocks at the beginning of a prompt are there, and leaves all of them as the most recent, the last one first.
// told has what became of the cache, until the next call.
func (c *cache) take(chain []engine.Run) (leading int64) {
	c.told = c.told[:0]
	total := c.own(chain, &leading)
	c.tell(chain, leading, total, false)
	c.held = append(c.held, held{chain, 0, total})
	for c.used += total - leading; c.used > c.size; {
		h := &c.held[c.oldest]
		n := min(c.used-c.size, h.to-h.from)
		c.tell(h.chain, h.to-n, h.to, true)
		h.to -= n
		c.used -= n
		if h.from == h.to {
			h.chain = nil
			c.oldest++
		}
	}
	return leading
}

// own makes the next access the owner of a prompt, and counts the leading blocks that are there. All blocks before one that is there
// are there too: whoever used it used them, and later.
func (c *cache) own(chain []engine.Run, leading *int64) (at int64) {
	k := int32(len(c.held)) + 1
	for _, run := range chain {
		if end := int(run.First + run.Count); end > len(c.owner) {
			c.owner = append(c.owner, make([]int32, end-len(c.owner))...)
		}
		part := c.owner[run.First : run.First+run.Count]
		for i, o := range part {
			if o > 0 {
				if h := &c.held[o-1]; at < h.to {
					h.from = at + 1
					*leading = at + 1
				}
			}
			part[i] = k
			at++
		}
	}
	return at
}

// tell says that the blocks from, to of a prompt are there, or gone.
func (c *cache) tell(chain []engine.Run, from, to int64, removed bool) {
	at := int64(0)
	for _, run := range chain {
		first, end := max(from, at), min(to, at+int64(run.Count))
		if first < end {
			c.told = append(c.told, engine.KVEvent{Run: engine.Run{First: run.First + uint32(first-at), Count: uint32(end - first)}, Removed: removed})
		}
		at += int64(run.Count)
	}
}
