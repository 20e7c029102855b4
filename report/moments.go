package report

import "math"

// moments are the mean, the extremes and the standard deviation of values with weights.
type moments struct {
	weight, mean, squares float64 // squares: weighted sum of the squared distances from the mean
	min, max              float64
}

func (m *moments) add(v, weight float64) {
	if m.weight == 0 {
		m.min, m.max = v, v
	}
	m.min, m.max = min(m.min, v), max(m.max, v)
	m.weight += weight
	off := v - m.mean
	m.mean += off * weight / m.weight
	m.squares += weight * off * (v - m.mean)
}

// std returns the standard deviation of the population.
func (m *moments) std() float64 { return math.Sqrt(max(0, m.squares/m.weight)) }
