package timeline

import "sort"

// Warp cuts long idle gaps of a whole trace: doc/spec/reconstruction.md 6.3. Where no request starts for longer than a cap,
// everything after the gap moves earlier by the excess. A nil Warp changes nothing.
type Warp struct {
	cap  float64 // seconds
	gaps []gap
}

// gap is a period without a request start that the warp cuts, in seconds.
type gap struct {
	from, to float64
	before   float64 // what earlier gaps cut
	excess   float64 // what this one cuts
}

// NewWarp returns the warp of a trace whose requests start at the given seconds, in any order. limit is the cap in seconds.
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

// Map returns the time to which the warp moves t, in seconds.
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
