package timeline

import "sort"

// Warp cuts long idle gaps of a whole trace: where no request starts for longer than a cap, the rest moves closer. Nil
// leaves times as they are. Section 6.3.
type Warp struct {
	cap  float64 // seconds
	gaps []gap
}

// gap is a stretch without a start, seconds.
type gap struct{ from, to, before, excess float64 }

// NewWarp returns the warp of a trace whose requests start at the given times, in any order.
func NewWarp(starts []float64, limit float64) *Warp {
	sorted := append([]float64(nil), starts...)
	sort.Float64s(sorted)
	w := &Warp{cap: limit}
	shift := 0.0
	for k := 1; k < len(sorted); k++ {
		a, b := sorted[k-1], sorted[k]
		if b-a > limit {
			excess := b - a - limit
			w.gaps = append(w.gaps, gap{a, b, shift, excess})
			shift += excess
		}
	}
	return w
}

// Map returns where an instant lies after the cut, seconds.
func (w *Warp) Map(t float64) float64 {
	if w == nil {
		return t
	}
	shift := 0.0
	for _, g := range w.gaps {
		if t < g.from {
			return t - g.before
		}
		if t < g.to {
			if t-g.from <= w.cap {
				return t - g.before
			}
			return g.from - g.before + w.cap
		}
		shift = g.before + g.excess
	}
	return t - shift
}
