package until

import (
	"math"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/report/interval"
)

// samples are the values of the headline's requests, of each metric of some targets.
type samples struct {
	rules  measure.Rules
	of     map[string]*interval.Sample // by metric
	played map[int32]bool              // trees with a request
}

func newSamples(rules measure.Rules, targets []Target) *samples {
	s := &samples{rules, map[string]*interval.Sample{}, map[int32]bool{}}
	for _, t := range targets {
		s.of[t.Name] = &interval.Sample{}
	}
	return s
}

// add adds a record, which it does not keep.
func (s *samples) add(r *measure.Record) {
	if r.Phase != measure.ProfilingPhase || r.Bucket != measure.Profiling || r.Error != nil {
		return
	}
	tree := int32(r.Tree)
	s.played[tree] = true
	for name, sample := range s.of {
		if v, ok := measure.MetricNamed(name).Of(&r.Numbers, s.rules); ok {
			sample.Values, sample.Trees = append(sample.Values, v), append(sample.Trees, tree)
		}
	}
}

func (s *samples) trees() int { return len(s.played) }

// find returns the values of the targets and their intervals.
func (s *samples) find(targets []Target, seed interval.Seed) []measure.UntilTarget {
	list := make([]measure.UntilTarget, len(targets))
	for k, t := range targets {
		found := measure.UntilTarget{
			Metric: t.String(), Unit: string(t.Unit), Share: measure.Number(t.Share),
			Value: measure.Missing, Low: measure.Missing, High: measure.Missing, Margin: measure.Missing,
		}
		sample := s.of[t.Name]
		stat := measure.NewStat(append([]float64{}, sample.Values...))
		found.Value = stat.Figure(t.Statistic)
		between, err := interval.Of(*sample, []interval.Statistic{t.statistic()}, seed)
		switch {
		case err != nil:
			found.Why = err.Error()
		case !between[0].Known() || math.IsNaN(float64(found.Value)):
			found.Why = "its interval is not known"
		default:
			found.SetInterval(float64(found.Value), between[0].Low, between[0].High)
		}
		list[k] = found
	}
	return list
}
