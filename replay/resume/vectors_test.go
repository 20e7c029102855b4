package resume

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/replay/preset"
)

// oneVector runs one vector of a group under each preset that it names.
func oneVector[In, Want any](t *testing.T, group, name string, check func(t *testing.T, c fixtures.Case, in In, want Want)) {
	t.Helper()
	list, err := fixtures.Cases(group)
	require.NoError(t, err)
	list = slices.DeleteFunc(list, func(c fixtures.Case) bool { return c.Name != name })
	require.NotEmpty(t, list, "no vector %s in %s", name, group)
	for _, c := range list {
		t.Run(group+"/"+name+"/"+c.Preset, func(t *testing.T) {
			var in In
			var want Want
			require.NoError(t, json.Unmarshal(c.In, &in))
			require.NoError(t, json.Unmarshal(c.Want, &want))
			check(t, c, in, want)
		})
	}
}

// switchesOf returns the switches of a vector's preset.
func switchesOf(t *testing.T, c fixtures.Case) preset.Switches {
	s, ok := preset.Named(c.Preset)
	require.True(t, ok)
	return s
}

// spreadOf returns the alignment of a start that is spread.
func spreadOf(s preset.Switches) Alignment {
	if s.AnchorZero {
		return AsDrawn
	}
	return Spread
}

// laneOf names a lane of a vector; a lane that is null is one of the generation without lanes in its seeds.
type laneOf struct {
	Base  string `json:"base_seed"`
	Trace string `json:"trace_id"`
	Lane  *int
}

func (l laneOf) seed() uint64 {
	if l.Lane == nil {
		return hashSeed(l.Base + ":" + l.Trace)
	}
	return LaneSeed(l.Base, l.Trace, *l.Lane)
}
