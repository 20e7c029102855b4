package pagetest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// limit is the longest that a browser may take for a test.
const limit = 5 * time.Minute

// Tab is a page that a headless browser has opened.
type Tab struct {
	t   testing.TB
	ctx context.Context

	Close func() // ends the browser before the test does

	mu       sync.Mutex
	problems []string // that the page told its console
}

// OpenHTML writes a page to a file, and opens that. See Open.
func OpenHTML(t testing.TB, html string, width, height int64) *Tab {
	t.Helper()
	file := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, os.WriteFile(file, []byte(html), 0o644))
	return Open(t, "file://"+file, width, height)
}

// NeedBrowser skips the test unless AGENTX_BROWSER is set, and where there is no browser; it returns the path of one. A test whose page
// takes long to make calls it first.
func NeedBrowser(t testing.TB) string {
	t.Helper()
	if os.Getenv("AGENTX_BROWSER") == "" {
		t.Skip("make test-browser runs the tests in a browser")
	}
	binary := browserPath()
	if binary == "" {
		t.Skip("there is no chromium and no google-chrome: Debian's package chromium has one")
	}
	return binary
}

// Open opens an address in a browser without a window, and waits until a chart is drawn. The test is skipped where NeedBrowser skips it.
// It fails at its end if the page has told its console of an error, or has drawn one.
func Open(t testing.TB, address string, width, height int64) *Tab {
	t.Helper()
	binary := NeedBrowser(t)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(binary), chromedp.NoSandbox, chromedp.DisableGPU)
	allocator, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Do(ctx))
	ctx, cancel = context.WithTimeout(ctx, limit)
	t.Cleanup(cancel)
	b := &Tab{t: t, ctx: ctx, Close: stop}
	require.NoError(t, chromedp.Listen(ctx, b.listen))
	call(b, log.Enable, cdp.Empty{})
	call(b, runtime.Enable, cdp.Empty{})
	b.Resize(width, height)
	b.do(chromedp.Navigate(address), chromedp.WaitReady("main *"))
	b.Settle()
	return b
}

// browserPath returns the browser of this machine, or "".
func browserPath() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// listen keeps what the page tells its console.
func (b *Tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		problem := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			problem += " " + e.ExceptionDetails.Exception.Description
		}
		b.problems = append(b.problems, problem)
	case *log.EventEntryAdded:
		b.problems = append(b.problems, e.Entry.Text)
	}
}

// heard returns what the page has told its console. It holds the lock only to copy: while listen waits for it, no answer of the browser arrives.
func (b *Tab) heard() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.problems)
}

// RequireQuiet fails the test where the page has complained of anything.
func (b *Tab) RequireQuiet() {
	b.t.Helper()
	require.Empty(b.t, b.heard())
	require.Empty(b.t, Eval[string](b, `(document.querySelector(".failure") || {textContent: ""}).textContent`))
}

// do runs actions.
func (b *Tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	require.NoError(b.t, chromedp.Do(b.ctx, actions...))
}

// call sends a command to the browser and returns its answer.
func call[P, R any](b *Tab, command cdp.Command[P, R], params P) R {
	b.t.Helper()
	result, err := chromedp.Call(b.ctx, command, params)
	require.NoError(b.t, err)
	return result
}

// Eval returns the value of an expression in the page, or what it promises.
func Eval[T any](b *Tab, expression string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(b.t, err, expression)
	return value
}

