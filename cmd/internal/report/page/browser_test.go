package page

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"

	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
)

// firstPlot and secondPlot are charts of the sample over time.
const (
	firstPlot  = "figure:nth-of-type(1) .plot"
	secondPlot = "figure:nth-of-type(3) .plot"
)

// shown returns the range that the page shows, as its address has it.
func shown(b *pagetest.Tab) string { return pagetest.Eval[string](b, `location.hash`) }

// Everything that a hand can do to the range, on one chart, is done to all.
//
//
func TestHandsInABrowser(t *testing.T) {
	pagetest.NeedBrowser(t)
	b := pagetest.OpenHTML(t, sampleHTML(t, samplePage(2000)), 1280, 900)
	ends := func() [2]float64 {
		return pagetest.Eval[[2]float64](b, fmt.Sprintf(`(({from, to}) => [from, to])(document.querySelector(%q).chart.pen)`, secondPlot))
	}
	assert.Equal(t, [2]float64{-20, 310}, ends())
	b.Press(firstPlot, 0.25, 0.5, 0)
	b.Picture("drag")
	assert.Empty(t, shown(b), "a drag selects when it ends")
	b.Release(firstPlot, 0.5, 0)
	assert.InDelta(t, -20+330*0.25, ends()[0], 1)
	assert.InDelta(t, -20+330*0.5, ends()[1], 1)
	assert.Equal(t, fmt.Sprintf("#t=%v-%v", ends()[0], ends()[1]), shown(b))
	assert.Contains(t, pagetest.Eval[string](b, `document.querySelector(".bar").textContent`), " requests started in it")
	b.Point(secondPlot, 0.5)
	b.Picture("selected")
	assert.NotEmpty(t, pagetest.Eval[string](b, fmt.Sprintf(`document.querySelector(%q).closest("figure").querySelector("output").textContent`, firstPlot)), "every legend has the value at the cursor")

	before := ends()
	b.Drag(firstPlot, 0.5, 0.75, pagetest.Shift)
	assert.InDelta(t, before[0]-0.25*(before[1]-before[0]), ends()[0], 1, "shift and drag pans")
	assert.InDelta(t, before[1]-before[0], ends()[1]-ends()[0], 0.2)
	before = ends()
	b.Wheel(secondPlot, 0, -120)
	assert.InDelta(t, before[0], ends()[0], 0.2, "the instant under the pointer stays")
	assert.Less(t, ends()[1], before[1])
	b.Wheel(secondPlot, 0.5, 120)
	b.Click(firstPlot, 0.5, 2)
	assert.Empty(t, shown(b))
	assert.Equal(t, [2]float64{-20, 310}, ends())
	b.RequireQuiet()
}

//
func TestKeysInABrowser(t *testing.T) {
	pagetest.NeedBrowser(t)
	b := pagetest.OpenHTML(t, sampleHTML(t, samplePage(2000)), 1280, 900)
	b.Key(firstPlot, "+")
	assert.Equal(t, "#t=62.5-227.5", shown(b))
	b.Key(firstPlot, kb.ArrowRight, chromedp.KeyModifiers(chromedp.ModifierShift))
	assert.Equal(t, "#t=79-244", shown(b))
	b.Key(firstPlot, kb.ArrowRight+kb.ArrowRight)
	assert.NotEmpty(t, pagetest.Eval[string](b, fmt.Sprintf(`document.querySelector(%q).closest("figure").querySelector("output").textContent`, secondPlot)))
	b.Key(firstPlot, "-")
	assert.Empty(t, shown(b), "as long as the whole is the whole")
	b.Key(firstPlot, "+"+kb.Escape)
	assert.Empty(t, shown(b))
	stops := pagetest.Eval[int](b, `document.querySelectorAll('.plot[tabindex="0"][aria-label]').length`)
	assert.Equal(t, pagetest.Eval[int](b, `document.querySelectorAll(".plot").length`), stops, "Tab reaches every chart")
	b.RequireQuiet()
}

