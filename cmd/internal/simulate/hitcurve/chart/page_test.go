package chart

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
	"github.com/agentx/agentx/cmd/internal/simulate"
	"github.com/agentx/agentx/cmd/internal/simulate/hitcurve"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
)

var rates = hitcurve.Rates{Prefill: 10000, Decode: 50}

// curve returns the curve of a load of groups that share a part of their prompts.
func curve(t *testing.T, workers int, router simulate.Router, tokenBytes int64) *Result {
	t.Helper()
	c := simulate.Default()
	c.Workers, c.Router, c.Concurrency, c.Load = workers, router, 8, simulate.LoadConcurrency
	c.Synthetic = &workload.SyntheticOptions{In: 3000, Out: 40, Sessions: 80, Turns: 2, Shared: 0.7, Groups: 9}
	got, err := c.HitCurve(context.Background(), rates, false, hitcurve.Options{Policies: hitcurve.Policies, Fine: Smooth})
	require.NoError(t, err)
	r := New(got, &c, rates, false, tokenBytes)
	require.Equal(t, len(got.Fine) > 0, router == simulate.RoundRobin)
	return r
}

func text(t *testing.T, title string, curves ...*Result) string {
	t.Helper()
	data, err := html(title, curves, page.Origin{Command: title})
	require.NoError(t, err)
	return string(data)
}

// The lines of the page go through the points of --json, LRU's rises at every size between, and sizes have the units that are known.
//
// Covers S-94.
func TestPageHasTheCurve(t *testing.T) {
	r := curve(t, 1, simulate.RoundRobin, 131072)
	e := pagetest.NewEngine(t, text(t, "curve", r))
	e.Eval("var lines = curveLines(page)")
	require.EqualValues(t, 3, e.Number("lines.length"))
	for n, policy := range hitcurve.Policies {
		require.Equal(t, string(policy), e.Eval("lines[a].name", n))
		require.Equal(t, policy == hitcurve.LRU, e.Eval("lines[a].exact", n), "more points than the table")
		for _, p := range r.Points {
			at := e.Number("lines[a].blocks.indexOf(b)", n, p.Blocks)
			require.GreaterOrEqual(t, at, 0.0)
			require.Equal(t, float64(p.Policies[policy].HitRate), e.Number("curveKinds[0].of(lines[a], lines[a].found[b])", n, at))
			require.Equal(t, p.Policies[policy].SavedPrefill, e.Number("curveKinds[1].of(lines[a], lines[a].found[b])", n, at))
		}
	}
	require.Equal(t, true, e.Eval("lines[0].blocks.every((size, i) => !i || size > lines[0].blocks[i - 1] && lines[0].found[i] >= lines[0].found[i - 1])"))
	lead := e.Eval("curveLead(page.head.curves[0], page.tables['lru.0'])").(string)
	var nearly int64
	for k := range r.fine {
		if f := r.fine[k]; 100*f.Found >= 99*r.Unlimited.Policies[hitcurve.LRU].SavedTokens {
			nearly = f.Size
			break
		}
	}
	require.Contains(t, lead, fmt.Sprintf(", for 99 %% of it %d blocks (", nearly))
	require.Equal(t, []any{"GiB", "tokens", "blocks"}, e.Eval("curveUnits(page.head.curves).map(({ name }) => name)"))
	last := r.Points[len(r.Points)-1]
	require.Equal(t, *last.GiB, e.Number("a * curveUnits(page.head.curves)[0].of(page.head.curves[0])", last.Blocks))
	rows := e.Eval("curveRows(page.head, page.head.curves[0])").([]any)
	require.Len(t, rows, len(r.Points))
	require.Len(t, rows[0], 3+3*3)
	require.EqualValues(t, 1, e.Number("curveRows(page.head, page.head.curves[0])[a][5].value", len(rows)-1), "of the ideal")
}

// Curves of several caches and routers are told apart by name; without bytes of a token there is no GiB.
//
// Covers S-94.
func TestPageOfSeveralCurves(t *testing.T) {
	in, routed := curve(t, 3, simulate.RoundRobin, 0), curve(t, 3, simulate.KVRouter, 0)
	e := pagetest.NewEngine(t, text(t, "two", in, routed))
	require.EqualValues(t, 6, e.Number("new Set(curveLines(page).map(({ name }) => name)).size"))
	require.Equal(t, "3 caches, kv router, lru", e.Eval("curveLines(page)[3].name"))
	require.Equal(t, false, e.Eval("curveLines(page)[3].exact"))
	require.Equal(t, []any{"tokens", "blocks"}, e.Eval("curveUnits(page.head.curves).map(({ name }) => name)"))
	require.Len(t, e.Eval("curveRows(page.head, page.head.curves[0])[0]"), 2+3*3)
	require.Regexp(t, `^3 caches, kv router: [0-9.]+ % of prompt tokens at most; [0-9,]+ blocks each \(`, e.Eval("curveLead(page.head.curves[1], page.tables['lru.1'])"))
}

