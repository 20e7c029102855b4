package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// The exit statuses are those of the harness: an interrupted run with results is done, a run that is not valid by an override too, and
// everything else that is wrong has failed.
//
//
func TestStatusOfTheHarness(t *testing.T) {
	verdict := func(reasons ...string) error { return verdictError{invalidRun{"agentx", reasons}} }
	for want, errs := range map[int][]error{
		0: {nil, verdict("unsafe_override"), verdict("unsafe_override", "context_overflow_rate_exceeded"), cancelledRun{context.Canceled, true}},
		1: {
			usageError{fmt.Errorf("x")}, errorList{hintError{usageError{fmt.Errorf("x")}, "y"}, verdict("z")}, fmt.Errorf("the warmup failed"),
			hintError{verdict("insufficient_profile_metric_coverage"), "logs"}, verdictError{fmt.Errorf("2 trees")},
		},
	} {
		for _, err := range errs {
			var problems strings.Builder
			cmd := newProfile()
			cmd.SetErr(&problems)
			cmd.SetContext(t.Context())
			assert.Equal(t, want, reportError(t.Context(), &problems, harnessStatus(cmd, aiperfStatus(cmd, err))), "%v", err)
		}
	}
	interrupted, stop := context.WithCancel(t.Context())
	stop()
	cmd := newProfile()
	cmd.SetErr(new(strings.Builder))
	cmd.SetContext(interrupted)
	assert.Equal(t, 1, reportError(interrupted, new(strings.Builder), harnessStatus(cmd, context.Canceled)), "no results")
	assert.Equal(t, 1, reportError(interrupted, new(strings.Builder), harnessStatus(cmd, cancelledRun{context.Canceled, false})), "a warmup alone")
	assert.Equal(t, 0, reportError(interrupted, new(strings.Builder), harnessStatus(cmd, cancelledRun{context.Canceled, true})))
}
