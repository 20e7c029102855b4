package measure

import (
	"reflect"
	"slices"
	"strings"

	"github.com/agentx/agentx/replay/slo"
)

// Metric is a quantity that people name in conditions, gates, tables and comparisons. A new one is a row of MetricList: summaries, reports,
// live metrics, intervals and comparisons follow from it.
type Metric struct {
	slo.Metric
	Title string // time to first token
	Tag   string // of the metric in files of AIPerf; "": they have none
	Live  string // what a status and live metrics say of it; "": they do not have it

	Compared string    // statistics that tables of comparisons have: p50 p95. One that a run has one value of they have always
	Decides  string    // statistics by which runs are said to differ
	Ratio    [2]string // what it is of some requests of a run: the sum of one column of a page over that of another, or over seconds; empty: not known of some

	Of    func(n *Numbers, rules Rules) (float64, bool) // of a request that ended well; false: it has none. nil: the metric is of a run alone
	Value func(s *Summary) Number                       // nil: every request has one

	stat func(m *Metrics) *Stat // where a summary has it; nil: among Others

	elsewhere bool // the table of a summary has it in a row of another form, or leaves it out
}

// MetricList is every metric that has a short name, in the order in which tables show them.
var MetricList = []Metric{
	{
		Metric: ofEach("ttft", slo.Seconds), Title: "time to first token", Tag: "time_to_first_token", Live: "Seconds from sending a request to its first token.",
		Compared: "mean p50 p95 p99", Decides: "mean p50 p95",
		Of: lapse((*Numbers).TTFT), stat: func(m *Metrics) *Stat { return &m.TTFT },
	},
	{
		Metric: ofEach("itl", slo.Seconds), Title: "inter-token latency", Tag: "inter_token_latency", Live: "Mean seconds between two tokens of a request.",
		Compared: "mean p50 p95 p99", Decides: "mean p50 p95",
		Of: func(n *Numbers, l Rules) (float64, bool) { return l.ITL(n) }, stat: func(m *Metrics) *Stat { return &m.ITL },
	},
	{
		Metric: ofEach("latency", slo.Seconds), Title: "request latency", Tag: "request_latency", Live: "Seconds from sending a request to its last token.",
		Compared: "mean p50 p95 p99", Decides: "mean p50 p95",
		Of: lapse((*Numbers).Latency), stat: func(m *Metrics) *Stat { return &m.RequestLatency },
	},
	{
		Metric: ofEach("tpot", slo.Seconds), Title: "time per output token", Tag: "inter_token_latency", elsewhere: true,
		Of: func(n *Numbers, _ Rules) (float64, bool) { return Rules{AllButOne: true}.ITL(n) }, stat: func(m *Metrics) *Stat { return &m.TPOT },
	},
	{
		Metric: ofEach("lateness", slo.Seconds), Title: "lateness", Tag: "due_to_sent_latency", Live: "Seconds from the instant at which a request was due to that at which it was sent.",
		Compared: "p99",
		Of:       func(n *Numbers, _ Rules) (float64, bool) { return n.LatenessSeconds(), true }, stat: func(m *Metrics) *Stat { return &m.Lateness },
	},
	{
		Metric: ofEach("prompt_tokens", slo.Tokens), Title: "prompt tokens", Tag: "input_sequence_length", elsewhere: true,
		Compared: "mean", Decides: "mean",
		Of: tokens(func(n *Numbers) int64 { return n.PromptTokens.N() }), stat: func(m *Metrics) *Stat { return &m.ISL },
	},
	{
		Metric: ofEach("output_tokens", slo.Tokens), Title: "output tokens", Tag: "output_sequence_length", elsewhere: true,
		Compared: "mean", Decides: "mean",
		Of: tokens((*Numbers).OSL), stat: func(m *Metrics) *Stat { return &m.OSL },
	},

	{Metric: ofRun("request_rate", slo.Rate, true), Title: "requests per second", Tag: "request_throughput", elsewhere: true, Ratio: [2]string{"measured", "seconds"}, Value: func(s *Summary) Number { return s.RequestRate }},
	{Metric: ofRun("output_token_rate", slo.Rate, true), Title: "output tokens per second", Tag: "output_token_throughput", elsewhere: true, Ratio: [2]string{"output_tokens", "seconds"}, Value: func(s *Summary) Number { return s.OutputTokenRate }},
	{Metric: ofRun("prompt_token_rate", slo.Rate, true), Title: "prompt tokens per second", Tag: "input_token_throughput", elsewhere: true, Ratio: [2]string{"prompt_tokens", "seconds"}, Value: func(s *Summary) Number { return s.PromptTokenRate }},
	{Metric: ofRun("error-rate", slo.Share, false), Title: "share of failed requests", elsewhere: true, Ratio: [2]string{"failed", "ended"}, Value: func(s *Summary) Number { return s.ErrorRate }},
	{Metric: ofRun("goodput", slo.Rate, true), Title: "good requests per second", elsewhere: true, Ratio: [2]string{"good", "seconds"}, Value: func(s *Summary) Number { return s.Goodput.rate() }},
	{Metric: ofRun("token_hit_rate", slo.Share, true), Title: "share of prompt tokens that were cached", elsewhere: true, Ratio: [2]string{"cached", "prompt_tokens"}, Value: func(s *Summary) Number { return s.TokenHitRate }},
}

// ofEach returns a metric that each request has.
func ofEach(name string, unit slo.Unit) slo.Metric {
	return slo.Metric{Name: name, Unit: unit, OfEach: true}
}

// ofRun returns a metric that a run has once.
func ofRun(name string, unit slo.Unit, more bool) slo.Metric {
	return slo.Metric{Name: name, Unit: unit, MoreIsBetter: more}
}

// lapse returns a metric that is the time between two instants.
func lapse(of func(*Numbers) (Lapse, bool)) func(*Numbers, Rules) (float64, bool) {
	return func(n *Numbers, _ Rules) (float64, bool) {
		s, ok := of(n)
		return s.Seconds(), ok
	}
}

// tokens returns a metric that is a number of tokens.
func tokens(of func(*Numbers) int64) func(*Numbers, Rules) (float64, bool) {
	return func(n *Numbers, _ Rules) (float64, bool) { return float64(of(n)), of(n) != Unknown }
}

// Stat returns where metrics have the statistics of a metric that every request has.
func (m *Metric) Stat(of *Metrics) *Stat {
	if m.stat != nil {
		return m.stat(of)
	}
	if of.Others == nil {
		of.Others = map[string]*Stat{}
	}
	if of.Others[m.Name] == nil {
		of.Others[m.Name] = new(NewStat(nil))
	}
	return of.Others[m.Name]
}

// Figures returns the figures of statistics of the metric that are named in one text; of a metric that a run has one value of, that value.
func (m *Metric) Figures(statistics string) (list []slo.Figure) {
	if !m.OfEach {
		return []slo.Figure{{Metric: m.Metric}}
	}
	for _, s := range strings.Fields(statistics) {
		list = append(list, slo.Figure{Metric: m.Metric, Statistic: s})
	}
	return list
}

// Key returns the key of the metric in a summary.
func (m *Metric) Key() string {
	var of Metrics
	at, v := m.Stat(&of), reflect.ValueOf(&of).Elem()
	for k := range v.NumField() {
		if v.Field(k).Addr().Interface() == any(at) {
			return keyOf(v, k)
		}
	}
	return m.Name
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
