package html

import (
	"fmt"

	"github.com/agentx/agentx/cmd/internal/report/interval"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/report"
)

// intervals say how sure the numbers of the whole run are.
type intervals struct {
	Why string `json:"why"` // there are none; "": there are

	// By metric and statistic, such as ttft and p95: from and to. What has none is left out.
	Of map[string]map[string][2]float64 `json:"of"`
}

// intervals returns those of the metrics that every request has.
func (b *Builder) intervals(run *report.Run, samples *interval.Run) (*intervals, error) {
	if n := b.sent + b.warmup; n > maxRequests {
		return &intervals{Why: fmt.Sprintf("There are no intervals: they are computed of at most %d requests, and the run has %d.", maxRequests, n)}, nil
	}
	var err error
	if samples.Seed, err = interval.SeedOf(run.Files.RecordFiles()...); err != nil {
		return nil, err
	}
	list := &intervals{Of: map[string]map[string][2]float64{}}
	for _, m := range measure.MetricList {
		if m.Of == nil {
			continue
		}
		found, err := samples.Of(m.Name, interval.Statistics())
		if err != nil {
			list.Why = "There are no intervals: " + err.Error() + "."
			continue
		}
		of := map[string][2]float64{}
		for k, i := range found {
			if i.Known() {
				of[slo.Statistics[k]] = [2]float64{i.Low, i.High}
			}
		}
		list.Of[m.Name] = of
	}
	return list, nil
}
