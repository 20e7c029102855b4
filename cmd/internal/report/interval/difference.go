package interval

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"

	"github.com/agentx/agentx/internal/pyrand"
	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/replay/measure"
)

// Difference is how a figure of one sample, A, differs from that of another, B.
type Difference struct {
	A, B     float64  // over the trees that were compared
	Absolute Interval // of A - B
	Relative Interval // of (A - B) / B; Unknown where a resample has a B of 0
}

// paired compares two samples tree by tree: trees with the same number are a pair, and resamples draw pairs. It leaves out trees that only one
// sample has. It returns the differences and the number of pairs. The error, if any, is a *fewTreesError.
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

// compare computes the differences of two samples, with intervals from resamples whose weights draw returns.
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

// ones returns n weights of 1, which leave a sample as it is.
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

// Compare compares statistics of a metric of two runs: tree by tree if both played the same ones. The error, if any, is a *fewTreesError; the
// comparison then still says whether it would have been paired.
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

// aligned returns the sample of a metric with trees numbered as in another run. A tree that the other run did not play has a negative number.
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

// differentTrees says why two runs did not play the same trees; "" if they did.
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

// Run has the samples of a run: of each metric that every request has, over the headline requests that ended well.
type Run struct {
	Info measure.RunInfo
	Seed Seed

	rules  measure.Rules
	trees  []int32
	values map[string][]float64
	failed Sample             // 1 of a request that failed, 0 of one that ended well, those of the cooldown included
	played map[int32]treeName // by the number of the tree
}

// treeName identifies a tree: its trace, and how often the run had opened that before.
type treeName struct {
	Trace string
	Pass  int
}

// NewRun returns a run without records. The caller adds them, and sets Seed before it asks for intervals.
func NewRun(info measure.RunInfo, rules measure.Rules) *Run {
	return &Run{Info: info, rules: rules, values: map[string][]float64{}, played: map[int32]treeName{}}
}

// Add adds a record, which it does not keep.
func (r *Run) Add(record *measure.Record) {
	if record.Phase != measure.ProfilingPhase || record.Bucket != measure.Profiling && record.Bucket != measure.Cooldown {
		return
	}
	tree, failed := int32(record.Tree), 0.0
	if record.Error != nil {
		failed = 1
	}
	r.failed.Values, r.failed.Trees = append(r.failed.Values, failed), append(r.failed.Trees, tree)
	r.played[tree] = treeName{record.Trace, record.Pass}
	if record.Error != nil || record.Bucket != measure.Profiling {
		return
	}
	r.trees = append(r.trees, tree)
	for _, m := range measure.MetricList {
		if m.Of == nil {
			continue
		}
		v, ok := m.Of(&record.Numbers, r.rules)
		if !ok {
			v = math.NaN()
		}
		r.values[m.Name] = append(r.values[m.Name], v)
	}
}

// Sample returns the values of a metric; without values for one that has none of each request. The mean of error-rate is the share
// of failed requests.
func (r *Run) Sample(metric string) Sample {
	if metric == "error-rate" {
		return r.failed
	}
	if values := r.values[metric]; values != nil {
		return Sample{values, r.trees}
	}
	return Sample{}
}

// Trees returns how many trees have a request.
func (r *Run) Trees() int { return len(r.played) }

// Of returns the intervals of statistics of a metric. The error, if any, is a *fewTreesError.
func (r *Run) Of(metric string, stats []Statistic) ([]Interval, error) {
	return Of(r.Sample(metric), stats, r.Seed)
}

// Seed starts the generator: the SHA-256 of the records of a run.
type Seed [sha256.Size]byte

// SeedOf returns the seed of a file of records; of those of several parts the SHA-256 of their digests, one behind the other.
func SeedOf(paths ...string) (s Seed, err error) {
	all := sha256.New()
	for _, path := range paths {
		if s, err = digest(path); err != nil {
			return s, err
		}
		all.Write(s[:])
	}
	if len(paths) != 1 {
		s = Seed(all.Sum(nil))
	}
	return s, nil
}

// digest returns the SHA-256 of a file.
func digest(path string) (s Seed, err error) {
	file, err := regular.Open(path)
	if err != nil {
		return s, err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return s, err
	}
	return Seed(h.Sum(nil)), nil
}

// With returns the seed of a comparison of two runs: the SHA-256 of both seeds.
func (s Seed) With(other Seed) Seed { return sha256.Sum256(append(s[:], other[:]...)) }

// generator is numpy's default_rng of the first eight bytes of the seed as a number, the lowest byte first.
func (s Seed) generator() *pyrand.PCG64 { return pyrand.NewPCG64(binary.LittleEndian.Uint64(s[:8])) }
