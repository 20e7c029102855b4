package interval

import (
	"bytes"
	"encoding/json"

	"github.com/agentx/agentx/replay/measure"
)

// Difference is how a figure of one sample, A, differs from that of another, B.
type Difference struct {
	A, B     float64  // over the trees that were compared
	Absolute Interval // of A - B
	Relative Interval // of (A - B) / B; Unknown where a resample has a B of 0
}

// paired compares two samples tree by tree: trees with the same number are a pair, and pairs are drawn. Trees that only one of
// them has are left out. It returns the differences and the number of pairs. The error, if any, is a *fewTreesError.
func paired(a, b Sample, stats []Statistic, seed Seed) ([]Difference, int, error) {
	both, others := a.places(), b.places()
	for t := range both {
		if _, ok := others[t]; !ok {
			delete(both, t)
		}
	}
	if len(both) < MinTrees {
		return nil, len(both), &fewTreesError{len(both), true}
	}
	number(both)
	pa, pb, g := a.prepare(both, stats), b.prepare(both, stats), seed.generator()
	weights := make([]uint32, len(both))
	return compare(pa, pb, stats, func() (wa, wb []uint32) {
		draw(g, weights)
		return weights, weights
	}), len(both), nil
}

// Unpaired compares two samples whose trees have nothing in common: for each resample it draws the trees of a, then those of b.
// The error, if any, is a *fewTreesError.
func Unpaired(a, b Sample, stats []Statistic, seed Seed) ([]Difference, error) {
	ta, tb := a.places(), b.places()
	if n := min(len(ta), len(tb)); n < MinTrees {
		return nil, &fewTreesError{trees: n}
	}
	pa, pb, g := a.prepare(ta, stats), b.prepare(tb, stats), seed.generator()
	wa, wb := make([]uint32, len(ta)), make([]uint32, len(tb))
	return compare(pa, pb, stats, func() ([]uint32, []uint32) {
		draw(g, wa)
		draw(g, wb)
		return wa, wb
	}), nil
}

// compare computes the differences of the samples, and those of the resamples that draw gives.
func compare(a, b *sorted, stats []Statistic, draw func() (wa, wb []uint32)) []Difference {
	fa, fb := make([]float64, len(stats)), make([]float64, len(stats))
	absolute, relative := newDraws(stats), newDraws(stats)
	difference, share := make([]float64, len(stats)), make([]float64, len(stats))
	for range resamples {
		wa, wb := draw()
		a.figures(wa, fa)
		b.figures(wb, fb)
		for k := range stats {
			difference[k] = fa[k] - fb[k]
			share[k] = difference[k] / fb[k]
		}
		absolute.add(difference)
		relative.add(share)
	}
	a.figures(ones(len(a.count)), fa)
	b.figures(ones(len(b.count)), fb)
	list := make([]Difference, len(stats))
	da, dr := absolute.intervals(stats), relative.intervals(stats)
	for k := range stats {
		list[k] = Difference{fa[k], fb[k], da[k], dr[k]}
	}
	return list
}

// ones are the weights of a sample as it is.
func ones(n int) []uint32 {
	list := make([]uint32, n)
	for k := range list {
		list[k] = 1
	}
	return list
}

// Comparison is how figures of one run differ from those of another.
type Comparison struct {
	Paired      bool   // tree by tree
	Why         string // the runs are not paired; "": they are
	Trees       int    // pairs, or of the run that has fewer
	Differences []Difference
}

// Compare compares statistics of a metric of two runs: tree by tree where both played the same ones. The error, if any, is a
// *fewTreesError, of a comparison that says whether it would have been paired.
func Compare(a, b *Run, metric string, stats []Statistic) (Comparison, error) {
	seed := a.Seed.With(b.Seed)
	c := Comparison{Why: differentTrees(a.Info, b.Info)}
	if c.Why == "" {
		c.Paired = true
		var err error
		c.Differences, c.Trees, err = paired(a.Sample(metric), b.aligned(a, metric), stats, seed)
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
	numbers := map[treeName]int32{}
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
