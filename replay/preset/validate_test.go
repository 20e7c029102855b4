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
		`switches: SpawnOffset "": want "recorded" or "branch"`:                          func(s *Switches) { s.SpawnOffset = "" },
		`switches: ThroughputWindow "whole": want "benchmark" or "phase" or "delivered"`: func(s *Switches) { s.ThroughputWindow = "whole" },
		`switches: FlowCurve "even": want "chunks"`:                                      func(s *Switches) { s.FlowCurve = "even" },
		`switches: WarmupStage "requests": want "requests-or-duration" or "duration"`:    func(s *Switches) { s.WarmupStage = "requests" },
		`switches: TreeIdleCap -1 s: want more than 0, or nil for off`:                   func(s *Switches) { *s.TreeIdleCap = -1 },
		`switches: TreeIdleCap NaN s: want more than 0, or nil for off`:                  func(s *Switches) { *s.TreeIdleCap = Seconds(math.NaN()) },
		`switches: TreeIdleCap 1e+10 s: want more than 0, or nil for off`:                func(s *Switches) { *s.TreeIdleCap = 1e10 },
	} {
		s, _ := Named(Default)
		change(&s)
		require.EqualError(t, s.Validate(), want)
	}
}
