package compare

import (
	"fmt"
	"slices"

	"github.com/agentx/agentx/cmd/internal/report/interval"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// Repeat has the figures of runs that repeat one run.
type Repeat struct {
	Group   string                  `json:"group"`
	Runs    []int                   `json:"runs"`    // their places in the comparison
	Figures map[string]RepeatFigure `json:"figures"` // by name; those that every run has
}

// RepeatFigure is a figure over runs.
type RepeatFigure struct {
	Mean     float64            `json:"mean"`
	Interval *interval.Interval `json:"interval"` // of the mean, by Student's law, 95 %
}

// repeats returns the groups of two and more runs, in the order of their first runs.
func (c *Comparison) repeats() []Repeat {
	list := []Repeat{}
	for k := range c.Runs {
		group := c.Runs[k].Group
		if group == "" {
			continue
		}
		at := slices.IndexFunc(list, func(r Repeat) bool { return r.Group == group })
		if at < 0 {
			list, at = append(list, Repeat{Group: group, Figures: map[string]RepeatFigure{}}), len(list)
		}
		list[at].Runs = append(list[at].Runs, k)
	}
	list = slices.DeleteFunc(list, func(r Repeat) bool { return len(r.Runs) < 2 })
	for k := range list {
		for _, f := range figures {
			c.repeat(&list[k], f.String())
		}
	}
	return list
}

// repeat adds one figure over the runs of a group.
func (c *Comparison) repeat(r *Repeat, name string) {
	var values []float64
	for _, k := range r.Runs {
		v := c.Runs[k].value(name)
		if v.IsMissing() {
			return
		}
		values = append(values, float64(v))
	}
	mean, i, err := interval.Student(values)
	if err == nil && i.Known() {
		r.Figures[name] = RepeatFigure{mean, &i}
	}
}

// text writes the mean and half of the width of its interval.
func (x RepeatFigure) text(f slo.Figure) string {
	half := (x.Interval.High - x.Interval.Low) / 2
	text := measure.FormatFigure(measure.Number(x.Mean), f.Unit) + " ± " + measure.FormatFigure(measure.Number(half), f.Unit)
	if x.Mean != 0 {
		text += fmt.Sprintf(" (%s)", share(half/x.Mean))
	}
	return text
}
