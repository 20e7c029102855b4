package text

// Fit sums up stretches: how well counted sizes fit those that were recorded. It has no text.
type Fit struct {
	Stretches int     `json:"stretches"` // of leastFit turns or more, in which no recorded size fell
	Shrunk    int     `json:"shrunk"`    // those in which one did
	Short     int     `json:"short"`     // those of fewer turns
	P50       float64 `json:"residual_p50"`
	P99       float64 `json:"residual_p99"` // nine of ten stretches have it, or less
	Ratio     float64 `json:"ratio"`        // recorded tokens for each counted one
	Call      float64 `json:"call"`         // tokens around a call and its result, beyond those that are counted
	Filler    int     `json:"filler"`       // tokens; this and what stands above are medians over stretches
	Above     int     `json:"above"`        // stretches whose residual at p99 is above WorstResidual

	Reuse  float64 `json:"shared"`     // mean share of a prompt in blocks that earlier prompts of the trace begin with
	Cached float64 `json:"cached"`     // mean share that the server read from its cache
	Apart  float64 `json:"difference"` // median of their difference
}

// leastFit is how many turns a stretch has at least of which the fit says something.
const leastFit = 8

// WorstResidual is the difference between recorded and counted sizes, as a share, above which an import says so.
const WorstResidual = 0.05

// FitOf sums up stretches.
func FitOf(list []Stretch) (f Fit) {
	var p50, p99, ratio, call, filler, apart []float64
	for k := range list {
		s := &list[k]
		switch {
		case s.Turns < leastFit:
			f.Short++
			continue
		case s.Shrunk:
			f.Shrunk++
			continue
		case s.P99 > WorstResidual:
			f.Above++
		}
		p50, p99, ratio, call, filler = append(p50, s.P50), append(p99, s.P99), append(ratio, s.Ratio), append(call, s.Call), append(filler, float64(s.Lacks))
		if s.Cached > 0 {
			apart = append(apart, s.Apart)
			f.Reuse, f.Cached = f.Reuse+s.Reuse, f.Cached+s.Cached
		}
	}
	if n := float64(len(apart)); n > 0 {
		f.Reuse, f.Cached, f.Apart = f.Reuse/n, f.Cached/n, Percentile(apart, 0.5)
	}
	f.Stretches = len(p50)
	f.P50, f.P99, f.Ratio, f.Call, f.Filler = Percentile(p50, 0.5), Percentile(p99, 0.9), Percentile(ratio, 0.5), Percentile(call, 0.5), int(Percentile(filler, 0.5))
	return f
}
