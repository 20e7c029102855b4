package measure

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/slo"
)

// The table of a list says of each run how it did by its service levels, and which remarks are warnings.
func TestListTellsLevelsAndRemarks(t *testing.T) {
	met, not := true, false
	each := LevelResult{Text: "ttft<80ms", Condition: slo.Condition{OfEach: true}}
	list := List{Runs: []ListedRun{
		{Concurrency: 4, Headline: &Figures{}, Summary: &Summary{Goodput: &Goodput{Rate: 3.25, Share: 0.5, Conditions: []LevelResult{{Text: "errors<1%", Met: &met}, each, each, {Text: "ttft.p95<100ms", Met: &not}}}}},
		{Concurrency: 8, Headline: &Figures{}, Summary: &Summary{Remarks: []Remark{{Kind: "lanes", Level: Note}, {Kind: "client", Level: Warning}, {Kind: "failed", Level: Broken}}}},
	}}
	var b strings.Builder
	require.NoError(t, list.WriteTable(&b, 0))
	_, rows, _ := strings.Cut(b.String(), "exit\n")
	require.Contains(t, rows, "concurrency 4: errors<1% met; 3.25 good requests/s, 50.0 % of the requests; ttft.p95<100ms not met\n")
	require.Contains(t, rows, "concurrency 8: client, failed\n")
	require.NotContains(t, rows, "lanes")
}
