package page

import (
	"bytes"
	"io"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
)

// written returns the bytes of a page.
func written(t *testing.T, p *Page) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, Write(&b, p))
	return b.String()
}

// runLike is a page with the columns that a run of so many requests has.
func runLike(requests int) *Page {
	draw := rand.New(rand.NewPCG(7, 7))
	at := 0.0
	columns := make([][]float64, 12)
	traces := make([]string, requests)
	for i := range requests {
		at += float64(draw.IntN(30_000_000)) / 1e9
		columns[0] = append(columns[0], float64(int64(at*1e9))/1e9)
		for c := 1; c < 6; c++ { // lengths of time
			columns[c] = append(columns[c], float64(draw.IntN(20_000_000_000))/1e9)
		}
		for c := 6; c < 12; c++ { // counts
			columns[c] = append(columns[c], float64(draw.IntN(120_000)))
		}
		traces[i] = "trace_" + string(rune('a'+draw.IntN(26))) + string(rune('a'+draw.IntN(26)))
	}
	table := Table{Name: "requests", Columns: []Column{Texts("trace", traces)}}
	for c, values := range columns {
		table.Columns = append(table.Columns, Floats(string(rune('a'+c)), "", values))
	}
	return &Page{Kind: "run", Title: "run", Tables: []Table{table}}
}

//
func TestPagesAreSmallAndEqual(t *testing.T) {
	assert.Equal(t, written(t, runLike(500)), written(t, runLike(500)))
	code := len(written(t, &Page{}))
	t.Logf("code %d B; 2,000 requests %d B; 41,400 requests %d B", code, len(written(t, runLike(2000))), len(written(t, runLike(41_400))))
	assert.Less(t, len(written(t, runLike(2000))), 300_000)
	assert.Less(t, len(written(t, runLike(41_400))), 4_000_000)
}

// The page has no line that is a comment or empty, and no such line is in a text of several lines.
func TestPagesHaveNoComments(t *testing.T) {
	assert.Equal(t, "\"use strict\";\nlet a = \"//\"; // b\n  c();\n", string(withoutComments([]byte("\"use strict\";\n// a\n\nlet a = \"//\"; // b\n  // c\n  c();\n"))))
	for kind := range folders {
		assert.NotRegexp(t, `(?m)^ *//`, written(t, &Page{Kind: kind}))
	}
	require.NoError(t, fs.WalkDir(sources, "js", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		code, err := sources.ReadFile(name)
		quotes := 0
		for k, line := range strings.Split(string(code), "\n") {
			if text := strings.TrimLeft(line, " "); text != "" && !strings.HasPrefix(text, "//") {
				quotes += strings.Count(line, "`")
			} else {
				assert.Zero(t, quotes%2, "%s:%d: a line of a text, neither a comment nor empty", name, k+1)
			}
		}
		return err
	}))
}

// hostile are texts that want to be more than text.
var hostile = []string{
	`</script><script>window.hacked = 1</script>`, `<img src=x onerror="window.hacked = 2">`, `"'><svg onload=window.hacked=3>`, `'"` + "`${window.hacked=4}`",
	"\u2028window.hacked = 5\u2029", "\u202egnp.\u202c\u2066", "<!--", "]]>", "&lt;b&gt;", "\x00\x01\x1b[31m", "\xff\xfe", "__proto__", "constructor",
	strings.Repeat("x<y>", 2500),
}

//
func TestHostileTextsStayText(t *testing.T) {
	p := &Page{Kind: "sample", Title: hostile[0], Plain: Plain{hostile, [][][]string{{hostile}}}, Head: map[string]any{"server": hostile}, Tables: []Table{{Name: hostile[1], Columns: []Column{Texts(hostile[2], hostile), Floats("n", hostile[3], make([]float64, len(hostile)))}}}}
	html, plain := written(t, p), written(t, &Page{})
	for _, sign := range []string{"<script", "</script", "<!--", "<img", "<svg", "\u2028", "\u2029"} {
		assert.Equal(t, strings.Count(plain, sign), strings.Count(html, sign), "%s", sign)
	}
	e := pagetest.NewEngine(t, html)
	for i, text := range hostile {
		assert.Equal(t, string([]rune(text)), e.Eval("page.tables[a].columns[b].at(c)", hostile[1], hostile[2], i), "a byte that is no UTF-8 is U+FFFD")
	}
	assert.Nil(t, e.Eval("globalThis.hacked"))
}

// No file of the drawing code makes markup or code of a text, and none is able to end its element.
func TestDrawingCodeSetsTextsAlone(t *testing.T) {
	html := written(t, &Page{})
	for _, way := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function", "DOMParser", "srcdoc", "javascript:", "createContextualFragment"} {
		assert.False(t, strings.Contains(html, way), way)
	}
	assert.Equal(t, strings.Count(html, "<script"), strings.Count(html, "</script>"))
	assert.True(t, strings.Contains(html, `content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"`))
	assert.True(t, strings.Contains(written(t, &Page{Live: true}), `script-src 'unsafe-inline'; connect-src 'self'"`))
	assert.False(t, strings.Contains(strings.NewReplacer("http://www.w3.org/2000/svg", "", "https://github.com/agentx/agentx/blob/main/doc/report.md", "").Replace(html), "://"), "an address; the name of SVG is none, and the manual is behind a click")
}

func TestPagesThatCannotBeDrawn(t *testing.T) {
	for want, p := range map[string]*Page{
		`page: two tables "a"`:                                          {Tables: []Table{{Name: "a"}, {Name: "a"}}},
		`page: table "a" has two columns "x"`:                           {Tables: []Table{{Name: "a", Columns: []Column{Ints("x", "", nil), Ints("x", "", nil)}}}},
		`page: table "a", column "y" has 1 rows, column "x" has 0`:      {Tables: []Table{{Name: "a", Columns: []Column{Ints("x", "", nil), Ints("y", "", []int64{1})}}}},
		`row 1 is 9007199254740992: a page holds whole numbers to 2^51`: {Tables: []Table{{Name: "a", Columns: []Column{Ints("x", "", []int64{0, 1 << 53})}}}},
	} {
		assert.ErrorContains(t, Write(io.Discard, p), want)
	}
}
