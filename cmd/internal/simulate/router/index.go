package router

import (
	"math/bits"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
)

// Index is the set of chain numbers of which a worker has a visible block, one bit a number.
type Index struct {
	words []uint64
	size  int // numbers in the set, and private blocks
}

// Apply adds the numbers of an event, or removes them.
func (x *Index) Apply(e engine.KVEvent) {
	if e.Private {
		if x.size += int(e.Count); e.Removed {
			x.size -= 2 * int(e.Count)
		}
		return
	}
	first, end := int(e.First), int(e.First)+int(e.Count)
	if n := (end + 63) / 64; n > len(x.words) && !e.Removed {
		x.words = append(x.words, make([]uint64, n-len(x.words))...)
	}
	end = min(end, 64*len(x.words))
	for at := first; at < end; {
		w, n := at/64, min(64-at%64, end-at)
		mask := ^uint64(0) >> (64 - n) << (at % 64)
		before := x.words[w]
		if e.Removed {
			x.words[w] &^= mask
		} else {
			x.words[w] |= mask
		}
		x.size += bits.OnesCount64(x.words[w]) - bits.OnesCount64(before)
		at += n
	}
}

// Leading returns how many blocks at the beginning of a chain are in the set.
func (x *Index) Leading(chain []engine.Run) (blocks int) {
	for _, run := range chain {
		n := x.leadingOf(int(run.First), int(run.Count))
		if blocks += n; n < int(run.Count) {
			break
		}
	}
	return blocks
}

// leadingOf returns how many of the numbers first, first+1, ... are in the set, at most count, until the first that is not.
func (x *Index) leadingOf(first, count int) int {
	for n := 0; n < count; {
		at := first + n
		if at/64 >= len(x.words) {
			return n
		}
		there := bits.TrailingZeros64(^(x.words[at/64] >> (at % 64))) // the bits shifted in are zeros, which end the row
		if there = min(there, 64-at%64); there < 64-at%64 {
			return min(n+there, count)
		}
		n += there
	}
	return count
}

// shared returns how many blocks at their beginnings two chains have in common.
func shared(a, b []engine.Run) (blocks int) {
	i, j, usedA, usedB := 0, 0, uint32(0), uint32(0)
	for i < len(a) && j < len(b) && a[i].First+usedA == b[j].First+usedB {
		n := min(a[i].Count-usedA, b[j].Count-usedB)
		blocks += int(n)
		if usedA += n; usedA == a[i].Count {
			i, usedA = i+1, 0
		}
		if usedB += n; usedB == b[j].Count {
			j, usedB = j+1, 0
		}
	}
	return blocks
}
