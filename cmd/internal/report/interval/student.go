package interval

import (
	"fmt"
	"math"
)

// Student returns the mean of a figure over runs, and its interval by Student's law. It needs two runs.
func Student(figures []float64) (mean float64, i Interval, err error) {
	n := len(figures)
	if n < 2 {
		return math.NaN(), unknown, fmt.Errorf("an interval over runs needs 2 runs, not %d", n)
	}
	for _, v := range figures {
		mean += (v - figures[0]) / float64(n) // so that the mean of equal figures is that figure
	}
	mean += figures[0]
	square := 0.0
	for _, v := range figures {
		square += (v - mean) * (v - mean)
	}
	half := quantile(n-1) * math.Sqrt(square/float64(n-1)/float64(n))
	return mean, Interval{mean - half, mean + half}, nil
}

// quantile returns the t that a variable of Student's law stays below, in size, with probability Level.
func quantile(freedom int) float64 {
	low, high := 0.0, 1.0
	for within(high, freedom) < level {
		high *= 2
	}
	for range 200 {
		t := (low + high) / 2
		if within(t, freedom) < level {
			low = t
		} else {
			high = t
		}
	}
	return high
}

// within returns the probability that a variable of Student's law lies between -t and t: the finite sums of Abramowitz and Stegun
// 26.7.3 and 26.7.4.
func within(t float64, freedom int) float64 {
	angle := math.Atan2(t, math.Sqrt(float64(freedom)))
	sin, cos := math.Sincos(angle)
	term, sum := 1.0, 0.0
	if freedom%2 == 0 {
		for k := 0; k <= freedom-2; k += 2 {
			sum += term
			term *= cos * cos * float64(k+1) / float64(k+2)
		}
		return sin * sum
	}
	term = cos
	for k := 1; k <= freedom-2; k += 2 {
		sum += term
		term *= cos * cos * float64(k+1) / float64(k+2)
	}
	return 2 / math.Pi * (angle + sin*sum)
}
