package conductor_test

import (
	"math"
	"time"

	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/resume"
)

// Package resume imports package conductor, so the tests inside conductor reach it through variables.
func init() {
	conductor.ViewOf = func(name string) conductor.View {
		s, ok := preset.Named(name)
		if !ok {
			panic("no preset " + name)
		}
		anchors := map[bool]string{false: "spread", true: "as drawn"}
		return conductor.View{
			BranchSpawns: s.BranchSpawns, ImmediateJoins: s.ImmediateJoins,
			Anchor: anchors[s.AnchorZero], TreeIdle: s.TreeIdleCap.Duration(),
		}
	}
	conductor.ResumeAt = func(r conductor.Recording, v conductor.View, tStar float64) *conductor.StartState {
		trace := resume.Trace{
			Tree: r.Tree, Starts: r.Starts, BranchStarts: r.BranchStarts,
			Pace:           func(ms float64) time.Duration { return time.Duration(math.Round(ms * 1e6)) },
			ImmediateJoins: v.ImmediateJoins,
		}
		if trace.BranchStarts == nil {
			for range r.Tree.Branches {
				trace.BranchStarts = append(trace.BranchStarts, math.NaN())
			}
		}
		return trace.At(tStar)
	}
	conductor.ResumeFrom = func(t *conductor.Tree, turn int) *conductor.StartState {
		trace := resume.Trace{Tree: t}
		return trace.From(turn)
	}
	alignments := map[string]resume.Alignment{"spread": resume.Spread, "burst": resume.Burst, "as drawn": resume.AsDrawn}
	conductor.AlignLanes = func(alignment string, lanes []*conductor.StartState, limit time.Duration) []time.Duration {
		return alignments[alignment].Align(lanes, false, limit)
	}
}
