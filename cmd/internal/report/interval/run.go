package interval

import (
	"crypto/sha256"
	"encoding/binary"
	"io"
	"math"

	"github.com/agentx/agentx/internal/pyrand"
	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/replay/measure"
)

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

// treeName says which tree it was: of which trace, and how often that was opened before.
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
