package compare

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/agentx/agentx/aiperf"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/report"
	"github.com/agentx/agentx/report/interval"
)

// per returns what a value of a metric of a request is divided by in files of AIPerf, to have it in our unit.
func per(m *measure.Metric) float64 {
	if m.Unit == slo.Seconds {
		return 1e3
	}
	return 1
}

// readAIPerf reads files of AIPerf. What they lack stays empty.
func readAIPerf(s Source, name string) (*run, error) {
	d, err := aiperf.OpenDirectory(s.Dir)
	if err != nil {
		return nil, err
	}
	r := &run{Source: s, name: name, kind: kindAIPerf, settings: settings{}}
	for _, text := range d.Lacks {
		if file, _, whole := strings.Cut(text, ":"); whole && strings.HasPrefix(text, "there is no ") {
			r.lacks = append(r.lacks, file) // the rest is about other readers of the files
		}
	}
	rows := filepath.Join(d.Path, aiperf.NamesOf("").Rows)
	if r.rowsSeed, err = interval.SeedOf(rows); err == nil {
		err = r.readRows(rows)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	r.summarize(d)
	if a := d.Aggregate; a != nil {
		r.settings = aiperfSettings(a)
	}
	return r, nil
}

// readRows reads the requests: those of the phase profiling, as the release's own numbers are over them.
func (r *run) readRows(path string) error {
	trees := map[string]int32{}
	origin := int64(0)
	return aiperf.EachRow(path, func(row *aiperf.Row) error {
		m := &row.Metadata
		if m.Phase != "" && m.Phase != measure.ProfilingPhase {
			return nil
		}
		origin = cmp.Or(origin, m.RequestStart)
		root := cmp.Or(m.RootID, m.CorrelationID, m.Conversation)
		tree, ok := trees[root]
		if !ok {
			tree = int32(len(trees))
			trees[root] = tree
		}
		at := func(ns int64) float64 { return float64(ns-origin) / 1e9 }
		start, first := at(m.RequestStart), none
		values := map[string]float64{}
		for _, v := range row.Metrics {
			values[v.Tag] = v.Value.Float64()
		}
		if ttft, ok := values["time_to_first_token"]; ok {
			first = start + ttft/1e3
		}
		s := headline
		if row.Error != nil {
			s = failed
		}
		end := max(start, at(m.RequestEnd))
		r.requests.addTimes(tree, s, start, first, end)
		r.ending.Add(&measure.Record{Tree: int(tree), Numbers: measure.Numbers{Sent: measure.At(start), End: measure.At(end)}})
		for _, m := range eachRequest {
			v, ok := values[m.Tag]
			r.requests.addValue(m.Name, v/per(&m), ok && row.Error == nil)
		}
		return nil
	})
}

// summarize makes the figures of the run: from its rows, and from the aggregate what rows do not tell or where there are none.
func (r *run) summarize(d *aiperf.Directory) {
	s := &r.summary
	s.DeadlockedTrees, s.PhaseDuration = measure.Missing, measure.Missing
	s.RequestRate, s.OutputTokenRate, s.PromptTokenRate, s.TokenHitRate = measure.Missing, measure.Missing, measure.Missing, measure.Missing
	s.ErrorRate = measure.Missing
	if n := d.Rows.Succeeded + d.Rows.Failed; n > 0 {
		s.Requests, s.Completed, s.Measured = n, d.Rows.Succeeded, d.Rows.Succeeded
		s.ErrorRate = measure.Number(d.Rows.Failed) / measure.Number(n)
	}
	for _, m := range eachRequest {
		*m.Stat(&s.Metrics) = measure.NewStat(r.requests.sample(m.Name).Values)
	}
	defer s.AddRemarks(&r.ending, nil)
	a := d.Aggregate
	if a == nil {
		return
	}
	s.Valid, s.Reasons = a.Valid, a.Reasons
	for _, m := range eachRequest {
		if m.Stat(&s.Metrics).N == 0 {
			*m.Stat(&s.Metrics) = statOf(a.Headline.Find(m.Tag), per(&m))
		}
	}
	scalar := func(to *measure.Number, tag string) {
		if b := a.Headline.Find(tag); b != nil {
			if v, ok := b.Find("avg"); ok {
				*to = measure.Number(v.Float64())
			}
		}
	}
	scalar(&s.RequestRate, "request_throughput")
	scalar(&s.OutputTokenRate, "output_token_throughput")
	scalar(&s.PromptTokenRate, "input_token_throughput")
	if s.Measured == 0 {
		completed := measure.Number(0)
		scalar(&completed, "request_count")
		s.Measured = int(completed)
	}
}

// statOf returns the statistics that a block has.
func statOf(b *report.Block, per float64) measure.Stat {
	stat := measure.NewStat(nil)
	if b == nil {
		return stat
	}
	for name, to := range map[string]*measure.Number{
		"avg": &stat.Mean, "p50": &stat.P50, "p75": &stat.P75, "p90": &stat.P90, "p95": &stat.P95, "p99": &stat.P99, "max": &stat.Max, "std": &stat.Std,
	} {
		if v, ok := b.Find(name); ok {
			*to = measure.Number(v.Float64() / per)
		}
	}
	if n, ok := b.Find("count"); ok {
		stat.N = int(n.Int64())
	}
	return stat
}

// aiperfSettings returns what the aggregate says of the run.
func aiperfSettings(a *aiperf.Aggregate) settings {
	s := settings{}
	for name, paths := range map[string][][]string{
		"dataset":     {{"metadata", "dataset", "cache_key"}},
		"preset":      {{"metadata", "agentx", "preset"}},
		"scenario":    {{"metadata", "scenario"}},
		"model":       {{"input_config", "model"}, {"input_config", "models", "items", "0", "name"}},
		"server":      {{"input_config", "url"}, {"input_config", "endpoint", "urls", "0"}},
		"seed":        {{"input_config", "seed"}, {"input_config", "random_seed"}},
		"concurrency": {{"input_config", "concurrency"}, {"input_config", "phases", "0", "concurrency"}},
	} {
		for _, path := range paths {
			if value := a.Setting(path...); value != "" && s[name] == "" {
				s[name] = value
			}
		}
	}
	s["version"] = a.Version
	return s
}
