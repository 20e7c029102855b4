package main

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/fixtures"
	"github.com/agentx/agentx/replay/preset"
)

// shownConfig returns what --print-config --json shows with some arguments, without the flags.
func shownConfig(t *testing.T, args ...string) map[string]struct {
	Value json.RawMessage
	From  string
} {
	var shown map[string]struct {
		Value json.RawMessage
		From  string
	}
	out := agentx(t, append([]string{"replay", "--print-config", "--json"}, args...)...)
	require.NoError(t, json.Unmarshal([]byte(out), &shown))
	return shown
}

// The command has the switches of each preset as the vectors have them, also those that a run gets.
//
// Covers T-44.
func TestPresetsAreThoseOfTheVectors(t *testing.T) {
	type in struct{ Preset string }
	type want struct{ Switches map[string]json.RawMessage }
	seen := 0
	fixtures.EachCase(t, "preset", fixtures.Counts{1, 1, 1}, func(t *testing.T, _ fixtures.Case, in in, want want) {
		seen++
		require.Len(t, want.Switches, 26)
		shown := shownConfig(t, "--preset", in.Preset)
		for name, value := range want.Switches {
			one := shown[preset.Renamed(name)]
			require.JSONEq(t, string(value), string(one.Value), name)
			require.Equal(t, "preset "+in.Preset, one.From, name)
		}
		s, _ := preset.Named(in.Preset)
		require.Equal(t, s, *optionsWith(t, "preset="+in.Preset).Switches)
	})
	require.Len(t, preset.Names, seen)
}
