package live

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A number stands in a cell whose middle is within half a percent of it, small ones in one of their own, and larger ones in later cells.
func TestCellOf(t *testing.T) {
	before := uint16(0)
	for _, v := range []int64{0, 1, 2, 127, 128, 255, 256, 257, 258, 511, 512, 1 << 20, 1<<20 + 1<<13, 1<<40 - 1, 1 << 40, highest, math.MaxInt64} {
		cell := cellOf(v)
		require.GreaterOrEqual(t, cell, before, v)
		before = cell
		require.InDelta(t, float64(v), float64(middleOf(int(cell))), float64(v)/256, v)
		if v < 256 {
			require.Equal(t, v, middleOf(int(cell)))
		}
	}
}

// Percentiles of cells are those of the numbers that were added and not removed.
func TestCells(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	var c cells
	var numbers []int64
	for range 2000 {
		if len(numbers) > 0 && draw.IntN(3) == 0 {
			k := draw.IntN(len(numbers))
			c.add(cellOf(numbers[k]), -1)
			numbers = slices.Delete(numbers, k, k+1)
		} else {
			v := int64(math.Pow(10, 13*draw.Float64()))
			c.add(cellOf(v), 1)
			numbers = append(numbers, v)
		}
		if len(numbers) == 0 {
			continue
		}
		sorted := slices.Sorted(slices.Values(numbers))
		asked := []float64{50, 75, 90, 95, 99}
		got := c.percentiles(1, asked...)
		for k, q := range asked {
			want := float64(sorted[(len(sorted)*int(q)+99)/100-1])
			require.InDelta(t, want, float64(got[k]), want/256+1)
		}
	}
}
