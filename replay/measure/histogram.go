package measure

import "math"

// histogram counts seconds in cells that are 1 % wide. It serves the live display alone: published numbers are exact.
type histogram struct {
	n     int
	cells [histogramCells]int32
}

const (
	histogramLowest = 1e-6 // seconds; what is less counts as this
	histogramWidth  = 0.01 // of a cell, as a logarithm
	histogramCells  = 2533 // to 1e5 seconds; what is more counts as that
)

func (h *histogram) add(seconds float64) {
	k := 0
	if seconds > histogramLowest {
		k = min(int(math.Log(seconds/histogramLowest)/histogramWidth), histogramCells-1)
	}
	h.cells[k]++
	h.n++
}

// percentile returns the middle of the cell of the sample at q percent, Missing without samples.
func (h *histogram) percentile(q float64) Number {
	rank := int32(q / 100 * float64(h.n-1))
	for k, n := range h.cells {
		if rank < n {
			return Number(histogramLowest * math.Exp((float64(k)+0.5)*histogramWidth))
		}
		rank -= n
	}
	return Missing
}
