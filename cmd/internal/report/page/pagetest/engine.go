// Package pagetest runs pages in tests: their drawing code in a JavaScript engine, without a document; and whole pages in a headless
// browser, where there is one.
package pagetest

import (
	_ "embed"
	"fmt"
	"regexp"
	"sync"
	"testing"

	"github.com/dop251/goja"
	"github.com/stretchr/testify/require"
)

// Engine is a JavaScript engine that has run the scripts of a page. It has no document, so only pure functions can be called.
type Engine struct {
	t  testing.TB
	vm *goja.Runtime
}

var (
	scripts = regexp.MustCompile(`(?s)<script>\n(.*?)</script>`)
	data    = regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`)
)

// NewEngine runs the scripts of a page of HTML except the last, which draws it. The variable page has its unpacked data.
func NewEngine(t testing.TB, html string) *Engine {
	t.Helper()
	e := &Engine{t, goja.New()}
	for i, script := range scripts.FindAllStringSubmatch(html, -1) {
		_, err := e.vm.RunProgram(compiled(t, fmt.Sprintf("script %d", i+1), script[1]))
		require.NoError(t, err)
	}
	e.Load(html)
	return e
}

// programs are the scripts that an engine has run, which are the same on most pages of a package.
var programs sync.Map

// compiled returns a script that an engine can run; any number of engines can run it at the same time.
func compiled(t testing.TB, name, source string) *goja.Program {
	if known, ok := programs.Load(source); ok {
		return known.(*goja.Program)
	}
	p, err := goja.Compile(name, source, false)
	require.NoError(t, err)
	programs.Store(source, p)
	return p
}

// Load unpacks the data of another page into the variable page.
func (e *Engine) Load(html string) {
	e.t.Helper()
	found := data.FindStringSubmatch(html)
	require.Len(e.t, found, 2, "the page has no data")
	e.Eval("var page = unpackPage(JSON.parse(a))", found[1])
}

// LoadHead puts the head of another page into the variable page, and unpacks none of its tables.
func (e *Engine) LoadHead(html string) {
	e.t.Helper()
	found := data.FindStringSubmatch(html)
	require.Len(e.t, found, 2, "the page has no data")
	e.Eval("var page = { head: JSON.parse(a).head }", found[1])
}

// Eval returns the value of an expression, in which arguments are named a, b, c and so on.
func (e *Engine) Eval(expression string, arguments ...any) any {
	e.t.Helper()
	for i, a := range arguments {
		require.NoError(e.t, e.vm.Set(string(rune('a'+i)), a))
	}
	v, err := e.vm.RunString(expression)
	require.NoError(e.t, err, expression)
	return v.Export()
}

// Number returns the value of an expression that is a number.
func (e *Engine) Number(expression string, arguments ...any) float64 {
	e.t.Helper()
	switch v := e.Eval(expression, arguments...).(type) {
	case int64:
		return float64(v)
	case float64:
		return v
	default:
		require.Fail(e.t, "no number", "%s is %v", expression, v)
		return 0
	}
}

//go:embed document.js
var documentCode string

// Document gives the engine a document without pixels, and draws the page into it. The variable root has its root, charts the list of its charts.
func (e *Engine) Document() {
	e.t.Helper()
	_, err := e.vm.RunScript("document.js", documentCode)
	require.NoError(e.t, err)
	e.Eval(`var root = document.createElement("main"); pages[page.kind](page, root);
		var charts = root.all((made) => made.chart).map((made) => made.chart); charts.forEach((chart) => chart.draw())`)
}
