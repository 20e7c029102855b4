package merge_test

import (
	"bufio"
	"cmp"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
	"github.com/agentx/agentx/report"
)

// row is a line of a record, with the keys that the recount needs.
type row struct {
	Phase, Bucket          string
	Lane, Tree             int
	Due, Sent, End, Queued float64
	FirstToken             float64 `json:"first_token"`
	LastToken              float64 `json:"last_token"`
	Prompt                 *int64  `json:"prompt_tokens"`
	Cached                 *int64  `json:"cached_tokens"`
	Output                 *int64  `json:"output_tokens"`
	Error                  *struct{ Category string }
	part                   int
	sentAt, endAt, lastAt  int64 // nanoseconds since 1970 on the clock of part 0
}

// lines decodes every line of a file.
func lines[T any](t *testing.T, path string) (list []T) {
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	for s := bufio.NewScanner(file); s.Scan(); {
		var x T
		require.NoError(t, json.Unmarshal(s.Bytes(), &x))
		list = append(list, x)
	}
	return list
}

// rowsOf reads all rows of all parts into memory, and moves them by the readings of the clocks. It shares no code with what it checks.
func rowsOf(t *testing.T, dir string) (list []row) {
	dirs, err := filepath.Glob(filepath.Join(dir, "part-*"))
	require.NoError(t, err)
	for number, part := range dirs {
		var info struct {
			Phases []struct {
				Name  string
				Start time.Time
			}
		}
		text, err := os.ReadFile(filepath.Join(part, "run.json"))
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &info))
		type reading struct {
			Unix   int64 `json:"unix_ns"`
			Offset int64 `json:"offset_ns"`
		}
		clock := lines[reading](t, filepath.Join(part, "clock.jsonl"))
		offset := func(at int64) int64 {
			for k := range clock[1:] {
				if a, b := clock[k], clock[k+1]; at >= a.Unix && at < b.Unix {
					return a.Offset + int64(float64(b.Offset-a.Offset)*float64(at-a.Unix)/float64(b.Unix-a.Unix))
				}
			}
			return clock[len(clock)-1].Offset
		}
		for _, r := range lines[row](t, filepath.Join(part, "records.jsonl")) {
			start := info.Phases[0].Start.UnixNano()
			if r.Phase == "profiling" {
				start = info.Phases[1].Start.UnixNano()
			}
			ns := func(s float64) int64 { return start + int64(math.Round(s*1e9)) }
			by := offset(ns(r.Sent))
			r.part, r.sentAt, r.endAt, r.lastAt = number, ns(r.Sent)+by, ns(r.End)+by, ns(r.LastToken)+by
			list = append(list, r)
		}
	}
	return list
}

// recount is what the headline of all rows comes to.
type recount struct {
	n, warmup, failed, completed int
	buckets, errors              map[string]int
	prompt, cached, output       int64
	ttft, itl, latency, lateness []float64
	first, last                  int64
	trees, lanes                 map[int]bool
	sent, ended                  []int64
}

func countAgain(rows []row, of int) recount {
	c := recount{buckets: map[string]int{}, errors: map[string]int{}, trees: map[int]bool{}, lanes: map[int]bool{}, first: math.MaxInt64}
	for _, r := range rows {
		if r.Phase == "warmup" {
			c.warmup++
			continue
		}
		c.n++
		c.buckets[r.Bucket]++
		c.trees[r.part+r.Tree*of], c.lanes[r.Lane] = true, true
		c.sent, c.ended = append(c.sent, r.sentAt), append(c.ended, r.endAt)
		if r.Bucket != "profiling" && r.Bucket != "cooldown" {
			continue
		}
		if r.Error != nil {
			c.errors[r.Error.Category]++
			c.failed++
			continue
		}
		c.completed++
		if r.Bucket == "cooldown" {
			continue
		}
		c.first, c.last = min(c.first, r.sentAt), max(c.last, r.lastAt)
		c.prompt, c.cached, c.output = c.prompt+*r.Prompt, c.cached+*r.Cached, c.output+*r.Output
		c.ttft, c.latency = append(c.ttft, r.FirstToken-r.Sent), append(c.latency, r.LastToken-r.Sent)
		c.lateness = append(c.lateness, r.Sent-r.Due)
		c.itl = append(c.itl, (r.LastToken-r.FirstToken)/float64(*r.Output-1))
	}
	return c
}

// at returns a percentile: linear between the two samples around it.
func at(samples []float64, q float64) float64 {
	slices.Sort(samples)
	k := q / 100 * float64(len(samples)-1)
	low, high := samples[int(math.Floor(k))], samples[int(math.Ceil(k))]
	return low + (k-math.Floor(k))*(high-low)
}