//
func TestAddressesInABrowser(t *testing.T) {
	pagetest.NeedBrowser(t)
	b := pagetest.OpenHTML(t, sampleHTML(t, samplePage(2000)), 1280, 900)
	requests := func() string {
		return pagetest.Eval[string](b, `document.querySelector("tbody td:last-child").textContent`)
	}
	assert.Equal(t, "2,000", requests())
	pagetest.Eval[bool](b, `(location.hash = "#t=120-200", true)`)
	b.Settle()
	started := pagetest.Eval[int](b, `page.tables.requests.columns.start.filter((t) => t >= 120 && t < 200).length`)
	assert.Equal(t, fmt.Sprint(started), requests())
	pagetest.Eval[bool](b, `(location.hash = "#t=nonsense", true)`)
	b.Settle()
	assert.Equal(t, "2,000", requests())
	b.RequireQuiet()
}

//
func TestLooksInABrowser(t *testing.T) {
	pagetest.NeedBrowser(t)
	b := pagetest.OpenHTML(t, sampleHTML(t, samplePage(2000)), 1280, 900)
	for _, width := range []int64{1280, 400} {
		b.Resize(width, 900)
		for _, dark := range []bool{false, true} {
			b.Dark(dark)
			b.Picture(fmt.Sprintf("sample-%d-%s", width, map[bool]string{false: "light", true: "dark"}[dark]))
			assert.LessOrEqual(t, pagetest.Eval[int64](b, `document.documentElement.scrollWidth`), width, "nothing is wider than the window")
		}
	}
	b.Resize(1280, 900)
	b.Dark(false)
	pagetest.Eval[bool](b, `(document.querySelectorAll("details").forEach((d, i) => { d.open = i > 1; }), true)`)
	b.Settle()
	b.Picture("data")
	assert.Positive(t, pagetest.Eval[int](b, `document.querySelectorAll("details td").length`))
	b.RequireQuiet()
}

//
func TestHostileTextsInABrowser(t *testing.T) {
	pagetest.NeedBrowser(t)
	p := samplePage(20)
	p.Title = strings.Join(hostile, " ")
	p.Tables = append(p.Tables, Table{Name: "names", Columns: []Column{Texts("name", hostile)}})
	b := pagetest.OpenHTML(t, sampleHTML(t, p), 400, 900)
	b.Picture("hostile")
	for i := range hostile {
		assert.Equal(t, string([]rune(hostile[i])), pagetest.Eval[string](b, fmt.Sprintf(`document.querySelectorAll("#names td:nth-child(2)")[%d].textContent`, i)))
	}
	assert.True(t, pagetest.Eval[bool](b, `window.hacked === undefined && !document.querySelector("img, svg[onload]")`))
	assert.LessOrEqual(t, pagetest.Eval[int64](b, `document.documentElement.scrollWidth`), int64(400))
	b.RequireQuiet()
}

// The figures are reported, not asserted: they depend on the machine.
func TestSpeedInABrowser(t *testing.T) {
	pagetest.NeedBrowser(t)
	b := pagetest.OpenHTML(t, sampleHTML(t, samplePage(41_400)), 1280, 900)
	opened := pagetest.Eval[float64](b, `performance.getEntriesByType("navigation")[0].loadEventEnd`)
	const times = 20
	begin := b.CPU()
	redrawn := pagetest.Eval[[]float64](b, fmt.Sprintf(`(() => {
		const time = document.querySelector(%q).chart.time, charts = [...document.querySelectorAll(".plot")].map((plot) => plot.chart), taken = [];
		for (let i = 0; i < %d; i++) {
			const begin = performance.now();
			time.set(i, 250 + i);
			for (const chart of charts) if (chart.seen) chart.draw();
			taken.push(performance.now() - begin);
		}
		return taken.sort((a, b) => a - b);
	})()`, firstPlot, times))
	t.Logf("41,400 requests: opened in %.0f ms; a new range is drawn in %.1f ms (median), %v of CPU (mean)", opened, redrawn[times/2], (b.CPU()-begin)/times)
	b.RequireQuiet()
}
