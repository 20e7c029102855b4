package measure

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/wire"
)

// Every run of a list has a line; a run without results has its concurrency and exit status alone.
func TestListTable(t *testing.T) {
	a := NewAggregate(Rules{})
	a.Add(good(0, 1, 0, 0.5, 2.5, 5))
	a.Add(bad(Profiling, "timeout"))
	a.Add(bad(ContextOverflow, wire.ContextOverflow))
	s := a.Summary(RunInfo{Lanes: 8})
	list := List{Out: "results", Runs: []ListedRun{
		{Concurrency: 8, Dir: "c0008", Headline: s.Figures(), Summary: &s}, {Concurrency: 16, Dir: "c0016", Exit: 1},
	}}
	var b strings.Builder
	require.NoError(t, list.WriteTable(&b, 0))
	require.Equal(t, `concurrency    requests     errors requests/s   output/s   ttft p50   ttft p99    itl p50  exit
8                     3     50.0 %       0.40          2     500 ms    500 ms?     500 ms     0
16                    -          -          -          -          -          -          -     1
errors      concurrency 8: 1 of 2: timeout 50.0 %
overflow    concurrency 8: 1 of 3 overflowed the context
left out    concurrency 8: 1 of 3 requests (33.3 % in no figure)

results     results
`, b.String())
	list = List{Repeat: 2, Runs: []ListedRun{{Concurrency: 8, Repeat: 1, Exit: 1}, {Concurrency: 8, Repeat: 2, Headline: s.Figures(), Summary: &s}}}
	b.Reset()
	require.NoError(t, list.WriteTable(&b, 0))
	require.Equal(t, `concurrency    requests     errors requests/s   output/s   ttft p50   ttft p99    itl p50  exit
8 r01                 -          -          -          -          -          -          -     1
8 r02                 3     50.0 %       0.40          2     500 ms    500 ms?     500 ms     0
errors      concurrency 8 r02: 1 of 2: timeout 50.0 %
overflow    concurrency 8 r02: 1 of 3 overflowed the context
left out    concurrency 8 r02: 1 of 3 requests (33.3 % in no figure)
`, b.String())
	list = List{Runs: []ListedRun{{Concurrency: 8, Summary: &s}}}
	require.Nil(t, list.WithoutSummaries().Runs[0].Summary)
	require.Equal(t, &s, list.Runs[0].Summary)
	require.Equal(t, map[wire.Category]int{"timeout": 1}, s.Figures().Errors)
}