// inFlight steps through all instants up to the last send, and returns what was in flight times nanoseconds, and the most at a time.
func (c *recount) inFlight() (area float64, most int) {
	until := slices.Max(c.sent)
	type step struct {
		at int64
		by int
	}
	var steps []step
	for k := range c.sent {
		steps = append(steps, step{c.sent[k], 1}, step{c.ended[k], -1})
	}
	slices.SortFunc(steps, func(a, b step) int { return cmp.Or(cmp.Compare(a.at, b.at), a.by-b.by) })
	now, before := 0, steps[0].at
	for _, s := range steps {
		if s.at > until {
			break
		}
		area += float64(now) * float64(s.at-before)
		now, before = now+s.by, s.at
		most = max(most, now)
	}
	return area, most
}

// 16 parts with clocks of their own, read beside each other, come to what a plain program makes of all their rows.
//
// Covers D-10.
func TestPartsAgainstARecount(t *testing.T) {
	const of = 16
	dir := load{world: newWorld(4, 60), of: of, skews: skewed(of), meeting: "0123456789abcdef"}.write(t)
	c := countAgain(rowsOf(t, dir), of)
	run := open(t, dir)
	s, missing, err := replay.Summarize(run, nil)
	require.NoError(t, err)
	require.Empty(t, missing)
	require.Equal(t, []int{c.n, c.completed, c.warmup, len(c.trees), len(c.lanes), len(c.ttft)}, []int{s.Requests, s.Completed, s.Warmup.Requests, s.Trees, s.Lanes.Started, s.Measured})
	require.Equal(t, c.buckets, map[string]int{"profiling": s.Buckets.Profiling, "cooldown": s.Buckets.Cooldown, "cancelled_at_end": s.Buckets.CancelledAtEnd, "context_overflow": s.Buckets.ContextOverflow})
	for category, n := range c.errors {
		require.Equal(t, n, s.Errors[wire.Category(category)], category)
	}
	require.Equal(t, [3]int64{c.prompt, c.cached, c.output}, [3]int64{int64(s.PromptTokens), int64(s.CachedTokens), int64(s.OutputTokens)})
	for name, x := range map[string]struct {
		stat    measure.Stat
		samples []float64
	}{"ttft": {s.TTFT, c.ttft}, "itl": {s.ITL, c.itl}, "latency": {s.RequestLatency, c.latency}, "lateness": {s.Lateness, c.lateness}} {
		require.Equal(t, len(x.samples), x.stat.N, name)
		for q, got := range map[float64]measure.Number{50: x.stat.P50, 75: x.stat.P75, 90: x.stat.P90, 95: x.stat.P95, 99: x.stat.P99, 100: x.stat.Max} {
			require.InDelta(t, at(x.samples, q), float64(got), 1e-12, "%s, percentile %v", name, q)
		}
	}
	seconds := float64(c.last-c.first) / 1e9
	require.InDelta(t, seconds, float64(s.Duration), 3e-9)
	for name, x := range map[string][2]float64{
		"requests": {float64(len(c.ttft)) / seconds, float64(s.RequestRate)}, "prompt": {float64(c.prompt) / seconds, float64(s.PromptTokenRate)}, "output": {float64(c.output) / seconds, float64(s.OutputTokenRate)},
	} {
		require.InEpsilon(t, x[0], x[1], 1e-9, name)
	}
	area, most := c.inFlight()
	require.InEpsilon(t, area/1e9/float64(run.Info.Facts.Load.Seconds), float64(s.Fidelity.RequestsInFlight.Mean), 1e-6)
	require.EqualValues(t, most, s.Fidelity.RequestsInFlight.Max)
	requireTables(t, run.Dir, &c, seconds)
}

// requireTables compares the tables of the report, and the rows of its files, with a recount.
func requireTables(t *testing.T, dir string, c *recount, seconds float64) {
	run, err := report.Open(dir)
	require.NoError(t, err)
	results, err := run.Compute()
	require.NoError(t, err)
	table := results.Headline
	value := func(tag, stat string) float64 {
		b := table.Find(tag)
		require.NotNil(t, b, tag)
		n, ok := b.Find(stat)
		require.True(t, ok, tag)
		return n.Float64()
	}
	require.EqualValues(t, len(c.ttft), value("request_count", "avg"))
	require.InEpsilon(t, float64(len(c.ttft))/seconds, value("request_throughput", "avg"), 1e-9)
	require.InEpsilon(t, float64(c.output)/seconds, value("output_token_throughput", "avg"), 1e-9)
	for tag, samples := range map[string][]float64{"time_to_first_token": c.ttft, "request_latency": c.latency} {
		for stat, q := range map[string]float64{"p50": 50, "p99": 99} {
			require.InDelta(t, 1e3*at(samples, q), value(tag, stat), 1e-6, "%s %s", tag, stat)
		}
	}
}
