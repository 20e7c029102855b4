package main

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/capacity"
	"github.com/agentx/agentx/replay/measure"
)

// A search prints the table, what its probes share, and last its answer, whose outcome decides the exit status.
func TestSearchPrintsItsAnswer(t *testing.T) {
	met := capacity.Probe{Lanes: 1, Verdict: capacity.Met, Conditions: []capacity.Reading{{Name: "ttft.p95", Limit: "2 s", Text: "1.84 s", Met: true}}}
	missed := capacity.Probe{Lanes: 2, Verdict: capacity.Missed, Conditions: []capacity.Reading{{Name: "ttft.p95", Limit: "2 s", Text: "2.31 s"}}}
	bound := capacity.Probe{Lanes: 2, Verdict: capacity.ClientBound, Reasons: []string{"the processor"}}
	first := missed
	first.Lanes = 1
	for _, c := range []struct {
		probes []capacity.Probe
		reset  bool
		end    string // of standard output
		status int
	}{
		{[]capacity.Probe{met, missed}, false, "\n" + warmCache + "\ncapacity 1 lane: ttft.p95 1.84 s (2 s); 2 lanes: ttft.p95 2.31 s\n", 0},
		{[]capacity.Probe{met, missed}, true, "\n\ncapacity 1 lane: ttft.p95 1.84 s (2 s); 2 lanes: ttft.p95 2.31 s\n", 0},
		{[]capacity.Probe{first}, false, "\n\nno capacity: 1 lane: ttft.p95 2.31 s\n", exitVerdict},
		{[]capacity.Probe{met, bound}, true, "\n\nclient-bound at 2 lanes: the processor; 1 lane met every condition, which is no capacity\n", exitVerdict},
	} {
		cmd := newRoot()
		var stdout strings.Builder
		cmd.SetOut(&stdout)
		list := &measure.List{Out: "out", Capacity: capacity.Search{From: 1}.Answer(c.probes)}
		cmd.SetContext(t.Context())
		require.NoError(t, printSearch(cmd, list, replay.Options{CacheReset: replay.CacheReset{Enabled: c.reset}}, false))
		assert.True(t, strings.HasSuffix(stdout.String(), c.end), stdout.String())
		assert.Equal(t, c.status, reportError(t.Context(), io.Discard, judgeSearch(t.Context(), false, list, nil)))
	}
}
