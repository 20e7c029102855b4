package preset

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/fixtures"
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

func TestChoicesAreThoseOfTheSwitches(t *testing.T) {
	for _, name := range Names {
		s, _ := Named(name)
		v := reflect.ValueOf(s)
		words := 0
		for i := range v.NumField() {
			if v.Field(i).Kind() == reflect.String {
				require.Contains(t, Choices[v.Type().Field(i).Tag.Get("json")], v.Field(i).String())
				words++
			}
		}
		require.Len(t, Choices, words)
	}
}
