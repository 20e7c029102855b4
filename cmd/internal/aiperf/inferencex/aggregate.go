package inferencex

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Result is what the aggregation computes from the rows and the aggregate of a run.
type Result struct {
	Accounting Accounting     `json:"request_accounting"`
	Total      int            `json:"num_requests_total"`
	Successful int            `json:"num_requests_successful"`
	Metrics    RequestMetrics `json:"request_metrics"`
}

// Accounting says which rows the aggregation measures.
type Accounting struct {
	Total           int            `json:"records_total"`
	Profiled        int            `json:"records_profiled"`
	Dropped         int            `json:"records_dropped_total"`
	WarmupDropped   int            `json:"records_warmup_dropped"`
	ErrorDropped    int            `json:"records_error_dropped"` // those of the warmup included, which are in both
	ErrorCategories map[string]int `json:"error_categories"`
}

// RequestMetrics are the numbers over the rows that the aggregation measures. Latencies are in seconds.
type RequestMetrics struct {
	QPS        Stats            `json:"qps"`
	Latency    map[string]Stats `json:"latency"`
	Tokens     map[string]Stats `json:"tokens"`
	Throughput Throughput       `json:"throughput"`
	Cache      Cache            `json:"cache"`
}

// Throughput divides tokens by the time from the earliest start to the latest end.
type Throughput struct {
	Input    Stats   `json:"input"`
	Output   Stats   `json:"output"`
	Total    Stats   `json:"total"`
	Duration *Figure `json:"duration_seconds"`
	PerGPU   Stats   `json:"per_gpu"` // empty: the number of GPUs is in InferenceX's environment
}

// Cache has the theoretical hit rate of the aggregate, from 0 to 1; nil: it has none.
type Cache struct {
	HitRate *Figure `json:"theoretical_cache_hit_rate"`
}

// The tags that the aggregation reads.
const (
	ttftTag    = "time_to_first_token"
	latencyTag = "request_latency"
	itlTag     = "inter_token_latency"
	fullITLTag = "full_response_inter_token_latency"
	inputTag   = "input_sequence_length"
	outputTag  = "output_sequence_length"
)

// divisors are what their values are divided by.
var divisors = map[string]float64{ttftTag: 1000, latencyTag: 1000, itlTag: 1000, fullITLTag: 1000, inputTag: 1, outputTag: 1}

// columns are the counts and numbers that the aggregation keeps of the rows.
type columns struct {
	Accounting
	starts, ends []int64              // nanoseconds since 1970
	samples      map[string][]float64 // by tag: seconds, or tokens
	perToken     []float64            // seconds
}

// add adds a row.
func (c *columns) add(r *row) {
	c.Total++
	if r.phase != "profiling" {
		c.WarmupDropped++
	}
	if r.failed {
		c.ErrorDropped++
		c.ErrorCategories[r.category]++
	}
	if r.failed || r.phase != "profiling" {
		c.Dropped++
		return
	}
	c.Profiled++
	if r.start != 0 {
		c.starts = append(c.starts, r.start)
	}
	if r.end != 0 {
		c.ends = append(c.ends, r.end)
	}
	for tag, by := range divisors {
		if v, ok := r.value(tag); ok {
			c.samples[tag] = append(c.samples[tag], v/by)
		}
	}
	latency, ok := r.value(latencyTag)
	if tokens, has := r.value(outputTag); ok && has {
		c.perToken = append(c.perToken, latency/1000/tokens)
	}
}

// result computes the statistics of all rows.
func (c *columns) result() *Result {
	itl := c.samples[itlTag]
	return &Result{
		Accounting: c.Accounting, Total: c.Total, Successful: c.Profiled,
		Metrics: RequestMetrics{
			QPS: queriesPerSecond(c.ends),
			Latency: map[string]Stats{
				"ttft": statsOf(c.samples[ttftTag]), "e2el": statsOf(c.samples[latencyTag]), "itl": statsOf(itl), "tpot": statsOf(itl), "intvty": ratesOf(itl),
				"e2e_norm_intvty": ratesOf(c.perToken), "full_response_itl": statsOf(c.samples[fullITLTag]), "full_response_intvty": ratesOf(c.samples[fullITLTag]),
			},
			Throughput: c.throughput(), // in the order of the rows
			Tokens:     map[string]Stats{"input": statsOf(c.samples[inputTag]), "output_actual": statsOf(c.samples[outputTag]), "output_expected": {}},
		},
	}
}

