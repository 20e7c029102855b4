package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// played is a run that a test plays: two requests a second on each of 8 lanes.
type played struct {
	t      testing.TB
	dir    string
	writer *measure.Writer
	state  *State
	pages  *Pages
	at     time.Duration
	credit int
}

func newPlayed(t testing.TB) *played {
	level, err := measure.ParseCondition("ttft.p95<2s")
	require.NoError(t, err)
	p := &played{t: t, dir: t.TempDir(), state: NewState(measure.Rules{}, 8, level)}
	info := measure.RunInfo{Run: measure.Run{Model: "some/model", Preset: "default", Start: time.Unix(1.7e9, 0).UTC()}, Lanes: 8}
	text, err := json.Marshal(info)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, measure.RunFile), text, 0o644))
	p.writer, err = measure.Create(p.dir)
	require.NoError(t, err)
	p.pages, err = NewPages(p.state, p.dir)
	require.NoError(t, err)
	return p
}

// play plays so many seconds, and then looks.
func (p *played) play(seconds int) {
	for range seconds {
		for lane := range 8 {
			for k := range 2 {
				p.add(lane, p.at.Seconds()+0.5*float64(k)+0.05*float64(lane))
			}
		}
		p.at += time.Second
		p.state.Report(measure.Progress{Phase: measure.ProfilingPhase, Elapsed: p.at, Remaining: 10*time.Minute - p.at, Requests: p.credit + 4, InFlight: 4, TreesOpen: 8})
		p.state.Look(time.Unix(1.7e9, 0).Add(p.at))
	}
	p.pages.look()
}

func (p *played) add(lane int, due float64) {
	r := good(p.credit, 0.001, 0.1+0.02*float64(lane), 0.005, 20)
	shift := due - r.Due.Seconds()
	r.Due, r.Admitted, r.Sent, r.FirstToken, r.LastToken, r.End = measure.At(due), measure.At(due), measure.At(r.Sent.Seconds()+shift), measure.At(r.FirstToken.Seconds()+shift), measure.At(r.LastToken.Seconds()+shift), measure.At(r.LastToken.Seconds()+shift)
	tree := lane + 8*(p.credit/160)
	r.Lane, r.Tree, r.Trace, r.Session, r.RootID, r.CorrelationID = lane, tree, fmt.Sprint("trace-", tree), fmt.Sprint("trace-", tree), fmt.Sprint("r", tree), fmt.Sprint("r", tree)
	r.Turn, r.SourceOuter = p.credit/16%10, p.credit/16%10
	if p.credit%50 == 49 {
		r.Error, r.FirstToken, r.LastToken = &measure.Error{Category: wire.Timeout, Message: "after 6h"}, 0, 0
	}
	p.credit++
	require.NoError(p.t, p.writer.Write(r))
	p.state.Add(r)
	p.pages.Add(r)
}

// A page that is open in a browser follows a run: it shows the last minute, keeps what a reader selects and hides, and at the end becomes
// the finished page, which needs no server.
//
//
func TestLiveInABrowser(t *testing.T) {
	pagetest.NeedBrowser(t)
	s, err := Listen("127.0.0.1:0", "")
	require.NoError(t, err)
	p := newPlayed(t)
	over := false
	defer func() {
		if !over { // the test was skipped, or has failed
			require.NoError(t, errors.Join(p.writer.Close(), s.http.Close()))
		}
	}()
	p.play(90)
	s.Show(&View{State: p.state, Pages: p.pages})
	b := pagetest.Open(t, s.URL(), 1280, 900)
	text := func(selector string) string {
		return pagetest.Eval[string](b, fmt.Sprintf(`document.querySelector(%q).textContent`, selector))
	}
	comes := func(selector, words string) {
		require.Eventually(t, func() bool {
			return pagetest.Eval[bool](b, fmt.Sprintf(`(document.querySelector(%q) || {textContent: ""}).textContent.includes(%q) && !document.querySelector(".coming")`, selector, words))
		}, time.Minute, 50*time.Millisecond, "%s: %s", selector, words)
	}
	comes(".live", "replay 1m30s, 8m30s left: 8 of 8 lanes, 4 in flight")
	comes(".bar", "30.19 s to 90.19 s")
	comes(".tiles .good", "ttft.p95<2s240 ms✓ met")
	require.Empty(t, pagetest.Eval[string](b, `location.hash`))
	b.Picture("live-light")

	pagetest.Eval[bool](b, `(document.querySelector(".legend button").click(), scrollTo(0, 500), document.querySelector(".plot").id = "first", true)`)
	charts := pagetest.Eval[int](b, `document.querySelectorAll("figure").length`)
	p.play(10)
	comes(".live", "replay 1m40s")
	comes(".bar", "40.19 s to ")
	assert.Equal(t, charts, pagetest.Eval[int](b, `document.querySelectorAll("figure").length`))
	assert.Equal(t, "first", pagetest.Eval[string](b, `document.querySelector(".plot").id`), "the charts have taken the new rows")
	assert.Equal(t, "false", pagetest.Eval[string](b, `document.querySelector(".legend button").getAttribute("aria-pressed")`), "what was hidden stays hidden")
	assert.Equal(t, 500, pagetest.Eval[int](b, `scrollY`))

	pagetest.Eval[bool](b, `(location.hash = "#t=20-30", true)`)
	comes(".bar", "20 s to 30 s")
	b.Settle()
	numbers := text("table")
	p.play(10)
	comes(".live", "replay 1m50s")
	comes(".bar", "20 s to 30 s")
	assert.Equal(t, numbers, text("table"), "requests of a range that is over")
	pagetest.Eval[bool](b, `([...document.querySelectorAll(".live button")].find((one) => one.textContent === "Whole run").click(), true)`)
	comes(".bar", "0 s to 110")
	b.Dark(true)
	b.Resize(400, 900)
	b.Picture("live-400-dark")
	assert.LessOrEqual(t, pagetest.Eval[int64](b, `document.documentElement.scrollWidth`), int64(400))
	b.Dark(false)
	b.Resize(1280, 900)

	require.NoError(t, p.writer.Close())
	p.state.end(nil)
	require.NoError(t, p.pages.Finish(p.dir))
	require.NoError(t, s.Close(t.Context()), "it waits for the page")
	over = true
	comes(".live", "replay ended after 1m50s: ")
	require.Eventually(t, func() bool {
		return !pagetest.Eval[bool](b, `document.querySelector("main").textContent.includes("being played")`)
	}, 10*time.Second, 50*time.Millisecond, text(".live"))
	assert.Contains(t, pagetest.Eval[string](b, `document.querySelector(".bar").textContent`), fmt.Sprintf("%d requests", p.credit)[:1])
	b.Picture("live-finished")
	b.RequireQuiet()
}

