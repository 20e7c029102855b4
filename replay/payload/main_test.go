package payload

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/fixtures"
	"github.com/agentx/agentx/internal/cachetest"
)

func TestMain(m *testing.M) {
	status := m.Run()
	cachetest.RemoveRoot()
	os.Exit(status)
}

// eachVector calls f for every case of a group of fixtures/vectors/replay.json under each preset for which it holds. No body
// depends on the preset. It returns the number of cases by preset.
func eachVector[V any](t *testing.T, group string, profile func(V) string, f func(t *testing.T, v V)) map[string]int {
	t.Helper()
	raw, err := fixtures.Replay(group)
	require.NoError(t, err)
	var list []V
	require.NoError(t, json.Unmarshal(raw, &list))
	played := map[string]int{}
	for _, preset := range []string{"default", "aiperf-0.13", "agentx-v1.0.5"} {
		for k, v := range list {
			if profile(v) != "all" && !slices.Contains(strings.Fields(profile(v)), preset) {
				continue
			}
			played[preset]++
			t.Run(fmt.Sprintf("%s/%d", preset, k), func(t *testing.T) { f(t, v) })
		}
	}
	return played
}

// inEachPreset is so many cases under each preset.
func inEachPreset(n int) map[string]int {
	return map[string]int{"default": n, "aiperf-0.13": n, "agentx-v1.0.5": n}
}
