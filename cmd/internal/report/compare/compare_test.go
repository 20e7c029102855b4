package compare

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
)

// Two runs of one configuration differ by noise: the comparison says so. A server that is 10 % slower differs in every latency, by 10 %.
func TestVerdicts(t *testing.T) {
	before, again, slower := newModelled(40), newModelled(40), newModelled(40)
	again.seed, slower.seed, slower.slower = 2, 3, 1.1
	c := compareDirs(t, before.write(t, "before"), again.write(t, "again"), slower.write(t, "slower"))
	require.True(t, c.Comparable)
	require.Empty(t, c.Runs[0].Marks)

	same := c.Verdicts[0]
	require.Empty(t, same.Figures)
	require.Equal(t, []any{1, 0, Paired, 40, "again against before: "}, []any{same.Run, same.Base, same.Method, same.Trees, same.Text[:22]})
	text := c.tableText(t)
	require.Contains(t, text, same.Text)
	require.NotContains(t, text, "NOT COMPARABLE")
	require.Contains(t, text, "* differs by 1 % or more, and its 99.5 % interval (95 % of all 11 figures that decide together) does not have 0; = differs by less; ~ not decided; a figure without a mark decides nothing")
	require.Subset(t, TableFigures, judged, "a figure that is named is a row")

	other := c.Verdicts[1]
	require.Subset(t, other.Figures, []string{"ttft.mean", "ttft.p50", "ttft.p95", "itl.mean", "itl.p50", "itl.p95", "latency.p50"})
	require.NotContains(t, other.Figures, "output_tokens.mean")
	d := c.Runs[2].Figures["ttft.mean"].Difference
	require.InDelta(t, 0.1, float64(d.Ratio), 0.01)
	require.True(t, d.Interval.Has(0.1))
	require.InDelta(t, float64(d.Ratio*c.Runs[0].value("ttft.mean")), float64(d.Absolute), 1e-9)
	rate := c.Runs[2].Figures["request_rate"].Difference
	require.Equal(t, c.Runs[2].value("request_rate")-c.Runs[0].value("request_rate"), rate.Absolute)
	require.Equal(t, NoInterval, rate.Method)
	require.False(t, d.Interval.Has(0))
	require.True(t, *d.Overlap, "the intervals of the runs themselves are far wider than that of the difference of their pairs")
	require.Regexp(t, `\nslower against before: slower by 10\.1 % \([89.\d]+ to 1[\d.]+ %\) in TTFT, .* in ITL and by .* in latency; less than 1 % in prompt tokens and output tokens.* \(paired: 40 trees that both played\)\n`, c.tableText(t))
}

// Runs that played other trees are compared without pairs, and it says so. With fewer than 20 trees there is no interval.
func TestMethods(t *testing.T) {
	a, b, few := newModelled(40), newModelled(40), newModelled(19)
	b.info.Lanes = 16
	b.set("concurrency", "16")
	c := compareDirs(t, a.write(t, "a"), b.write(t, "b"), few.write(t, "few"))
	require.Equal(t, Independent, c.Verdicts[0].Method)
	require.Contains(t, c.Verdicts[0].Text, "(not paired: they had different numbers of lanes)")
	require.Equal(t, NoInterval, c.Verdicts[1].Method)
	require.Contains(t, c.Verdicts[1].Text, "few against a: not decided: 19 trees: an interval needs 20")
	require.Equal(t, "19 trees: an interval needs 20", c.Runs[2].Why)
	require.Nil(t, c.Runs[2].Figures["ttft.p95"].Interval)
	require.NotNil(t, c.Runs[2].Figures["ttft.p95"].Difference, "the difference is told without one")
}

// A difference of runs of which one has more trees says over how many it is, in the table, whose lines stay as short as they can, and in the
// page; the interval that is shown of a judged figure is the one that decides, wider than that of the one figure.
//
//
func TestDifferenceOfCommonTrees(t *testing.T) {
	whole, part := newModelled(40), newModelled(30)
	whole.slower, part.seed = 1.05, 2
	c := compareDirs(t, part.write(t, "part"), whole.write(t, "whole"))
	d := c.Runs[1].Figures["ttft.mean"].Difference
	require.Equal(t, 30, d.Trees)
	require.InDelta(t, 0.05, float64(d.Ratio), 0.02)
	require.Regexp(t, `(?m)^ttft.p50 .* [+]\d+\.\d % [*~=] over 30 common trees: \d+ ms to \d+ ms$`, c.tableText(t))
	require.Zero(t, c.Runs[1].Figures["request_rate"].Difference.Trees, "that of a whole run")
	require.Less(t, d.Deciding.Low, d.Interval.Low)
	require.Greater(t, d.Deciding.High, d.Interval.High)
	require.Equal(t, d.Deciding, d.shown())
	require.Equal(t, d.Differs, !d.Deciding.Has(0))
	other := c.Runs[1].Figures["ttft.p99"].Difference
	require.Nil(t, other.Deciding, "it decides nothing")
	require.Equal(t, other.Interval, other.shown())

	same := newModelled(30)
	c = compareDirs(t, part.write(t, "part again"), same.write(t, "same"))
	require.Zero(t, c.Runs[1].Figures["ttft.mean"].Difference.Trees)
	require.NotContains(t, c.tableText(t), "common")
}

