package compare

import (
	"slices"
	"strconv"

	"github.com/agentx/agentx/cmd/internal/report/frontier"
	"github.com/agentx/agentx/replay/measure"
)

func frontierOf(runs []*run, gpus int) frontier.Frontier {
	f := frontier.Frontier{GPUs: gpus, Points: []frontier.Point{}, Lines: linesOf(runs)}
	for k, r := range runs {
		p := frontier.Point{Run: k, Throughput: r.delivered() / measure.Number(max(1, gpus)), At: map[string]frontier.Figures{}, Hollow: len(r.marks()) > 0}
		p.Concurrency, _ = strconv.Atoi(r.settings["concurrency"])
		for _, name := range frontier.Statistics {
			p.At[name] = frontier.Figures{Interactivity: 1 / r.summary.ITL.Figure(name), TTFT: r.summary.TTFT.Figure(name)}
		}
		f.Points = append(f.Points, p)
	}
	f.Judge()
	return f
}

// delivered returns the output tokens a second that a run delivered by its deadline; those of its throughput where that is not known.
func (r *run) delivered() measure.Number {
	d := &r.summary.Delivered
	if rate := d.Rate(d.OutputTokens); !rate.IsMissing() && d.Kind != "" {
		return rate
	}
	return r.summary.OutputTokenRate
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
