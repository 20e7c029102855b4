package html

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
	"github.com/agentx/agentx/replay/measure"
)

// rowsOf lists, in a JavaScript engine, what the page draws from: a name and the values of each column.
const rowsOf = `
	function textOf(column) { return Array.from({ length: column.length }, (_, i) => column instanceof Texts ? column.at(i) : String(column[i])); }
	function rowsOfPage(page) {
		const rows = {}, requests = new Requests(page);
		for (const name of ["trees", "sessions", "failures", "bins", "bins.failures"]) {
			for (const [column, values] of Object.entries(page.tables[name] ? page.tables[name].columns : {})) rows[name + "." + column] = textOf(values);
		}
		for (const [name, values] of Object.entries({ ...requests, ...requests.metrics })) {
			if (values instanceof Float64Array && name !== "arrival") rows[name] = textOf(values);
		}
		rows.tracks = textOf(requests.tracks.track);
		return Object.entries(rows).sort().map(([name, values]) => name + ": " + values.join(" "));
	}
	var growth = new Growth();`

// script writes a page whose data a JavaScript engine loads.
func script(t *testing.T, p *page.Page) string {
	var html bytes.Buffer
	require.NoError(t, page.Write(&html, p))
	return html.String()
}

// A page to which a run adds what is new, from marks that are near and far and from none, has what a page has that is made at once:
// also after requests were left out, when parents come later than their sessions, and records in another order.
//
//
func TestGrowthIsThePage(t *testing.T) {
	s := newSample(300)
	draw := rand.New(rand.NewPCG(5, 6))
	for some := range slices.Chunk(s.records, 20) {
		draw.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	}
	about := &About{Info: s.info(), Summary: measure.Summary{}}
	b := NewBuilder(measure.Rules{})
	b.Limit(80)
	b.bins.width = 3_000_000 // they grow in length also while nothing is left out
	e := pagetest.NewEngine(t, script(t, &page.Page{Kind: "live"}))
	e.Eval(rowsOf)
	asked, wholes, parts := 0, 0, 0
	for k := range s.records {
		require.NoError(t, b.Add(&s.records[k]))
		if draw.IntN(5) > 0 {
			continue
		}
		mark := b.Mark()
		if draw.IntN(3) > 0 {
			continue
		}
		if b.Has(asked) {
			parts++
		} else {
			wholes++
		}
		e.Load(script(t, b.Since(asked, about)))
		e.Eval(`growth.add(page)`)
		asked = mark
		e.Load(script(t, b.page(about)))
		want, got := e.Eval(`rowsOfPage(page)`).([]any), e.Eval(`rowsOfPage(growth.page())`).([]any)
		require.Len(t, got, len(want))
		for i := range want {
			require.True(t, want[i] == got[i], "after %d records: want %.500v, got %.500v", k, want[i], got[i])
		}
	}
	require.Equal(t, 4, b.Stride())
	assert.Equal(t, 3, wholes, "at first, and each time that requests were left out")
	assert.Greater(t, parts, 10)
}

// A mark is forgotten after maxMarks others, and when requests are left out.
func TestMarks(t *testing.T) {
	b := NewBuilder(measure.Rules{})
	require.False(t, b.Has(0))
	require.False(t, b.Has(1))
	first := b.Mark()
	require.True(t, b.Has(first))
	for range maxMarks - 1 {
		b.Mark()
	}
	require.True(t, b.Has(first))
	last := b.Mark()
	require.False(t, b.Has(first))
	require.True(t, b.Has(first+1))
	require.False(t, b.Has(last+1))
	b.thin()
	require.False(t, b.Has(last))
}
