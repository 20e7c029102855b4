package runs

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/agentx/agentx/cmd/internal/report/frontier"
	"github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/cmd/internal/simulate"
	"github.com/agentx/agentx/cmd/internal/simulate/planner"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// pageFile is the name of the page in a directory of results.
const pageFile = "compare.html"

// Options are runs and what is said of them.
type Options struct {
	Title string // of the page
	Lead  []string
	Runs  []*Run
	Gates []simulate.Gate

	Origin page.Origin
}

// Write writes the page to a file, which appears whole and replaces an older one. Equal runs give equal bytes.
func Write(path string, o Options) error {
	text, err := html(&o)
	if err != nil {
		return err
	}
	return durable.WriteFile(path, text)
}

// head is what the page has besides columns.
type head struct {
	Lead     []string          `json:"lead"`
	Caveat   string            `json:"caveat"`
	Runs     []pageRun         `json:"runs"`
	Axes     []frontier.Axis   `json:"axes"`
	Figures  []figure          `json:"figures"`
	Gates    []simulate.Gate   `json:"gates"`
	Frontier frontier.Frontier `json:"frontier"`
	Along    string            `json:"along"` // the axis of the lines of the frontier
	Differ   []setting         `json:"differ"`
	Same     []setting         `json:"same"`
	Origin   page.Origin       `json:"origin"`
}

type pageRun struct {
	Name    string   `json:"name"`
	Exit    int      `json:"exit"`
	Reasons []string `json:"reasons"`
	Engine  string   `json:"engine"`
}

// html returns the text of the page.
func html(o *Options) ([]byte, error) {
	if len(o.Runs) == 0 {
		return nil, errors.New("comparison: a page needs at least one run")
	}
	all := axesOf(o.Runs)
	h := head{Lead: append([]string{}, o.Lead...), Origin: o.Origin, Caveat: o.Runs[0].Config.Caveat(), Runs: []pageRun{}, Axes: []frontier.Axis{}, Figures: figures(), Gates: append([]simulate.Gate{}, o.Gates...)}
	for _, r := range o.Runs {
		h.Runs = append(h.Runs, pageRun{Name: r.Name, Exit: r.Exit, Reasons: append([]string{}, r.Reasons...), Engine: r.Engine})
	}
	for _, a := range all {
		on := frontier.Axis{Title: a.Title, Lines: linesOf(o.Runs, a, all)}
		for _, r := range o.Runs {
			on.Values = append(on.Values, a.of(&r.Config))
		}
		h.Axes = append(h.Axes, on)
	}
	h.Along, h.Frontier = frontierOf(o.Runs, all)
	var err error
	if h.Differ, h.Same, err = settingsOf(o.Runs); err != nil {
		return nil, fmt.Errorf("comparison: %w", err)
	}
	var text bytes.Buffer
	err = page.Write(&text, &page.Page{Kind: "simulate-compare", Title: o.Title, Head: h, Plain: page.Plain{Lines: o.Lead}, Tables: append(samples(o.Runs), figureTable(o.Runs))})
	return text.Bytes(), err
}

// frontierOf returns the frontier of the runs, per GPU, and the axis along which its lines go: concurrency where runs differ in it.
func frontierOf(runs []*Run, all []axis) (along string, f frontier.Frontier) {
	f = frontier.Frontier{PerGPU: true, Points: []frontier.Point{}, Lines: [][]int{}}
	for k, r := range runs {
		p := frontier.Point{Run: k, Concurrency: r.Config.Concurrency, Throughput: measure.Missing, At: map[string]frontier.Figures{}, Hollow: r.Exit != 0}
		for _, name := range frontier.Statistics {
			at := frontier.Figures{Interactivity: measure.Missing, TTFT: measure.Missing}
			if s := r.Summary; s != nil {
				p.Throughput = extra[0].of(s)
				at.Interactivity = 1 / s.Figure(figureNamed("itl", name))
				at.TTFT = s.Figure(figureNamed("ttft", name))
			}
			p.At[name] = at
		}
		f.Points = append(f.Points, p)
	}
	f.Judge()
	if len(all) == 0 {
		return "", f
	}
	best := all[0]
	if k := slices.IndexFunc(all, func(a axis) bool { return a.moreIsBest }); k >= 0 {
		best = all[k]
	}
	for _, l := range linesOf(runs, best, all) {
		if len(l.Runs) > 1 {
			f.Lines = append(f.Lines, l.Runs)
		}
	}
	return best.Title, f
}

// figureNamed names a statistic of a metric, as Summary.Figure takes it.
func figureNamed(metric, statistic string) slo.Figure {
	return slo.Figure{Metric: slo.Metric{Name: metric}, Statistic: statistic}
}

// figureTable has a row a run and a column a figure.
func figureTable(runs []*Run) page.Table {
	t := page.Table{Name: "figures"}
	for _, f := range figures() {
		values := make([]float64, len(runs))
		for k, r := range runs {
			values[k] = math.NaN()
			if r.Summary != nil {
				values[k] = float64(f.of(r.Summary))
			}
		}
		t.Columns = append(t.Columns, page.Floats(f.Name, string(f.Unit), values))
	}
	return t
}

