package pagetest

import (
	"fmt"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// Shift is the modifier of the key of that name.
const Shift = 8

// place returns where in the window a share of the width of an element's drawing is, from its left axis at 0 to its right end at 1, half
// way down. The element is scrolled into view.
func (b *Tab) place(selector string, share float64) (x, y float64) {
	b.t.Helper()
	at := Eval[[2]float64](b, fmt.Sprintf(`(() => {
		const e = document.querySelector(%q);
		e.scrollIntoView({block: "center"});
		const box = e.getBoundingClientRect(), chart = e.chart, area = chart.pen.area;
		return [box.left + area.left + (area.right - area.left) * %v, box.top + box.height / 2];
	})()`, selector, share))
	b.Settle()
	return at[0], at[1]
}

// mouse sends an event of the mouse.
func (b *Tab) mouse(kind input.DispatchMouseEventType, x, y float64, change func(p *input.DispatchMouseEventParams)) {
	b.t.Helper()
	p := input.DispatchMouseEventParams{Type: kind, X: x, Y: y}
	change(&p)
	call(b, input.DispatchMouseEvent, p)
}

// Point moves the pointer over a chart.
func (b *Tab) Point(selector string, share float64) {
	b.t.Helper()
	x, y := b.place(selector, share)
	b.mouse(input.DispatchMouseEventTypeMouseMoved, x, y, func(*input.DispatchMouseEventParams) {})
	b.Settle()
}

// Press presses the button of the mouse on a chart and moves to another place of it, without letting go.
func (b *Tab) Press(selector string, from, to float64, modifiers int64) {
	b.t.Helper()
	b.Point(selector, from)
	held := func(p *input.DispatchMouseEventParams) {
		p.Button, p.Buttons, p.ClickCount, p.Modifiers = input.MouseButtonLeft, 1, 1, modifiers
	}
	x, y := b.place(selector, from)
	b.mouse(input.DispatchMouseEventTypeMousePressed, x, y, held)
	for _, step := range []float64{0.25, 0.5, 1} {
		x, y = b.place(selector, from+(to-from)*step)
		b.mouse(input.DispatchMouseEventTypeMouseMoved, x, y, held)
	}
	b.Settle()
}

// Drag drags from one place of a chart to another.
func (b *Tab) Drag(selector string, from, to float64, modifiers int64) {
	b.t.Helper()
	b.Press(selector, from, to, modifiers)
	b.Release(selector, to, modifiers)
}

// Release makes the browser release the button of the mouse.
func (b *Tab) Release(selector string, at float64, modifiers int64) {
	b.t.Helper()
	x, y := b.place(selector, at)
	b.mouse(input.DispatchMouseEventTypeMouseReleased, x, y, func(p *input.DispatchMouseEventParams) {
		p.Button, p.ClickCount, p.Modifiers = input.MouseButtonLeft, 1, modifiers
	})
	b.Settle()
}

// Wheel turns the wheel over a chart, towards the reader where the pixels are positive.
func (b *Tab) Wheel(selector string, at, pixels float64) {
	b.t.Helper()
	b.Point(selector, at)
	x, y := b.place(selector, at)
	b.mouse(input.DispatchMouseEventTypeMouseWheel, x, y, func(p *input.DispatchMouseEventParams) {
		p.DeltaX, p.DeltaY = 1e-6, pixels // 0 is left out, and then refused
	})
	b.Settle()
}

// Click clicks on a chart so many times in a row.
func (b *Tab) Click(selector string, at float64, times int64) {
	b.t.Helper()
	b.Point(selector, at)
	x, y := b.place(selector, at)
	for n := range times {
		count := func(p *input.DispatchMouseEventParams) { p.Button, p.ClickCount = input.MouseButtonLeft, n+1 }
		b.mouse(input.DispatchMouseEventTypeMousePressed, x, y, count)
		b.mouse(input.DispatchMouseEventTypeMouseReleased, x, y, count)
	}
	b.Settle()
}

// Key presses keys on an element that has the focus then.
func (b *Tab) Key(selector, keys string, options ...chromedp.KeyOption) {
	b.t.Helper()
	b.do(chromedp.Focus(chromedp.CSS(selector)), chromedp.KeyEvent(keys, options...))
	b.Settle()
}
