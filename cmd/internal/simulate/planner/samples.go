package planner

import "math"

// sample is a pass: what it did, and its seconds. A kind with one feature leaves the second 0.
type sample struct {
	x    [2]float64
	wall float64
}

// samples keeps passes of all sizes: when it is full, the oldest of the fullest bucket goes. Buckets have equal widths over the range
// seen so far, and are drawn anew when it grows.
type samples struct {
	most    int
	axis    int // buckets along a feature
	list    []sample
	bucket  []int // of each of list
	counts  []int // of buckets
	low     [2]float64
	high    [2]float64
	changes int
}

// newSamples returns an empty store of most samples in so many buckets.
func newSamples(most, buckets, features int) samples {
	axis, all := buckets, buckets
	if features == 2 {
		axis = int(math.Sqrt(float64(buckets)))
		all = axis * axis
	}
	inf := math.Inf(1)
	return samples{most: most, axis: axis, counts: make([]int, all), low: [2]float64{inf, inf}, high: [2]float64{-inf, -inf}}
}

// add keeps a sample.
func (s *samples) add(v sample) {
	s.changes++
	if s.widen(v.x) {
		clear(s.counts)
		for i, old := range s.list {
			s.bucket[i] = s.place(old.x)
			s.counts[s.bucket[i]]++
		}
	}
	b := s.place(v.x)
	s.counts[b]++
	s.list, s.bucket = append(s.list, v), append(s.bucket, b)
	if len(s.list) > s.most {
		s.retire()
	}
}

// widen takes a value into the range, and reports whether it lay outside.
func (s *samples) widen(x [2]float64) (grown bool) {
	for k, v := range x {
		if v < s.low[k] {
			s.low[k], grown = v, true
		}
		if v > s.high[k] {
			s.high[k], grown = v, true
		}
	}
	return grown
}

// place returns the bucket of a value.
func (s *samples) place(x [2]float64) (bucket int) {
	for k, v := range x {
		if s.high[k] > s.low[k] {
			i := int((v - s.low[k]) / (s.high[k] - s.low[k]) * float64(s.axis))
			i = max(0, min(i, s.axis-1))
			if k == 0 {
				bucket = i
			} else {
				bucket += i * s.axis
			}
		}
	}
	return bucket
}

// retire drops the oldest sample of the fullest bucket, the first of those that are as full.
func (s *samples) retire() {
	fullest := 0
	for b, n := range s.counts {
		if n > s.counts[fullest] {
			fullest = b
		}
	}
	for i, b := range s.bucket {
		if b == fullest {
			copy(s.list[i:], s.list[i+1:])
			copy(s.bucket[i:], s.bucket[i+1:])
			s.list, s.bucket = s.list[:len(s.list)-1], s.bucket[:len(s.bucket)-1]
			s.counts[b]--
			return
		}
	}
}
