package preset

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValidate(t *testing.T) {
	for _, name := range Names {
		s, _ := Named(name)
		require.NoError(t, s.Validate())
		s.MarkerPermitsWrap, s.CountGrace, s.LenientStreams = !s.MarkerPermitsWrap, !s.CountGrace, !s.LenientStreams
		s.CoverageGate, s.AffinityHeader = !s.CoverageGate, !s.AffinityHeader
		require.NoError(t, s.Validate())
	}
	for want, change := range map[string]func(s *Switches){
		`switches: spawn-offset "": want "recorded" or "branch"`:                          func(s *Switches) { s.SpawnOffset = "" },
		`switches: throughput-window "whole": want "benchmark" or "phase" or "delivered"`: func(s *Switches) { s.ThroughputWindow = "whole" },
		`switches: flow-curve "even": want "chunks"`:                                      func(s *Switches) { s.FlowCurve = "even" },
		`switches: warmup-stage "requests": want "requests-or-duration" or "duration"`:    func(s *Switches) { s.WarmupStage = "requests" },
		`switches: tree-idle-cap -1 s: want more than 0, or nil for off`:                  func(s *Switches) { *s.TreeIdleCap = -1 },
		`switches: tree-idle-cap NaN s: want more than 0, or nil for off`:                 func(s *Switches) { *s.TreeIdleCap = Seconds(math.NaN()) },
		`switches: tree-idle-cap 1e+10 s: want more than 0, or nil for off`:               func(s *Switches) { *s.TreeIdleCap = 1e10 },
	} {
		s, _ := Named(Default)
		change(&s)
		require.EqualError(t, s.Validate(), want)
	}
}