// throughput divides the tokens by the time from the earliest start to the latest end.
func (c *columns) throughput() Throughput {
	t := Throughput{Stats{}, Stats{}, Stats{}, nil, Stats{}}
	if len(c.starts) == 0 || len(c.ends) == 0 {
		return t
	}
	span := float64(slices.Max(c.ends)-slices.Min(c.starts)) / 1e9
	if span <= 0 {
		return t
	}
	in, out := sum(c.samples[inputTag]), sum(c.samples[outputTag])
	t.Duration = figure(span)
	t.Input["tokens_per_second"], t.Output["tokens_per_second"], t.Total["tokens_per_second"] = Figure(in/span), Figure(out/span), Figure((in+out)/span)
	return t
}

// queriesPerSecond counts completions in windows of one second that follow one another from the first completion on, as long as
// a window ends by the last. Completions within less than a second have a mean alone: their number over that time.
func queriesPerSecond(ends []int64) Stats {
	if len(ends) < 2 {
		return Stats{}
	}
	slices.Sort(ends)
	const second = int64(1e9)
	last := ends[len(ends)-1]
	var counts []float64
	k := 0
	for t := ends[0]; t+second <= last; t += second {
		n := 0
		for ; k < len(ends) && ends[k] < t+second; k++ {
			n++
		}
		counts = append(counts, float64(n))
	}
	if len(counts) > 0 {
		s := statsOf(counts)
		s["window_seconds"], s["samples"] = 1, Figure(len(counts))
		return s
	}
	mean := float64(len(ends)) / (float64(last-ends[0]) / 1e9)
	if math.IsInf(mean, 0) {
		return Stats{}
	}
	return Stats{"mean": Figure(mean)}
}

// hitRate divides the hit blocks of the aggregate by all blocks; without them it takes the average.
func hitRate(aggregate object) *Figure {
	block, _ := decode(aggregate["theoretical_prefix_cache_hit"]).(map[string]any)
	hits, hasHits := number(block["sum"])
	if blocks, ok := number(block["count"]); ok && hasHits && blocks > 0 {
		return figure(hits / blocks)
	}
	average, ok := number(block["avg"])
	if !ok {
		return nil
	}
	if block["unit"] == "%" {
		average /= 100
	}
	return figure(average)
}

// Stats are statistics by name: mean, p50, p75, p90, p95, std. Without values it is empty.
type Stats map[string]Figure

var percentiles = []struct {
	name string
	q    float64
}{{"p50", 50}, {"p75", 75}, {"p90", 90}, {"p95", 95}}

// statsOf computes the statistics of samples.
func statsOf(samples []float64) Stats {
	s := Stats{}
	if len(samples) == 0 {
		return s
	}
	samples = slices.Sorted(slices.Values(samples))
	for _, p := range percentiles {
		s[p.name] = Figure(percentile(samples, p.q))
	}
	mean, std := moments(samples)
	s["mean"], s["std"] = Figure(mean), Figure(std)
	return s
}

// ratesOf computes the statistics of the reciprocals of samples: each is the reciprocal of the statistic of the
// same name, so that a high percentile is a slow request; std is that of the reciprocals.
func ratesOf(samples []float64) Stats {
	s := statsOf(samples)
	if len(s) == 0 {
		return s
	}
	rates := slices.Sorted(slices.Values(samples))
	for k, x := range rates {
		rates[k] = 1 / x
	}
	_, std := moments(rates)
	for name, f := range s {
		s[name] = 1 / f
	}
	s["std"] = Figure(std)
	return s
}

// percentile interpolates linearly between the neighbours of a position. It does not use package measure, which made the files that this package
// checks.
func percentile(sorted []float64, q float64) float64 {
	position := q / 100 * float64(len(sorted)-1)
	below := int(position)
	if below+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[below] + (position-float64(below))*(sorted[below+1]-sorted[below])
}

// moments returns the mean and the standard deviation of the population.
func moments(samples []float64) (mean, std float64) {
	mean = sum(samples) / float64(len(samples))
	for _, x := range samples {
		std += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(std / float64(len(samples)))
}

// sum adds up samples in their order, as the aggregation does.
func sum(samples []float64) (total float64) {
	for _, x := range samples {
		total += x
	}
	return total
}

// Figure is a number in the results of InferenceX: rounded to five places, and an integer when that leaves a whole number of at
// least 1.
type Figure float64

// figure returns a pointer to a figure, for fields that may be null.
func figure(x float64) *Figure { f := Figure(x); return &f }

// MarshalJSON returns the figure; a figure that is not finite is null.
func (f Figure) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
		return []byte("null"), nil
	}
	text := strconv.FormatFloat(float64(f), 'f', 5, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	if text == "0" || text == "-0" {
		text = "0.0"
	}
	return []byte(text), nil
}
