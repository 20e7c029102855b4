// Package frontier compares runs by throughput against speed per user: each run is a point, and other runs may dominate it.
package frontier

import "github.com/agentx/agentx/replay/measure"

// Statistics are the statistics of speed that a reader may choose from.
var Statistics = []string{"p50", "p90", "p95"}

// Point is a run: its throughput, and its speed per user at each statistic.
type Point struct {
	Run         int                `json:"run"`         // its place in the comparison
	Concurrency int                `json:"concurrency"` // 0: no cap, or not known
	Throughput  measure.Number     `json:"throughput"`  // output tokens per second that were delivered, per GPU where their number is known
	At          map[string]Figures `json:"at"`          // by statistic
	Hollow      bool               `json:"hollow"`      // the run is marked
}

// Figures are the figures of a point at one statistic. A point is dominated if another run has as much of both figures, and more of one. Marked
// runs dominate no point.
type Figures struct {
	Interactivity   measure.Number `json:"interactivity"` // output tokens per second that one reader gets: 1 / inter-token latency
	TTFT            measure.Number `json:"ttft"`
	Dominated       bool           `json:"dominated"`         // on throughput against interactivity
	DominatedByTTFT bool           `json:"dominated_by_ttft"` // on throughput against the time to the first token
}

// Frontier is the points of all runs, and the lines that join them.
type Frontier struct {
	GPUs   int     `json:"gpus"`    // that served each run; 0: not known, or not the same
	PerGPU bool    `json:"per_gpu"` // throughput is per GPU, not of whole servers
	Points []Point `json:"points"`
	Lines  [][]int `json:"lines"` // runs that differ in concurrency alone, by concurrency
}

// Judge finds which points are dominated.
func (f *Frontier) Judge() {
	for k := range f.Points {
		for name, at := range f.Points[k].At {
			at.Dominated = f.dominated(k, func(p *Point) measure.Number { return p.At[name].Interactivity })
			at.DominatedByTTFT = f.dominated(k, func(p *Point) measure.Number { return -p.At[name].TTFT })
			f.Points[k].At[name] = at
		}
	}
}

// dominated reports whether an unmarked run is as good as point k in throughput and in a second figure, of which more is better, and better in
// one of them.
func (f *Frontier) dominated(k int, second func(*Point) measure.Number) bool {
	p := &f.Points[k]
	for j := range f.Points {
		q := &f.Points[j]
		if j == k || q.Hollow {
			continue
		}
		x, y := second(p), second(q)
		if q.Throughput >= p.Throughput && y >= x && (q.Throughput > p.Throughput || y > x) {
			return true
		}
	}
	return false
}

// Axis is a number in which runs differ: what charts of a sweep are drawn against.
type Axis struct {
	Title  string `json:"title"`
	Values []int  `json:"values"` // of each run
	Lines  []Line `json:"lines"`
}

// Line is runs that are joined in the charts of an axis, by their values of it.
type Line struct {
	Name string `json:"name"` // in what it differs from other lines; "": there is one
	Runs []int  `json:"runs"`
}
