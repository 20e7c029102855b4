package capture

import (
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/cmd/internal/capture/carry"
	"github.com/agentx/agentx/cmd/internal/capture/finish"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
)

// metrics are what a capture tells Prometheus. No label says whose session, agent or model something was.
type metrics struct {
	registry    *prometheus.Registry
	requests    *prometheus.CounterVec
	notRecorded *prometheus.CounterVec
	marks       *prometheus.CounterVec
	kinds       *prometheus.CounterVec
	results     *prometheus.CounterVec
	deficit     prometheus.Histogram
	usageRatio  prometheus.Histogram
	added       *timings // by stage of carry
	work        *timings // by stage
	now         func() int64
}

// stage is what a worker does.
type stage int

const (
	stagePrompt  stage = iota // reads and tokenizes a request
	stageReply                // reads a piece of a reply
	stageOutcome              // reads what a reply comes to
)

// newMetrics registers the metrics of a capture. now is its monotonic clock, in nanoseconds.
func newMetrics(now func() int64) *metrics {
	vector := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "agentx_capture_" + name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "agentx_capture_" + name, Help: help, Buckets: buckets})
	}
	m := &metrics{
		now:         now,
		registry:    prometheus.NewRegistry(),
		requests:    vector("requests_total", "Exchanges of sessions, by the API and by how they ended.", "format", "end"),
		notRecorded: vector("not_recorded_total", "Requests that are in no trace, by reason, once that is known.", "reason"),
		marks:       vector("marks_total", "Marks of exchanges.", "mark"),
		kinds:       vector("blocks_total", "Blocks of prompts: kept from an earlier prompt, or new.", "kind"),
		results:     vector("finish_total", "Sessions that were finished.", "result"),
		deficit:     histogram("prefix_deficit_blocks", "Blocks of its predecessor that a prompt lacks.", append([]float64{0}, prometheus.ExponentialBuckets(1, 2, 13)...)),
		usageRatio:  histogram("usage_ratio", "Tokens of a prompt as counted here, to those that the API counts.", []float64{0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.5, 2}),
	}
	m.added = newTimings("added_seconds", "What carrying adds: to the dispatch of a request, to the head of a reply, to a chunk of it.",
		[3]string{carry.Dispatch: "dispatch", carry.FirstByte: "first_byte", carry.Flush: "chunk"})
	m.work = newTimings("worker_seconds", "What workers do: read a request, a piece of a reply, what a reply comes to.",
		[3]string{stagePrompt: "prompt", stageReply: "reply", stageOutcome: "outcome"})
	m.registry.MustRegister(m.requests, m.notRecorded, m.marks, m.kinds, m.results, m.deficit, m.usageRatio, m.added, m.work)
	return m
}

// gauge adds a gauge that is read when it is asked for.
func (m *metrics) gauge(name, help string, labels prometheus.Labels, read func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "agentx_capture_" + name, Help: help, ConstLabels: labels}, read))
}

// left counts requests that are in no trace.
func (m *metrics) left(why journal.Reason, n int) {
	m.notRecorded.WithLabelValues(string(why)).Add(float64(n))
}

// timed runs work, and adds its duration to those of a stage.
func (m *metrics) timed(s stage, work func()) {
	began := m.now()
	work()
	m.work.times[s].add(m.now() - began)
}

// ended counts an exchange of a session by its format and how it ended, and its marks.
func (m *metrics) ended(f canon.Format, e journal.End) {
	m.requests.WithLabelValues(f.String(), string(e.X)).Inc()
	for _, name := range e.Marks.Names() {
		m.marks.WithLabelValues(name).Inc()
	}
}

// numbered counts the blocks of a prompt: those it shares with an earlier one, and new ones.
func (m *metrics) numbered(kept, made int) {
	m.kinds.WithLabelValues("kept").Add(float64(kept))
	m.kinds.WithLabelValues("new").Add(float64(made))
}

// finished counts a session that was finished by its result, and the requests that are not in its trace.
func (m *metrics) finished(r finish.Result, err error) {
	for why, n := range r.NotRecorded {
		m.left(why, n)
	}
	result := "trace"
	switch {
	case err != nil:
		result = "error"
	case r.Bad:
		result = "bad"
	case !r.Written:
		result = "none"
	}
	m.results.WithLabelValues(result).Inc()
}

// quantiles returns how long carrying took by stage, for the summary.
func (m *metrics) quantiles() map[string]Quantiles {
	q := map[string]Quantiles{}
	for k, name := range m.added.names {
		t := &m.added.times[k]
		q[name] = Quantiles{t.quantile(0.5), t.quantile(0.99)}
	}
	return q
}

// times counts nanoseconds in buckets whose bounds grow by an eighth at most. It takes no lock: every chunk adds to it.
type times struct {
	counts [64 * parts]atomic.Uint64
	sum    atomic.Int64
}

// parts is how many buckets lie between two powers of two.
const parts = 8

// bucket returns the bucket in which a time of ns nanoseconds is counted.
func bucket(ns int64) int {
	n := uint64(max(0, ns))
	if n < parts {
		return int(n)
	}
	shift := bits.Len64(n) - 4 // n>>shift has four bits, the first of them 1
	return (shift+1)*parts + int(n>>shift)&(parts-1)
}

// most returns the largest time of a bucket, in nanoseconds.
func most(bucket int) int64 {
	if bucket < parts {
		return int64(bucket)
	}
	shift := bucket/parts - 1
	return (int64(parts+bucket%parts)+1)<<shift - 1
}

// add counts a time; a negative one as 0.
func (t *times) add(ns int64) {
	t.counts[bucket(ns)].Add(1)
	t.sum.Add(max(0, ns))
}

