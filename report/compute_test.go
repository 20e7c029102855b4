package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// requireStats compares statistics of a block; names may lack.
func requireStats(t testing.TB, table Table, tag string, want map[string]float64) {
	t.Helper()
	for name, w := range want {
		require.InDelta(t, w, value(t, table, tag, name), 1e-9*max(1, w), "%s %s", tag, name)
	}
}

// handMade are the records of a run by hand: reasoning first and a tail of usage; one token; one that is cancelled; a failure; one
// that ends at the deadline, 10 s, and one a nanosecond later; one that did not fit the context.
func handMade(countGrace bool) []measure.Record {
	reasoning := success(1*second, 1*second+420*ms, 50, 8, 100*ms, 150*ms, 300*ms, 400*ms)
	reasoning.ReasoningTokens, reasoning.FirstOutput, reasoning.LastMessage = measure.Tokens(12), at(1*second+300*ms), at(1*second+410*ms)
	reasoning.RecordedBlocks, reasoning.RecordedHits = 10, 12 // clamped to 10
	one := success(2*second, 2*second+130*ms+1, 10, 1, 100*ms+1)
	one.RecordedBlocks, one.RecordedHits = 30, 6
	last := success(9*second, 10*second, 100, 21, 200*ms, 900*ms)
	late := success(9*second, 10*second+1, 100, 41, 300*ms, 1000*ms)
	late.Bucket = measure.Cooldown
	if countGrace {
		late.Bucket = measure.Profiling
	}
	cancelled, overflow := failure(9500*ms, 12*second, wire.Cancelled), failure(3*second, 3100*ms, wire.ContextOverflow)
	cancelled.Bucket, overflow.Bucket = measure.CancelledAtEnd, measure.ContextOverflow
	failed := failure(4*second, 4050*ms, wire.HTTPStatus)
	failed.Error.Code, failed.Acknowledged = 500, at(4040*ms)
	return []measure.Record{reasoning, one, overflow, failed, last, late, cancelled}
}

// The numbers of a run by hand, to the nanosecond, under each preset.
//
// Covers T-39.
func TestHandMadeRun(t *testing.T) {
	for _, name := range preset.Names {
		switches, _ := preset.Named(name)
		info := infoOf(name, 12)
		info.Facts.Deadline = 10
		res := compute(t, info, handMade(switches.CountGrace)...)
		h := res.Headline
		ttfts, latencies := []float64{100, 100.000001, 200}, []float64{400, 100.000001, 900}
		succeeded, last, end := 3, 9900*ms, 10*second
		if switches.CountGrace {
			ttfts, latencies = append(ttfts, 300), append(latencies, 1000)
			succeeded, last, end = 4, 10*second, 10*second+1
		}
		requireStats(t, h, "time_to_first_token", map[string]float64{
			"min": 100, "max": slices.Max(ttfts), "count": float64(len(ttfts)), "p50": measure.Percentile(ttfts, 50), "p99": measure.Percentile(ttfts, 99),
		})
		slices.Sort(latencies)
		for _, q := range percentiles {
			requireStats(t, h, "request_latency", map[string]float64{fmt.Sprintf("p%v", q): measure.Percentile(latencies, q)})
		}
		requireStats(t, h, "time_to_first_output_token", map[string]float64{"max": 300, "count": float64(succeeded)})
		requireStats(t, h, "inter_token_latency", map[string]float64{"max": 700.0 / 20, "count": float64(succeeded - 1)}) // not of one token
		requireStats(t, h, "request_count", map[string]float64{"avg": float64(succeeded)})
		requireStats(t, h, "error_request_count", map[string]float64{"avg": 1})
		requireStats(t, h, "completed_request_count", map[string]float64{"avg": float64(succeeded + 1)})
		requireStats(t, h, "request_error_rate", map[string]float64{"avg": 100 / float64(succeeded+1)})
		requireStats(t, h, "theoretical_prefix_cache_hit", map[string]float64{"avg": 40, "sum": 16, "count": 40})
		for tag, n := range map[string]int{
			"context_overflow_count": 1, "skipped_context_overflow_count": 1, "cancelled_at_end_count": 1, "wedged_tree_count": 0,
			"cooldown_request_count": 4 - succeeded, "osl_mismatch_count": 1, "usage_discrepancy_count": 0,
		} {
			requireStats(t, h, tag, map[string]float64{"avg": float64(n)})
		}
		first, ok := h.Find("min_request_timestamp").Find("avg")
		require.True(t, ok)
		require.Equal(t, start+1*second, first.Int64(), "digit by digit")
		latest, _ := h.Find("max_response_timestamp").Find("avg")
		require.Equal(t, start+last, latest.Int64())
		requireStats(t, h, "benchmark_duration", map[string]float64{"avg": float64(last-1*second) / 1e9})
		requireStats(t, h, "phase_duration", map[string]float64{"avg": 12})
		require.Equal(t, [2]int64{start, start + end}, [2]int64{res.Start, res.End})
		require.Equal(t, Counts{7, succeeded, 1, 4 - succeeded, 1, 1, 0, 0}, res.Counts)
		require.Equal(t, []ErrorGroup{{Error: measure.Error{Category: wire.HTTPStatus, Code: 500, Message: "failed"}, Count: 1}}, res.Errors)
		require.Equal(t, map[bool]string{true: "grace_included", false: "deadline"}[switches.CountGrace], res.HeadlineRule)
		require.True(t, slices.IsSortedFunc(h, func(x, y Block) int { return slices.Compare([]byte(x.Tag), []byte(y.Tag)) }))
		requireCooldownAndSteady(t, res, switches, name == preset.AgentX)
	}
}