// A page on a machine that is six times slower becomes the finished page before the command has ended, each time.
func TestSlowPageEndsInABrowser(t *testing.T) {
	pagetest.NeedBrowser(t)
	const tries = 20
	ended, longest := 0, time.Duration(0)
	for range tries {
		s, err := Listen("127.0.0.1:0", "")
		require.NoError(t, err)
		p := newPlayed(t)
		p.play(200)
		s.Show(&View{State: p.state, Pages: p.pages})
		b := pagetest.Open(t, s.URL(), 1280, 900)
		b.Slow(6)
		require.Eventually(t, func() bool { return pagetest.Eval[bool](b, `Boolean(document.querySelector(".bar"))`) }, time.Minute, 50*time.Millisecond)
		p.play(1)
		require.NoError(t, p.writer.Close())
		p.state.end(nil)
		require.NoError(t, p.pages.Finish(p.dir))
		ctx, cancel := context.WithTimeout(t.Context(), watching)
		begin := time.Now()
		require.NoError(t, s.Close(ctx))
		longest = max(longest, time.Since(begin))
		cancel()
		if assert.Eventually(t, func() bool {
			return pagetest.Eval[bool](b, `document.querySelector(".live").textContent.includes("ended after") && !document.querySelector("main").textContent.includes("being played")`)
		}, time.Minute, 50*time.Millisecond) {
			ended++
		}
		b.Close()
	}
	t.Logf("%d of %d pages became the finished page; the server waited for %v at most", ended, tries, longest)
}

// What a page that is open computes for each second of a run with as many requests as it may have: figures, no bounds.
func TestLiveSpeedInABrowser(t *testing.T) {
	pagetest.NeedBrowser(t)
	s, err := Listen("127.0.0.1:0", "")
	require.NoError(t, err)
	p := newPlayed(t)
	defer func() { require.NoError(t, errors.Join(p.writer.Close(), s.http.Close())) }()
	p.play(Requests/16 - 60)
	s.Show(&View{State: p.state, Pages: p.pages})
	b := pagetest.Open(t, s.URL(), 1280, 900)
	for _, view := range []string{"Last minute", "Whole run"} {
		require.Eventually(t, func() bool {
			return pagetest.Eval[bool](b, fmt.Sprintf(`(([...document.querySelectorAll(".live button")].find((one) => one.textContent === %q && !one.hidden) || {click() {}}).click(), Boolean(document.querySelector(".bar")))`, view))
		}, time.Minute, 50*time.Millisecond)
		for _, place := range []string{"0", "1100"} {
			pagetest.Eval[bool](b, fmt.Sprintf(`(scrollTo(0, %s), true)`, place))
			b.Settle()
			before := b.CPU()
			const seconds = 8
			for range seconds {
				p.play(1)
				pagetest.Eval[bool](b, `new Promise((done) => setTimeout(done, 1000, true))`)
			}
			t.Logf("%s, scrolled to %s, %d requests: %.0f ms of a core a second", view, place, p.credit, float64((b.CPU()-before).Milliseconds())/seconds)
		}
	}
	b.RequireQuiet()
}

// BenchmarkPack is packing everything for a page that has just been opened, of a run with as many requests as a page may have.
func BenchmarkPack(b *testing.B) {
	p := newPlayed(b)
	defer p.writer.Close()
	p.play(Requests / 16)
	b.ReportAllocs()
	for b.Loop() {
		p.pack(b, 0)
	}
}

// BenchmarkGrowth is packing what a page adds that is open, a second of 1,000 requests.
func BenchmarkGrowth(b *testing.B) {
	p := newPlayed(b)
	defer p.writer.Close()
	p.play(560)
	before := p.pages.position
	p.play(1000 / 16)
	b.ReportAllocs()
	for b.Loop() {
		p.pack(b, before)
	}
}

func (p *played) pack(b *testing.B, after int) {
	p.pages.packed, p.pages.rest = [2]packed{}, time.Time{}
	text, _, err := p.pages.data(after)
	require.NoError(b, err)
	b.ReportMetric(float64(len(text[2])), "B")
}
