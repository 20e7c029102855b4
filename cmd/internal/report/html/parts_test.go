package html

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
	"github.com/agentx/agentx/replay/measure"
)

// The page of a load says first which parts it has, what the clocks leave open of rates, and what became of each part.
func TestPartsOfAPage(t *testing.T) {
	s := newSample(400)
	a, info := measure.NewAggregate(measure.Rules{}), s.info()
	b := NewBuilder(measure.Rules{})
	for k := range s.records {
		a.Add(&s.records[k])
		require.NoError(t, b.Add(&s.records[k]))
	}
	info.Parts = &measure.Parts{Of: 3, Used: 2, Clocks: measure.Clocks{Uncertainty: 0.0004}, List: []measure.PartReport{
		{Number: 0, Host: "n0", Requests: 1200, Completed: 1190, Failed: 10, TTFT: measure.Quantiles{P50: 0.1, P99: 0.4}, Lateness: measure.Quantiles{P99: 0.002}, Bound: true, BoundBy: []string{"CPU: busy"}},
		{Number: 1, Host: "<b>n1</b>", LeftOut: "there is no <i>part</i>", TTFT: measure.Quantiles{P50: measure.Missing, P99: measure.Missing}, Lateness: measure.Quantiles{P99: measure.Missing}, Offset: measure.Missing, Uncertainty: measure.Missing},
		{Number: 2, Host: "n2", Lost: "it was killed", Offset: -4.5, Uncertainty: 0.0004},
	}}
	draw := func() (string, *pagetest.Engine) {
		_, html, err := b.fit(&About{Info: info, Summary: a.Summary(info)})
		require.NoError(t, err)
		return drawn(t, string(html)), pagetest.NewEngine(t, string(html))
	}
	text, e := draw()
	for _, want := range []string{"NOT THE WHOLE LOAD: 2 of 3 parts. Their clocks agree within 400 µs.", "client_bound: the client"} {
		require.Contains(t, text, want)
	}
	require.Equal(t, "part 1 is left out: there is no <i>part</i>\npart 2 has what it had written: it was killed", e.Eval(`verdictsOf(page.head)[0].more.join("\n")`))
	require.Contains(t, e.Eval(`verdictsOf(page.head).flatMap((v) => v.more).join("\n")`), "part 0 (n0): CPU: busy")
	require.Equal(t, "0 n0 1,200 10 100 ms 400 ms 2 ms 0 s 0 s the bottleneck\n1 <b>n1</b> 0 0 – – – – – left out\n2 n2 0 0 0 s 0 s 0 s −4.5 s 400 µs not to its end",
		e.Eval(`partRows(page.head.summary.parts).map((row) => row.map((cell) => cell.text ?? cell).join(" ")).join("\n")`))
	margin := a.Summary(info)
	require.Contains(t, text, "/s"+margin.ClockMargin(true)+")", "the page and the table of a terminal say the same")
	require.Equal(t, " ± 0.081 %", e.Eval("clockMargin(page.head.summary, 1)"))
	require.Equal(t, " ± unknown", e.Eval("clockMargin(page.head.summary, 0.0008)"))
	e.Eval(`var requests = new Requests(page)`)
	lane := e.Eval(`page.tables.trees.columns.lane[page.tables.sessions.columns.tree[requests.session[0]]]`).(int64)
	require.Equal(t, string(rune('0'+lane%3)), e.Eval(`describeRequest(requests, 0).find(([name]) => name === "part")[1]`))

	info.Parts.Clocks.Uncertainty, info.Parts.Used = measure.Missing, 3
	info.Parts.List[1].LeftOut, info.Parts.List[2].Lost = "", ""
	text, e = draw()
	require.Contains(t, text, "3 parts: the whole load. How far their clocks agree is not known: each was taken as right.")
	require.Equal(t, " ± unknown", e.Eval("clockMargin(page.head.summary, 1)"))
	info.Parts.List[2].Lost = "it was killed"
	text, _ = draw()
	require.Contains(t, text, "NOT THE WHOLE LOAD: 3 of 3 parts, not all to their ends.")
	info.Parts = nil
	text, e = draw()
	require.NotContains(t, text, "parts")
	require.Equal(t, "", e.Eval("clockMargin(page.head.summary, 1)"))
}