// requireCooldownAndSteady checks the two other views of a run by hand.
func requireCooldownAndSteady(t *testing.T, res *Results, switches preset.Switches, harness bool) {
	n := 1
	if switches.CountGrace {
		n = 0
		require.Nil(t, res.Cooldown.Find("request_latency"))
	} else {
		requireStats(t, res.Cooldown, "request_latency", map[string]float64{"avg": 1000, "count": 1})
	}
	requireStats(t, res.Cooldown, "request_count", map[string]float64{"avg": float64(n)})
	requireStats(t, res.Cooldown, "error_request_count", map[string]float64{"avg": 0})
	require.Nil(t, res.Cooldown.Find("cooldown_request_count"), "counts of the run are in the headline")

	s := res.Steady
	requireStats(t, s, "request_latency", map[string]float64{"count": 4, "max": 1000})
	requireStats(t, s, "phase_duration", map[string]float64{"avg": 10})
	share := float64(second) / float64(second+1) // of the one that ended a nanosecond late
	requireStats(t, s, "request_throughput", map[string]float64{"avg": (3 + share) / 10})
	requireStats(t, s, "input_token_throughput", map[string]float64{"avg": 26})
	requireStats(t, s, "output_token_throughput", map[string]float64{"avg": (20 + 1 + 21 + 41) / 10.0})
	busy := 420*ms + 130*ms + 1 + second + second + 50*ms + 100*ms + 500*ms // up to the deadline, those apart included
	if harness {
		busy -= 10 * ms // a request ends with its last message
	}
	requireStats(t, s, "effective_concurrency", map[string]float64{"avg": float64(busy) / 10e9, "max": 3})
}

// The throughput is over the window that the switch chooses, which is named in the results.
//
// Covers T-55.
func TestThroughputWindow(t *testing.T) {
	type in struct {
		Last      *int64 `json:"last_content_ns"`
		First     int64  `json:"first_start_ns"`
		Complete  int64  `json:"phase_complete_ns"`
		Deadline  int64  `json:"deadline_ns"`
		LastEnd   int64  `json:"last_end_ns"`
		Cancelled bool
		Count     int
	}
	type want struct {
		Window         string
		Seconds, Value *float64
	}
	fixtures.EachCase(t, "throughput_window", fixtures.Counts{4, 2, 2}, func(t *testing.T, c fixtures.Case, in in, want want) {
		var list []measure.Record
		for k := range int64(in.Count) {
			sent := k * (*in.Last / int64(in.Count))
			content := max(1, (k+1)*(*in.Last/int64(in.Count))-sent)
			list = append(list, success(sent, sent+content, 100, 10, content))
		}
		info := infoOf(c.Preset, float64(in.Complete)/1e9)
		info.Facts.Cancelled, info.Facts.Deadline, info.Counting = in.Cancelled, float64(in.Deadline)/1e9, measure.Counting
		if in.LastEnd > 0 {
			list = append(list, failure(in.LastEnd-1, in.LastEnd, wire.Timeout))
		}
		res := compute(t, info, list...)
		require.Equal(t, start+in.Complete, res.PhaseEnd)
		require.Equal(t, want.Window, res.Window.Kind)
		requireStats(t, res.Headline, "phase_duration", map[string]float64{"avg": float64(in.Complete) / 1e9})
		if want.Seconds == nil {
			require.Equal(t, Window{Kind: want.Window}, res.Window)
			for _, tag := range []string{"request_throughput", "output_token_throughput", "benchmark_duration"} {
				require.Nil(t, res.Headline.Find(tag))
			}
			return
		}
		require.Equal(t, Window{want.Window, start, start + int64(*want.Seconds*1e9), *want.Seconds, true}, res.Window)
		requireStats(t, res.Headline, "request_throughput", map[string]float64{"avg": *want.Value})
		requireStats(t, res.Headline, "output_token_throughput", map[string]float64{"avg": 10 * *want.Value})
		requireStats(t, res.Headline, "input_token_throughput", map[string]float64{"avg": 100 * *want.Value})
		requireStats(t, res.Headline, "total_token_throughput", map[string]float64{"avg": 110 * *want.Value})
		requireStats(t, res.Headline, "benchmark_duration", map[string]float64{"avg": 900})
	})
}

