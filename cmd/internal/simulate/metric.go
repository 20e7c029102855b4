package simulate

import (
	"fmt"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// metric is a quantity that gates and tables name.
type metric struct {
	slo.Metric
	distribution func(*Summary) *Distribution // of each request, or of each gap; nil: the metric has one value
	value        func(*Summary) measure.Number
}

var metrics = []metric{
	spread("ttft", func(s *Summary) *Distribution { return &s.TTFT }),
	spread("ttst", func(s *Summary) *Distribution { return &s.TTST }),
	spread("itl", func(s *Summary) *Distribution { return &s.ITL }),
	spread("token_gap", func(s *Summary) *Distribution { return &s.TokenGap }),
	spread("latency", func(s *Summary) *Distribution { return &s.RequestLatency }),
	single("duration", slo.Seconds, func(s *Summary) measure.Number { return s.Duration }),
	single("request_rate", slo.Rate, func(s *Summary) measure.Number { return s.RequestRate }),
	single("output_token_rate", slo.Rate, func(s *Summary) measure.Number { return s.OutputTokenRate }),
	single("good", slo.Share, func(s *Summary) measure.Number { return s.good().Ratio }),
	single("goodput", slo.Rate, func(s *Summary) measure.Number { return s.good().RequestRate }),
	single("completed", slo.Share, func(s *Summary) measure.Number { return ratio(int64(s.Completed), int64(s.Requests)) }),
	single("reuse", slo.Share, func(s *Summary) measure.Number { return s.Reuse }),
	single("reuse_max", slo.Share, func(s *Summary) measure.Number { return s.ReuseMax }),
}

// spread is a metric of each request or gap, in seconds, with a distribution.
func spread(name string, of func(*Summary) *Distribution) metric {
	return metric{Metric: slo.Metric{Name: name, Unit: slo.Seconds, OfEach: true}, distribution: of}
}

// single is a metric that has one value in a run.
func single(name string, unit slo.Unit, of func(*Summary) measure.Number) metric {
	return metric{Metric: slo.Metric{Name: name, Unit: unit}, value: of}
}

// Metrics returns the metrics of a run as conditions name them.
func Metrics() (list []slo.Metric) {
	for _, m := range metrics {
		list = append(list, m.Metric)
	}
	return list
}

// Gate bounds a figure of a run.
type Gate struct {
	slo.Condition
	Figure slo.Figure `json:"-"`
	Text   string     `json:"text"` // as it was written
}

// ParseGate reads a gate: ttft.p95<2s, good>=99%, reuse>0.3.
func ParseGate(text string) (g Gate, err error) {
	name, _, _, err := slo.Cut(text)
	if err != nil {
		return g, fmt.Errorf("want NAME<VALUE or NAME>VALUE, such as 'ttft.p95<2s' or 'good>=99%%'")
	}
	if g.Figure, err = slo.ParseFigure(name, Metrics()); err != nil {
		return g, err
	}
	g.Text = text
	g.Condition, err = slo.Parse(text, Metrics())
	return g, err
}

// NeedsSLA reports whether a gate is about good requests, of which there are none without limits.
func (g *Gate) NeedsSLA() bool { return g.Figure.Name == "good" || g.Figure.Name == "goodput" }

// Judge returns why a run fails a gate; "" for one that passes. A figure that is not known fails.
func (g *Gate) Judge(s *Summary) string {
	v := s.Figure(g.Figure)
	switch {
	case v.IsMissing():
		return g.Figure.String() + " is not known of this run"
	case !g.Holds(float64(v)):
		return g.Figure.String() + " is " + measure.FormatFigure(v, g.Figure.Unit)
	}
	return ""
}

// Figure returns a number of a run.
func (s *Summary) Figure(f slo.Figure) measure.Number {
	for _, m := range metrics {
		if m.Name != f.Name {
			continue
		}
		if m.value != nil {
			return m.value(s)
		}
		d := m.distribution(s)
		return map[string]measure.Number{
			"mean": d.Mean, "p50": d.P50, "p75": d.P75, "p90": d.P90, "p95": d.P95, "p99": d.P99, "max": d.Max,
		}[f.Statistic]
	}
	return measure.Missing
}

// good returns what keeps the limits; nothing is known of it without any.
func (s *Summary) good() Goodput {
	if s.Goodput == nil {
		return Goodput{Ratio: measure.Missing, RequestRate: measure.Missing}
	}
	return *s.Goodput
}
