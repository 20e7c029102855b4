package resume

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/fixtures"
)

// eachVector runs the vectors of a group that hold under the preset default as subtests, and wants so many of them.
func eachVector[In, Want any](t *testing.T, group string, n int, check func(t *testing.T, in In, want Want)) {
	t.Helper()
	ran := 0
	for _, v := range vectors(t, group) {
		if profiles := strings.Fields(v.Profile); slices.Contains(profiles, "all") || slices.Contains(profiles, "default") {
			ran++
			t.Run(group+"/"+v.Name, func(t *testing.T) { runVector(t, v, check) })
		}
	}
	require.Equal(t, n, ran, "vectors of %s that hold under default", group)
}

// oneVector runs one vector of a group.
func oneVector[In, Want any](t *testing.T, group, name string, check func(t *testing.T, in In, want Want)) {
	t.Helper()
	list := vectors(t, group)
	at := slices.IndexFunc(list, func(v vector) bool { return v.Name == name })
	require.GreaterOrEqual(t, at, 0, "no vector %s in %s", name, group)
	runVector(t, list[at], check)
}

type vector struct {
	Name, Profile string
	In, Want      json.RawMessage
}

func vectors(t *testing.T, group string) (list []vector) {
	t.Helper()
	data, err := fixtures.Replay(group)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &list))
	return list
}

func runVector[In, Want any](t *testing.T, v vector, check func(t *testing.T, in In, want Want)) {
	var in In
	var want Want
	require.NoError(t, json.Unmarshal(v.In, &in))
	require.NoError(t, json.Unmarshal(v.Want, &want))
	check(t, in, want)
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
