package aiperf

import (
	"context"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/report"
)

// The duration from which on the harness looks at the coverage of a phase, seconds, and the share that it wants.
const (
	coveredFrom   = 900
	requiredRatio = 0.95
)

// cover computes how far into the phase there were first tokens and inter-token latencies, as shares of its duration, if the harness
// looks at them.
func (w *writer) cover() error {
	f := w.run.Info.Facts
	if !w.slim || w.run.Info.Scenario == nil || isPart(w.run) || f == nil || f.Cancelled || f.ExpectedDuration < coveredFrom {
		return nil
	}
	rules := w.run.Rules()
	var firstToken, itl float64
	err := w.eachRecord(context.Background(), func(r *measure.Record) error {
		if r.Phase != measure.ProfilingPhase || r.Error != nil || rowless(r) {
			return nil
		}
		firstToken = max(firstToken, r.FirstToken)
		if _, ok := rules.ITL(r); ok {
			itl = max(itl, lastMessage(r))
		}
		return nil
	})
	ratio := func(at float64) report.Number { return report.Float(min(max(at/f.ExpectedDuration, 0), 1)) }
	w.coverage = []object{{
		{"phase_name", measure.ProfilingPhase}, {"expected_duration_seconds", report.Float(f.ExpectedDuration)},
		{"required_ratio", report.Float(requiredRatio)}, {"ttft_ratio", ratio(firstToken)}, {"inter_token_latency_ratio", ratio(itl)},
	}}
	return err
}

// lastMessage is when the last message of an answer came.
func lastMessage(r *measure.Record) float64 {
	if r.LastMessage > 0 {
		return r.LastMessage
	}
	return r.End
}
