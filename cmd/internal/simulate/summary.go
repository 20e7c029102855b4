package simulate

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/planner"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/cmd/internal/simulate/router"
	"github.com/agentx/agentx/internal/terminal"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// Summary is what a run reports: the object of summary.json and of simulate --json, doc/spec/simulate.md 9.4. Times are seconds.
type Summary struct {
	Requests    int `json:"requests"` // released: the sum of the next three
	Completed   int `json:"completed"`
	Rejected    int `json:"rejected"`
	KVExhausted int `json:"kv_exhausted"` // ended with the tokens that they had

	Duration        measure.Number `json:"duration"`      // until the last token
	InputTokens     int64          `json:"input_tokens"`  // prompts, without rejected ones
	OutputTokens    int64          `json:"output_tokens"` // emitted
	RequestRate     measure.Number `json:"request_rate"`  // completed ones
	OutputTokenRate measure.Number `json:"output_token_rate"`

	TTFT           Distribution `json:"ttft"`
	TTST           Distribution `json:"ttst"`      // second token after the first
	ITL            Distribution `json:"itl"`       // mean gap of each request
	TokenGap       Distribution `json:"token_gap"` // every gap, pooled
	RequestLatency Distribution `json:"request_latency"`

	Reuse          measure.Number `json:"reuse"`           // prompt tokens found at the first admission, over input tokens
	ReuseMax       measure.Number `json:"reuse_max"`       // the most found at any admission
	DecodeReuse    measure.Number `json:"decode_reuse"`    // prompt tokens that decode workers had when prompts were handed to them
	ReuseUnlimited measure.Number `json:"reuse_unlimited"` // one cache without a limit
	Preemptions    int64          `json:"preemptions"`
	Recomputed     int64          `json:"recomputed_tokens"` // after preemptions
	Evictions      int64          `json:"evictions"`
	Tiers          []TierSummary  `json:"tiers,omitempty"`     // the pool first; none: there is no tier below it
	LoadWait       *Distribution  `json:"load_wait,omitempty"` // of requests that loaded from tiers, until their blocks were there
	Passes         int64          `json:"passes"`
	Outside        int64          `json:"passes_outside"` // of the durations that were measured

	Goodput  *Goodput       `json:"goodput"` // null: no limits
	GPUHours measure.Number `json:"gpu_hours"`

	Planner *PlannerSummary `json:"planner"` // null: none

	Switches preset.Switches `json:"switches"`
	Run      RunInfo         `json:"run"`
	Out      string          `json:"out"` // directory of the files; empty: none
}

// Goodput counts the requests that kept every limit.
type Goodput struct {
	Good        int            `json:"good"`
	Ratio       measure.Number `json:"ratio"` // over all requests
	RequestRate measure.Number `json:"request_rate"`
	TTFT        *float64       `json:"ttft"` // the limits; null: none
	ITL         *float64       `json:"itl"`
	E2E         *float64       `json:"e2e"`
}

// PlannerSummary counts what a planner did, and says what it could not know.
type PlannerSummary struct {
	Ticks       int               `json:"ticks"`
	Transitions int               `json:"transitions"` // changes of a pool's size between neighbouring ticks
	Events      int               `json:"events"`      // decisions that changed a target
	Bootstrap   planner.Bootstrap `json:"bootstrap"`
	Warnings    []string          `json:"warnings"` // a failed bootstrap first
}

// RunInfo says what was simulated.
type RunInfo struct {
	Seed           uint64            `json:"seed"`
	Workers        int               `json:"workers"`
	PrefillWorkers int               `json:"prefill_workers"`
	DecodeWorkers  int               `json:"decode_workers"`
	Engine         *engine.Config    `json:"engine"` // null: the fleet is disaggregated
	PrefillEngine  *engine.Config    `json:"prefill_engine"`
	DecodeEngine   *engine.Config    `json:"decode_engine"`
	Router         Router            `json:"router"`
	RouterConfig   *router.Config    `json:"router_config"` // null: no KV router
	Load           Load              `json:"load"`
	Concurrency    int               `json:"concurrency"` // 0: load trace
	Lanes          map[string]string `json:"lanes"`       // settings of a replay that the user has set; null: no lanes
	ArrivalSpeedup float64           `json:"arrival_speedup"`
	LimitTraces    int               `json:"limit_traces"`
	LimitRequests  int               `json:"limit_requests"`
	MaxSimTime     float64           `json:"max_sim_time"`
	Caveat         string            `json:"caveat"`
}

