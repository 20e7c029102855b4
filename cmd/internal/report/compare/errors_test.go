package compare

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The share of failed requests has an interval, and so has its difference.
//
//
func TestErrorRatesHaveIntervals(t *testing.T) {
	before, after := newModelled(40), newModelled(40)
	before.failed, after.failed = 160, 200 // of 320 requests, those of the first trees
	c := compareDirs(t, before.write(t, "before"), after.write(t, "after"))
	for k, want := range []float64{160.0 / 320, 200.0 / 320} {
		f := c.Runs[k].Figures["error-rate"]
		require.EqualValues(t, want, f.Value)
		require.NotNil(t, f.Interval)
		require.True(t, f.Interval.Has(want) && f.Interval.Low > 0 && f.Interval.High < 1, "%v", f.Interval)
	}
	d := c.Runs[1].Figures["error-rate"].Difference
	require.Equal(t, Paired, d.Method)
	require.EqualValues(t, 0.25, d.Ratio)
	require.True(t, d.Interval.Has(0.25) && d.Interval.Low > 0)
	require.Empty(t, c.Runs[1].Why)
}