// Settle waits until the page has drawn what it was going to draw.
func (b *Tab) Settle() {
	b.t.Helper()
	Eval[bool](b, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => done(true))))))`)
}

// CPU returns how long the thread of the page has computed, which a busy machine does not change.
func (b *Tab) CPU() time.Duration {
	b.t.Helper()
	call(b, performance.Enable, performance.EnableParams{TimeDomain: performance.EnableTimeDomainThreadTicks})
	for _, m := range call(b, performance.GetMetrics, cdp.Empty{}).Metrics {
		if m.Name == "TaskDuration" {
			return time.Duration(m.Value * float64(time.Second))
		}
	}
	require.Fail(b.t, "the browser does not tell what its threads compute")
	return 0
}

// Resize gives the page another width and height, in pixels.
func (b *Tab) Resize(width, height int64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
}

// Slow makes the machine of the reader so many times slower.
func (b *Tab) Slow(times float64) {
	b.t.Helper()
	call(b, emulation.SetCPUThrottlingRate, emulation.SetCPUThrottlingRateParams{Rate: times})
}

// Dark makes the reader prefer dark, or light.
func (b *Tab) Dark(on bool) {
	b.t.Helper()
	scheme := "light"
	if on {
		scheme = "dark"
	}
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	b.Settle()
}

// Looks keeps pictures of the whole page as readers may see it: light, dark, on a phone, on paper, without colours. It fails the test where the
// page is wider than a phone.
func (b *Tab) Looks(name string) {
	b.t.Helper()
	size := Eval[[2]int64](b, `[innerWidth, innerHeight]`)
	b.Picture(name + "-light")
	b.requireAccessible()
	b.Dark(true)
	b.Picture(name + "-dark")
	b.requireAccessible()
	b.Dark(false)
	call(b, emulation.SetEmulatedVisionDeficiency, emulation.SetEmulatedVisionDeficiencyParams{Type: emulation.SetEmulatedVisionDeficiencyTypeAchromatopsia})
	b.Picture(name + "-grey")
	call(b, emulation.SetEmulatedVisionDeficiency, emulation.SetEmulatedVisionDeficiencyParams{Type: emulation.SetEmulatedVisionDeficiencyTypeNone})
	b.Resize(794, 1123) // A4
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: "print"})
	b.Picture(name + "-a4")
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{})
	b.Resize(400, 800)
	b.Settle()
	require.LessOrEqual(b.t, Eval[int](b, `document.documentElement.scrollWidth`), 400)
	b.Picture(name + "-400")
	b.Resize(size[0], size[1])
	b.Settle()
}

// requireAccessible fails the test for everything that axe-core finds by its default rules, where AGENTX_AXE names its file axe.min.js.
func (b *Tab) requireAccessible() {
	b.t.Helper()
	path := os.Getenv("AGENTX_AXE")
	if path == "" {
		return
	}
	code, err := os.ReadFile(path)
	require.NoError(b.t, err)
	Eval[bool](b, string(code)+"\n;true")
	require.Empty(b.t, Eval[[]string](b, `axe.run().then((found) => found.violations.flatMap(({ id, help, nodes }) => nodes.map(({ target, html }) => [id, help, target.join(" "), html].join(": "))))`))
}

// Picture keeps a picture of the whole page where AGENTX_PICTURES names a folder.
func (b *Tab) Picture(name string) {
	b.t.Helper()
	if os.Getenv("AGENTX_PICTURES") == "" {
		return
	}
	size := Eval[[2]int64](b, `[innerWidth, innerHeight]`)
	b.Resize(size[0], Eval[int64](b, `document.documentElement.scrollHeight`)) // charts below the window are not drawn
	b.Settle()
	b.Window(name)
	b.Resize(size[0], size[1])
	b.Settle()
}

// Window keeps a picture of what the window shows where AGENTX_PICTURES names a folder.
func (b *Tab) Window(name string) {
	b.t.Helper()
	folder := os.Getenv("AGENTX_PICTURES")
	if folder == "" {
		return
	}
	png := call(b, page.CaptureScreenshot, page.CaptureScreenshotParams{}).Data
	require.NoError(b.t, os.MkdirAll(folder, 0o755))
	require.NoError(b.t, os.WriteFile(filepath.Join(folder, name+".png"), png, 0o644))
}

// Shift is the modifier of the key of that name.
const Shift = 8

// place scrolls an element into view and returns a point of the window in its drawing: half way down, at a share of the width from the left axis,
// 0, to the right end, 1.
func (b *Tab) place(selector string, share float64) (x, y float64) {
	b.t.Helper()
	at := Eval[[2]float64](b, fmt.Sprintf(`(() => {
		const e = document.querySelector(%q);
		e.scrollIntoView({block: "center"});
		const box = e.getBoundingClientRect(), { chart } = e;
		if (!chart.pen) chart.draw(); // it was far from the window
		const { area } = chart.pen;
		return [box.left + area.left + (area.right - area.left) * %v, box.top + box.height / 2];
	})()`, selector, share))
	b.Settle()
	return at[0], at[1]
}

// mouse sends an event of the mouse at a point, after change has completed it.
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