// A run with a remark is marked.
//
// Covers T-202.
func TestBufferedRunIsMarked(t *testing.T) {
	m := newModelled(40)
	m.burst = 24
	plain := newModelled(40)
	c := compareDirs(t, plain.write(t, "a"), m.write(t, "b"))
	require.Empty(t, c.Runs[0].Marks)
	require.Equal(t, []string{"buffered: ttft and itl tell when a buffer was emptied, for 320 of 320 answers, typically 24 messages at once"}, c.Runs[1].Marks)
}

// Each setting that must be equal makes the banner alone, and no other setting does.
//
//
func TestEachFieldAloneMakesTheBanner(t *testing.T) {
	base := newModelled(24)
	first := base.write(t, "first")
	for field, change := range map[string]func(m *modelled){
		"dataset key":              func(m *modelled) { m.info.Dataset.Key = "other" },
		"profile":                  func(m *modelled) { m.info.Dataset.Profile = "aiperf" },
		"seed":                     func(m *modelled) { m.set("seed", "43") },
		"preset":                   func(m *modelled) { m.info.Preset = "agentx-1.0.12"; m.info.Switches = sameRules },
		"speed":                    func(m *modelled) { m.set("speed", "2") },
		"max-context":              func(m *modelled) { m.set("max-context", "9000") },
		"scenario":                 func(m *modelled) { m.info.Scenario = &measure.Scenario{Name: "inferencex-agentx-mvp"} },
		"model":                    func(m *modelled) { m.info.Model = "other" },
		"payload":                  func(m *modelled) { m.set("payload", `"ids"`) },
		"marker":                   func(m *modelled) { m.set("marker", `"off"`) },
		"definition of throughput": func(m *modelled) { m.info.Switches = phaseWindow },
	} {
		t.Run(field, func(t *testing.T) {
			m := newModelled(24)
			change(&m)
			c := compareDirs(t, first, m.write(t, "second"))
			require.False(t, c.Comparable)
			require.Equal(t, field, c.MismatchNames())
			text := c.tableText(t)
			require.Regexp(t, `^NOT COMPARABLE: .*\n  `+field+`: .*\(first\); .*\(second\)\n\n`, text, "above everything")
		})
	}
	for setting, change := range map[string]func(m *modelled){
		"concurrency": func(m *modelled) { m.info.Lanes = 16; m.set("concurrency", "16") },
		"server":      func(m *modelled) { m.info.URLs = []string{"http://other"} },
		"duration":    func(m *modelled) { m.set("duration", "900") },
		"version":     func(m *modelled) { m.info.Version = "2.0.0" },
		"grace":       func(m *modelled) { m.set("grace", "60") },
	} {
		t.Run(setting, func(t *testing.T) {
			m := newModelled(24)
			change(&m)
			c := compareDirs(t, first, m.write(t, "second"))
			require.True(t, c.Comparable)
			require.Len(t, c.Settings, 1)
			require.Contains(t, c.tableText(t), "settings that differ:\n  "+setting+": ")
		})
	}
}

// A run whose figures are not what they seem is marked, and hollow on the frontier.
func TestMarks(t *testing.T) {
	good, short, failing, killed := newModelled(64), newModelled(8), newModelled(64), newModelled(64)
	failing.failed = 6
	killed.info.Facts = nil
	c := compareDirs(t, good.write(t, "good"), short.write(t, "short"), failing.write(t, "failing"), killed.write(t, "killed"))
	require.Empty(t, c.Runs[0].Marks)
	require.Regexp(t, `^short: it took .* from its first request to the end of its last, less than three of its median trees`, c.Runs[1].Marks[0])
	require.Equal(t, []string{"errors: 1.17 % of the requests failed: 6 http_5xx"}, c.Runs[2].Marks)
	require.Equal(t, []string{"killed: the run was killed, or is not over, after 66.0 s of 600 s: its figures are of what it had written"}, c.Runs[3].Marks)
	for k, p := range c.Frontier.Points {
		require.Equal(t, k > 0, p.Hollow)
	}
	require.Contains(t, c.tableText(t), "  failing: errors: 1.17 % of the requests failed: 6 http_5xx\n")
}

// Runs that repeat one run have a mean with Student's interval: of 1, 2 and 3 that is 2 ± 4.303 · 1 / √3.
func TestRepeats(t *testing.T) {
	var list []Source
	for _, slower := range []float64{1, 2, 3} {
		m := newModelled(4)
		m.slower, m.noise = slower, 0
		list = append(list, Source{Dir: m.write(t, "r"), Group: "8 lanes", Note: "a note"})
	}
	c, err := Make(t.Context(), list, Options{Lead: []string{"a line of the caller"}})
	require.NoError(t, err)
	require.Len(t, c.Repeats, 1)
	r := c.Repeats[0]
	one := float64(c.Runs[0].value("ttft.p50"))
	require.InDelta(t, 2*one, r.Figures["ttft.p50"].Mean, 1e-9)
	require.InDelta(t, 4.302652729911275/1.7320508075688772*one, r.Figures["ttft.p50"].Interval.High-2*one, 1e-9)
	text := c.tableText(t)
	require.Contains(t, text, "8 lanes: mean of 3 runs, 95 % by Student\n")
	require.Contains(t, text, "a line of the caller\n")
	require.Contains(t, text, ": a note\n")
	require.Len(t, regexp.MustCompile(`(?m)^(prompt_tokens\.mean|request_rate) `).FindAllString(text, -1), 4, "figures have the names that --gate takes")
}
