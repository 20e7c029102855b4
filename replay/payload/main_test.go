package payload

import (
	"encoding/json"
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

// vectors decodes a group of fixtures/vectors/replay.json and keeps the cases that hold under the preset default.
func vectors[V any](t *testing.T, group string, profile func(V) string) (list []V) {
	t.Helper()
	raw, err := fixtures.Replay(group)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &list))
	return slices.DeleteFunc(list, func(v V) bool {
		return profile(v) != "all" && !slices.Contains(strings.Fields(profile(v)), "default")
	})
}
