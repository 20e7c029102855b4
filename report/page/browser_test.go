package page

import (
	"testing"

	"github.com/agentx/agentx/report/page/pagetest"
)

func TestChartsInABrowser(t *testing.T) {
	b := pagetest.OpenHTML(t, sampleHTML(t, samplePage(2000)), 1280, 900)
	b.Picture("sample-light")
	b.RequireQuiet()
}
