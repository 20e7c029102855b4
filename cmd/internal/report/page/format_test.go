package page

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
)

func TestNumbersAreWrittenForPeople(t *testing.T) {
	e := pagetest.NewEngine(t, sampleHTML(t, &Page{}))
	for _, c := range []struct {
		value float64
		unit  string
		want  string
	}{
		{1.8412, "s", "1.84 s"}, {0.0413, "s", "41.3 ms"}, {0.9999, "s", "1 s"}, {0.00000042, "s", "420 ns"}, {0, "s", "0 s"}, {1234.5, "s", "1,235 s"},
		{12345, "tokens", "12,345 tokens"}, {1234567.8, "", "1.23M"}, {0.8251, "%", "82.5 %"}, {1, "%", "100 %"}, {math.NaN(), "s", "–"}, {-3.25, "", "−3.25"}, {44663.6, "", "44,664"}, {999.96, "", "1,000"}, {12.345, "", "12.3"},
		{0.0009996, "s", "1 ms"}, {0.9994, "s", "999 ms"}, {0.99952, "s", "1 s"}, {-0.0009996, "s", "−1 ms"}, {999_999_999, "", "1G"}, {999_400_000, "", "999M"}, {999_600.5, "", "999,601"},
	} {
		assert.Equal(t, c.want, e.Eval("formatValue(a, b)", c.value, c.unit))
	}
	for seconds, want := range map[float64]string{0.84: "840 ms", 12.5: "12.5 s", 125: "2 min 5 s", 3720: "1 h 2 min", 7200: "2 h"} {
		assert.Equal(t, want, e.Eval("formatDuration(a)", seconds))
	}
	for _, c := range []struct {
		at, span, longest float64
		want              string
	}{{12.5, 100, 100, "12.5 s"}, {125, 600, 600, "2:05"}, {3725, 7200, 7200, "1:02:05"}, {-20, 330, 310, "−0:20"}, {-0.2, 330, 310, "0:00"}, {125.25, 5, 600, "2:05.25"}, {59.99999, 600, 600, "1:00"}} {
		assert.Equal(t, c.want, e.Eval("formatTime(a, b, c)", c.at, c.span, c.longest))
	}
	for n, want := range map[int]string{0: "0 trees", 1: "1 tree", 1234: "1,234 trees"} {
		assert.Equal(t, want, e.Eval("formatCount(a, 'tree')", n))
	}
	for largest, want := range map[int]string{8000: "4,000 8,000", 80_000: "40k 80k", 1_500_000: "0.75M 1.5M", 30_000_000: "15M 30M"} {
		assert.Equal(t, want, e.Eval("[a / 2, a].map(axisFormat('', a, false)).join(' ')", largest))
	}
	assert.Equal(t, "abc…xyz", e.Eval("shorten('abcdefghijklmnopqrstuvwxyz', 7)"))
}

// Ticks ascend within their range, are as few as asked for, and are written differently.
func TestTicksAreFewAndDiffer(t *testing.T) {
	e := pagetest.NewEngine(t, sampleHTML(t, &Page{}))
	e.Eval(`function good(ticks, from, to, most, label) {
		const texts = ticks.map(label);
		return ticks.length >= 1 && ticks.length <= most && new Set(texts).size === texts.length && ticks.every((tick, i) => tick >= from - 1e-9 * (to - from) && tick <= to + 1e-9 * (to - from) && (!i || tick > ticks[i - 1]));
	}`)
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.Float64Range(-100, 90000).Draw(t, "from")
		length := math.Pow(10, rapid.Float64Range(-3.9, 5).Draw(t, "length"))
		room := rapid.IntRange(3, 14).Draw(t, "room")
		ticks := e.Eval("var ticks = timeTicks(a, b, c); ticks.map((tick) => formatTime(tick, b - a, b)).join('  ')", from, from+length, room)
		require.Equal(t, true, e.Eval("good(ticks, a, b, c + 1, (tick) => formatTime(tick, b - a, b))", from, from+length, room), "%v", ticks)
		low := math.Pow(10, rapid.Float64Range(-6, 3).Draw(t, "low"))
		high := low * math.Pow(10, rapid.Float64Range(0.05, 6).Draw(t, "decades"))
		for _, unit := range []string{"s", "", "%"} {
			ticks = e.Eval("var r = roundOut(a, b, true, 6), ticks = logTicks(r[0], r[1], d); r.join(' to ') + ': ' + ticks.map(axisFormat(c, r[1], true)).join('  ')", low, high, unit, room)
			require.Equal(t, true, e.Eval("r[0] <= a * 1.000001 && r[1] >= b * 0.999999 && good(ticks, r[0], r[1], d + 1, axisFormat(c, r[1], true))", low, high, unit, room), "%v", ticks)
			ticks = e.Eval("var r = roundOut(0, b, false, d), ticks = linearTicks(r[0], r[1], d + 1); r.join(' to ') + ': ' + ticks.map(axisFormat(c, r[1], false)).join('  ')", low, high, unit, room)
			require.Equal(t, true, e.Eval("r[0] === 0 && r[1] >= b * 0.999999 && good(ticks, r[0], r[1], d + 2, axisFormat(c, r[1], false))", low, high, unit, room), "%v", ticks)
		}
	})
}

func TestCSV(t *testing.T) {
	e := pagetest.NewEngine(t, sampleHTML(t, &Page{}))
	assert.Equal(t, "name,value\r\n\"a,\"\"b\"\"\",1.5\r\n'=1+1,\r\n-0.5,-0.5\r\n", e.Eval(`toCSV([["name", "value"], ['a,"b"', 1.5], ["=1+1", NaN], ["-0.5", -0.5]])`))
}
