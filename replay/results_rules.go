package replay

import (
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
)

// rulesOf returns the rules by which switches make numbers of records.
func rulesOf(s *preset.Switches) measure.Rules {
	return measure.Rules{
		GraceIncluded: s.CountGrace,
		PhaseWindow:   s.ThroughputWindow == preset.WindowPhase,
		AllButOne:     s.ITLDivisor == preset.DivisorOSL,
	}
}

// rulesOfRun returns the rules of a run that has written its results. One without a preset is older than presets.
func rulesOfRun(r measure.Run) (measure.Rules, error) {
	s, err := preset.Recorded(r.Preset, r.Switches)
	return rulesOf(&s), err
}