// The inter-token latency divides by the tokens after the first chunk where they are known, and the results say by what.
//
// Covers T-54.
func TestITLDivisor(t *testing.T) {
	for _, c := range []struct {
		first           measure.Count
		want            float64
		known, unusable int
	}{{measure.Tokens(4), 200.0 / 7, 1, 0}, {measure.Tokens(0), 20, 0, 1}, {measure.Tokens(11), 20, 0, 1}, {0, 20, 0, 0}} {
		r := success(5*second, 5*second+312*ms, 1000, 11, 100*ms, 200*ms, 300*ms)
		r.FirstChunkTokens = c.first
		for _, name := range preset.Names {
			res, want, rule := compute(t, infoOf(name, 10), r), c.want, "first-chunk"
			if name == preset.AgentX {
				want, rule = 20, "osl-1"
			}
			requireStats(t, res.Headline, "inter_token_latency", map[string]float64{"avg": want})
			requireStats(t, res.Headline, "full_response_inter_token_latency", map[string]float64{"avg": want * 212 / 200})
			require.Equal(t, measure.ITLDivisor{Rule: rule, Known: c.known, Unusable: c.unusable}, res.ITLDivisor)
			require.Equal(t, c.known == 1, res.Headline.Find("first_chunk_tokens") != nil)
			require.Equal(t, preset.FlowChunks, res.Flow)
		}
	}
}

// Failures leave every latency as it is. They have width in the concurrency, and an infinite sample in the adjusted metrics.
//
// Covers T-56.
func TestFailuresHaveWidthAndNoLatency(t *testing.T) {
	good := []measure.Record{success(0, 400*ms, 10, 5, 100*ms, 300*ms), success(100*ms, 1000*ms, 10, 9, 200*ms, 800*ms)}
	bad := []measure.Record{
		failure(200*ms, 250*ms, wire.HTTPStatus), failure(300*ms, 300*ms+1, wire.Connection), failure(0, 900*ms, wire.Timeout),
	}
	stalled := failure(0, 500*ms, wire.Timeout) // after its first token
	stalled.FirstToken, stalled.LastToken = at(200*ms), at(200*ms)
	bad = append(bad, stalled)
	for _, name := range preset.Names {
		without, with := compute(t, infoOf(name, 1), good...), compute(t, infoOf(name, 1), append(slices.Clone(good), bad...)...)
		compared := 0
		for _, b := range without.Headline {
			if b.Kind == Distribution && !strings.HasSuffix(b.Tag, OfRows) { // those are over failures too, as the harness has them
				require.Equal(t, b, *with.Headline.Find(b.Tag))
				compared++
			}
		}
		require.Greater(t, compared, 15)
		requireStats(t, without.Headline, "effective_concurrency", map[string]float64{"avg": 1.3})
		requireStats(t, with.Headline, "effective_concurrency", map[string]float64{"avg": 1.3 + 0.05 + 1e-9 + 0.9 + 0.5})
		prefill, decode := 0.05+1e-9+0.9+0.2, 0.3 // of failures
		if name != preset.Default {
			prefill, decode = 0, 0
		}
		requireStats(t, with.Headline, "effective_prefill_concurrency", map[string]float64{"avg": 0.3 + prefill})
		requireStats(t, with.Headline, "effective_decode_concurrency", map[string]float64{"avg": 1 + decode})
		for tag := range adjustedTags {
			require.Nil(t, without.Headline.Find("adj_"+tag), "no failure")
			b := with.Headline.Find("adj_" + tag)
			require.NotNil(t, b, tag)
			requireStats(t, with.Headline, b.Tag, map[string]float64{"count": 6, "min": value(t, with.Headline, tag, "min"), "p25": value(t, with.Headline, tag, "max")})
			for _, infinite := range []string{"avg", "max", "p50", "p99", "std", "sum"} {
				_, ok := b.Find(infinite)
				require.False(t, ok, infinite)
			}
		}
		onlyBad := compute(t, infoOf(name, 1), bad...).Headline
		require.Nil(t, onlyBad.Find("adj_request_latency"), "no success")
		requireStats(t, onlyBad, "request_count", map[string]float64{"avg": 0})
		require.Nil(t, onlyBad.Find("request_throughput"))
	}
}

