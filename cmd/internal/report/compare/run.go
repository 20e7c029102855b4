package compare

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/agentx/agentx/cmd/internal/aiperf"
	"github.com/agentx/agentx/cmd/internal/report/interval"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
	"github.com/agentx/agentx/replay/slo"
)

// The kinds of directories that are compared.
const (
	kindAgentx = "agentx"
	kindAIPerf = "aiperf"
)

// run is what was read of one run.
type run struct {
	Source
	name, kind string

	summary  measure.Summary
	ending   measure.Ending // of a run of AIPerf
	requests requests
	warmup   requests      // its instants are before those of requests, on the same clock
	samples  *interval.Run // nil: the run is not ours, and its samples are those of its requests
	settings settings
	lacks    []string      // what is not known, one line each
	rowsSeed interval.Seed // of the rows of a run that is not ours
}

// readRun reads a run: its records, or where it has none the files of AIPerf.
func readRun(s Source, name string) (*run, error) {
	if s.Files != nil || exists(s.Dir, measure.RecordsFile) || exists(s.Dir, measure.RunFile) || merge.IsLoad(s.Dir) {
		return readOurs(s, name)
	}
	r, err := readAIPerf(s, name)
	if errors.Is(err, aiperf.ErrNoFiles) {
		return nil, fmt.Errorf("%s: not the results of a run: neither %s nor files of AIPerf", s.Dir, measure.RecordsFile)
	}
	return r, err
}

// readOurs reads a run of agentx.
func readOurs(s Source, name string) (*run, error) {
	if s.Files == nil {
		var err error
		if s.Files, err = merge.Open(s.Dir, merge.Options{Partial: s.Partial}); err != nil {
			return nil, err
		}
	}
	info := s.Files.Info
	if s.SLO != nil {
		info.SLO = s.SLO
	}
	rules, err := measure.RulesOfRun(info.Run)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(s.Dir, measure.RunFile), err)
	}
	r := &run{Source: s, name: name, kind: kindAgentx, samples: interval.NewRun(info, rules), lacks: slices.Clone(s.Files.Missing)}
	if err := r.readRecords(rules, info); err != nil {
		return nil, err
	}
	if r.samples.Seed, err = interval.SeedOf(s.Files.RecordFiles()...); err != nil {
		return nil, err
	}
	if !s.Files.Known {
		r.lacks = append(r.lacks, fmt.Sprintf("there is no %s: what was run is not known", measure.RunFile))
		return r, nil
	}
	if p := r.summary.Parts; p != nil && r.Note == "" {
		r.Note = partsNote(&r.summary)
	}
	r.settings = settingsOf(&info, rules)
	return r, nil
}

// partsNote says of which parts of a load a run is, and what their clocks leave open of its rates.
func partsNote(s *measure.Summary) string {
	text := s.Parts.Title()
	if clocks := s.Parts.ClockText(); clocks != "" {
		text += "; rates" + s.ClockMargin(true) + ": " + clocks
	}
	return text
}

func (r *run) readRecords(rules measure.Rules, info measure.RunInfo) error {
	reader, err := r.Files.Records()
	if err != nil {
		return fmt.Errorf("%s: not the results of a run: %w", r.Dir, err)
	}
	defer reader.Close()
	all := measure.NewAggregate(rules, info.SLO...)
	for record, err := range measure.All(reader) {
		if err != nil {
			return err
		}
		all.Add(record)
		if record.Phase == measure.WarmupPhase {
			r.warmup.add(record, rules)
			continue
		}
		r.requests.add(record, rules)
		r.samples.Add(record)
	}
	r.warmup.shift(-warmupOf(&info, &r.warmup))
	if reader.Torn() {
		r.lacks = append(r.lacks, "the last line of its records is cut off and left out")
	}
	r.summary = all.Summary(info)
	return nil
}

// warmupOf returns the seconds from the start of the warmup to that of profiling: where the run does not tell them, to the last answer
// of the warmup.
func warmupOf(info *measure.RunInfo, warmup *requests) float64 {
	for _, p := range info.Phases {
		if p.Name == measure.ProfilingPhase {
			return p.Offset
		}
	}
	return warmup.last()
}

// before returns how many seconds before its first request of profiling the run has sent one.
func (r *run) before() float64 {
	if r.warmup.n() == 0 {
		return 0
	}
	return max(0, r.requests.first()-r.warmup.first())
}

// sample returns the values of a metric over the headline, with their trees.
func (r *run) sample(metric string) interval.Sample {
	if r.samples != nil {
		return r.samples.Sample(metric)
	}
	return r.requests.sample(metric)
}

// seed returns the seed of the intervals of the run.
func (r *run) seed() interval.Seed {
	if r.samples != nil {
		return r.samples.Seed
	}
	return r.rowsSeed
}

// marks are the reasons for which the figures of a run are not what they seem: it is marked in every table and hollow in every chart.
func (r *run) marks() []string {
	return append([]string{}, r.summary.RemarksOf(measure.Broken, measure.Warning)...)
}

// figure returns a number of the run; Missing where it is not known.
func (r *run) figure(f slo.Figure) measure.Number {
	v := r.summary.Figure(f)
	if v.IsMissing() {
		return measure.Missing
	}
	return v
}
