package arrivals

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const second = int64(time.Second)

// known returns the starts of traces 0, 1, 2, ...
func known(nanos ...int64) (list []Start) {
	for k, n := range nanos {
		list = append(list, Start{k, n, true})
	}
	return list
}

// The example of doc/spec/replay.md 14.1, and what lies at the edges of a window.
//
// Covers T-64.
func TestSelectOrdersCutsAndShifts(t *testing.T) {
	starts := known(4*second, 1*second, 7*second, 4*second)
	for name, test := range map[string]struct {
		window Window
		want   []Arrival
	}{
		"all":                  {Window{}, []Arrival{{1, 0}, {0, 3 * time.Second}, {3, 3 * time.Second}, {2, 6 * time.Second}}},
		"speed 2":              {Window{Speed: 2}, []Arrival{{1, 0}, {0, 1500 * time.Millisecond}, {3, 1500 * time.Millisecond}, {2, 3 * time.Second}}},
		"from 3 s, speed 7":    {Window{From: 3 * time.Second, Speed: 7}, []Arrival{{0, 0}, {3, 0}, {2, 428_571_429}}},
		"from behind 3 s":      {Window{From: 3*time.Second + 1}, []Arrival{{2, 0}}},
		"to 3 s":               {Window{To: 3 * time.Second}, []Arrival{{1, 0}}},
		"to behind 3 s":        {Window{To: 3*time.Second + 1}, []Arrival{{1, 0}, {0, 3 * time.Second}, {3, 3 * time.Second}}},
		"from between, to end": {Window{From: time.Second, To: time.Hour}, []Arrival{{0, 0}, {3, 0}, {2, 3 * time.Second}}},
	} {
		list, err := test.window.Select(starts)
		require.NoError(t, err, name)
		require.Equal(t, test.want, list, name)
	}
	require.Equal(t, known(4*second, 1*second, 7*second, 4*second), starts, "the argument stays as it is")
}

// The oracle walks through the instants of the recording, one after another, and takes the traces of each.
//
// Covers T-64.
func TestSelectAgainstAPlainWalk(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		starts := known(rapid.SliceOfN(rapid.Int64Range(-20, 20), 1, 30).Draw(r, "starts")...)
		w := Window{From: time.Duration(rapid.Int64Range(0, 50).Draw(r, "from"))}
		if rapid.Bool().Draw(r, "bounded") {
			w.To = w.From + time.Duration(rapid.Int64Range(1, 20).Draw(r, "length"))
		}
		origin := slices.MinFunc(starts, func(a, b Start) int { return int(a.Nanos - b.Nanos) }).Nanos
		var want []Arrival
		first := int64(-1)
		for d := int64(w.From); d <= 40 && (w.To == 0 || d < int64(w.To)); d++ {
			for _, s := range starts {
				if s.Nanos != origin+d {
					continue
				}
				if first < 0 {
					first = d
				}
				want = append(want, Arrival{s.Trace, time.Duration(d - first)})
			}
		}
		list, err := w.Select(starts)
		if want == nil {
			var empty *EmptyError
			require.ErrorAs(r, err, &empty)
			return
		}
		require.NoError(r, err)
		require.Equal(r, want, list)
	})
}

// Instants are exact at speed 1 and rounded once at others, also where a float64 cannot hold them.
//
// Covers T-64.
func TestInstantsOfLongRecordings(t *testing.T) {
	const far = 1<<60 + 1
	for speed, want := range map[float64]time.Duration{0: far, 1: far, 2: 1 << 59, 0.5: 1 << 61, 1e30: 0} {
		list, err := Window{Speed: speed}.Select(known(0, far))
		require.NoError(t, err)
		require.Equal(t, want, list[1].At, "speed %g", speed)
	}
	list, err := Window{Speed: 2}.Select(known(0, 1, 3, 5))
	require.NoError(t, err)
	require.Equal(t, []Arrival{{0, 0}, {1, 0}, {2, 2}, {3, 2}}, list, "half to even")

	for _, speed := range []float64{0.1, 1e-300, math.SmallestNonzeroFloat64} {
		_, err := Window{Speed: speed}.Select(known(0, far))
		require.ErrorContains(t, err, "a start 320255h58m24.606846977s into the window would be more than 292 years after its beginning")
	}
	_, err = Window{}.Select(known(-5, math.MaxInt64))
	require.ErrorContains(t, err, "trace 0 starts -5 ns and trace 1 9223372036854775807 ns after the clock began: more than 292 years apart")
	_, err = Window{}.Select(known(math.MaxInt64, math.MinInt64))
	require.ErrorContains(t, err, "more than 292 years apart")
	list, err = Window{}.Select(known(math.MinInt64, -1))
	require.NoError(t, err)
	require.EqualValues(t, math.MaxInt64, list[1].At)
}

// Covers T-64.
func TestSelectNamesWhatItCannotPlay(t *testing.T) {
	starts := known(0, 5*second)
	for name, test := range map[string]struct {
		window Window
		want   string
	}{
		"behind the end": {Window{From: time.Minute}, "no trace starts at 1m0s or later: the 2 recorded starts lie between 0s and 5s"},
		"between":        {Window{From: time.Second, To: 5 * time.Second}, "no trace starts in the window from 1s to 5s: the 2 recorded starts lie between 0s and 5s"},
	} {
		_, err := test.window.Select(starts)
		require.ErrorContains(t, err, test.want, name)
	}
	_, err := Window{}.Select(nil)
	require.EqualError(t, err, "arrivals: there is no trace")

	_, err = Window{}.Select([]Start{{3, 0, true}, {4, 0, false}, {7, 9, true}, {9, 0, false}})
	var missing *MissingError
	require.True(t, errors.As(err, &missing))
	require.Equal(t, MissingError{Missing: 2, Traces: 4, First: 4}, *missing)
	require.EqualError(t, err, "arrivals: 2 of 4 traces have no recorded start, the first is trace 4")
}