// quantile returns an upper bound of a quantile in seconds, at most an eighth above it; 0 where nothing was added.
func (t *times) quantile(q float64) float64 {
	var n uint64
	for k := range t.counts {
		n += t.counts[k].Load()
	}
	rank := uint64(q * float64(n))
	for k := range t.counts {
		if c := t.counts[k].Load(); c > rank {
			return float64(most(k)) / 1e9
		} else {
			rank -= c
		}
	}
	return 0
}

// timings collects the times of stages as a histogram.
type timings struct {
	desc  *prometheus.Desc
	names [3]string
	times [3]times
}

func newTimings(name, help string, names [3]string) *timings {
	return &timings{desc: prometheus.NewDesc("agentx_capture_"+name, help, []string{"stage"}, nil), names: names}
}

func (t *timings) Describe(to chan<- *prometheus.Desc) { to <- t.desc }

// bounds of the histogram, in seconds.
var bounds = []float64{1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.1, 1}

// Collect sends a histogram of each stage to Prometheus.
func (t *timings) Collect(to chan<- prometheus.Metric) {
	for k, name := range t.names {
		counts, n := map[float64]uint64{}, uint64(0)
		for bucket := range t.times[k].counts {
			c := t.times[k].counts[bucket].Load()
			n += c
			for _, bound := range bounds {
				if float64(most(bucket)) <= bound*1e9 {
					counts[bound] += c
				}
			}
		}
		to <- prometheus.MustNewConstHistogram(t.desc, n, float64(t.times[k].sum.Load())/1e9, counts, name)
	}
}

// begin counts a recorder among those that are not over.
func (c *Capture) begin(r *recorder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.recorders[r] = true
}

// end removes a recorder that is over from those that are counted.
func (c *Capture) end(r *recorder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.recorders, r)
	c.pool.news.tell()
}

// alive returns the recorders that are not over.
func (c *Capture) alive() []*recorder {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.recorders))
}

// carrying returns how many exchanges are carried.
func (c *Capture) carrying() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flights
}

// await says that an exchange waits to join by its body, or does not wait any more.
func (c *Capture) await(x *exchange, waits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.waiting, x); waits {
		c.waiting[x] = true
	}
}

// leave counts a request that belongs to no session.
func (c *Capture) leave(why journal.Reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lose(why, 1)
}

// lose counts requests that are in no trace. The lock is held.
func (c *Capture) lose(why journal.Reason, n int) {
	if n > 0 {
		c.total.NotRecorded[why] += n
		c.metrics.left(why, n)
	}
}

// unwritten counts the requests of a session without a journal.
func (c *Capture) unwritten(n int) {
	if n == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total.Sessions++
	c.total.Incomplete++
	c.lose(journal.HoleJournal, n)
}

// unrecorded says that a session is not recorded, once a minute.
func (c *Capture) unrecorded(trace string, err error) {
	now := c.options.Now()
	c.mu.Lock()
	say := c.silent || now-c.said >= int64(time.Minute)
	if say {
		c.said, c.silent = now, false
	}
	c.mu.Unlock()
	if say {
		c.options.Log.Error("a session is not recorded", "trace", trace, "reason", string(journal.HoleJournal), "error", err)
	}
}

var errInternal = errors.New("agentx panicked while it made the trace: this is a bug in agentx")

// finished makes a trace of a journal that is complete. Requests that the journal lacks could not be written.
func (c *Capture) finished(trace string, requests int) {
	c.turns <- struct{}{}
	result, err := c.finish(trace)
	<-c.turns
	if err != nil {
		c.options.Log.Error("a journal could not be finished: agentx capture finish does it later", "trace", trace, "error", err)
		result = finish.Result{Trace: trace, Incomplete: true}
	}
	lacking := requests - result.Requests
	result.Incomplete = result.Incomplete || lacking > 0
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total.Add(result)
	if err != nil {
		c.failed++
	}
	c.lose(journal.HoleJournal, lacking)
	c.metrics.finished(result, err)
	c.pool.news.tell()
}

// finish makes a trace of a journal. A panic becomes an error.
func (c *Capture) finish(trace string) (r finish.Result, err error) {
	defer func() {
		if recover() != nil {
			err = errInternal
		}
	}()
	return finish.Finish(c.ctx, c.folder, trace)
}

// unfinished returns an error where journals could not be finished, which the log has named.
func (c *Capture) unfinished() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == 0 {
		return nil
	}
	return fmt.Errorf("%d of the journals could not be finished: agentx capture finish %s does it later", c.failed, c.options.Dir)
}

// Summary is what a capture came to.
type Summary struct {
	finish.Total // its requests are all that were seen

	Bytes int64                `json:"bytes_carried"`
	Added map[string]Quantiles `json:"added"` // seconds, by stage
	Out   string               `json:"out"`
}

// Quantiles of a time, in seconds.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// Summary returns what the capture came to. Call it after Serve.
func (c *Capture) Summary() Summary {
	c.mu.Lock()
	defer c.mu.Unlock()
	total := *c.total
	total.Requests, total.NotRecorded, total.Marks = c.seen, maps.Clone(total.NotRecorded), maps.Clone(total.Marks)
	return Summary{Total: total, Bytes: c.bytes.Load(), Added: c.metrics.quantiles(), Out: c.options.Dir}
}

// String returns a line for people.
func (s Summary) String() string {
	left := 0
	for _, n := range s.NotRecorded {
		left += n
	}
	return fmt.Sprintf("%d requests of %d sessions: %d recorded in %d traces, %d not", s.Requests, s.Sessions, s.Recorded, s.Traces, left)
}
