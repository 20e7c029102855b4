package inferencex

import (
	"math"
	"slices"
)

// Stats are statistics by name: mean, p50, p75, p90, p95, std. Without values it is empty.
type Stats map[string]Figure

var percentiles = []struct {
	name string
	q    float64
}{{"p50", 50}, {"p75", 75}, {"p90", 90}, {"p95", 95}}

// statsOf computes the statistics of samples, which it sorts.
func statsOf(samples []float64) Stats {
	s := Stats{}
	if len(samples) == 0 {
		return s
	}
	slices.Sort(samples)
	for _, p := range percentiles {
		s[p.name] = Figure(percentile(samples, p.q))
	}
	mean, std := moments(samples)
	s["mean"], s["std"] = Figure(mean), Figure(std)
	return s
}

// ratesOf computes the statistics of the reciprocals of samples, which are sorted: each is the reciprocal of the statistic of the
// same name, so that a high percentile is a slow request; std is that of the reciprocals.
func ratesOf(samples []float64) Stats {
	s := statsOf(samples)
	if len(s) == 0 {
		return s
	}
	rates := make([]float64, len(samples))
	for k, x := range samples {
		rates[k] = 1 / x
	}
	_, std := moments(rates)
	for name, f := range s {
		s[name] = 1 / f
	}
	s["std"] = Figure(std)
	return s
}

// percentile interpolates linearly between the neighbours of a position. It is not that of package measure, by which the files were
// made: this package checks them.
func percentile(sorted []float64, q float64) float64 {
	position := q / 100 * float64(len(sorted)-1)
	below := int(position)
	if below+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[below] + (position-float64(below))*(sorted[below+1]-sorted[below])
}

// moments returns the mean and the standard deviation of the population.
func moments(samples []float64) (mean, std float64) {
	for _, x := range samples {
		mean += x
	}
	mean /= float64(len(samples))
	for _, x := range samples {
		std += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(std / float64(len(samples)))
}