// Equal curves give equal bytes, a small page, and markup in a title stays text. A load without requests makes a page too.
//
// Covers S-94.
func TestPageBytes(t *testing.T) {
	r := curve(t, 1, simulate.RoundRobin, 0)
	hostile := "</script><script>alert(1)</script>\u2028"
	one := text(t, hostile, r)
	require.Equal(t, one, text(t, hostile, curve(t, 1, simulate.RoundRobin, 0)))
	require.Equal(t, strings.Count(one, "<script"), strings.Count(one, "</script>"))
	assert.Less(t, len(one), 105_000)

	empty := New(&hitcurve.Curve{}, &r0, rates, true, 0)
	e := pagetest.NewEngine(t, text(t, "none", empty))
	require.EqualValues(t, 0, e.Number("curveLines(page).length"))
	require.Regexp(t, "^one cache: – of prompt tokens", e.Eval("curveLead({ ...page.head.curves[0], pools: 1 })"))
	data, err := json.Marshal(empty)
	require.NoError(t, err)
	require.Contains(t, string(data), `"order":"recorded"`)
	require.True(t, math.IsNaN(float64(empty.Unlimited.Policies[hitcurve.LRU].HitRate)))

	file := filepath.Join(t.TempDir(), PageFile)
	require.NoError(t, Write(file, hostile, []*Result{r}, page.Origin{Command: hostile}))
	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, one, string(written))
	require.Error(t, Write(file, "", nil, page.Origin{}))
}

var r0 = simulate.Default()

// The page in a browser: sizes in another unit move the curves, and nothing is told to the console.
//
// Covers S-94.
func TestPageInABrowser(t *testing.T) {
	pagetest.NeedBrowser(t)
	b := pagetest.OpenHTML(t, text(t, "Hit-rate curve: synthetic", curve(t, 1, simulate.RoundRobin, 131072)), 1280, 900)
	name := `document.querySelector(".plot").chart.x.name`
	require.Equal(t, "GiB of the cache", pagetest.Eval[string](b, name))
	pagetest.Eval[bool](b, `[...document.querySelectorAll("button")].find((e) => e.textContent === "blocks").click() === undefined`)
	require.Equal(t, "blocks of the cache", pagetest.Eval[string](b, name))
	b.Looks("hitcurve")
	b.RequireQuiet()
}

// Several curves in a browser, each cache and all of them together.
//
// Covers S-94.
func TestSeveralInABrowser(t *testing.T) {
	pagetest.NeedBrowser(t)
	b := pagetest.OpenHTML(t, text(t, "Hit-rate curves", curve(t, 1, simulate.RoundRobin, 0), curve(t, 4, simulate.RoundRobin, 0), curve(t, 4, simulate.KVRouter, 0)), 1280, 900)
	b.Looks("hitcurve-several")
	pagetest.Eval[bool](b, `[...document.querySelectorAll("button")].find((e) => e.textContent === "all caches").click() === undefined`)
	require.Equal(t, "tokens of all caches", pagetest.Eval[string](b, `document.querySelector(".plot").chart.x.name`))
	b.RequireQuiet()
}

// Covers S-95.
func TestTiers(t *testing.T) {
	r := curve(t, 2, simulate.RoundRobin, 131072)
	first, last := r.Points[2], r.Points[len(r.Points)-1]
	r.SetTiers([]Tier{{Name: "gpu", Blocks: first.Blocks}, {Name: "host<b>", Blocks: last.Blocks - first.Blocks}})
	gpu, host := r.Tiers[0], r.Tiers[1]
	require.Equal(t, first.Policies[hitcurve.LRU].SavedTokens, gpu.SavedTokens)
	require.Equal(t, last.Policies[hitcurve.LRU].SavedTokens, gpu.SavedTokens+host.SavedTokens)
	require.InDelta(t, 1, float64(gpu.Share+host.Share), 1e-12)
	require.InDelta(t, float64(host.SavedTokens)/rates.Prefill/(2**host.GiB), *host.PerGiB, 1e-9)
	require.InDelta(t, float64(host.Blocks)*float64(r.BlockSize)*131072/(1<<30), *host.GiB, 1e-9)
	require.Contains(t, r.Text([]hitcurve.Policy{hitcurve.LRU}), "\ntier ")
	e := pagetest.NewEngine(t, text(t, "curve", r))
	require.EqualValues(t, 2, e.Number("page.head.curves[0].tiers.length"))
	r.TokenBytes, r.Tiers = nil, nil
	r.SetTiers([]Tier{{Name: "gpu", Blocks: first.Blocks}})
	require.Nil(t, r.Tiers[0].GiB)
	require.EqualValues(t, 1, r.Tiers[0].Share)
}
