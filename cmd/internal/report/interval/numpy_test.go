package interval

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// reference is testdata/intervals.json, which contrib/intervals.py computed with numpy.
type reference struct {
	Seed    string
	Stats   []string
	Samples map[string]struct {
		Values []*float64
		Trees  []int32
	}
	Intervals        map[string][]Interval
	Paired, Unpaired struct {
		Trees              int
		Absolute, Relative []Interval
		A, B               []float64
	}
}

func readReference(t *testing.T) (r reference, seed Seed, stats []Statistic) {
	t.Helper()
	data, err := os.ReadFile("testdata/intervals.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &r))
	_, err = hex.Decode(seed[:], []byte(r.Seed))
	require.NoError(t, err)
	for _, name := range r.Stats {
		stats = append(stats, Named(name))
	}
	return r, seed, stats
}

func (r *reference) sample(name string) Sample {
	s := Sample{Trees: r.Samples[name].Trees}
	for _, v := range r.Samples[name].Values {
		if v == nil {
			s.Values = append(s.Values, math.NaN())
		} else {
			s.Values = append(s.Values, *v)
		}
	}
	return s
}

// near requires two intervals that differ in nothing but the last bits of sums.
func near(t *testing.T, want, got Interval, about string) {
	t.Helper()
	require.InDelta(t, want.Low, got.Low, 1e-12*math.Max(1, math.Abs(want.Low)), about)
	require.InDelta(t, want.High, got.High, 1e-12*math.Max(1, math.Abs(want.High)), about)
}

// Intervals equal those of numpy, whose draws they make.
//
//
func TestIntervalsAreThoseOfNumpy(t *testing.T) {
	r, seed, stats := readReference(t)
	require.Len(t, r.Intervals, 3)
	for name, want := range r.Intervals {
		got, err := Of(r.sample(name), stats, seed)
		require.NoError(t, err)
		for k := range stats {
			near(t, want[k], got[k], name+" "+r.Stats[k])
		}
	}
}

// Differences equal those of numpy, of pairs and of trees that have nothing in common.
//
//
func TestDifferencesAreThoseOfNumpy(t *testing.T) {
	r, seed, stats := readReference(t)
	paired, trees, err := paired(r.sample("slower"), r.sample("many"), stats, seed)
	require.NoError(t, err)
	require.Equal(t, r.Paired.Trees, trees)
	unpaired, err := Unpaired(r.sample("slower"), r.sample("few"), stats, seed)
	require.NoError(t, err)
	for k, name := range r.Stats {
		near(t, r.Paired.Absolute[k], paired[k].Absolute, "paired "+name)
		near(t, r.Paired.Relative[k], paired[k].Relative, "paired "+name)
		near(t, Interval{r.Paired.A[k], r.Paired.B[k]}, Interval{paired[k].A, paired[k].B}, "paired "+name)
		near(t, r.Unpaired.Absolute[k], unpaired[k].Absolute, "unpaired "+name)
		near(t, r.Unpaired.Relative[k], unpaired[k].Relative, "unpaired "+name)
		near(t, Interval{r.Unpaired.A[k], r.Unpaired.B[k]}, Interval{unpaired[k].A, unpaired[k].B}, "unpaired "+name)
	}
	wide, err := Unpaired(r.sample("slower"), r.sample("many"), stats, seed)
	require.NoError(t, err)
	for k := range stats {
		require.Less(t, length(paired[k].Absolute), length(wide[k].Absolute), "pairs are narrower: %s", r.Stats[k])
	}
}
