package interval

import (
	"bytes"
	"encoding/json"

	"github.com/agentx/agentx/replay/measure"
)

// Comparison is how figures of one run differ from those of another.
type Comparison struct {
	Paired      bool   // tree by tree
	Why         string // the runs are not paired; "": they are
	Trees       int    // pairs, or of the run that has fewer
	Differences []Difference
}

// Compare compares statistics of a metric of two runs: tree by tree where both played the same ones. The error, if any, is a
// *FewTreesError, of a comparison that says whether it would have been paired.
func Compare(a, b *Run, metric string, stats []Statistic) (Comparison, error) {
	seed := a.Seed.With(b.Seed)
	c := Comparison{Why: differentTrees(a.Info, b.Info)}
	if c.Why == "" {
		c.Paired = true
		var err error
		c.Differences, c.Trees, err = Paired(a.Sample(metric), b.aligned(a, metric), stats, seed)
		return c, err
	}
	c.Trees = min(a.Trees(), b.Trees())
	var err error
	c.Differences, err = Unpaired(a.Sample(metric), b.Sample(metric), stats, seed)
	return c, err
}

// aligned returns the sample of a metric with the numbers that another run has for the same trees, and negative ones for trees that it
// did not play.
func (r *Run) aligned(other *Run, metric string) Sample {
	numbers := map[TreeName]int32{}
	for n, name := range other.played {
		numbers[name] = n
	}
	of := map[int32]int32{}
	for n, name := range r.played {
		if same, ok := numbers[name]; ok {
			of[n] = same
		} else {
			of[n] = -1 - n
		}
	}
	s := r.Sample(metric)
	trees := make([]int32, len(s.Trees))
	for k, t := range s.Trees {
		trees[k] = of[t]
	}
	return Sample{s.Values, trees}
}

// differentTrees says why two runs did not play the same trees; "": they did.
func differentTrees(a, b measure.RunInfo) string {
	switch {
	case a.Dataset.Key == "" || a.Dataset.Key != b.Dataset.Key:
		return "they played different datasets"
	case a.Lanes != b.Lanes:
		return "they had different numbers of lanes"
	case !bytes.Equal(option(a, "seed"), option(b, "seed")):
		return "they had different seeds"
	}
	return ""
}

// option returns the value of an option of a run as JSON; nil if it is not known.
func option(info measure.RunInfo, name string) json.RawMessage {
	for _, o := range info.Options {
		if o.Name == name {
			return bytes.TrimSpace(o.Value)
		}
	}
	return nil
}
