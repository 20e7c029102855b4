package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/meet"
)

// What a part says of itself has no secret, and nothing that differs by part.
func TestMemberOfALoad(t *testing.T) {
	o := replay.Options{Cache: cachetest.Demo(t), Part: replay.Part{Number: 2, Of: 4}, APIKey: "secret", Provenance: measure.Run{Version: "1.2", Commit: "abc", Options: []measure.Option{
		{Name: "concurrency", Value: json.RawMessage("8"), From: "flag"}, {Name: "part", Value: json.RawMessage(`"2/4"`)}, {Name: "listen", Value: json.RawMessage(`":9"`)},
		{Name: "Grace", Value: json.RawMessage("30"), From: "default"},
	}}}
	m := memberOf(&o)
	require.Equal(t, []meet.Option{{Name: "concurrency", Value: "8"}, {Name: "Grace", Value: "30"}}, m.Options)
	require.Equal(t, "1.2 (commit abc)", m.Version)
	require.Equal(t, o.Cache.Manifest.Key, m.Dataset)
	require.NotContains(t, fmt.Sprint(m), "secret")
}

// A load that another part has ended has its exit status.
func TestEndedElsewhere(t *testing.T) {
	for how, status := range map[meet.How]int{
		meet.Interrupted: exitInterrupted, meet.Failed: exitFailed, meet.Wedged: exitVerdict, meet.Unequal: exitUsage, meet.Refused: exitFailed,
	} {
		var stderr strings.Builder
		require.Equal(t, status, reportError(t.Context(), &stderr, endedElsewhere(&meet.Stop{Part: 1, Of: 4, Host: "n1", How: how, Reason: "why"})))
		require.Contains(t, stderr.String(), "why")
	}
	other := errors.New("other")
	require.Equal(t, other, endedElsewhere(other))
}
