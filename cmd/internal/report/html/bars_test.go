package html

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
)

// A column of pixels is mixed of the bars that cover it, the later over the earlier; a strip has whole pixels from above to below.
func TestBarsAreMixed(t *testing.T) {
	dir, _ := newSample(1).write(t)
	html, _ := pageOf(t, dir)
	e := pagetest.NewEngine(t, html)
	e.Eval(`var bars = new Bars({area: {left: 10, right: 14, top: 5, bottom: 8}, ratio: 1}), pixels = new Uint32Array(12), bytes = new Uint8Array(pixels.buffer);
		var row = (y) => [0, 1, 2, 3].map((x) => bytes.subarray(16 * y + 4 * x, 16 * y + 4 * x + 4).join(" ")).join(", ")`)
	const clear = "0 0 0 0, 0 0 0 0, 0 0 0 0, 0 0 0 0"
	e.Eval("bars.add(10.5, 12, [200, 0, 0]); bars.add(11.75, 13, [0, 100, 0]); bars.add(13.5, 13.5, [1, 1, 1]); bars.place(pixels, 6.2, 0.1)")
	assert.Equal(t, clear, e.Eval("row(0)"))
	assert.Equal(t, "200 0 0 128, 150 25 0 255, 0 100 0 255, 0 0 0 0", e.Eval("row(1)"))
	assert.Equal(t, clear, e.Eval("row(2)"))
	e.Eval("bars.add(0, 11, [0, 0, 40]); bars.add(13, 99, [0, 0, 80]); bars.place(pixels, 5, 9)")
	assert.Equal(t, "0 0 40 255, 0 0 0 0, 0 0 0 0, 0 0 80 255", e.Eval("row(2)"), "a strip begins empty, and ends where the picture does")
	assert.Equal(t, "0 0 40 255, 150 25 0 255, 0 100 0 255, 0 0 80 255", e.Eval("row(1)"), "a gap hides nothing")
}

// The chart of lanes shades what is not measured, as the other charts over time do.
func TestLanesShadeWhatIsNotMeasured(t *testing.T) {
	dir, _ := newSample(1).write(t)
	html, _ := pageOf(t, dir)
	e := pagetest.NewEngine(t, html)
	e.Eval(`var boxes = [], lanes = new Lanes({lanes: [7]}, {shades: [{from: -3, to: 0}, {from: 6, to: 9}, {from: 9, to: 10}]}),
		context = {clearRect() {}, fillRect(...box) { boxes.push(box.join(" ")); }}`)
	e.Eval(`lanes.drawBands({context, area: {left: 50, right: 150, top: 10, bottom: 60}, theme: {}, ticks: {x: []}, x: new Scale(-2, 8, 50, 150)})`)
	assert.Equal(t, "50 10 20 50, 130 10 20 50", e.Eval("boxes.join(', ')"))
}
