package compare

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// sweep writes runs of the concurrencies, each as many times slower, and returns them as a series.
func sweep(t *testing.T, name string, trees int, slower map[int]float64, levels ...string) (list []Source) {
	t.Helper()
	var conditions []slo.Condition
	for _, text := range levels {
		c, err := measure.ParseCondition(text)
		require.NoError(t, err)
		conditions = append(conditions, c)
	}
	for _, n := range []int{4, 16, 1, 64} { // in no order
		if slower[n] == 0 {
			continue
		}
		m := newModelled(trees)
		m.info.Lanes, m.slower = n, slower[n]
		m.set("concurrency", strconv.Itoa(n))
		list = append(list, Source{Dir: m.write(t, name+"-"+strconv.Itoa(n)), Series: name, SLO: conditions})
	}
	return list
}

// answerOf returns what a series of runs answers.
func answerOf(t *testing.T, list []Source) string {
	t.Helper()
	c, err := Make(t.Context(), list, Options{})
	require.NoError(t, err)
	require.Len(t, c.Series, 1)
	require.Empty(t, c.Verdicts, "runs of one series are compared with none")
	return c.Series[0].Answer
}

// A sweep answers which concurrency meets the service levels.
//
//
func TestAnswers(t *testing.T) {
	rising := map[int]float64{1: 1, 4: 1.2, 16: 2, 64: 4}
	require.Regexp(t, `^4 lanes meet itl.p95<25ms and ttft.p95<2s; 16 do not \(itl.p95 3\d.\d ms\)$`, answerOf(t, sweep(t, "s", 40, rising, "itl.p95<25ms", "ttft.p95<2s")))
	require.Equal(t, "at least 64 lanes meet ttft.p95<1h; more were not tried", answerOf(t, sweep(t, "s", 64, rising, "ttft.p95<1h", "ttft<1s")))
	require.Regexp(t, `^no number of lanes that was tried meets ttft.p95<1ms: 1 does not \(ttft.p95 \d+ ms\)$`, answerOf(t, sweep(t, "s", 40, rising, "ttft.p95<1ms")))
	require.Regexp(t, `^64 lanes give the most output: \d+ tokens/s; --slo 'ttft.p95<2s' tells`, answerOf(t, sweep(t, "s", 40, map[int]float64{4: 2, 64: 1})))
	require.Regexp(t, `^16 lanes meet itl.p95<20ms; 64 do not \(.*\); 4 do not \(itl.p95 .*\)$`, answerOf(t, sweep(t, "s", 40, map[int]float64{4: 3, 16: 1, 64: 3}, "itl.p95<20ms")))
	short := sweep(t, "s", 8, map[int]float64{1: 1, 4: 1}, "ttft.p95<1h")
	require.Equal(t, "at least 4 lanes meet ttft.p95<1h; more were not tried; remarks on 4 lanes: short", answerOf(t, short))
}

// Where trees arrive at a rate, no number of lanes meets anything: such runs are left out of answers.
func TestAnswersOfArrivals(t *testing.T) {
	var list []Source
	for _, level := range []string{"ttft.p95<1h", "ttft.p95<1ms", ""} {
		list = sweep(t, "s", 40, map[int]float64{4: 1}, "ttft.p95<1h")
		for k := range 2 {
			m := newModelled(40)
			m.info.Lanes = 0
			m.set("concurrency", "0")
			of := Source{Dir: m.write(t, "rate-"+strconv.Itoa(k)), Series: "s"}
			if level != "" {
				c, err := measure.ParseCondition(level)
				require.NoError(t, err)
				of.SLO = append(of.SLO, c)
			}
			list = append(list, of)
		}
		require.Empty(t, answerOf(t, list[1:]))
		require.Equal(t, "at least 4 lanes meet ttft.p95<1h; more were not tried", answerOf(t, list))
	}
	for k := range 2 {
		list[k+1].Series += strconv.Itoa(k)
	}
	c, err := Make(t.Context(), list[1:], Options{})
	require.NoError(t, err)
	require.Regexp(t, `^rate-1 against rate-0: `, c.Verdicts[0].Text)
}

