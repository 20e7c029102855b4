package compare

import (
	"context"
	"maps"
	"slices"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/report/frontier"
)

// Comparison is what was found of several runs: the object of compare.json.
type Comparison struct {
	Title      string            `json:"title"`
	Lead       []string          `json:"lead"` // lines of the caller
	Comparable bool              `json:"comparable"`
	Mismatches []Setting         `json:"mismatches"` // settings that must be equal and are not
	Settings   []Setting         `json:"settings"`   // others that differ
	Runs       []Run             `json:"runs"`
	Verdicts   []Verdict         `json:"verdicts"` // of every run but the first
	Repeats    []Repeat          `json:"repeats"`  // of groups of runs
	Frontier   frontier.Frontier `json:"frontier"`

	runs []*run
}

// Summary returns the summary of a run, by its place in the comparison.
func (c *Comparison) Summary(run int) *measure.Summary { return &c.runs[run].summary }

// Run is one run of a comparison.
type Run struct {
	Name    string             `json:"name"`
	Note    string             `json:"note,omitempty"`
	Group   string             `json:"group,omitempty"`
	Dir     string             `json:"dir"`
	Kind    string             `json:"kind"`  // agentx or aiperf
	Marks   []string           `json:"marks"` // why its figures are not what they seem
	Lacks   []string           `json:"lacks"` // what is not known of it
	Trees   int                `json:"trees"`
	Why     string             `json:"no_intervals,omitempty"` // why its figures have no intervals
	Figures map[string]*Figure `json:"figures"`                // by name: ttft.p95, request_rate
}

// Verdict says whether a run differs from the first.
type Verdict struct {
	Run     int      `json:"run"`           // its place in the comparison
	Method  Method   `json:"method"`        // of the intervals
	Trees   int      `json:"trees"`         // that were compared; 0: not one number for both runs
	Why     string   `json:"why,omitempty"` // the runs are not paired, or there are no intervals
	Figures []string `json:"figures"`       // the judged ones that differ beyond chance; none: nothing does
}

// Make reads runs and compares each with the first.
func Make(ctx context.Context, list []Source, o Options) (*Comparison, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if err := checkSources(list); err != nil {
		return nil, err
	}
	c := &Comparison{Lead: append([]string{}, o.Lead...), Verdicts: []Verdict{}}
	for k, name := range namesOf(list) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r, err := readRun(list[k], name)
		if err != nil {
			return nil, err
		}
		if o.InSeconds != nil {
			r.settings.addUnits(o.InSeconds)
		}
		c.runs = append(c.runs, r)
	}
	c.Mismatches, c.Settings = mismatches(c.runs), otherSettings(c.runs)
	c.Comparable = len(c.Mismatches) == 0
	c.Frontier = frontierOf(c.runs, o.GPUs)
	for k, r := range c.runs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		c.Runs = append(c.Runs, newRun(r))
		if k > 0 {
			c.compareRuns(c.runs[0], r, k)
		}
	}
	c.Repeats, c.Title = c.repeats(), c.titleOf()
	return c, nil
}

// Read reads one run with its figures and their intervals.
func Read(s Source) (*Run, error) {
	r, err := readRun(s, namesOf([]Source{s})[0])
	if err != nil {
		return nil, err
	}
	n := newRun(r)
	return &n, nil
}

// newRun returns the figures of a run.
func newRun(r *run) Run {
	n := Run{
		Name: r.name, Note: r.Note, Group: r.Group, Dir: r.Dir, Kind: r.kind, Marks: r.marks(), Lacks: append([]string{}, r.lacks...),
		Trees: r.requests.treeCount(), Figures: map[string]*Figure{},
	}
	for _, f := range figures {
		n.Figures[f.String()] = &Figure{Value: r.figure(f), Few: r.summary.Few(f)}
	}
	if why := addIntervals(r, n.Figures); why != nil {
		n.Why = why.Error()
	}
	return n
}

// Few reports whether a figure of the run is a percentile of few samples.
func (r *Run) Few() bool {
	return slices.ContainsFunc(slices.Collect(maps.Values(r.Figures)), func(f *Figure) bool { return f.Few })
}

// value returns a figure of the run; Missing where it has none.
func (r *Run) value(name string) measure.Number { return r.Figures[name].Value }
