package replay

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// under returns the switches of a preset, without a cap on idle time of trees.
func under(t *testing.T, name string) *preset.Switches {
	t.Helper()
	s, ok := preset.Named(name)
	require.True(t, ok)
	s.TreeIdleCap = nil
	return &s
}

// The preset decides about the affinity header and about streams that stop before their end.
//
// Covers T-40.
func TestSwitchesOfTheWire(t *testing.T) {
	var mu sync.Mutex
	affinity := 0
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		if _, ok := r.Header["X-Session-Affinity"]; ok {
			affinity++
		}
		mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"text\":\"a\"}]}\n\n")
	}))
	for name, want := range map[string]struct{ completed, affinity int }{"default": {0, 5}, "aiperf-0.13": {5, 5}, "agentx-v1.0.5": {5, 0}} {
		affinity = 0
		o := optionsFor(t, cachetest.Demo(t), url)
		o.Requests, o.Switches = 5, under(t, name)
		s := play(t, t.Context(), o).Summary
		require.Equal(t, want.completed, s.Completed, name)
		require.Equal(t, 5-want.completed, s.Errors[wire.StreamTruncated], name)
		require.Equal(t, want.affinity, affinity, name)
	}
}

// With CountGrace a request that ends in the grace is in the headline, and one that is cancelled then is not.
//
// Covers T-39.
func TestCountGrace(t *testing.T) {
	for name, want := range map[string]map[measure.Bucket]int{
		"default":       {measure.Profiling: 1, measure.Cooldown: 1, measure.CancelledAtEnd: 1},
		"aiperf-0.13":   {measure.Profiling: 2, measure.CancelledAtEnd: 1},
		"agentx-v1.0.5": {measure.Profiling: 2, measure.CancelledAtEnd: 1},
	} {
		s := &simulation{script: func(d conductor.Dispatch) (time.Duration, time.Duration, wire.Category) {
			return []time.Duration{time.Second, 15 * time.Second, time.Hour}[d.Lane], 0, ""
		}}
		o := Options{Concurrency: 3, Duration: 10 * time.Second, Grace: 10 * time.Second, Trees: 3, Switches: under(t, name)}
		require.NoError(t, s.loop(o, turnsOf{0}).run())
		require.Equal(t, want, s.buckets(), name)
	}
}
