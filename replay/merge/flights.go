package merge

import "slices"

// flights are the times from the sending of requests to their ends, in nanoseconds of a phase.
type flights struct{ sent, ended []int64 }

func (f *flights) add(sent, ended int64) {
	f.sent, f.ended = append(f.sent, sent), append(f.ended, ended)
}

// load returns how many requests were in flight up to the last send, at which instant that was: their mean, and the most at a time. A
// request that ends at the instant at which another is sent is not in flight any more. Without a request, or with all at instant 0, there
// is no mean. It sorts the times.
func (f *flights) load() (until int64, mean float64, most int, known bool) {
	slices.Sort(f.sent)
	slices.Sort(f.ended)
	if n := len(f.sent); n > 0 {
		until = f.sent[n-1]
	}
	area, over := int64(0), 0
	for k, at := range f.sent {
		for over < k && f.ended[over] <= at {
			over++
		}
		most = max(most, k+1-over)
		area += min(f.ended[k], until) - at // the k-th end is of another request, which changes no sum
	}
	return until, float64(area) / float64(max(1, until)), most, until > 0
}
