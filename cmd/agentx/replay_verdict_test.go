package main

import (
	"io"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
)

// A run that came to its end has one exit status: a deadlocked tree comes before a run without an answer, that before a run
// that is not valid, and a run that broke before all.
func TestJudgeRun(t *testing.T) {
	scenario := measure.Run{Scenario: &measure.Scenario{Name: "s"}}
	invalid := []string{"unsafe_override"}
	broken := []measure.Remark{{Level: measure.Broken, Text: "failed: 20 %"}, {Level: measure.Broken, Text: "gone: a: b"}, {Level: measure.Warning, Text: "short"}}
	for name, c := range map[string]struct {
		s      measure.Summary
		status int
		says   string
	}{
		"good":               {measure.Summary{Completed: 1, DeadlockedTrees: measure.Missing}, 0, ""},
		"valid":              {measure.Summary{Completed: 1, Run: scenario, Valid: new(true)}, 0, ""},
		"not valid":          {measure.Summary{Completed: 1, Run: scenario, Valid: new(false), Reasons: invalid}, 3, "replay: not valid under the scenario s: unsafe_override"},
		"silent servers":     {measure.Summary{Completed: 1, Run: scenario, Valid: new(false), Reasons: []string{"insufficient_profile_metric_coverage"}, Coverage: &measure.Coverage{}}, 3, "replay: not valid under the scenario s: insufficient_profile_metric_coverage"},
		"nothing completed":  {measure.Summary{Requests: 2}, 1, "replay: not one of 2 requests completed"},
		"nothing, not valid": {measure.Summary{Requests: 2, Run: scenario, Valid: new(false), Reasons: invalid}, 1, "replay: not one of 2 requests completed"},
		"deadlocked":         {measure.Summary{DeadlockedTrees: 2}, 3, "replay: 2 trees could not be played to their end"},
		"broke":              {measure.Summary{Completed: 1, Remarks: broken}, 1, "replay: the run broke: failed: 20 %; gone: a: b (--allow-failures makes that no failure)"},
		"broke, not valid":   {measure.Summary{Completed: 1, Remarks: broken, Run: scenario, Valid: new(false), Reasons: invalid}, 1, "replay: the run broke: failed: 20 %; gone: a: b; replay: not valid under the scenario s: unsafe_override (--allow-failures makes that no failure)"},
		"in the warmup":      {measure.Summary{Completed: 1, Deadlocks: make([]measure.DeadlockReport, 1)}, 3, "replay: 1 trees could not be played to their end"},
	} {
		t.Run(name, func(t *testing.T) {
			err := judgeRun(&c.s, false)
			require.Equal(t, c.status, reportError(t.Context(), io.Discard, err))
			if c.says != "" {
				require.EqualError(t, err, c.says)
			}
			cmd := &cobra.Command{}
			cmd.SetErr(io.Discard)
			allowed := reportError(t.Context(), io.Discard, judgeRun(&c.s, true))
			require.Equal(t, allowed, reportError(t.Context(), io.Discard, withoutBreak(cmd, err)), "AIPerf and its fork know no break")
			if c.s.Remarks == nil {
				require.Equal(t, c.status, allowed)
			} else {
				require.NotEqual(t, c.status, allowed)
			}
		})
	}
}