// samples has a table of each run, in which metrics with fewer values end with values that are not known.
func samples(runs []*Run) (list []page.Table) {
	for k, r := range runs {
		t := page.Table{Name: fmt.Sprintf("samples.%d", k)}
		rows := 0
		for _, values := range r.Samples {
			rows = max(rows, len(values))
		}
		for _, metric := range []string{"ttft", "itl", "token_gap", "latency"} {
			values := slices.Clone(r.Samples[metric])
			for n := range values {
				values[n] = math.Round(values[n]*1e9) / 1e9
			}
			for len(values) < rows {
				values = append(values, math.NaN())
			}
			t.Columns = append(t.Columns, page.Floats(metric, "s", values))
		}
		list = append(list, t)
	}
	return list
}

// axis is a number in which runs differ.
type axis struct {
	Name, Title string

	of         func(*simulate.Config) int
	moreIsBest bool // the answer is the most that keeps the gates, not the least
}

// axes are the numbers in which the runs of a command differ, the ones that are asked for most first.
var axes = []axis{
	{Name: "workers", Title: "workers", of: func(c *simulate.Config) int { return c.Workers }},
	{Name: "prefill_workers", Title: "prefill workers", of: func(c *simulate.Config) int { return c.PrefillWorkers }},
	{Name: "decode_workers", Title: "decode workers", of: func(c *simulate.Config) int { return c.DecodeWorkers }},
	{Name: "concurrency", Title: "concurrency", of: func(c *simulate.Config) int { return c.Concurrency }, moreIsBest: true},
}

// axesOf returns those in which runs differ.
func axesOf(runs []*Run) (list []axis) {
	for _, a := range axes {
		if slices.ContainsFunc(runs, func(r *Run) bool { return a.of(&r.Config) != a.of(&runs[0].Config) }) {
			list = append(list, a)
		}
	}
	return list
}

// linesOf returns the runs by what they have besides an axis.
func linesOf(runs []*Run, along axis, all []axis) (lines []frontier.Line) {
	for k, r := range runs {
		name := r.Engine
		for _, a := range all {
			if a.Name != along.Name {
				name = joined(name, ", ", fmt.Sprintf("%s %d", a.Title, a.of(&r.Config)))
			}
		}
		at := slices.IndexFunc(lines, func(l frontier.Line) bool { return l.Name == name })
		if at < 0 {
			at, lines = len(lines), append(lines, frontier.Line{Name: name})
		}
		lines[at].Runs = append(lines[at].Runs, k)
	}
	for _, l := range lines {
		slices.SortStableFunc(l.Runs, func(a, b int) int { return cmp.Compare(along.of(&runs[a].Config), along.of(&runs[b].Config)) })
	}
	return lines
}

// joined puts a text between two others, where both say something.
func joined(a, between, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + between + b
}

// setting is a value that every run has.
type setting struct {
	Title  string   `json:"title"`
	Values []string `json:"values"` // of each run
}

// settingsOf returns what runs differ in, and what is the same of all and not the default.
func settingsOf(runs []*Run) (differ, same []setting, err error) {
	usual := simulate.Default()
	if first := &runs[0].Config; first.Disaggregated() {
		usual.Workers, usual.PrefillWorkers, usual.DecodeWorkers = 0, first.PrefillWorkers, first.DecodeWorkers
	}
	usual.Router = runs[0].Config.Router // whose keys have defaults
	base, err := flat(&usual)
	if err != nil {
		return nil, nil, err
	}
	base["router"] = string(simulate.RoundRobin)
	of := make([]map[string]string, len(runs))
	names := map[string]bool{}
	for k, r := range runs {
		if of[k], err = flat(&r.Config); err != nil {
			return nil, nil, err
		}
		for name := range of[k] {
			names[name] = true
		}
	}
	differ, same = []setting{}, []setting{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		s := setting{Title: name}
		for _, values := range of {
			s.Values = append(s.Values, values[name])
		}
		switch first := s.Values[0]; {
		case slices.ContainsFunc(s.Values, func(v string) bool { return v != first }):
			differ = append(differ, s)
		case first != base[name]:
			same = append(same, s)
		}
	}
	return differ, same, nil
}

// flat returns what a configuration simulates as texts by names such as engine.block_size. What it has not is left out.
func flat(c *simulate.Config) (map[string]string, error) {
	info := c.Info()
	info.Caveat = ""
	data, err := json.Marshal(struct {
		simulate.RunInfo
		Switches preset.Switches   `json:"switches"`
		SLA      map[string]string `json:"sla"`
		Planner  *planner.Config   `json:"planner"`
	}{info, c.Switches, limits(c.SLA), c.Planner})
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	if err := json.Unmarshal(data, &tree); err != nil {
		return nil, err
	}
	list := map[string]string{}
	flatten(list, "", tree)
	return list, nil
}

// limits returns those that are set.
func limits(s simulate.SLA) map[string]string {
	list := map[string]string{}
	for name, ns := range map[string]int64{"ttft": s.TTFT, "itl": s.ITL, "e2e": s.E2E} {
		if ns > 0 {
			list[name] = time.Duration(ns).String()
		}
	}
	return list
}

// flatten adds the values of a tree of JSON under names such as engine.block_size, without nulls and empty texts.
func flatten(list map[string]string, name string, v any) {
	switch v := v.(type) {
	case nil:
	case map[string]any:
		for key, value := range v {
			flatten(list, joined(name, ".", key), value)
		}
	case string:
		if v != "" {
			list[name] = v
		}
	default:
		data, err := json.Marshal(v)
		if err == nil {
			list[name] = string(data)
		}
	}
}
