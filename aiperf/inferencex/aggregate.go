package inferencex

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/agentx/agentx/internal/regular"
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

// Aggregate computes the result of the files of a directory, which Find has found. The error names the file and the line.
func Aggregate(dir string) (*Result, error) {
	path := filepath.Join(dir, RowsFile)
	file, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	c := columns{categories: map[string]int{}}
	if err := eachRow(file, c.add); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	r := c.result()
	data, err := readSmall(dir, AggregateFile)
	if err != nil {
		return nil, err
	}
	if data != nil {
		var o object
		if err := json.Unmarshal(data, &o); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Join(dir, AggregateFile), err)
		}
		r.Metrics.Cache.HitRate = hitRate(o)
	}
	return r, nil
}

// columns are the numbers of the rows.
type columns struct {
	total, profiled, warmup, failed int
	categories                      map[string]int

	starts, ends                          []int64   // nanoseconds since 1970
	ttft, latency, itl, fullITL, perToken []float64 // seconds
	input, output                         []float64 // tokens
}

// add adds a row.
func (c *columns) add(r *row) {
	c.total++
	if r.phase != "profiling" {
		c.warmup++
	}
	if r.failed {
		c.failed++
		c.categories[r.category]++
	}
	if !r.survives() {
		return
	}
	c.profiled++
	if r.start != 0 {
		c.starts = append(c.starts, r.start)
	}
	if r.end != 0 {
		c.ends = append(c.ends, r.end)
	}
	c.addLatencies(r)
	for _, of := range []struct {
		tag string
		to  *[]float64
	}{{inputTag, &c.input}, {outputTag, &c.output}} {
		if n, ok := r.value(of.tag); ok {
			*of.to = append(*of.to, n)
		}
	}
}

// addLatencies adds the latencies of a row, in seconds.
func (c *columns) addLatencies(r *row) {
	for _, of := range []struct {
		tag string
		to  *[]float64
	}{{ttftTag, &c.ttft}, {latencyTag, &c.latency}, {itlTag, &c.itl}, {fullITLTag, &c.fullITL}} {
		if ms, ok := r.value(of.tag); ok {
			*of.to = append(*of.to, ms/1000)
		}
	}
	latency, ok := r.value(latencyTag)
	if tokens, has := r.value(outputTag); ok && has {
		c.perToken = append(c.perToken, latency/1000/tokens)
	}
}

// result computes the statistics.
func (c *columns) result() *Result {
	tokens := func(samples []float64) Stats { return statsOf(slices.Clone(samples)) }
	itl := statsOf(c.itl)
	return &Result{
		Accounting: Accounting{c.total, c.profiled, c.total - c.profiled, c.warmup, c.failed, c.categories},
		Total:      c.total, Successful: c.profiled,
		Metrics: RequestMetrics{
			QPS: queriesPerSecond(c.ends),
			Latency: map[string]Stats{
				"ttft": statsOf(c.ttft), "e2el": statsOf(c.latency), "itl": itl, "tpot": itl, "intvty": ratesOf(c.itl),
				"e2e_norm_intvty": ratesOf(c.perToken), "full_response_itl": statsOf(c.fullITL), "full_response_intvty": ratesOf(c.fullITL),
			},
			Tokens:     map[string]Stats{"input": tokens(c.input), "output_actual": tokens(c.output), "output_expected": {}},
			Throughput: c.throughput(),
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
	duration := Figure(span)
	t.Duration = &duration
	in, out := sum(c.input), sum(c.output)
	for _, of := range []struct {
		to     Stats
		tokens float64
	}{{t.Input, in}, {t.Output, out}, {t.Total, in + out}} {
		of.to["tokens_per_second"] = Figure(of.tokens / span)
	}
	return t
}

func sum(samples []float64) (total float64) {
	for _, x := range samples {
		total += x
	}
	return total
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
	block, ok := asObject(aggregate["theoretical_prefix_cache_hit"])
	if !ok {
		return nil
	}
	hits, hasHits := asNumber(block["sum"])
	if blocks, ok := asNumber(block["count"]); ok && hasHits && blocks > 0 {
		f := Figure(hits / blocks)
		return &f
	}
	average, ok := asNumber(block["avg"])
	if !ok {
		return nil
	}
	if unit, _ := asText(block["unit"]); unit == "%" {
		average /= 100
	}
	f := Figure(average)
	return &f
}