// A run that repeats one counts: all runs of a concurrency must meet the levels. A run with more than 1 % of failed requests meets none.
func TestAnswersOfRepeatsAndFailures(t *testing.T) {
	list := append(sweep(t, "s", 40, map[int]float64{1: 1, 4: 1}, "itl.p95<20ms"), sweep(t, "s", 40, map[int]float64{4: 2}, "itl.p95<20ms")...)
	require.Regexp(t, `^1 lane meets itl.p95<20ms; 4 do not \(itl.p95 3\d.\d ms\)`, answerOf(t, list))
	m := newModelled(40)
	m.info.Lanes, m.failed = 16, 6
	m.set("concurrency", "16")
	list = append(sweep(t, "s", 40, map[int]float64{1: 1, 4: 1}, "itl.p95<20ms"), Source{Dir: m.write(t, "failing"), Series: "s", SLO: list[0].SLO})
	require.Equal(t, "4 lanes meet itl.p95<20ms; 16 do not (1.88 % of the requests failed)", answerOf(t, list))
}

// Of a run whose figures meet the levels and are not those of its servers it is not known whether these do.
//
//
func TestAnswersThatAreNotKnown(t *testing.T) {
	bound := func(missed bool) *run {
		met := !missed
		r := &run{settings: settings{}}
		r.summary.Remarks = []measure.Remark{{Kind: "client_bound", Level: measure.Warning}}
		r.summary.Goodput = &measure.Goodput{Conditions: []measure.LevelResult{{Condition: slo.Condition{Metric: "ttft", Statistic: "p95", Unit: slo.Seconds}, Value: 2, Met: &met}}}
		return r
	}
	of := map[int]*misses{4: {}, 16: {}, 64: {}}
	of[16].add(bound(false))
	of[64].add(bound(true))
	require.Equal(t, "4 lanes meet L; of 16 it is not known (client_bound)", answerText("L", of))
	delete(of, 16)
	require.Equal(t, "4 lanes meet L; 64 do not (ttft.p95 2.00 s, client_bound)", answerText("L", of))
}

// Of several series each run is compared with that of the first series at the same concurrency, and runs are sorted by concurrency.
//
//
func TestSeveralSeries(t *testing.T) {
	list := append(sweep(t, "old", 40, map[int]float64{1: 1, 4: 1, 16: 1}, "itl.p95<16ms"), sweep(t, "new", 40, map[int]float64{4: 1.1, 16: 0.9, 64: 1}, "itl.p95<16ms")...)
	c, err := Make(t.Context(), list, Options{})
	require.NoError(t, err)
	var places []string
	for k, r := range c.Runs {
		places = append(places, r.Series+strconv.Itoa(c.runs[k].lanes()))
	}
	require.Equal(t, []string{"old1", "old4", "new4", "old16", "new16", "new64"}, places)
	require.Equal(t, [][]int{{0, 1, 3}, {2, 4, 5}}, [][]int{c.Series[0].Runs, c.Series[1].Runs})
	require.Equal(t, [][]int{{0, 1, 3}, {2, 4, 5}}, c.Frontier.Lines)
	require.Equal(t, [][2]int{{2, 1}, {4, 3}}, [][2]int{{c.Verdicts[0].Run, c.Verdicts[0].Base}, {c.Verdicts[1].Run, c.Verdicts[1].Base}})
	require.Nil(t, c.Runs[5].Figures["ttft.p95"].Difference, "the first series has no 64 lanes")
	require.Contains(t, htmlOf(t, c), "<tr><td>new-4</td><td>4</td><td>new</td><td>320 of 320</td><td>NO 16.5 ms</td>", "also without JavaScript")
	text := c.tableText(t)
	require.Regexp(t, `^old: at least 16 lanes meet itl.p95<16ms; more were not tried\nnew: at least 64 lanes meet .*; more were not tried; 4 do not \(itl.p95 16.5 ms\)\nlanes  series  requests    itl.p95<16ms  output/s`, text)
	require.Regexp(t, `(?m)^4      new     320 of 320  NO 16.5 ms    .*  16.5 ms  \+10.0 % \*`, text)
	require.Regexp(t, `(?m)^new against old at 16 lanes: faster by `, text)
	require.NotContains(t, text, "settings that differ", "but concurrency, which a sweep is about")
}