// An adjusted percentile is the sample nearest to the position, with an infinite sample of each failure.
func TestAdjusted(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 100), 1, 30).Draw(rt, "values")
		failures := rapid.IntRange(1, 30).Draw(rt, "failures")
		s, all := samples{}, slices.Clone(values)
		for _, v := range values {
			s.add(Float(v))
		}
		for range failures {
			all = append(all, math.Inf(1))
		}
		slices.Sort(all)
		s.distribution() // sorts
		b := Block{Stats: s.adjusted(failures)}
		for _, q := range percentiles {
			position, nearest := q/100*float64(len(all)-1), 0
			for k := range all { // of two that are as near, the even one
				if d, best := math.Abs(float64(k)-position), math.Abs(float64(nearest)-position); d < best || d == best && k%2 == 0 {
					nearest = k
				}
			}
			got, ok := b.Find(percentileName(q))
			require.Equal(rt, !math.IsInf(all[nearest], 1), ok)
			if ok {
				require.Equal(rt, all[nearest], got.Float64())
			}
		}
	})
}

// The gaps between content messages of all requests are one pool.
func TestGapsArePooled(t *testing.T) {
	gaps := compute(t, infoOf(preset.Default, 10), success(0, second, 10, 5, 100*ms, 130*ms, 190*ms), success(0, second, 10, 5, 10*ms, 110*ms), success(0, second, 10, 5, 10*ms)).Headline
	requireStats(t, gaps, interChunkLatency, map[string]float64{
		"avg": 190.0 / 3, "min": 30, "max": 100, "p50": 60, "p99": 60 + 0.98*40, "count": 3, "sum": 190, "std": 28.674417556808756,
	})
}

// The warmup has a table of its own, on its own clock, without those of its requests that are counted apart.
func TestWarmupTable(t *testing.T) {
	warm, bad, long := success(0, 300*ms, 10, 1, 200*ms), failure(0, 400*ms, wire.HTTPStatus), failure(0, 400*ms, wire.ContextOverflow)
	for _, r := range []*measure.Record{&warm, &bad, &long} {
		r.Phase, r.Bucket = measure.WarmupPhase, measure.WarmupBucket
	}
	info := infoOf(preset.Default, 10)
	profiling := info.Phases[0]
	info.Phases = []measure.PhaseSpan{{Name: measure.WarmupPhase, Start: profiling.Start.Add(-5e9), Duration: 4}, profiling}
	res := compute(t, info, warm, bad, long, success(0, second, 10, 5, 100*ms))
	requireStats(t, res.Warmup, "request_latency", map[string]float64{"avg": 200, "count": 1})
	requireStats(t, res.Warmup, "error_request_count", map[string]float64{"avg": 1})
	requireStats(t, res.Warmup, "phase_duration", map[string]float64{"avg": 4})
	first, _ := res.Warmup.Find("min_request_timestamp").Find("avg")
	require.EqualValues(t, start-5*second, first.Int64())
	requireStats(t, res.Headline, "request_latency", map[string]float64{"avg": 100, "count": 1})
	first, _ = res.Headline.Find("min_request_timestamp").Find("avg")
	require.EqualValues(t, start, first.Int64(), "on the clock of its own phase")
	require.Equal(t, 3, res.Counts.Warmup)
	require.Equal(t, 1, res.Counts.Sent)
	require.Nil(t, compute(t, infoOf(preset.Default, 1)).Warmup)
}

// Failures with many different messages are counted within bounds.
func TestErrorGroupsAreBounded(t *testing.T) {
	g := errorGroups{}
	for k := range 3 * maxErrorGroups {
		g.add(&measure.Error{Category: wire.HTTPStatus, Code: 500, Message: fmt.Sprint(k)})
	}
	g.add(&measure.Error{Category: wire.HTTPStatus, Code: 500, Message: "7"})
	list := g.sorted()
	require.Len(t, list, maxErrorGroups+1)
	require.Equal(t, ErrorGroup{measure.Error{Category: wire.HTTPStatus, Code: 500, Message: otherMessages}, 2 * maxErrorGroups, maxErrorGroups}, list[0])
	require.Equal(t, ErrorGroup{measure.Error{Category: wire.HTTPStatus, Code: 500, Message: "7"}, 2, 7}, list[1])
}

