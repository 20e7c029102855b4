package report

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// A run that was killed has the numbers that its records give; those that need a file that is not there are left out, and said.
func TestWhatIsMissing(t *testing.T) {
	records := []measure.Record{success(0, second, 10, 5, 100*ms, 130*ms, 190*ms), success(0, second, 10, 5, 100*ms, 130*ms)}
	run := writeRun(t, measure.RunInfo{Run: infoOf(preset.Default, 1).Run}, records...)
	require.NoError(t, os.Truncate(filepath.Join(run.Dir, measure.ContentsFile), 3))
	lines := filepath.Join(run.Dir, measure.RecordsFile)
	data, err := os.ReadFile(lines)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(lines, append(data, `{"phase":`...), 0o600))
	res, err := run.Compute()
	require.NoError(t, err)
	require.Len(t, run.Missing, 3)
	require.Contains(t, run.Missing[0], "the run has not ended, or was killed")
	require.Contains(t, run.Missing[1], "the last line is cut off")
	require.Contains(t, run.Missing[2], measure.ContentsFile)
	require.Nil(t, res.Headline.Find(interChunkLatency))
	require.Nil(t, res.Headline.Find("effective_decode_throughput"))
	require.Nil(t, res.Headline.Find("phase_duration"))
	require.Nil(t, res.Headline.Find("wedged_tree_count"))
	require.Negative(t, res.Counts.Wedged)
	requireStats(t, res.Headline, "effective_prefill_throughput", map[string]float64{"max": 200})
	requireStats(t, res.Headline, "request_latency", map[string]float64{"count": 2})
	require.Equal(t, [2]int64{start, start + second}, [2]int64{res.Start, res.End})

	require.NoError(t, os.WriteFile(lines, append(data[:20:20], '\n'), 0o600))
	_, err = run.Compute()
	require.ErrorContains(t, err, lines+": line 1: ")
	require.NoError(t, os.Remove(lines))
	_, err = run.Compute()
	require.ErrorContains(t, err, run.Dir+": not the results of a run: ")
	require.NoError(t, os.WriteFile(filepath.Join(run.Dir, measure.LanesFile), []byte("{}\n{\n"), 0o600))
	_, err = Open(run.Dir)
	require.ErrorContains(t, err, "no run writes this: restore the file, or remove it")
	require.ErrorContains(t, err, filepath.Join(run.Dir, measure.LanesFile)+": line 2: ")
	require.NoError(t, os.WriteFile(filepath.Join(run.Dir, measure.RunFile), []byte(`{"preset":"x"}`), 0o600))
	_, err = Open(run.Dir)
	require.ErrorContains(t, err, `preset "x"`)
}

// A directory without run.json is read under the preset default.
func TestOpenWithoutRunFile(t *testing.T) {
	run := writeRun(t, infoOf(preset.AIPerf, 1), success(0, second, 10, 5, 100*ms))
	require.NoError(t, os.Remove(filepath.Join(run.Dir, measure.RunFile)))
	run, err := Open(run.Dir)
	require.NoError(t, err)
	require.Equal(t, []string{run.Dir + ": there is no run.json: what was run is not known"}, run.Missing)
	res, err := run.Compute()
	require.NoError(t, err)
	require.Equal(t, "deadline", res.HeadlineRule)
	require.Zero(t, res.Start)
}

// Records whose steps are in no order and whose counts are as absurd as their reader lets pass neither hang nor crash a report, and
// their numbers are finite.
func TestAbsurdRecords(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		instant := rapid.Map(rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(0, 5), rapid.Just(1e9)), measure.At)
		large := rapid.OneOf(rapid.Int64Range(0, 1<<40), rapid.Int64Range(0, 3))
		tokens := rapid.Map(rapid.OneOf(large, rapid.Just(unknown)), measure.Tokens)
		var list []measure.Record
		for range rapid.IntRange(1, 5).Draw(rt, "records") {
			r := rapid.SampledFrom([]measure.Record{
				{Phase: measure.WarmupPhase, Bucket: measure.WarmupBucket},
				{Phase: measure.ProfilingPhase, Bucket: measure.Profiling},
				{Phase: measure.ProfilingPhase, Bucket: measure.Cooldown},
				{Phase: measure.ProfilingPhase, Bucket: measure.CancelledAtEnd, Error: &measure.Error{Category: wire.Cancelled}},
				{Phase: measure.ProfilingPhase, Bucket: measure.ContextOverflow, Error: &measure.Error{Category: wire.ContextOverflow}},
			}).Draw(rt, "record")
			for _, x := range []*measure.Time{&r.Due, &r.Admitted, &r.SecondToken, &r.FirstOutput, &r.WaitEnd, &r.SendEnd} {
				*x = instant.Draw(rt, "instant")
			}
			inOrder := rapid.SliceOfN(instant, 4, 4).Draw(rt, "instants in order")
			slices.Sort(inOrder)
			r.Sent, r.End = inOrder[0], inOrder[3]
			if inOrder[1] > 0 {
				r.FirstToken, r.LastToken = inOrder[1], inOrder[2]
			}
			for _, n := range []*measure.Count{&r.PromptTokens, &r.OutputTokens, &r.ReasoningTokens, &r.FirstChunkTokens, &r.CachedTokens} {
				*n = tokens.Draw(rt, "tokens")
			}
			for _, n := range []*int64{&r.MaxTokens, &r.RecordedISL, &r.RecordedBlocks, &r.RecordedHits} {
				*n = large.Draw(rt, "count")
			}
			if r.Chunks = rapid.IntRange(0, 3).Draw(rt, "chunks"); r.Chunks > 0 {
				for range r.Chunks {
					r.Contents.Add(time.Duration(rapid.Int64Range(0, 4e9).Draw(rt, "at")), rapid.Int64Range(-1, 5).Draw(rt, "brought"))
				}
			}
			if r.Error == nil && rapid.Bool().Draw(rt, "failed") {
				r.Error = &measure.Error{}
			}
			list = append(list, r)
		}
		info := infoOf(rapid.SampledFrom(preset.Names).Draw(rt, "preset"), instant.Draw(rt, "phase length").Seconds())
		info.Facts.Deadline = instant.Draw(rt, "deadline").Seconds()
		run := writeRun(t, info, list...)
		run.Slice = rapid.Int64Range(1, 3e9).Draw(rt, "slice")
		res, err := run.Compute()
		require.NoError(t, err)
		tables := []Table{res.Headline, res.Cooldown, res.Steady, res.Warmup}
		for _, s := range res.Slices {
			tables = append(tables, s.Table)
		}
		for _, table := range tables {
			for _, b := range table {
				for _, s := range b.Stats {
					require.False(rt, math.IsNaN(s.Value.Float64()) || math.IsInf(s.Value.Float64(), 0), "%s %s", b.Tag, s.Name)
				}
			}
		}
	})
}
