package compare

import (
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

func htmlOf(t *testing.T, c *Comparison) string {
	t.Helper()
	text, err := c.HTML()
	require.NoError(t, err)
	return string(text)
}

// The figures that the page computes of a selection equal a recount from the records, to the microsecond that the page keeps.
func TestSelectionEqualsARecount(t *testing.T) {
	m, other := newModelled(40), newModelled(30)
	m.failed, m.late, m.cut = 3, 9, 5
	dir := m.write(t, "m")
	c := compareDirs(t, dir, other.write(t, "other"))
	e := pagetest.NewEngine(t, htmlOf(t, c))
	e.Eval("var run = new ComparedRun(page, page.head.runs[0], 0), range = new TimeRange(0, page.head.span)")
	span := e.Number("page.head.span")
	require.InDelta(t, c.runs[0].requests.span(), span, 1e-9, "the longest run")

	records, err := measure.OpenRecords(dir)
	require.NoError(t, err)
	defer records.Close()
	var all []measure.Record
	for r, err := records.Next(); err == nil; r, err = records.Next() {
		all = append(all, *r)
	}
	first := slices.MinFunc(all, func(a, b measure.Record) int { return int(math.Copysign(1, a.Sent.Seconds()-b.Sent.Seconds())) }).Sent.Seconds()
	draw := rand.New(rand.NewPCG(7, 7))
	for range 50 {
		from, to := draw.Float64()*span, draw.Float64()*span
		e.Eval("range.reset(), range.set(a, b)", from, to)
		from, to = e.Number("range.from"), e.Number("range.to")
		var ttft []float64
		started, failed, judged := 0, 0, 0
		for _, r := range all {
			if at := r.Sent.Seconds() - first; at < from || at >= to {
				continue
			}
			started++
			if r.Bucket == measure.CancelledAtEnd {
				continue
			}
			judged++
			if r.Error != nil {
				failed++
				continue
			}
			if r.Bucket == measure.Profiling {
				ttft = append(ttft, r.FirstToken.Seconds()-r.Sent.Seconds())
			}
		}
		require.EqualValues(t, started, e.Number("run.started(range)"))
		require.EqualValues(t, failed, e.Number("run.sum('failed', range)"))
		require.EqualValues(t, judged, e.Number("run.sum('ended', range)"), "a cancelled request is in no error rate")
		stat := measure.NewStat(ttft)
		for _, name := range slo.Statistics {
			want := float64(stat.Figure(name))
			if math.IsNaN(want) {
				continue
			}
			require.InDelta(t, want, e.Number("statOf(run.sorted('ttft', range))[a]", name), 1e-6)
		}
	}
}

// The lines over time hold what the records do: as many seconds of requests in flight, and all tokens.
func TestSeries(t *testing.T) {
	m := newModelled(40)
	c := compareDirs(t, m.write(t, "a"), m.write(t, "b"))
	q := &c.runs[0].requests
	window := windowOf(q.span())
	s := newSeries(&run{requests: *q}, newAxis(0, q.span()))
	var busy, tokens, seconds, output float64
	for k := range s.inFlight {
		length := min(window, q.span()-float64(k)*window)
		seconds += s.inFlight[k] * length
		output += s.output[k] * length
	}
	for k := range q.start {
		busy += q.end[k] - q.start[k]
		tokens += q.values["output_tokens"][k]
	}
	require.InDelta(t, busy, seconds, 1e-6)
	require.InDelta(t, tokens, output, 1e-6)

	var one requests // reads its prompt for a second, then answers for two
	one.addTimes(0, headline, 10, 11, 13)
	for name, v := range map[string]float64{"ttft": 1, "itl": none, "latency": 3, "prompt_tokens": 700, "output_tokens": 20} {
		one.addValue(name, v, true)
	}
	s = newSeries(&run{requests: one}, axis{0, 2, 2})
	require.Equal(t, []float64{350, 0}, s.prompt)
	require.Equal(t, []float64{5, 10}, s.output, "10 tokens in each second of answer; the last window has one second")
	require.Equal(t, []float64{1, 1}, s.inFlight)
	require.Equal(t, 1.0, s.of["ttft.p95"][0])
	require.True(t, math.IsNaN(s.of["ttft.p95"][1]))
	require.Equal(t, []float64{1, 1, 2, 5, 300, 600}, []float64{windowOf(0), windowOf(400), windowOf(401), windowOf(1700), windowOf(120_000), windowOf(120_001)})
}

// A point of the frontier is dominated where a run without marks is as good in both and better in one.
func TestFrontier(t *testing.T) {
	make := func(concurrency string, throughput, itl, ttft float64, model string) *run {
		r := &run{settings: settings{"concurrency": concurrency, "model": model}, gpus: 2}
		r.summary.OutputTokenRate, r.summary.Measured = measure.Number(throughput), 1
		r.summary.ITL, r.summary.TTFT = measure.NewStat([]float64{itl}), measure.NewStat([]float64{ttft})
		return r
	}
	marked := make("64", 9000, 0.001, 0.01, "m")
	marked.summary.Remarks = []measure.Remark{{Level: measure.Warning, Text: "client_bound: the client"}}
	f := frontierOf([]*run{make("4", 400, 0.01, 0.1, "m"), make("1", 100, 0.01, 0.05, "m"), make("16", 1600, 0.02, 0.3, "m"), marked, make("4", 200, 0.03, 0.4, "other")}, nil)
	require.Equal(t, [][]int{{1, 0, 2, 3}}, f.Lines)
	require.EqualValues(t, 200, f.Points[0].Throughput, "per GPU")
	require.InDelta(t, 100, float64(f.Points[0].At["p95"].Interactivity), 1e-9)
	require.Empty(t, linesOf([]*run{make("4", 400, 0.01, 0.1, "m"), make("4", 400, 0.01, 0.1, "m")}), "a repeated run makes no line")
	var dominated, byTTFT []bool
	for _, p := range f.Points {
		dominated, byTTFT = append(dominated, p.At["p50"].Dominated), append(byTTFT, p.At["p50"].DominatedByTTFT)
	}
	require.Equal(t, []bool{false, true, false, false, true}, dominated)
	require.Equal(t, []bool{false, false, false, false, true}, byTTFT)
	require.True(t, f.Points[3].Hollow)
}

// Equal runs give equal bytes wherever they lie; names that are markup stay texts.
func TestPageBytesAndNames(t *testing.T) {
	m := newModelled(24)
	again, hostile := "again", `<script>alert(1)<\script>`+"\u2028\u202e"+`"'&`
	one, two := m.write(t, "one"), m.write(t, again)
	first := htmlOf(t, compareDirs(t, one, two))
	require.Equal(t, first, htmlOf(t, compareDirs(t, m.write(t, "one"), m.write(t, again))))

	odd := filepath.Join(t.TempDir(), hostile)
	require.NoError(t, os.Rename(two, odd))
	long := strings.Repeat("x", 10_000) + "</script>"
	c, err := Make(t.Context(), []Source{{Dir: one, Note: long + "</script><b>"}, {Dir: odd}}, Options{Lead: []string{"<img src=x onerror=alert(1)>"}})
	require.NoError(t, err)
	text := htmlOf(t, c)
	for _, markup := range []string{"<script>alert", "<img", "</script><b>", "x</script>"} {
		require.False(t, strings.Contains(text, markup), markup)
	}
	_, data, _ := strings.Cut(text, `id="data"`)
	require.False(t, strings.Contains(data, "\u2028"))
	e := pagetest.NewEngine(t, text)
	require.Equal(t, hostile, e.Eval("page.head.runs[1].name"))
	require.Equal(t, long+"</script><b>", e.Eval("page.head.runs[0].note"))
}

// A page of 300,000 requests in three runs stays below 4 MB: it keeps an even share of them, in the order of their starts, and says so.
func TestPageOfManyRequests(t *testing.T) {
	m := newModelled(24)
	c := compareDirs(t, m.write(t, "a"), m.write(t, "b"), m.write(t, "c"))
	draw := rand.New(rand.NewPCG(1, 1))
	for _, r := range c.runs {
		r.requests = requests{}
		for k := range 100_000 {
			start := float64(k)*0.036 + draw.Float64()
			ttft := math.Exp(draw.NormFloat64())
			latency := ttft + 10*draw.Float64()
			r.requests.addTimes(int32(k%500), headline, start, start+ttft, start+latency)
			for name, v := range map[string]float64{"ttft": ttft, "itl": draw.Float64() / 10, "latency": latency, "prompt_tokens": float64(draw.IntN(100_000)), "output_tokens": float64(draw.IntN(2000))} {
				r.requests.addValue(name, v, true)
			}
		}
	}
	text := htmlOf(t, c)
	t.Logf("%d bytes", len(text))
	require.Less(t, len(text), 4_000_000)
	require.True(t, strings.Contains(text, `"sampled":[{"all":100000,"points":33333},`))
	require.True(t, strings.Contains(text, `{"name":"requests.1","rows":33333,`))
}

// The pure functions of the page's files.
func TestDrawingCode(t *testing.T) {
	m := newModelled(4)
	e := pagetest.NewEngine(t, htmlOf(t, compareDirs(t, m.write(t, "a"), m.write(t, "b"))))
	e.Document() // which fails where the page cannot be drawn
	for ratio, want := range map[float64]string{0.0321: "+3.2 %", -0.5: "−50.0 %", 0.004: "+0.40 %", 0: "0 %", 0.000001: "0 %", 2.5: "×3.5"} {
		require.Equal(t, want, e.Eval("formatChange(a)", ratio))
	}
	require.Equal(t, []any{97.5, 102.5}, roundedList(e.Eval("atLeastWide([100, 100])")))
	require.Equal(t, []any{1.0, 10.0}, roundedList(e.Eval("atLeastWide([1, 10])")))
	require.Equal(t, "%", e.Eval("unitOf({unit: '', of_each: false})"))
	require.Equal(t, "/s", e.Eval("unitOf({unit: '1/s'})"))
	require.Equal(t, "s", e.Eval("unitOf({unit: 's', of_each: true})"))

	for _, c := range []struct {
		better int
		ratio  float64
		want   string
	}{{-1, 0.1, "worse"}, {-1, -0.1, "better"}, {1, 0.1, "better"}, {1, -0.1, "worse"}, {0, 0.1, ""}} {
		require.Equal(t, c.want, e.Eval("betterWay({ better: a, of_each: true }, { ratio: b, differs: true })", c.better, c.ratio))
		require.Equal(t, c.want, e.Eval("betterWay({ better: a, of_each: false }, { ratio: b, differs: false })", c.better, c.ratio), "a rate has no interval")
		require.Equal(t, "", e.Eval("betterWay({ better: a, of_each: true }, { ratio: b, differs: false })", c.better, c.ratio))
	}
	require.Equal(t, "", e.Eval("betterWay({ better: 1, of_each: false }, { ratio: 0.009 })"))

	many := newModelled(60)
	e = pagetest.NewEngine(t, htmlOf(t, compareDirs(t, many.write(t, "many"), m.write(t, "few"))))
	const shown = `page.head.runs.map((run) => valueText(run.figures["ttft.p99"], "s").endsWith("?")).join()`
	require.Equal(t, "false,true", e.Eval(shown))
	const selected = `(() => {
		const run = new ComparedRun(page, page.head.runs[0], 0), range = new TimeRange(0, page.head.span);
		const cell = (to) => { range.set(0, to); return FigureTable.prototype.selectedCell.call({ range }, run, page.head.order.find((f) => f.name === "ttft.p99"), {}).few; };
		return [cell(page.head.span), cell(page.head.span / 50)].join();
	})()`
	require.Equal(t, "false,true", e.Eval(selected))
}

func roundedList(v any) (list []any) {
	for _, x := range v.([]any) {
		switch n := x.(type) {
		case int64:
			list = append(list, float64(n))
		case float64:
			list = append(list, math.Round(n*1e9)/1e9)
		}
	}
	return list
}

// The warmup of a run stands before 0 on the axis of all runs, and in no figure but those of what it took and gave.
func TestWarmupOverTime(t *testing.T) {
	plain, warmed := newModelled(40), newModelled(40)
	warmed.warmup = 5
	warmed.info.Phases = []measure.PhaseSpan{
		{Name: measure.WarmupPhase, Start: warmed.info.Start, Duration: 6.5}, {Name: measure.ProfilingPhase, Start: warmed.info.Start.Add(7 * time.Second), Offset: 7, Duration: 60},
	}
	c := compareDirs(t, plain.write(t, "plain"), warmed.write(t, "warmed"))
	require.Equal(t, c.Runs[0].Figures["ttft.p95"].Value, c.Runs[1].Figures["ttft.p95"].Value)
	text, err := c.HTML()
	require.NoError(t, err)
	e := pagetest.NewEngine(t, string(text))
	require.EqualValues(t, 8, e.Number("page.head.before"), "7 s until profiling begins, then half a second until its first request")
	columns := "page.tables.time.columns"
	require.EqualValues(t, -8, e.Number(columns+".start[0]"))
	first := c.runs[1].requests.values["prompt_tokens"][0]
	require.InDelta(t, 5*first, e.Number(columns+`["prompt.1"].slice(0, 8).reduce((sum, v, k) => sum + v * (k ? 1 : 0.5), 0)`), 2, "five prompts; the first window has half a second of the run")
	require.Equal(t, true, e.Eval(columns+`["in_flight.0"].slice(0, 8).every(Number.isNaN)`), "the other run has none")
	require.Equal(t, true, e.Eval(columns+`["ttft.p95.1"].slice(0, 8).every(Number.isNaN)`))
	require.InDelta(t, e.Number(columns+`["output.0"][9]`), e.Number(columns+`["output.1"][9]`), 1e-9)
}