// Requests are counted whose output differs from what was asked, or whose prompt from what was recorded, by more than the limits.
func TestMismatchesAreCounted(t *testing.T) {
	count := func(asked, output, recorded, prompt int64) [2]float64 {
		r := success(0, second, prompt, output, 100*ms)
		r.MaxTokens, r.RecordedISL = asked, recorded
		h := compute(t, infoOf(preset.Default, 1), r).Headline
		return [2]float64{value(t, h, "osl_mismatch_count", "avg"), value(t, h, "usage_discrepancy_count", "avg")}
	}
	for _, c := range []struct {
		asked, output, recorded, prompt int64
		want                            [2]float64
	}{
		{100, 105, 100, 110, [2]float64{0, 0}}, {100, 106, 100, 111, [2]float64{1, 1}}, {100, 94, 100, 89, [2]float64{1, 1}},
		{2000, 2050, 1000, 900, [2]float64{0, 0}}, {2000, 2051, 1000, 899, [2]float64{1, 1}}, {2000, 1949, 0, 9, [2]float64{1, 0}},
		{1000, 1050, 5, 5, [2]float64{0, 0}}, {1000, 1051, 5, 5, [2]float64{1, 0}}, {0, 7, 5, 5, [2]float64{0, 0}},
	} {
		require.Equal(t, c.want, count(c.asked, c.output, c.recorded, c.prompt), "%+v", c)
	}
}

// The headline ends at the deadline, with its last request where the grace belongs to it or where there is no deadline, and with the
// phase where that was over before. Results without a version of the counting leave the grace out.
//
// Covers T-221.
func TestHeadlineEnds(t *testing.T) {
	for _, c := range []struct {
		preset                string
		counting              int
		deadline, phase, want float64
	}{
		{preset.Default, 0, 10, 12, 10}, {preset.Default, 0, 10, 6, 6}, {preset.Default, 0, 0, 12, 5}, {preset.Default, 1, 10, 12, 5}, {preset.AIPerf, 0, 10, 12, 5},
	} {
		info := infoOf(c.preset, c.phase)
		info.Counting = c.counting
		info.Facts.Deadline = c.deadline
		res := compute(t, info, success(0, 5*second, 10, 5, second))
		require.Equal(t, [2]int64{start, start + int64(c.want*1e9)}, [2]int64{res.Start, res.End}, "%+v", c)
	}
}

// The rates of a table are of what had come by the deadline, also of requests in the cooldown; the curves end there.
//
// Covers T-221.
func TestRatesOfWhatWasDelivered(t *testing.T) {
	late := success(8*second, 12*second, 100, 10, 500*ms, 1500*ms, 3000*ms)
	late.Deadline, late.OutputByDeadline = measure.At(10), 5.5
	later := success(9*second, 13*second, 1000, 10, 2*second, 3*second)
	later.Deadline = measure.At(10)
	for _, bucket := range []measure.Bucket{measure.Profiling, measure.Cooldown} {
		late.Bucket, later.Bucket = bucket, bucket
		info := infoOf(preset.Default, 13)
		info.Facts.Deadline = 10
		res := compute(t, info, success(2*second, 4*second, 30, 20, 500*ms), late, later)
		require.Equal(t, Window{"delivered", start, start + 10*second, 10, true}, res.Window)
		requireStats(t, res.Headline, "request_throughput", map[string]float64{"avg": 0.1})
		requireStats(t, res.Headline, "input_token_throughput", map[string]float64{"avg": 13})
		requireStats(t, res.Headline, "output_token_throughput", map[string]float64{"avg": 2.55})
		requireStats(t, res.Headline, "total_token_throughput", map[string]float64{"avg": 15.55})
		require.Nil(t, res.Cooldown.Find("request_throughput"))
		if bucket == measure.Profiling {
			requireStats(t, res.Headline, "effective_concurrency", map[string]float64{"avg": 0.5, "max": 2})
		}
	}
}

// A curve begins when the first request was issued, though it waited for a slot.
func TestCurvesBeginWithTheFirstCredit(t *testing.T) {
	r := success(3*second, 4*second, 10, 5, 500*ms)
	r.Due, r.Admitted = 0, measure.At(1)
	info := infoOf(preset.Default, 4)
	info.Counting = 0
	h := compute(t, info, r).Headline
	requireStats(t, h, "effective_concurrency", map[string]float64{"avg": 1.0 / 3, "min": 0, "p50": 0})
	requireStats(t, h, "active_prefill_throughput", map[string]float64{"avg": 20, "min": 20})
}
