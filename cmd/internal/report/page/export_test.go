package page

import (
	"encoding/xml"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
)

// A table is copied as Markdown that shows what the cells say, and as CSV.
func TestTablesAsMarkdown(t *testing.T) {
	e := pagetest.NewEngine(t, sampleHTML(t, &Page{}))
	require.Equal(t, "| name | n |\n|---|---|\n| a\\|b \\<i\\> c | – |\n| \\x60x\\x60 | 3 |\n", strings.ReplaceAll(e.Eval(`toMarkdown([["name", "n"], ["a|b <i>\nc", NaN], ["\x60x\x60", 3]])`).(string), "`", "x60"))
	require.Equal(t, "1.2 s (1 s to 2 s)", e.Eval(`cellText({text: "1.2 s", value: 1.2, below: "1 s to 2 s"})`))
	require.Equal(t, "1.2 s", e.Eval(`cellText({text: "1.2 s", value: 1.2, below: "\u00a0"})`))
}

// What a canvas is told becomes an SVG that is well-formed, whatever a text contains, and closes what it opened.
func TestChartsAsSVG(t *testing.T) {
	e := pagetest.NewEngine(t, sampleHTML(t, &Page{}))
	text := e.Eval(`(() => {
		const c = Object.create(SvgContext.prototype);
		Object.assign(c, {name: "n", states: [], width: 100, height: 50, theme: {ground: "#ffffff"}, parts: [], patterns: new Map(), clips: 0, open: [0], path: "", dash: [], globalAlpha: 1, lineWidth: 1, fillStyle: "#000000", strokeStyle: "#111111", font: '11px "A B"'});
		c.save(); c.translate(0, 10); c.save(); c.strokeStyle = "#222222"; c.setLineDash([9]); c.restore(); c.beginPath(); c.rect(1, 2, 30, 20); c.clip();
		c.setLineDash([2, 3]); c.beginPath(); c.moveTo(1, 1); c.lineTo(9.999, 5); c.stroke(); c.setLineDash([]);
		c.fillStyle = {hatching: {style: 1, colour: "#d55e00"}}; c.fillRect(1, 1, 5, 5); c.restore();
		c.textAlign = "right"; c.fillStyle = "#000000"; c.fillText('</svg><script>"&', 3, 4);
		return c.text();
	})()`).(string)
	for decoder := xml.NewDecoder(strings.NewReader(text)); ; {
		_, err := decoder.Token()
		if err != nil {
			require.Equal(t, "EOF", err.Error(), text)
			break
		}
	}
	for _, part := range []string{`<g transform="translate(0 10)">`, `<clipPath id="n-c1"><path d="M1 2h30v20h-30Z"/></clipPath><g clip-path="url(#n-c1)">`, `d="M1.00 1.00L10.00 5.00"`, `stroke="#111111" stroke-width="1" stroke-opacity="1" stroke-dasharray="2 3"`, `fill="url(#n-h1)"`, `<pattern id="n-h1"`, `text-anchor="end"`, `&lt;/svg&gt;&lt;script&gt;`} {
		require.Contains(t, text, part)
	}
	require.NotContains(t, text, "<script>")
}

// Without JavaScript a page has its lines and tables.
func TestPlainPage(t *testing.T) {
	html := written(t, &Page{Plain: Plain{[]string{"a <b>"}, [][][]string{{{"x", "y"}, {"1", "<2>"}}}}})
	require.Contains(t, html, "<noscript>\n<p>The charts of this page need JavaScript.</p>\n<p>a &lt;b&gt;</p>\n<table>\n<tr><th>x</th><th>y</th></tr>\n<tr><td>1</td><td>&lt;2&gt;</td></tr>\n</table>\n</noscript>")
}

// Ticks of counts are whole numbers.
func TestWholeTicks(t *testing.T) {
	e := pagetest.NewEngine(t, sampleHTML(t, &Page{}))
	e.Eval(`var ticks = (whole, high) => {
		const chart = Object.create(Chart.prototype);
		Object.assign(chart, {y: {zero: true, whole, unit: ""}, marks: [{spanY: () => [0, high]}]});
		const [low, top] = chart.rangeY(0, 1, 5);
		return chart.ticksY(low, top, 5).join(" ");
	}`)
	require.Equal(t, "0 0.2 0.4 0.6 0.8 1", e.Eval("ticks(false, 1)"))
	require.Equal(t, "0 1", e.Eval("ticks(true, 1)"))
	require.Equal(t, "0 1 2 3", e.Eval("ticks(true, 3)"))
	require.Equal(t, "0 10 20 30 40", e.Eval("ticks(true, 37)"))
}
