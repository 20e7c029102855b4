package synth

import "slices"

// warp changes all times of the trace, and lets the first be 0. Each interval between two events gets a factor of its own, so
// events keep their order, and what overlapped overlaps.
func (s *resample) warp() {
	var events []int64
	for k := range s.turns {
		events = append(events, s.turns[k].begin, s.turns[k].end)
	}
	slices.Sort(events)
	events = slices.Compact(events)
	moved := make([]int64, len(events))
	for k := 1; k < len(events); k++ {
		moved[k] = moved[k-1] + max(1, int64(rounded(float64(events[k]-events[k-1])*s.near())))
	}
	at := func(event int64) int64 {
		k, _ := slices.BinarySearch(events, event)
		return moved[k]
	}
	for k := range s.turns {
		t := &s.turns[k]
		t.begin, t.end = at(t.begin), at(t.end)
	}
}
