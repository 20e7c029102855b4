package interval

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
)

// writeRun writes a run that opens trees in an order. Each has three requests; some fail, some end in the cooldown.
func writeRun(t *testing.T, info measure.RunInfo, slower float64, trees ...int) string {
	t.Helper()
	dir := t.TempDir()
	w, err := measure.Create(dir)
	require.NoError(t, err)
	for tree, trace := range trees {
		for turn := range 3 {
			at, ttft := float64(10*tree+turn), slower*(0.1+0.01*float64(trace)+0.1*float64(turn))
			r := measure.Record{
				Phase: measure.ProfilingPhase, Bucket: measure.Profiling, Credit: 3*tree + turn, Tree: tree, Trace: fmt.Sprint("t", trace%30), Pass: trace / 30, Turn: turn,
				Numbers: measure.Numbers{Due: measure.At(at), Sent: measure.At(at), FirstToken: measure.At(at + ttft), LastToken: measure.At(at + ttft + 1), End: measure.At(at + 2), Status: 200},
			}
			switch {
			case turn == 1 && trace%5 == 0:
				r.FirstToken, r.LastToken, r.Error = 0, 0, &measure.Error{Category: "timeout"}
			case turn == 2 && trace%2 == 0:
				r.Bucket = measure.Cooldown
			}
			require.NoError(t, w.Write(&r))
			warm := r
			warm.Phase, warm.Bucket = measure.WarmupPhase, measure.WarmupBucket
			require.NoError(t, w.Write(&warm))
		}
	}
	require.NoError(t, w.Close())
	data, err := json.Marshal(info)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, measure.RunFile), data, 0o600))
	return dir
}

func infoOf(key string, lanes int, seed string) measure.RunInfo {
	info := measure.RunInfo{Lanes: lanes}
	info.Dataset.Key, info.Options = key, []measure.Option{{Name: "seed", Value: json.RawMessage(seed)}}
	return info
}

func length(i Interval) float64 { return i.High - i.Low }

func upTo(n int) (list []int) {
	for k := range n {
		list = append(list, k)
	}
	return list
}

// read reads the samples of a run.
func read(t *testing.T, dir string) *Run {
	t.Helper()
	info, err := measure.ReadInfo(dir)
	require.NoError(t, err)
	r := NewRun(info, measure.Rules{})
	r.Seed, err = SeedOf(filepath.Join(dir, measure.RecordsFile))
	require.NoError(t, err)
	records, err := measure.OpenRecords(dir)
	require.NoError(t, err)
	defer records.Close()
	for {
		record, err := records.Next()
		if errors.Is(err, io.EOF) {
			return r
		}
		require.NoError(t, err)
		r.Add(record)
	}
}

// A run has a value of each request of the headline that ended well, and the errors of these and of the cooldown.
func TestReadRun(t *testing.T) {
	dir := writeRun(t, infoOf("k", 4, "42"), 1, upTo(40)...)
	r := read(t, dir)
	require.Equal(t, 40, r.Trees())
	s := r.Sample("ttft")
	require.Len(t, s.Values, 3*40-8-20, "8 failed, 20 are of the cooldown")
	require.InDelta(t, 0.1, s.Values[0], 1e-12)
	require.EqualValues(t, 0, s.Trees[0])
	require.True(t, math.IsNaN(r.Sample("itl").Values[0]), "the server told no tokens")
	require.Empty(t, r.Sample("request_rate").Values)
	failed := r.Sample("error-rate")
	require.Len(t, failed.Values, 120)
	require.Equal(t, 8.0/120, figure(failed.Values, Mean))
	_, err := r.Of("itl", []Statistic{50})
	require.EqualError(t, err, "0 trees: an interval needs 20")

	data, err := os.ReadFile(filepath.Join(dir, measure.RecordsFile))
	require.NoError(t, err)
	require.Equal(t, Seed(sha256.Sum256(data)), r.Seed)
	once, err := r.Of("ttft", tableStats)
	require.NoError(t, err)
	again, err := read(t, dir).Of("ttft", tableStats)
	require.NoError(t, err)
	require.Equal(t, once, again, "the same records give the same intervals")
}

// Trees are paired by trace and pass, whatever their numbers are, where dataset, seed and lanes are equal.
//
//
func TestCompareRuns(t *testing.T) {
	info := infoOf("k", 4, "42")
	var shuffled []int
	for k := range 40 {
		shuffled = append(shuffled, (7*k+3)%45) // 40 of 45 trees
	}
	a, b := read(t, writeRun(t, info, 1.1, shuffled...)), read(t, writeRun(t, info, 1, upTo(40)...))
	c, err := Compare(a, b, "ttft", []Statistic{Mean, 50})
	require.NoError(t, err)
	require.True(t, c.Paired)
	common := 0
	for _, k := range shuffled {
		if k < 40 {
			common++
		}
	}
	require.Equal(t, common, c.Trees)
	for _, d := range c.Differences {
		near(t, Interval{0.1, 0.1}, Interval{math.Round(d.Relative.Low*1e9) / 1e9, math.Round(d.Relative.High*1e9) / 1e9}, "every tree is a tenth slower")
		require.InDelta(t, 1.1*d.B, d.A, 1e-9)
	}
	for why, other := range map[string]measure.RunInfo{
		"they played different datasets":      infoOf("other", 4, "42"),
		"they had different numbers of lanes": infoOf("k", 5, "42"),
		"they had different seeds":            infoOf("k", 4, "43"),
	} {
		c, err := Compare(a, read(t, writeRun(t, other, 1, upTo(40)...)), "ttft", []Statistic{Mean})
		require.NoError(t, err)
		require.False(t, c.Paired)
		require.Equal(t, why, c.Why)
		require.Greater(t, length(c.Differences[0].Relative), 0.1, "trees that are drawn apart differ")
	}
	few := read(t, writeRun(t, info, 1, upTo(19)...))
	c, err = Compare(a, few, "ttft", []Statistic{Mean})
	require.ErrorContains(t, err, " trees in common: an interval needs 20")
	require.True(t, c.Paired)
	require.NotEqual(t, a.Seed.With(b.Seed), b.Seed.With(a.Seed))
}

func BenchmarkOf(b *testing.B) {
	for _, n := range []int{2_000, 41_400, 400_000} {
		l := lognormal{trees: n / 69, requests: 69, between: 0.5, within: 0.5}
		s := l.draw(1)
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			for b.Loop() {
				_, _ = Of(s, []Statistic{Mean, 50, 75, 90, 95, 99}, Seed{})
			}
		})
	}
}
