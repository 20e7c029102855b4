package report

import (
	"cmp"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// stretch is a stretch of time in which no curve changes.
type stretch struct {
	from, to int64
	at       levels
}

func TestVectorsSweep(t *testing.T) {
	type in struct {
		Window    [2]int64
		Intervals [][2]int64
	}
	type want struct {
		Segments          [][2]int64
		Effective, Active *float64
		Max               float64
	}
	fixtures.EachCase(t, "sweep", fixtures.Counts{5, 5, 5}, func(t *testing.T, c fixtures.Case, in in, want want) {
		run := runUnder(t, c.Preset)
		of := &rows{}
		for _, v := range in.Intervals {
			of.add(row{Numbers: measure.Numbers{Sent: at(v[0]), End: at(v[1])}})
		}
		b := tableBuilder{run: run, chunks: &chunkFile{}}
		curve := curveBlocks[0]
		curve.second, curve.while = "active_concurrency", concurrency
		stats := &curveStats{curve: curve, ranking: newRanking(fewKeys), more: true}
		var segments [][2]int64
		require.NoError(t, sweep(sortedBySent([]*rows{of}), &run.rules, b.chunks, at(in.Window[0]), at(in.Window[1]), func(from, to measure.Time, at *levels) {
			stats.add(from, to, at)
			segments = append(segments, [2]int64{int64(at[concurrency]), int64(to - from)})
		}))
		stats.endPass()
		require.Equal(t, want.Segments, segments)
		blocks := Table(stats.blocks())
		require.InDelta(t, *want.Effective, value(t, blocks, "effective_concurrency", "avg"), 1e-12)
		require.Equal(t, want.Max, value(t, blocks, "effective_concurrency", "max"))
		require.Equal(t, want.Active != nil, len(blocks) == 2)
		if want.Active != nil {
			require.InDelta(t, *want.Active, value(t, blocks, "active_concurrency", "avg"), 1e-12)
		}
	})
}

// randomRecords returns records of requests with random ends, also such that failed, that have no width, or whose tokens are not known.
func randomRecords(t *rapid.T) (list []measure.Record) {
	for range rapid.IntRange(0, 12).Draw(t, "requests") {
		sent := rapid.Int64Range(1, 100).Draw(t, "sent")
		gaps := rapid.SliceOfN(rapid.Int64Range(0, 20), 0, 6).Draw(t, "gaps")
		tokens := rapid.SliceOfN(rapid.Int64Range(0, 5), len(gaps), len(gaps)).Draw(t, "tokens")
		told := rapid.Bool().Draw(t, "told")
		r := measure.Record{Phase: measure.ProfilingPhase, Bucket: measure.Profiling, Numbers: measure.Numbers{Due: at(sent), Admitted: at(sent), Sent: at(sent)}, Transfer: measure.Transfer{Chunks: len(gaps)}}
		now, sum := int64(0), int64(0)
		for k, gap := range gaps {
			now, sum = now+gap, sum+tokens[k]
			n := wire.Unknown
			if told {
				n = tokens[k]
			}
			r.Contents.Add(time.Duration(now), n)
			if k == 0 {
				r.FirstToken = at(sent + now)
				if told {
					r.FirstChunkTokens = measure.Tokens(n)
				}
			}
			r.LastToken = at(sent + now)
		}
		r.End = at(sent + now + rapid.Int64Range(0, 30).Draw(t, "tail"))
		if rapid.Bool().Draw(t, "usage") {
			r.PromptTokens, r.OutputTokens = measure.Tokens(rapid.Int64Range(0, 50).Draw(t, "prompt")), measure.Tokens(sum)
			if rapid.Bool().Draw(t, "lie") {
				r.OutputTokens = measure.Tokens(rapid.Int64Range(0, 20).Draw(t, "output"))
			}
		}
		if len(gaps) == 0 || rapid.IntRange(0, 4).Draw(t, "failed") == 0 {
			r.Error = &measure.Error{Category: wire.HTTPStatus}
		}
		list = append(list, r)
	}
	return list
}

// slowLevels computes all curves at one time from the definitions: it looks at every request anew.
func slowLevels(list []measure.Record, rules measure.Rules, x float64) (v levels) {
	even := 0.0
	for _, r := range list {
		s, e, first := r.Sent.Seconds()*1e9, r.End.Seconds()*1e9, r.FirstToken.Seconds()*1e9
		if x < s || x >= e {
			continue
		}
		v[concurrency]++
		if r.Error != nil && rules.AIPerfCurves {
			continue
		}
		inPrefill := first == 0 || x < first
		if inPrefill {
			v[prefillConcurrency]++
		} else {
			v[decodeConcurrency]++
		}
		if r.Error != nil {
			continue
		}
		if r.PromptTokens != 0 {
			v[tokensInFlight] += float64(r.PromptTokens.N())
			if inPrefill {
				v[prefillRate] += float64(r.PromptTokens.N()) * 1e9 / (first - s)
			}
		}
		osl := r.OSL()
		if osl == unknown || inPrefill {
			continue
		}
		even += float64(max(0, osl-1)) * 1e9 / (e - first)
		slowChunks(&r, osl, x, &v)
	}
	v[totalRate] = v[prefillRate] + v[decodeRate]
	if rules.AIPerfCurves {
		v[totalRate] = v[prefillRate] + even
	}
	if v[prefillConcurrency] > 0 {
		v[prefillRatePerUser] = v[prefillRate] / v[prefillConcurrency]
	}
	if v[decodeConcurrency] > 0 {
		v[decodeRatePerUser] = v[decodeRate] / v[decodeConcurrency]
	}
	return v
}

// slowChunks adds what a request that decodes has from its content messages.
func slowChunks(r *measure.Record, osl int64, x float64, v *levels) {
	type message struct{ at, tokens float64 }
	var list []message
	known, sum := true, int64(0)
	for at, n := range r.Contents.All() {
		known, sum = known && n >= 0, sum+n
		m := message{math.Round(r.Sent.Seconds()*1e9) + float64(at), float64(n)}
		if len(list) > 0 && list[len(list)-1].at == m.at {
			list[len(list)-1].tokens += m.tokens
		} else {
			list = append(list, m)
		}
	}
	f := r.FirstChunkTokens.N()
	usable := f >= 1 && f < osl
	if !known || !usable || sum != osl {
		if !usable {
			f = min(1, osl)
		}
		if len(list) == 1 {
			f = osl
		}
		for k := range list {
			list[k].tokens = float64(osl-f) / float64(len(list)-1)
		}
		list[0].tokens = float64(f)
	}
	for k, m := range list {
		if m.at <= x {
			v[tokensInFlight] += m.tokens
		}
		if k > 0 && list[k-1].at <= x && x < m.at {
			v[decodeRate] += m.tokens * 1e9 / (m.at - list[k-1].at)
		}
	}
}

// slowCurve returns the statistics of a curve by sorting its stretches, with active only those in which it is.
func slowCurve(list []stretch, c curve, active bool) (stats map[string]float64) {
	type weightedValue struct{ v, w float64 }
	var values []weightedValue
	total, mean := 0.0, 0.0
	for _, s := range list {
		if active && s.at[c.while] == 0 {
			continue
		}
		w := float64(s.to - s.from)
		values = append(values, weightedValue{s.at[c.of], w})
		total, mean = total+w, mean+s.at[c.of]*w
	}
	if total == 0 {
		return nil
	}
	mean /= total
	slices.SortFunc(values, func(x, y weightedValue) int { return cmp.Compare(x.v, y.v) })
	stats = map[string]float64{"avg": mean, "min": values[0].v, "max": values[len(values)-1].v}
	squares := 0.0
	for _, v := range values {
		squares += v.w * (v.v - mean) * (v.v - mean)
	}
	stats["std"] = math.Sqrt(squares / total)
	for name, q := range map[string]float64{"p50": 50, "p90": 90, "p95": 95, "p99": 99} {
		sum := 0.0
		for _, v := range values {
			if sum += v.w; sum*100 >= q*total {
				stats[name] = v.v
				break
			}
		}
	}
	return stats
}

// The curves of random runs are those that the definitions give at every instant, and so are the statistics of the blocks, under each
// preset, over the time of its window.
//
// Covers T-55.
func TestCurvesAgainstDefinitions(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom(preset.Names).Draw(rt, "preset")
		list := randomRecords(rt)
		length := rapid.Int64Range(0, 500).Draw(rt, "phase")
		info := infoOf(name, at(length).Seconds())
		info.Facts.Cancelled = rapid.Bool().Draw(rt, "cancelled")
		run := writeRun(t, info, list...)
		res, err := run.Compute()
		require.NoError(t, err)
		from, to := int64(math.MaxInt64), int64(0)
		for _, r := range list {
			from, to = min(from, int64(r.Sent)), max(to, int64(r.End))
		}
		if run.Switches.ThroughputWindow != preset.WindowBenchmark && len(list) > 0 {
			from = 0
			if run.Switches.ThroughputWindow == preset.WindowPhase && !info.Facts.Cancelled {
				to = max(to, length)
			}
		}
		var stretches []stretch
		for x := from; x < to; x++ { // nothing happens between whole nanoseconds
			stretches = append(stretches, stretch{x, x + 1, slowLevels(list, run.rules, float64(x)+0.5)})
		}
		known := needs{}
		for _, r := range list {
			known.prompt = known.prompt || r.Error == nil && r.PromptTokens != 0
			known.output = known.output || r.Error == nil && r.OutputTokens != 0
		}
		for _, c := range curveBlocks {
			left := c.needs.prompt && !known.prompt || c.needs.output && !known.output
			requireCurve(rt, res.Headline.Find(c.tag), slowCurve(stretches, c, false), left)
			if c.second != "" {
				requireCurve(rt, res.Headline.Find(c.second), slowCurve(stretches, c, true), left)
			}
		}
	})
}

