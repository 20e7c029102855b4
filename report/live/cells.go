package live

import (
	"math"
	"math/bits"
)

// cells counts whole numbers from 0 to math.MaxInt64 in cells that are at most 1/128 as wide as the numbers in them. Unlike a
// histogram of package hdrhistogram it also takes numbers out again, so that a look costs what is new and what is old, not all cells
// of all sections. The zero value is ready to use.
type cells struct {
	counts [(64 - cellBits) << cellBits]int32
	n      int64
}

// cellBits are the bits that tell apart the cells of one power of two.
const cellBits = 7

// cellOf returns the cell of a number: small numbers have one each, others share one with those of the same first cellBits+1 bits.
func cellOf(v int64) uint16 {
	shift := max(0, bits.Len64(uint64(v))-cellBits-1)
	return uint16(shift<<cellBits + int(v>>shift))
}

// middleOf returns the number in the middle of a cell.
func middleOf(cell int) int64 {
	shift := max(0, cell>>cellBits-1)
	least := int64(cell-shift<<cellBits) << shift
	return least + int64(1)<<shift/2
}

func (c *cells) add(cell uint16) {
	c.counts[cell]++
	c.n++
}

func (c *cells) remove(cell uint16) {
	c.counts[cell]--
	c.n--
}

// percentiles returns the nearest-rank percentiles, asked for in ascending order, of 100. There must be a number.
func (c *cells) percentiles(values []int64, asked ...float64) {
	below, cell := int64(0), -1
	for k, q := range asked {
		for rank := max(1, int64(math.Ceil(q/100*float64(c.n)-1e-6))); below < rank; {
			cell++
			below += int64(c.counts[cell])
		}
		values[k] = middleOf(cell)
	}
}
