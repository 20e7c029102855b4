package parquet

import (
	"fmt"

	"github.com/agentx/agentx/hfsource/column"
)

// budget is how many bytes the current row may still take.
type budget struct {
	row        int // in all
	structure  int // for states, ends of lists and zeros for nulls, see maxStructure
	unreserved int // taken, and not passed to reserve yet
	reserve    func(bytes int64) error
}

// reserveStep is how many bytes of a row are reserved at a time.
const reserveStep = 1 << 20

// reserveTaken reserves what was taken since the last call.
func (b *budget) reserveTaken() error {
	n := b.unreserved
	if b.unreserved = 0; b.reserve == nil || n == 0 {
		return nil
	}
	return b.reserve(int64(n))
}

// take takes bytes of values, and of structure, from the budget.
func (b *budget) take(values, structure int) error {
	b.row -= values + structure
	b.unreserved += values + structure
	if b.structure -= structure; b.row < 0 || b.structure < 0 {
		return &UnsupportedError{fmt.Sprintf("a row that takes more than %d MiB, or %d MiB for nulls", MaxRow>>20, maxStructure>>20), "write the file again as JSON lines, if it is to have such rows"}
	}
	if b.unreserved >= reserveStep {
		return b.reserveTaken()
	}
	return nil
}

// Bytes of the structure of a row.
const (
	stateSize = 1
	endSize   = 4
)

// sizeOf returns the bytes of one value in memory.
func sizeOf(k column.Kind) int {
	switch k {
	case column.Int, column.Uint, column.Float:
		return 8
	case column.Text, column.JSON:
		return 16
	}
	return 0
}

// spend takes n values at a repetition level from the budget, before memory for them is allocated.
func (c *cursor) spend(left *budget, n, rep int, present bool) error {
	depth, size := len(c.want.lists), 0
	if rep > depth { // inside a record whose presence alone is requested
		return nil
	}
	if c.wanted {
		size = sizeOf(c.leaf.kind)
	}
	structure := (depth - rep) * (stateSize + endSize)
	switch {
	case c.want.elementsOnly:
		size = 0
	case !c.want.values:
		structure += stateSize
	case !present:
		structure += endSize // in Nulls
	}
	if present {
		return left.take(n*size, n*structure)
	}
	return left.take(0, n*(structure+size))
}

// spendTexts takes the bytes of the texts from index from on. Texts of a dictionary are counted with the dictionary.
func (c *cursor) spendTexts(left *budget, to *column.Column, from int) error {
	if c.read.source == fromDictionary || len(to.Texts) == from {
		return nil
	}
	n := 0
	for _, t := range to.Texts[from:] {
		n += len(t)
	}
	return left.take(n, 0)
}
