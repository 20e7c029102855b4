package hitcurve

import "slices"

// piece is a part of a prompt: so many blocks that the same other prompt used last, or uses next.
type piece struct {
	other int32 // position of that prompt; -1: none
	count int32 // blocks
}

// pieces cuts every prompt by who has used its blocks last (or, in reverse, who uses them next). A prompt uses the beginning
// of every chain that it shares, so pieces of one prompt that stand closer to its beginning have a nearer neighbour.
type pieces struct {
	list  []piece
	first []int32 // by access: its first piece; one more entry at the end
}

// of returns the pieces of an access, from the beginning of its prompt.
func (p *pieces) of(k int) []piece { return p.list[p.first[k]:p.first[k+1]] }

// cut returns the pieces of the accesses of one pool. owner has an entry of 0 for each chain number, and is overwritten.
func cut(list []Access, owner []int32, reverse bool) *pieces {
	p := &pieces{first: make([]int32, len(list)+1)}
	for n := range list {
		k := n
		if reverse {
			k = len(list) - 1 - n
		}
		p.first[k] = int32(len(p.list)) // where they begin; the end follows below
		p.cutOne(list[k], int32(k), owner)
	}
	p.first[len(list)] = int32(len(p.list))
	if reverse {
		p.turn()
	}
	return p
}

// cutOne appends the pieces of an access, and makes it the owner of its blocks.
func (p *pieces) cutOne(a Access, k int32, owner []int32) {
	last, count := int32(0), int32(0)
	for _, run := range a.Chain {
		part := owner[run.First : run.First+run.Count]
		for i, o := range part {
			if o != last {
				if count > 0 {
					p.list = append(p.list, piece{last - 1, count})
				}
				last, count = o, 0
			}
			count++
			part[i] = k + 1
		}
	}
	if count > 0 {
		p.list = append(p.list, piece{last - 1, count})
	}
}

// turn puts pieces that were cut from the last access to the first into the order of the accesses.
func (p *pieces) turn() {
	ordered := make([]piece, 0, len(p.list))
	n := len(p.first) - 1
	end := int32(len(p.list))
	starts := slices.Clone(p.first[:n])
	for k := range n {
		next := end
		if k > 0 {
			next = starts[k-1]
		}
		p.first[k] = int32(len(ordered))
		ordered = append(ordered, p.list[starts[k]:next]...)
	}
	p.list = ordered
}
