package page

import (
	"slices"

	"github.com/agentx/agentx/cmd/internal/simulate"
	"github.com/agentx/agentx/cmd/internal/simulate/planner"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

// head is what the page has besides tables.
type head struct {
	Summary  *simulate.Summary `json:"summary"`
	End      float64           `json:"end"` // of the axis, seconds
	Pools    []pool            `json:"pools"`
	Planner  *planned          `json:"planner"`
	TTFT     *float64          `json:"ttft_limit"` // seconds; null: none
	ITL      *float64          `json:"itl_limit"`
	Switches []deviation       `json:"switches"` // those that differ from the default
	Every    float64           `json:"every"`    // seconds between samples; 0: none
	Columns  int               `json:"columns"`
	Thinned  bool              `json:"thinned"` // lines do not have all their points
	Lines    int               `json:"lines"`   // workers that are drawn
	Workers  int               `json:"workers"` // workers that could be
	Drawn    drawn             `json:"drawn"`
	Lacks    string            `json:"lacks"` // what is not in the model
}

// pool is a pool of workers.
type pool struct {
	Name      string  `json:"name"`
	Blocks    int     `json:"blocks"`
	BlockSize int     `json:"block_size"`
	GPUs      int     `json:"gpus"`
	Startup   float64 `json:"startup"`
}

// planned is what the header says of a planner.
type planned struct {
	Config      planner.Config    `json:"config"`
	Bootstrap   planner.Bootstrap `json:"bootstrap"`
	Warnings    []string          `json:"warnings"`
	Ticks       int               `json:"ticks"`
	Transitions int               `json:"transitions"`
	Windows     int               `json:"windows"` // throughput ticks
}

// deviation is a switch that differs from the default.
type deviation struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Default string `json:"default"`
}

// lacks is what a simulation leaves out: doc/spec/simulate.md 15.
const lacks = "Not in the model: frontend, network and tokenizer time; contention of links; memory tiers below the GPU; speculative decoding; attention data parallelism."

func (b *builder) head() head {
	c, s := &b.result.Config, *b.summary
	s.Out = "" // where files are is no part of the run
	h := head{Summary: &s, End: float64(b.end) / 1e9, Pools: pools(c), Switches: deviations(c.Switches), Columns: b.columns, Lacks: lacks}
	h.Lines, h.Workers = min(len(b.lines), b.most), len(b.lines)
	if b.result.Samples != nil && b.result.Planned == nil {
		h.Every = float64(b.result.Samples.Every) / 1e9
	}
	h.TTFT, h.ITL = limit(float64(c.SLA.TTFT)/1e9), limit(float64(c.SLA.ITL)/1e9)
	if p := b.result.Planned; p != nil {
		h.Planner = &planned{Config: p.Config, Bootstrap: p.Bootstrap, Warnings: append([]string{}, p.Warnings...), Ticks: len(p.Ticks), Transitions: planner.Transitions(p.Ticks)}
		for _, t := range p.Ticks {
			if t.Throughput {
				h.Planner.Windows++
			}
		}
		if p.Config.Target == planner.TargetSLA {
			h.TTFT, h.ITL = limit(p.Config.TTFT/1e3), limit(p.Config.ITL/1e3)
		}
	}
	return h
}

// limit returns nil for 0.
func limit(seconds float64) *float64 {
	if seconds == 0 {
		return nil
	}
	return &seconds
}

func pools(c *simulate.Config) (list []pool) {
	names := []string{"workers"}
	if c.Disaggregated() {
		names = []string{"prefill", "decode"}
	}
	for k, e := range c.Engines() {
		one := e.Config
		list = append(list, pool{Name: names[k], Blocks: one.Blocks, BlockSize: one.BlockSize, GPUs: one.GPUsPerWorker, Startup: one.StartupTime})
	}
	return list
}

func deviations(s preset.Switches) []deviation {
	list := []deviation{}
	base, _ := preset.Named(preset.Default)
	for _, name := range slices.Sorted(slices.Values(preset.List())) {
		if value, usual := s.Get(name), base.Get(name); value != usual {
			list = append(list, deviation{name, value, usual})
		}
	}
	return list
}
