package page

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
)

// A point is a square of two pixels, of three on a screen with one and a half for each; of many at one place one is drawn.
func TestDotsCoverPixels(t *testing.T) {
	e := pagetest.NewEngine(t, sampleHTML(t, &Page{}))
	covers := func(ratio float64, points string) any {
		e.Eval("var dots = new Dots({width: 4, height: 4, ratio: a})", ratio)
		return e.Eval(points + ".forEach(([left, top]) => dots.add(left, top)); Array.from({length: dots.height}, (_, row) => dots.covers().subarray(row * dots.width, (row + 1) * dots.width).join('')).join(' ')")
	}
	assert.Equal(t, "1100 1210 0110 0000", covers(1, "[[1, 1], [2, 2], [2.2, 1.8]]"))
	assert.Equal(t, "0000 0000 0000 0000", covers(1, "[[0, 2], [4, 1], [1, NaN]]"), "at the edges")
	assert.Equal(t, "111000 111000 111000 000000 000000 000000", covers(1.5, "[[1, 1]]"))
}

// A point whose place is at the edge of a chart is drawn whole; a line ends there.
func TestPointsAtTheEdgeAreWhole(t *testing.T) {
	e := pagetest.NewEngine(t, sampleHTML(t, &Page{}))
	e.Eval(`function clipOf(mark) {
		const context = { save() {}, restore() {}, beginPath() {}, clip() {}, rect(...box) { this.box = box; } };
		mark.draw = () => {};
		drawWithin({ context, area: { left: 50, right: 150, top: 10, bottom: 110 } }, mark);
		return context.box.join(" ");
	}`)
	assert.Equal(t, "46 4 108 111", e.Eval(`clipOf(new Points({ size: 3 }))`))
	assert.Equal(t, "50 8 100 103", e.Eval(`clipOf(new Line({}))`))
}
