package html

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/scrape"
)

// rowsOf lists, in a JavaScript engine, what the page draws from: a name and the values of each column.
const rowsOf = `
	function textOf(column) { return Array.from({ length: column.length }, (_, i) => column instanceof Texts ? column.at(i) : String(column[i])); }
	function rowsOfPage(page) {
		const rows = {}, requests = new Requests(page);
		for (const name of ["trees", "sessions", "failures", "bins", "bins.failures", "servers", "server.0", "server.2"]) {
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

// talkative is the file of three servers, the second of which tells nothing that a page shows, and the first has another metric later.
type talkative struct {
	*scrape.Growing
	file *os.File
	said int
}

func newTalkative(t *testing.T) *talkative {
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, scrape.File))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	for k, name := range []string{"vllm:kv_cache_usage_perc", "other", "vllm:num_requests_running"} {
		fmt.Fprintf(file, `{"endpoint":%d,"url":"http://h%[1]d/metrics"}`+"\n"+`{"series":%[1]d,"endpoint":%[1]d,"name":%[2]q,"type":"gauge","labels":{}}`+"\n", k, name)
	}
	return &talkative{scrape.NewGrowing(dir, ServerMetric), file, 0}
}

// say adds answers, of the last of which half a line comes later.
func (s *talkative) say(t *testing.T, answers int) {
	for range answers {
		s.said++
		if s.said == 700 {
			fmt.Fprintln(s.file, `{"series":3,"endpoint":0,"name":"vllm:num_requests_waiting","type":"gauge","labels":{}}`)
		}
		later := ""
		if s.said >= 700 {
			later = fmt.Sprintf(",[3,%d]", s.said%7)
		}
		at := 1_700_000_000_000_000_000 + s.said
		fmt.Fprintf(s.file, `{"endpoint":0,"at":%d,"took":1,"values":[[0,%d]%s]}`+"\n"+`{"endpoint":2,"at":%[1]d,"took":1,"va`, at, s.said%10, later)
		require.NoError(t, s.Read())
		fmt.Fprintf(s.file, `lues":[[2,%d]]}`+"\n", s.said%5)
	}
	require.NoError(t, s.Read())
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
	servers := newTalkative(t)
	about.servers = &servers.Data
	asked, wholes, parts := 0, 0, 0
	for k := range s.records {
		require.NoError(t, b.Add(&s.records[k]))
		if draw.IntN(5) > 0 {
			continue
		}
		servers.say(t, 1+draw.IntN(150))
		b.Servers = servers.Data
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
	require.Greater(t, len(servers.Endpoints[2].Answers), maxAnswers, "it has one answer in two")
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
