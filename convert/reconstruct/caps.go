package reconstruct

import "github.com/agentx/agentx/mmapcache"

// assistantCaps bounds the assistant's message of each turn, in blocks: doc/spec/reconstruction.md 4.6. A later turn may cut
// the prompt at a block boundary and add nothing; the block before the cut has to be the user's then. common[k] is the prefix
// that list k shares with list k-1. mmapcache.None is no limit.
func assistantCaps(common []int, shapes []promptShape, repaired bool) []int {
	o := owners{}
	caps := make([]int, len(shapes))
	kept := make([]int, len(shapes)) // by turn: blocks of the prompt before that it keeps
	for k, s := range shapes {
		caps[k] = mmapcache.None
		if k > 0 {
			kept[k] = min(common[k], o.total)
			if repaired {
				kept[k] = min(kept[k], s.Covered)
			}
		}
		o.truncate(kept[k])
		fresh := max(0, s.Covered-kept[k])
		if k > 0 && fresh == 0 && s.Filler == 0 && kept[k] >= 1 {
			if owner := o.last(); owner != 0 {
				lower(&caps[owner], kept[k]-1-kept[owner])
			}
		}
		o.push(k, fresh)
	}
	return caps
}

// lower sets a cap to a smaller limit. Limits below 0 do not count.
func lower(limit *int, to int) {
	if to >= 0 && (*limit == mmapcache.None || to < *limit) {
		*limit = to
	}
}

// owners are the turns that created the blocks of a prompt, in the order of the blocks.
type owners struct {
	list  []ownedBlocks
	total int // blocks
}

// ownedBlocks are n blocks in a row that a turn created.
type ownedBlocks struct{ turn, n int }

func (o *owners) push(turn, n int) {
	if n > 0 {
		o.list = append(o.list, ownedBlocks{turn, n})
		o.total += n
	}
}

// truncate keeps the first n blocks.
func (o *owners) truncate(n int) {
	for o.total > n {
		top := &o.list[len(o.list)-1]
		drop := min(top.n, o.total-n)
		top.n -= drop
		o.total -= drop
		if top.n == 0 {
			o.list = o.list[:len(o.list)-1]
		}
	}
}

// last returns the turn that created the last block.
func (o *owners) last() int { return o.list[len(o.list)-1].turn }
