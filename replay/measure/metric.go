package measure

import (
	"slices"

	"github.com/agentx/agentx/replay/slo"
)

// Metric is a quantity that people name in conditions, gates, tables and comparisons.
type Metric struct {
	slo.Metric
	Title string // time to first token

	Of    func(r *Record, rules Rules) (float64, bool) // of a request that ended well; false: it has none. nil: the metric is of a run alone
	Stat  func(m *Metrics) *Stat                       // over the requests; nil: the metric is of a run alone
	Value func(s *Summary) Number                      // nil: every request has one
}

// MetricList is every metric that has a short name, in the order in which tables show them.
var MetricList = []Metric{
	ofEach("ttft", "time to first token", slo.Seconds, func(r *Record, _ Rules) (float64, bool) { return r.TTFT() }, func(m *Metrics) *Stat { return &m.TTFT }),
	ofEach("itl", "inter-token latency", slo.Seconds, func(r *Record, l Rules) (float64, bool) { return l.ITL(r) }, func(m *Metrics) *Stat { return &m.ITL }),
	ofEach("latency", "request latency", slo.Seconds, func(r *Record, _ Rules) (float64, bool) { return r.Latency() }, func(m *Metrics) *Stat { return &m.RequestLatency }),
	ofEach("tpot", "time per output token", slo.Seconds, func(r *Record, _ Rules) (float64, bool) { return Rules{AllButOne: true}.ITL(r) }, func(m *Metrics) *Stat { return &m.TPOT }),
	ofEach("lateness", "lateness", slo.Seconds, func(r *Record, _ Rules) (float64, bool) { return r.Lateness(), true }, func(m *Metrics) *Stat { return &m.Lateness }),
	ofEach("prompt_tokens", "prompt tokens", slo.Tokens, func(r *Record, _ Rules) (float64, bool) { return tokenCount(r.PromptTokens) }, func(m *Metrics) *Stat { return &m.ISL }),
	ofEach("output_tokens", "output tokens", slo.Tokens, outputTokens, func(m *Metrics) *Stat { return &m.OSL }),

	ofRun("request_rate", "requests per second", slo.Rate, true, func(s *Summary) Number { return s.RequestRate }),
	ofRun("output_token_rate", "output tokens per second", slo.Rate, true, func(s *Summary) Number { return s.OutputTokenRate }),
	ofRun("prompt_token_rate", "prompt tokens per second", slo.Rate, true, func(s *Summary) Number { return s.PromptTokenRate }),
	ofRun("error-rate", "share of failed requests", slo.Share, false, func(s *Summary) Number { return s.ErrorRate }),
	ofRun("goodput", "good requests per second", slo.Rate, true, func(s *Summary) Number { return s.Goodput.rate() }),
	ofRun("token_hit_rate", "share of prompt tokens that were cached", slo.Share, true, func(s *Summary) Number { return s.TokenHitRate }),
}

func ofEach(name, title string, unit slo.Unit, of func(*Record, Rules) (float64, bool), stat func(*Metrics) *Stat) Metric {
	return Metric{Metric: slo.Metric{Name: name, Unit: unit, OfEach: true}, Title: title, Of: of, Stat: stat}
}

func ofRun(name, title string, unit slo.Unit, more bool, value func(*Summary) Number) Metric {
	return Metric{Metric: slo.Metric{Name: name, Unit: unit, MoreIsBetter: more}, Title: title, Value: value}
}

func tokenCount(n *int64) (float64, bool) {
	if n == nil {
		return 0, false
	}
	return float64(*n), true
}

func outputTokens(r *Record, _ Rules) (float64, bool) {
	n, ok := r.OSL()
	return float64(n), ok
}

// MetricNames are the metrics as conditions name them.
func MetricNames() (list []slo.Metric) {
	for _, m := range MetricList {
		list = append(list, m.Metric)
	}
	return list
}

// MetricNamed returns the metric with a short name; nil if there is none.
func MetricNamed(name string) *Metric {
	k := slices.IndexFunc(MetricList, func(m Metric) bool { return m.Name == name })
	if k < 0 {
		return nil
	}
	return &MetricList[k]
}

// Figure returns a number of a run; Missing where it is not known.
func (s *Summary) Figure(f slo.Figure) Number {
	m := MetricNamed(f.Name)
	switch {
	case m == nil:
		return Missing
	case m.Value != nil:
		return m.Value(s)
	}
	return m.Stat(&s.Metrics).Figure(f.Statistic)
}

// Figure returns one of slo.Statistics; Missing for another name.
func (s *Stat) Figure(statistic string) Number {
	k := slices.IndexFunc(figures, func(f figure) bool { return f.name == statistic })
	if k < 0 {
		return Missing
	}
	return figures[k].of(s)
}

// ParseFigure reads the name of a number of a run, such as ttft.p95 or request_rate. The error of an unknown one has the nearest.
func ParseFigure(text string) (slo.Figure, error) { return slo.ParseFigure(text, MetricNames()) }

// ParseCondition reads a condition such as ttft<2s, ttft.p95<2s or error-rate<1%.
func ParseCondition(text string) (slo.Condition, error) { return slo.Parse(text, MetricNames()) }
