package preset

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
)

// Each preset has the values of the specification.
//
//
func TestPresetVectors(t *testing.T) {
	type in struct{ Preset string }
	type want struct{ Switches Deviations } // by the names of before
	seen := 0
	fixtures.EachCase(t, "preset", fixtures.Counts{1, 1, 1}, func(t *testing.T, _ fixtures.Case, in in, want want) {
		s, ok := Named(in.Preset)
		require.True(t, ok)
		got, err := json.Marshal(s)
		require.NoError(t, err)
		values, err := json.Marshal(want.Switches)
		require.NoError(t, err)
		require.JSONEq(t, string(values), string(got))
		seen++
	})
	require.Len(t, Names, seen)
	require.Equal(t, 26, reflect.TypeFor[Switches]().NumField())
	_, ok := Named("aiperf")
	require.False(t, ok)
}

func TestNamedReturnsACopy(t *testing.T) {
	s, _ := Named(Default)
	*s.TreeIdleCap = 1
	again, _ := Named(Default)
	require.Equal(t, 300*time.Second, again.TreeIdleCap.Duration())
	require.Zero(t, (*Seconds)(nil).Duration())
}

// Every value under a preset is one of its words.
func TestValuesAreWords(t *testing.T) {
	var s Switches
	for _, x := range s.List() {
		require.Len(t, x.under, len(Names), x.Name)
		for _, value := range x.under {
			switch x.To.(type) {
			case *bool:
				words := x.Words
				if len(words) == 0 {
					words = []string{"true", "false"}
				}
				require.Len(t, words, 2)
				require.Contains(t, words, value, x.Name)
			case *Choice:
				require.Contains(t, x.Words, value, x.Name)
			case **Seconds:
				require.Contains(t, []string{"off", "300"}, value)
			}
		}
	}
}
