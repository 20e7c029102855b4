package preset

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The table of the specification and the one of the code are the same.
//
// Covers S-01.
func TestSwitchesAreThoseOfTheSpecification(t *testing.T) {
	text, err := os.ReadFile("../../../../doc/spec/simulate.md")
	require.NoError(t, err)
	word := func(cell string) string { return regexp.MustCompile(`^[a-z0-9_]+`).FindString(cell) }
	var names []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| ([^|]+) \\| ([^|]+) \\| ([^|]+) \\|").FindAllStringSubmatch(string(text), -1) {
		m[1] = strings.ReplaceAll(m[1], "-", "_") // as in summaries
		if len(Choices(m[1])) == 0 {
			continue // of another table
		}
		names = append(names, m[1])
		for k, preset := range []string{Default, August, April} {
			s, ok := Named(preset)
			require.True(t, ok)
			require.Equal(t, word(m[2+k]), s.Get(m[1]), "%s under %s", m[1], preset)
		}
		require.Equal(t, word(m[2]), Choices(m[1])[0], m[1])
	}
	require.Equal(t, List(), names)
}

// Covers S-01.
func TestEverySwitchCanBeSet(t *testing.T) {
	s, _ := Named(Default)
	for _, name := range List() {
		for _, value := range Choices(name) {
			one := s
			require.NoError(t, one.Set(name, value))
			require.NoError(t, one.Validate())
			require.Equal(t, value, one.Get(name))
			for _, other := range List() {
				require.Equal(t, other != name || value == s.Get(name), one.Get(other) == s.Get(other))
			}
			data, err := json.Marshal(one)
			require.NoError(t, err)
			require.Contains(t, string(data), fmt.Sprintf("%q:%q", name, value))
		}
	}
	require.Error(t, s.Set("zzz", "gate"))
	require.EqualError(t, s.Set("id_width", "16"), `switch id_width "16": want 64 or 32`)
	require.Empty(t, s.Get("zzz"))
	s.Balance = ""
	require.EqualError(t, s.Validate(), `switch balance "": want steady or pr8280`)
}

func TestPresets(t *testing.T) {
	for _, name := range Names {
		s, ok := Named(name)
		require.True(t, ok)
		require.NoError(t, s.Validate())
		for _, switched := range List() {
			_, tag := s.of(switched)
			require.Len(t, strings.Fields(tag.Get("under")), len(Names), switched)
		}
	}
	_, ok := Named("dynamo")
	require.False(t, ok)
	s, _ := Named(Dynamo16)
	require.Equal(t, FirstAtPrefill, s.FirstToken)
	august, _ := Named(August)
	require.Equal(t, LoadFull, s.RouterLoad)
	s.FirstToken, s.RouterLoad, s.TickTime, s.Bootstrap, s.IdleEngine, s.Planning, s.LaneIdle = august.FirstToken, august.RouterLoad, august.TickTime, august.Bootstrap, august.IdleEngine, august.Planning, august.LaneIdle
	require.Equal(t, august, s)
	require.True(t, strings.HasPrefix(Names[0], "default"))
}