// Caveat says what the durations of the engines stand for.
func (c *Config) Caveat() string {
	for _, e := range c.Engines() {
		if e.Config.Timing == (engine.Source{}) {
			return "the default polynomials belong to no model and no GPU: results compare policies, not hardware"
		}
	}
	return "durations are those of the engine's timing, which belongs to one model on one machine"
}

// Summary computes the summary.
func (r *Result) Summary() *Summary {
	s := &Summary{Switches: r.Config.Switches, Run: r.Config.Info(), Duration: seconds(r.Duration)}
	t := r.counted()
	s.Requests, s.Completed, s.Rejected, s.KVExhausted = t.requests(), t.ended[engine.Done], t.ended[engine.Rejected], t.ended[engine.KVExhausted]
	s.InputTokens, s.OutputTokens, s.Recomputed = t.input, t.output, t.recomputed
	s.TTFT, s.TTST, s.ITL, s.RequestLatency = t.ttft.distribution(), t.ttst.distribution(), t.itl.distribution(), t.e2e.distribution()
	s.TokenGap = distributionOfGaps(r.Gaps)
	s.RequestRate, s.OutputTokenRate = perSecond(int64(s.Completed), r.Duration), perSecond(s.OutputTokens, r.Duration)
	s.Reuse, s.ReuseMax = ratio(t.reused, s.InputTokens), ratio(t.reusedMax, s.InputTokens)
	s.DecodeReuse, s.ReuseUnlimited = ratio(t.resident, s.InputTokens), ratio(t.unlimited, s.InputTokens)
	total := r.Counts()
	s.Passes, s.Outside, s.Preemptions, s.Evictions = total.Passes, total.Outside, total.Preemptions, total.Evictions
	s.tiers(r, total.Tiers, t)
	s.Goodput = r.goodput(t.good, s.Requests)
	s.GPUHours = r.gpuHours()
	if p := r.Planned; p != nil {
		s.Planner = &PlannerSummary{
			Ticks: len(p.Ticks), Transitions: planner.Transitions(p.Ticks), Events: p.Events, Bootstrap: p.Bootstrap, Warnings: p.warnings(),
		}
	}
	return s
}

// TierSummary says what a tier of the caches of all workers served.
type TierSummary struct {
	Name      string         `json:"name"`
	Blocks    int64          `json:"blocks"`   // of each worker
	GiB       *float64       `json:"gib"`      // of each worker; null: what a token costs is not known
	HitRate   measure.Number `json:"hit_rate"` // of prompt tokens: that it served at first admissions
	Share     measure.Number `json:"share"`    // of the hits of all tiers
	Hits      int64          `json:"hit_tokens"`
	PerGiB    *float64       `json:"hit_tokens_per_gib"` // of the tiers of all workers
	Loaded    int64          `json:"loaded_tokens"`      // at any admission
	LoadedGiB *float64       `json:"loaded_gib"`
	Busy      measure.Number `json:"link_busy"` // share of the time of the links of all workers
}

// tiers sets what the tiers have served.
func (s *Summary) tiers(r *Result, below []engine.TierCounts, t *tally) {
	if len(below) == 0 {
		return
	}
	waits := t.loads.distribution()
	s.LoadWait = &waits
	e, workers := r.Config.Engines()[0].Config, float64(len(r.Workers[0]))
	pool := engine.TierCounts{Name: engine.PoolTier, Blocks: int64(e.Blocks), Hits: t.reused}
	for _, b := range below {
		pool.Hits -= b.Hits
	}
	for _, b := range append([]engine.TierCounts{pool}, below...) {
		one := TierSummary{
			Name: b.Name, Blocks: b.Blocks, HitRate: ratio(b.Hits, s.InputTokens), Share: ratio(b.Hits, t.reused), Hits: b.Hits, Loaded: b.Loaded,
			Busy: measure.Number(float64(b.Busy) / (workers * float64(max(r.Duration, 1)))),
		}
		if e.KVBytesPerToken > 0 {
			gib := float64(b.Blocks) * float64(e.BlockSize) * e.KVBytesPerToken / (1 << 30)
			per, loaded := float64(b.Hits)/(gib*workers), float64(b.Loaded)*e.KVBytesPerToken/(1<<30)
			one.GiB, one.PerGiB, one.LoadedGiB = &gib, &per, &loaded
		}
		s.Tiers = append(s.Tiers, one)
	}
}

