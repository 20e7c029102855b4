package page

import (
	"testing"

	"github.com/agentx/agentx/report/page/pagetest"
)

func TestChartsInABrowser(t *testing.T) {
	b := pagetest.OpenHTML(t, sampleHTML(t, samplePage(2000)), 1280, 900)
	b.Picture("sample-light")
	b.Dark(true)
	b.Picture("sample-dark")
	b.Resize(400, 800)
	b.Settle()
	b.Picture("sample-400")
	b.RequireQuiet()
}
