package inferencex

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Stats are statistics by name: mean, p50, p75, p90, p95, std. Without values it is empty.
type Stats map[string]Figure

var percentiles = []struct {
	name string
	q    float64
}{{"p50", 50}, {"p75", 75}, {"p90", 90}, {"p95", 95}}

// statsOf computes the statistics of samples.
func statsOf(samples []float64) Stats {
	s := Stats{}
	if len(samples) == 0 {
		return s
	}
	samples = slices.Sorted(slices.Values(samples))
	for _, p := range percentiles {
		s[p.name] = Figure(percentile(samples, p.q))
	}
	mean, std := moments(samples)
	s["mean"], s["std"] = Figure(mean), Figure(std)
	return s
}

// ratesOf computes the statistics of the reciprocals of samples: each is the reciprocal of the statistic of the
// same name, so that a high percentile is a slow request; std is that of the reciprocals.
func ratesOf(samples []float64) Stats {
	s := statsOf(samples)
	if len(s) == 0 {
		return s
	}
	rates := slices.Sorted(slices.Values(samples))
	for k, x := range rates {
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
	mean = sum(samples) / float64(len(samples))
	for _, x := range samples {
		std += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(std / float64(len(samples)))
}

func sum(samples []float64) (total float64) {
	for _, x := range samples {
		total += x
	}
	return total
}

// Figure is a number in the results of InferenceX: rounded to five places, and an integer when that leaves a whole number of at
// least 1.
type Figure float64

func figure(x float64) *Figure { f := Figure(x); return &f }

// MarshalJSON returns the figure; a figure that is not finite is null.
func (f Figure) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
		return []byte("null"), nil
	}
	text := strconv.FormatFloat(float64(f), 'f', 5, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	if text == "0" || text == "-0" {
		text = "0.0"
	}
	return []byte(text), nil
}