// Runs that repeat each other at a concurrency are compared one by one; too many series are refused.
func TestSeriesOfRepeats(t *testing.T) {
	one := map[int]float64{4: 1}
	list := append(append(sweep(t, "a", 24, one), sweep(t, "a", 24, one)...), append(sweep(t, "b", 24, one), sweep(t, "b", 24, one)...)...)
	list = append(list, sweep(t, "b", 24, one)...)
	c, err := Make(t.Context(), list, Options{})
	require.NoError(t, err)
	require.Equal(t, []int{-1, -1, 0, 1, -1}, c.bases())
	require.Empty(t, c.sweepOf(), "one concurrency is no sweep")

	for k := range maxSeries + 1 {
		list = append(list, Source{Dir: "x", Series: strconv.Itoa(k)})
	}
	_, err = Make(t.Context(), list, Options{})
	require.ErrorContains(t, err, "compare: 13 series: name at most 10")
}

// Series and runs have the names that their labels give, where these tell them apart; throughput is per GPU where each run knows its GPUs.
func TestLabelsAndGPUs(t *testing.T) {
	labelled := func(dir, series, label string, gpus int) Source {
		m := newModelled(4)
		m.set("label", strconv.Quote(label))
		m.set("gpus", strconv.Itoa(gpus))
		m.set("note", `"said"`)
		return Source{Dir: m.write(t, dir), Series: series}
	}
	names := func(list ...Source) (runs, series []string, c *Comparison) {
		c, err := Make(t.Context(), list, Options{})
		require.NoError(t, err)
		for _, s := range c.Series {
			series = append(series, s.Name)
		}
		return c.names(), series, c
	}
	runs, _, c := names(labelled("a", "", "before the change", 2), labelled("b", "", "", 4))
	require.Equal(t, []string{"before the change", "b"}, runs)
	require.Equal(t, "said", c.Runs[0].Note)
	require.True(t, c.Frontier.PerGPU)
	require.Zero(t, c.Frontier.GPUs, "not the same")
	require.InDelta(t, float64(c.runs[1].delivered())/4, float64(c.Frontier.Points[1].Throughput), 1e-9)
	require.Empty(t, c.Settings, "words for readers are no settings")
	runs, _, c = names(labelled("a", "", "same", 0), labelled("b", "", "same", 4))
	require.Equal(t, []string{"a", "b"}, runs)
	require.False(t, c.Frontier.PerGPU)
	_, series, _ := names(labelled("1", "x", "engine A", 0), labelled("2", "x", "engine A", 0), labelled("3", "y", "one", 0), labelled("4", "y", "other", 0))
	require.Equal(t, []string{"engine A", "y"}, series)
	runs, _, _ = names(labelled("a", "", "b", 0), labelled("b", "", "", 0))
	require.Equal(t, []string{"a", "b"}, runs, "a label that is the name of another run")
}

// A comparison links to the pages of its runs where there are some, from where it lies.
func TestLinks(t *testing.T) {
	root := t.TempDir()
	odd := filepath.Join(root, "runs", "a:b #1")
	require.NoError(t, os.MkdirAll(filepath.Dir(odd), 0o777))
	m := newModelled(4)
	require.NoError(t, os.Rename(m.write(t, "one"), odd))
	require.NoError(t, os.WriteFile(filepath.Join(odd, RunPage), nil, 0o666))
	c := compareDirs(t, odd, m.write(t, "two"))
	out := filepath.Join(root, "out")
	_, err := c.Write(t.Context(), out)
	require.NoError(t, err)
	require.Equal(t, "./../runs/a:b%20%231/report.html", c.Runs[0].Page)
	require.Empty(t, c.Runs[1].Page, "it has no page")
	data, err := os.ReadFile(filepath.Join(out, jsonFile))
	require.NoError(t, err)
	require.True(t, json.Valid(data))
	require.Contains(t, string(data), `"page": "./../runs/a:b%20%231/report.html"`)
}