// goodput returns the share and rate of good requests, and the limits; nil without limits.
func (r *Result) goodput(good, all int) *Goodput {
	sla := r.Config.SLA
	if sla == (SLA{}) {
		return nil
	}
	limit := func(ns int64) *float64 {
		if ns == 0 {
			return nil
		}
		v := float64(ns) / 1e9
		return &v
	}
	return &Goodput{
		Good: good, Ratio: ratio(int64(good), int64(all)), RequestRate: perSecond(int64(good), r.Duration),
		TTFT: limit(sla.TTFT), ITL: limit(sla.ITL), E2E: limit(sla.E2E),
	}
}

// gpuHours returns the time that workers were there, each times its GPUs.
func (r *Result) gpuHours() measure.Number {
	sum := 0.0
	engines := r.Config.Engines()
	for k := range r.Workers {
		sum += r.workerSeconds(k) * float64(engines[k].Config.GPUsPerWorker)
	}
	return measure.Number(sum / 3600)
}

// workerSeconds returns the time that the workers of a pool were there.
func (r *Result) workerSeconds(pool int) (s float64) {
	for _, w := range r.Workers[pool] {
		s += float64(w.Gone-w.Ordered) / 1e9
	}
	return s
}

// Info says what a configuration simulates.
func (c *Config) Info() RunInfo {
	i := RunInfo{
		Seed: c.Seed, Workers: c.Workers, PrefillWorkers: c.PrefillWorkers, DecodeWorkers: c.DecodeWorkers, Router: c.Router, Load: c.LoadOf(),
		Concurrency: c.Concurrency, ArrivalSpeedup: c.Speedup, LimitTraces: c.LimitTraces, LimitRequests: c.LimitRequests,
		MaxSimTime: c.MaxTime.Seconds(), Caveat: c.Caveat(),
	}
	if c.Disaggregated() {
		i.PrefillEngine, i.DecodeEngine = &c.PrefillEngine.Config, &c.DecodeEngine.Config
	} else {
		i.Engine = &c.Engine.Config
	}
	if i.Load == LoadLanes {
		i.Lanes = map[string]string{}
		maps.Copy(i.Lanes, c.Lanes.Set)
	}
	if c.Router == KVRouter {
		keys := c.routerKeys()
		i.RouterConfig = &keys
	}
	return i
}

// WriteJSON writes the summary as one line.
func (s *Summary) WriteJSON(w io.Writer) error { return terminal.JSON(w, s) }

func seconds(ns int64) measure.Number { return measure.Number(float64(ns) / 1e9) }

// ratio returns part/whole; missing where whole is 0.
func ratio(part, whole int64) measure.Number {
	if whole == 0 {
		return measure.Missing
	}
	return measure.Number(float64(part) / float64(whole))
}

// perSecond returns n over a time in nanoseconds; missing where that is 0.
func perSecond(n, ns int64) measure.Number {
	if ns == 0 {
		return measure.Missing
	}
	return measure.Number(float64(n) / (float64(ns) / 1e9))
}

// Distribution is that of durations, in seconds. Without a case every figure is missing.
type Distribution struct {
	Mean measure.Number `json:"mean"`
	Min  measure.Number `json:"min"`
	P50  measure.Number `json:"p50"`
	P75  measure.Number `json:"p75"`
	P90  measure.Number `json:"p90"`
	P95  measure.Number `json:"p95"`
	P99  measure.Number `json:"p99"`
	Max  measure.Number `json:"max"`
	Std  measure.Number `json:"std"` // of the population
	N    int64          `json:"n"`
}

// percentiles are those of a distribution.
var percentiles = [...]float64{50, 75, 90, 95, 99}

// distributionOf returns the exact distribution of nanoseconds, which it sorts: doc/spec/simulate.md 9.1.
func distributionOf(list []float64) Distribution {
	if len(list) == 0 {
		return newDistribution(0, math.NaN(), math.NaN(), math.NaN(), math.NaN(), [5]float64{})
	}
	slices.Sort(list)
	sum := 0.0
	for _, v := range list {
		sum += v
	}
	mean := sum / float64(len(list))
	squares := 0.0
	for _, v := range list {
		squares += float64((v - mean) * (v - mean))
	}
	var at [5]float64
	for k, q := range percentiles {
		at[k] = list[rank(len(list), q)]
	}
	return newDistribution(int64(len(list)), mean, list[0], list[len(list)-1], math.Sqrt(squares/float64(len(list))), at)
}

