package page

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
)

// Values become pixels and values again, on linear and logarithmic scales; ranges become fragments and the same ranges again.
//
//
func TestScalesAndFragmentsRoundTrip(t *testing.T) {
	e := pagetest.NewEngine(t, sampleHTML(t, &Page{}))
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.Float64Range(-1e4, 1e6).Draw(t, "from")
		length := rapid.SampledFrom([]float64{1e-3, 0.5, 7, 90, 3600, 86400, 1e6}).Draw(t, "length")
		share := rapid.Float64Range(0, 1).Draw(t, "share")
		value := from + share*length
		back := e.Number("var s = new Scale(a, b, 50, 1200); s.value(s.pixel(c))", from, from+length, value)
		require.InDelta(t, value, back, 1e-6*length+1e-9)
		low := rapid.Float64Range(1e-6, 1e3).Draw(t, "low")
		back = e.Number("var s = new Scale(a, b, 300, 10, true); s.value(s.pixel(c))", low, low*1e4, low*(1+share))
		require.InEpsilon(t, low*(1+share), back, 1e-9)

		e.Eval("var r = new TimeRange(a, b); r.set(c, d)", from, from+length, from+share*length*0.9, from+share*length*0.9+length*0.05)
		e.Eval("var f = fromFragment(toFragment(r)); var q = new TimeRange(a, b); if (f) q.restore(f.from, f.to)", from, from+length)
		require.Equal(t, true, e.Eval("q.from === r.from && q.to === r.to"), "%v", e.Eval("[toFragment(r), r.from, r.to, q.from, q.to]"))
		require.Equal(t, true, e.Eval("r.from >= a && r.to <= b && r.from < r.to", from, from+length))
	})
}

func TestZoomAndPanStayWithinTheWhole(t *testing.T) {
	e := pagetest.NewEngine(t, sampleHTML(t, &Page{}))
	rapid.Check(t, func(t *rapid.T) {
		e.Eval("var r = new TimeRange(-7.123456789, 512.987654321)")
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			at := rapid.Float64Range(-7, 512).Draw(t, "at")
			switch rapid.IntRange(0, 2).Draw(t, "gesture") {
			case 0:
				e.Eval("r.zoom(Math.min(r.to, Math.max(r.from, a)), b)", at, rapid.SampledFrom([]float64{0.01, 0.5, 2, 30}).Draw(t, "factor"))
			case 1:
				e.Eval("r.pan(a)", at-250)
			case 2:
				e.Eval("r.set(a, b)", at, rapid.Float64Range(-100, 600).Draw(t, "to"))
			}
			require.Equal(t, true, e.Eval("r.from >= r.whole.from && r.to <= r.whole.to && r.to - r.from >= shortestRange * 0.99"), "%v", e.Eval("[r.from, r.to]"))
			require.Equal(t, true, e.Eval("toFragment(r).length < 32"), "%v", e.Eval("toFragment(r)"))
		}
		e.Eval("r.reset()")
		require.Equal(t, "", e.Eval("toFragment(r)"))
	})
}

// A range that follows shows the last seconds however the whole grows, until a reader selects; what is selected stays, and without a
// selection all is shown.
func TestRangesOfAGrowingWhole(t *testing.T) {
	e := pagetest.NewEngine(t, sampleHTML(t, &Page{}))
	e.Eval("var told = 0, r = new TimeRange(0, 40); r.watch(() => { told++; })")
	shown := func(want ...any) {
		t.Helper()
		require.Equal(t, want, e.Eval("[r.from, r.to, r.follows, told]"))
	}
	e.Eval("r.follow(60)")
	shown(int64(0), int64(40), int64(60), int64(1))
	e.Eval("r.grow(0, 100)")
	shown(int64(40), int64(100), int64(60), int64(2))
	e.Eval("r.set(10, 20)")
	shown(int64(10), int64(20), int64(0), int64(3))
	e.Eval("r.grow(0, 110)")
	shown(int64(10), int64(20), int64(0), int64(4))
	e.Eval("r.reset(); r.grow(-5, 120)")
	shown(int64(-5), int64(120), int64(0), int64(6))
	e.Eval("r.follow(500); r.reset()")
	shown(int64(-5), int64(120), int64(0), int64(8))
}