// Every block is of the curve that its tag says, over the time that its tag says: the whole, here that of the requests and of the phase, or
// as long as the concurrency of the same name is above 0.
func TestCurvesByHand(t *testing.T) {
	one := success(1*second, 2*second, 100, 10, 400*ms, second)
	another := one
	one.Admitted = 0 // it waits for a second
	for _, name := range preset.Names {
		h := compute(t, infoOf(name, 2), another, one).Headline // the first line is not of the first request issued
		held := (200*0.4 + 202*0.6) / 2
		for tag, avg := range map[string]float64{
			"effective_concurrency": 1, "effective_prefill_concurrency": 0.4, "effective_decode_concurrency": 0.6, "tokens_in_flight": held,
			"effective_prefill_throughput": 100, "effective_decode_throughput": 9, "effective_total_throughput": 109,
			"effective_prefill_throughput_per_user": 50, "effective_decode_throughput_per_user": 4.5,
			"active_prefill_throughput": 500, "active_decode_throughput": 30, "active_total_throughput": 218,
			"active_prefill_throughput_per_user": 250, "active_decode_throughput_per_user": 15,
		} {
			requireStats(t, h, tag, map[string]float64{"avg": avg})
		}
	}
}

// requireCurve compares a block with the statistics of the definition. A block that is left out must not be there.
func requireCurve(t require.TestingT, b *Block, want map[string]float64, left bool) {
	if want == nil || left {
		require.Nil(t, b)
		return
	}
	require.NotNil(t, b)
	require.Len(t, b.Stats, 8)
	require.Len(t, want, 8)
	for name, w := range want {
		got, ok := b.Find(name)
		require.True(t, ok, "%s %s", b.Tag, name)
		require.InDelta(t, w, got.Float64(), 1e-6*max(1, want["max"]), "%s %s", b.Tag, name)
	}
}

// Keys at ranks are found as sorting finds them, whether they are few or many.
func TestRanking(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		keys := rapid.SliceOfN(rapid.OneOf(rapid.Uint64(), rapid.Uint64Range(0, 3)), 1, 40).Draw(rt, "keys")
		weights := rapid.SliceOfN(rapid.Int64Range(1, 3), len(keys), len(keys)).Draw(rt, "weights")
		var sorted []uint64
		for n, key := range keys {
			for range weights[n] {
				sorted = append(sorted, key)
			}
		}
		slices.Sort(sorted)
		ranks := rapid.SliceOf(rapid.Int64Range(1, int64(len(sorted)))).Draw(rt, "ranks")
		for _, room := range []int{0, 5, fewKeys} {
			k := newRanking(room)
			for more := true; more; {
				for n := range keys {
					k.add(keys[n], weights[n])
				}
				more = k.endPass(func(total int64) []int64 {
					require.EqualValues(rt, len(sorted), total)
					return slices.Clone(ranks)
				})
			}
			for n, rank := range ranks {
				require.Equal(rt, sorted[rank-1], k.found[n], "rank %d, room for %d", rank, room)
			}
		}
	})
}
