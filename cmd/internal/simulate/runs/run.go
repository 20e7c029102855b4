// Package runs simulates the runs of a command, one or many, and tells what they answer.
//
// A [Player] plays every [Run] at once or looks for the fewest workers, writes the files of each, and judges it by its gates. A Run keeps
// no request of its result. [Answers] says in words where runs begin or cease to keep their gates. [Write] writes the page of several runs:
// their figures, how those change with what the runs differ in, and their distributions over each other (doc/spec/simulate.md 17).
package runs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agentx/agentx/cmd/internal/simulate"
	"github.com/agentx/agentx/cmd/internal/simulate/fit"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// Run is one of the runs of a command: what is simulated, and its results.
type Run struct {
	Name    string            `json:"name"`           // what tells it from the others; empty: there is one
	Dir     string            `json:"dir"`            // of its files, below that of all; empty: none
	Exit    int               `json:"exit"`           // exit status that a command would have for this run alone; 0: it kept every gate
	Page    string            `json:"page,omitempty"` // file; empty: none
	Reasons []string          `json:"reasons"`        // why Exit is another
	Summary *simulate.Summary `json:"summary"`        // null: it came to no end

	Config   simulate.Config `json:"-"`
	Compared []fit.Error     `json:"-"` // of the load of a run: as it was measured, and as it was simulated
	Engine   string          `json:"-"` // what its engine is called; empty: all runs have the same
	Samples  Samples         `json:"-"` // of the page of several runs
	Warnings []string        `json:"-"`
	Err      error           `json:"-"` // nil: Exit is 0
}

// The exit statuses of runs besides 0.
const (
	failed = 1
	No     = 3 // it came to its end, or to a dead one, and does not keep its gates
)

// Judge returns the error of runs: that of the worst. no: it is a verdict.
func Judge(list []*Run) (no bool, err error) {
	var failed []string
	for _, r := range list {
		switch {
		case r.Err == nil:
			continue
		case r.Name == "":
			return r.Exit == No, r.Err
		}
		no = r.Exit == No && (no || len(failed) == 0)
		failed = append(failed, fmt.Sprintf("%s: %s", r.Name, strings.ReplaceAll(r.Err.Error(), "\n", "; ")))
	}
	if len(failed) > 0 {
		err = fmt.Errorf("%d of %d runs: %s", len(failed), len(list), strings.Join(failed, "; "))
	}
	return no, err
}

// mostSamples is how many values of each metric a page has of a run.
const mostSamples = 501

// Samples are values of a run at evenly spaced ranks, sorted, in seconds: the least, the largest, and what lies between.
type Samples map[string][]float64

// newSamples takes the values of a result.
func newSamples(r *simulate.Result) Samples {
	var ttft, itl, latency []float64
	for _, q := range r.Requests {
		l, ok := simulate.LatencyOf(q)
		if !ok {
			continue
		}
		ttft, latency = append(ttft, float64(l.TTFT)), append(latency, float64(l.E2E))
		if l.Tokens > 1 {
			itl = append(itl, l.ITL)
		}
	}
	s := Samples{"ttft": ranked(ttft), "itl": ranked(itl), "latency": ranked(latency)}
	if r.Gaps.Count() > 0 {
		for k := range mostSamples {
			s["token_gap"] = append(s["token_gap"], r.Gaps.Percentile(float64(k)*100/(mostSamples-1))/1e9)
		}
	}
	return s
}

// ranked returns at most mostSamples of nanoseconds at evenly spaced ranks, as seconds.
func ranked(values []float64) []float64 {
	slices.Sort(values)
	n := min(len(values), mostSamples)
	list := make([]float64, n)
	for k := range list {
		at := k
		if n < len(values) {
			at = k * (len(values) - 1) / (n - 1)
		}
		list[k] = values[at] / 1e9
	}
	return list
}

// gpuSeconds is the time that GPUs were there, of which a planner may have taken some away.
func gpuSeconds(s *simulate.Summary) measure.Number { return s.GPUHours * 3600 }

// extra are figures of a page that no gate names.
var extra = []figure{
	{Name: perGPU, Metric: perGPU, Unit: slo.Rate, of: func(s *simulate.Summary) measure.Number {
		if gpuSeconds(s) == 0 {
			return measure.Missing
		}
		return measure.Number(s.OutputTokens) / gpuSeconds(s)
	}},
	{Name: "reuse_unlimited", Metric: "reuse_unlimited", of: func(s *simulate.Summary) measure.Number { return s.ReuseUnlimited }},
	{Name: "preemptions", Metric: "preemptions", Unit: count, of: func(s *simulate.Summary) measure.Number { return measure.Number(s.Preemptions) }},
	{Name: "evictions", Metric: "evictions", Unit: count, of: func(s *simulate.Summary) measure.Number { return measure.Number(s.Evictions) }},
	{Name: "gpu_hours", Metric: "gpu_hours", Unit: hours, of: func(s *simulate.Summary) measure.Number { return s.GPUHours }},
}

// perGPU names output tokens a second and GPU.
const perGPU = "output_token_rate_per_gpu"

// The units of a page that conditions do not have.
const (
	count slo.Unit = "1"
	hours slo.Unit = "h"
)

// figure is a number of a run on the page.
type figure struct {
	Name      string   `json:"name"`
	Metric    string   `json:"metric"`
	Statistic string   `json:"statistic"` // "": the metric has one value
	Unit      slo.Unit `json:"unit"`

	of func(*simulate.Summary) measure.Number
}

// figures are those of a page, of which tables and charts take some.
func figures() (list []figure) {
	for _, m := range simulate.Metrics() {
		statistics := []string{""}
		if m.OfEach {
			statistics = slo.Statistics
		}
		for _, statistic := range statistics {
			f := slo.Figure{Metric: m, Statistic: statistic}
			list = append(list, figure{f.String(), m.Name, statistic, m.Unit, func(s *simulate.Summary) measure.Number { return s.Figure(f) }})
		}
	}
	return append(list, extra...)
}
