package runs

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/agentx/agentx/cmd/internal/simulate"
	"github.com/agentx/agentx/cmd/internal/simulate/planner"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

// axis is a number in which runs differ.
type axis struct {
	Name  string `json:"name"`
	Title string `json:"title"`

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

// line is runs that differ in an axis alone, by its value.
type line struct {
	Name string `json:"name"` // in what it differs from other lines; empty: there is one
	Runs []int  `json:"runs"`
}

// linesOf returns the runs by what they have besides an axis.
func linesOf(runs []*Run, along axis, all []axis) (lines []line) {
	for k, r := range runs {
		name := r.Engine
		for _, a := range all {
			if a.Name != along.Name {
				name = joined(name, ", ", fmt.Sprintf("%s %d", a.Title, a.of(&r.Config)))
			}
		}
		at := slices.IndexFunc(lines, func(l line) bool { return l.Name == name })
		if at < 0 {
			at, lines = len(lines), append(lines, line{Name: name})
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
