package pagetest

import (
	_ "embed"

	"github.com/stretchr/testify/require"
)

//go:embed document.js
var documentCode string

// Document gives the engine a document, and draws the page into it as a browser would: without pixels. Its root is the variable root,
// its charts the list charts.
func (e *Engine) Document() {
	e.t.Helper()
	_, err := e.vm.RunScript("document.js", documentCode)
	require.NoError(e.t, err)
	e.Eval(`var root = document.createElement("main"); pages[page.kind](page, root);
		var charts = root.all((made) => made.chart).map((made) => made.chart); charts.forEach((chart) => chart.draw())`)
}
