package report

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
)

// Covers T-59.
func TestVectorsTimeslice(t *testing.T) {
	type in struct {
		Slice int64 `json:"slice_ns"`
		Rows  [][2]int64
	}
	type want struct {
		Timeslices []struct {
			Start    int64 `json:"start_ns"`
			End      int64 `json:"end_ns"`
			Complete *bool `json:"is_complete"`
			Count    int   `json:"request_count"`
		}
	}
	fixtures.EachCase(t, "timeslice", fixtures.Counts{1, 1, 1}, func(t *testing.T, c fixtures.Case, in in, want want) {
		var list []measure.Record
		for _, r := range in.Rows {
			list = append(list, success(r[0]-start, r[1]-start, 10, 5, (r[1]-r[0])/2, r[1]-r[0]))
		}
		run := writeRun(t, infoOf(c.Preset, 10), shifted(list, 2*second)...)
		run.Slice = in.Slice
		res, err := run.Compute()
		require.NoError(t, err)
		require.Len(t, res.Slices, len(want.Timeslices))
		for k, w := range want.Timeslices {
			s := res.Slices[k]
			require.Equal(t, [2]int64{w.Start, w.End}, [2]int64{s.Start - 2*second, s.End - 2*second})
			require.Equal(t, w.Complete == nil || *w.Complete, s.Complete)
			requireStats(t, s.Table, "request_count", map[string]float64{"avg": float64(w.Count)})
			requireStats(t, s.Table, "request_throughput", map[string]float64{"avg": float64(w.Count) / (float64(w.End-w.Start) / 1e9)})
			require.NotNil(t, s.Table.Find("benchmark_duration"))
			require.Nil(t, s.Table.Find("phase_duration"), "of the whole run")
		}
		first, last := res.Slices[0].Table, res.Slices[1].Table
		requireStats(t, first, "effective_concurrency", map[string]float64{"avg": 0.5 + 0.7, "max": 2})
		requireStats(t, last, "effective_concurrency", map[string]float64{"avg": 5.0 / 6, "max": 1})
		requireStats(t, first, "request_latency", map[string]float64{"count": 2, "max": 1300})
	})
}

// shifted returns records at later instants: those of the vector lie before the start of the phase of test runs.
func shifted(list []measure.Record, by int64) []measure.Record {
	for k := range list {
		r := &list[k]
		for _, x := range []*measure.Time{&r.Due, &r.Admitted, &r.Sent, &r.FirstToken, &r.FirstOutput, &r.SecondToken, &r.LastToken, &r.LastMessage, &r.End} {
			*x += at(by)
		}
	}
	return list
}

// The curves and metrics of slices are those of the requests that started in them, cut at their bounds.
func TestSlicesAgainstDefinitions(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		name, length := rapid.SampledFrom(preset.Names).Draw(rt, "preset"), rapid.Int64Range(1, 60).Draw(rt, "length")
		list := randomRecords(rt)
		run := writeRun(t, infoOf(name, 1), list...)
		run.Slice = length
		res, err := run.Compute()
		require.NoError(t, err)
		from, to, slicesWith := int64(math.MaxInt64), int64(0), map[int64]int{}
		for _, r := range list {
			from, to = min(from, int64(r.Sent)), max(to, int64(r.End))
		}
		for _, r := range list {
			slicesWith[from+(int64(r.Sent)-from)/length*length]++
		}
		require.Len(rt, res.Slices, len(slicesWith))
		for k, first := range slices.Sorted(maps.Keys(slicesWith)) {
			s := res.Slices[k]
			require.Equal(rt, [2]int64{start + first, start + min(first+length, to)}, [2]int64{s.Start, s.End})
			require.Equal(rt, first+length <= to, s.Complete)
			require.EqualValues(rt, slicesWith[first], value(rt, s.Table, "completed_request_count", "avg"))
			var stretches []stretch
			for x := first; x < min(first+length, to); x++ {
				stretches = append(stretches, stretch{x, x + 1, slowLevels(list, run.rules, float64(x)+0.5)})
			}
			for _, c := range curveBlocks {
				left := res.Headline.Find(c.tag) == nil // no tokens are known in the whole run
				requireCurve(rt, s.Table.Find(c.tag), slowCurve(stretches, c, false), left)
				if c.second != "" {
					requireCurve(rt, s.Table.Find(c.second), slowCurve(stretches, c, true), left)
				}
			}
		}
	})
}
