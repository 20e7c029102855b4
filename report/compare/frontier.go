package compare

import (
	"slices"
	"strconv"

	"github.com/agentx/agentx/replay/measure"
)

// Point is a run on the frontier: what it gives to all beside what it gives to each.
type Point struct {
	Run         int                     `json:"run"`         // its place in the comparison
	Concurrency int                     `json:"concurrency"` // 0: no cap, or not known
	Throughput  measure.Number          `json:"throughput"`  // output tokens per second, per GPU where their number is known
	At          map[string]PointFigures `json:"at"`          // by statistic: p50, p90, p95
	Hollow      bool                    `json:"hollow"`      // the run is marked
}

// PointFigures are the figures of a point at one statistic. A point is dominated where another run has as much of both, and more of
// one; runs that are marked dominate none.
type PointFigures struct {
	Interactivity   measure.Number `json:"interactivity"` // output tokens per second that one reader gets: 1 / inter-token latency
	TTFT            measure.Number `json:"ttft"`
	Dominated       bool           `json:"dominated"`         // on throughput against interactivity
	DominatedByTTFT bool           `json:"dominated_by_ttft"` // on throughput against the time to the first token
}

// frontierStatistics are those that a reader may choose from.
var frontierStatistics = []string{"p50", "p90", "p95"}

// Frontier is the points of all runs, and the lines that join them.
type Frontier struct {
	GPUs   int     `json:"gpus"` // 0: throughput is of the whole server
	Points []Point `json:"points"`
	Lines  [][]int `json:"lines"` // runs that differ in concurrency alone, by concurrency
}

func frontierOf(runs []*run, gpus int) Frontier {
	f := Frontier{GPUs: gpus, Points: []Point{}, Lines: linesOf(runs)}
	for k, r := range runs {
		p := Point{Run: k, Throughput: r.summary.OutputTokenRate / measure.Number(max(1, gpus)), At: map[string]PointFigures{}, Hollow: len(r.marks()) > 0}
		p.Concurrency, _ = strconv.Atoi(r.settings["concurrency"])
		for _, name := range frontierStatistics {
			p.At[name] = PointFigures{Interactivity: 1 / r.summary.ITL.Figure(name), TTFT: r.summary.TTFT.Figure(name)}
		}
		f.Points = append(f.Points, p)
	}
	for k := range f.Points {
		for _, name := range frontierStatistics {
			at := f.Points[k].At[name]
			at.Dominated = f.dominated(k, func(p *Point) measure.Number { return p.At[name].Interactivity })
			at.DominatedByTTFT = f.dominated(k, func(p *Point) measure.Number { return -p.At[name].TTFT })
			f.Points[k].At[name] = at
		}
	}
	return f
}

// dominated reports whether a run that is not marked is as good as a point in throughput and in a second figure, of which more is
// better, and better in one.
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

// linesOf returns the runs that differ in concurrency alone, two or more of them, by concurrency; of runs with the same, the first.
func linesOf(runs []*run) [][]int {
	lines := [][]int{}
	in := make([]bool, len(runs))
	at := func(k int) int { n, _ := strconv.Atoi(runs[k].settings["concurrency"]); return n }
	for k := range runs {
		if in[k] || at(k) == 0 {
			continue
		}
		line := []int{k}
		for j := k + 1; j < len(runs); j++ {
			if !in[j] && at(j) > 0 && differOnlyIn("concurrency", runs[k], runs[j]) {
				line, in[j] = append(line, j), true
			}
		}
		if len(line) > 1 {
			slices.SortStableFunc(line, func(a, b int) int { return at(a) - at(b) })
			line = slices.CompactFunc(line, func(a, b int) bool { return at(a) == at(b) })
		}
		if len(line) > 1 {
			lines = append(lines, line)
		}
	}
	return lines
}