// distributionOfGaps returns the distribution of gaps: count, mean and deviation are exact, percentiles within a thousandth.
func distributionOfGaps(g *engine.Gaps) Distribution {
	if g.Count() == 0 {
		return distributionOf(nil)
	}
	var at [5]float64
	for k, q := range percentiles {
		at[k] = g.Percentile(q)
	}
	return newDistribution(g.Count(), g.Mean(), float64(g.Min()), float64(g.Max()), g.Deviation(), at)
}

// rank returns the position of a percentile in n sorted values.
func rank(n int, q float64) int { return int(math.Floor(float64(n-1)*q/100 + 0.5)) }

// newDistribution returns a distribution in seconds of figures in nanoseconds. at has the percentiles 50, 75, 90, 95 and 99.
func newDistribution(n int64, mean, least, most, std float64, at [5]float64) Distribution {
	seconds := func(ns float64) measure.Number {
		if n == 0 {
			return measure.Missing
		}
		return measure.Number(ns / 1e9)
	}
	return Distribution{
		Mean: seconds(mean), Min: seconds(least), Max: seconds(most), Std: seconds(std),
		P50: seconds(at[0]), P75: seconds(at[1]), P90: seconds(at[2]), P95: seconds(at[3]), P99: seconds(at[4]), N: n,
	}
}

// Latency is what a request that emitted tokens took, in nanoseconds: doc/spec/simulate.md 9.1.
type Latency struct {
	TTFT, TTST, E2E int64
	ITL             float64 // mean of its gaps
	Tokens          int     // without 2, neither TTST nor ITL
}

// LatencyOf returns the latency of a request. ok is false for one without tokens, such as a rejected one.
func LatencyOf(r *fleet.Request) (l Latency, ok bool) {
	if r.Tokens == 0 || r.Status == engine.Rejected {
		return l, false
	}
	l = Latency{TTFT: r.First - r.Arrival, E2E: r.Last - r.Arrival, Tokens: r.Tokens}
	if r.Tokens > 1 {
		l.TTST = r.Second - r.First
		l.ITL = float64(r.Last-r.First) / float64(r.Tokens-1)
	}
	return l, true
}

// good reports whether a latency keeps the limits that are set, inclusive. One token has no ITL and keeps that one.
func (s SLA) good(l Latency) bool {
	return (s.TTFT == 0 || l.TTFT <= s.TTFT) &&
		(s.ITL == 0 || l.Tokens < 2 || l.ITL <= float64(s.ITL)) &&
		(s.E2E == 0 || l.E2E <= s.E2E)
}

// Warnings returns what a user should know of a run beside its numbers.
func (r *Result) Warnings() (list []string) {
	if why := r.rejections(); why != "" {
		list = append(list, why)
	}
	if total := r.Counts(); total.Outside > 0 {
		ranges := map[string]bool{}
		for _, e := range r.Config.Engines() {
			if text := e.Timing.Range(); text != "" {
				ranges[text] = true
			}
		}
		list = append(list, fmt.Sprintf("%d of %d passes lie outside the durations that were measured, and are extrapolated: %s",
			total.Outside, total.Passes, strings.Join(slices.Sorted(maps.Keys(ranges)), "; ")))
	}
	first := r.Config.Engines()[0].Config
	if len(first.Tiers) > 0 && !first.PrefixCaching {
		list = append(list, "kv_tiers beside enable_prefix_caching false: nothing is looked for in tiers")
	}
	for _, t := range first.Tiers {
		if t.GBPerS == 0 {
			list = append(list, fmt.Sprintf("tier %s loads in no time: say its GB/s, such as --tiers %[1]s:%s:50", t.Name, t.Size))
		}
	}
	if p := r.Planned; p != nil {
		for _, text := range p.warnings() {
			list = append(list, "planner: "+text)
		}
	}
	return list
}

// rejections says why requests were rejected; "" where none was.
func (r *Result) rejections() string {
	t := r.counted()
	n := t.ended[engine.Rejected]
	if n == 0 {
		return ""
	}
	e := r.Config.Engines()[0].Config // the pool that sees a prompt first
	for _, other := range r.Config.Engines()[1:] {
		if other.Config.Blocks < e.Blocks {
			e = other.Config
		}
	}
	limits := fmt.Sprintf("a worker holds %d (num_gpu_blocks %d, block_size %d)", e.Blocks*e.BlockSize, e.Blocks, e.BlockSize)
	if e.MaxModelLen > 0 {
		limits += fmt.Sprintf(", and max_model_len is %d", e.MaxModelLen)
	}
	return fmt.Sprintf("%d of %d requests are rejected, the largest with a prompt of %d tokens: %s", n, t.requests(), t.rejected, limits)
}

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
