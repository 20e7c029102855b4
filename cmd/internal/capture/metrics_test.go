package capture

import (
	"bytes"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
)

// Bounds of histograms are short numbers, and a prompt that lacks no block is told from one that lacks one.
func TestBoundsOfHistograms(t *testing.T) {
	m := newMetrics(func() int64 { return 0 })
	m.deficit.Observe(0)
	m.deficit.Observe(1)
	families, err := m.registry.Gather()
	require.NoError(t, err)
	var text bytes.Buffer
	for _, f := range families {
		_, err := expfmt.MetricFamilyToText(&text, f)
		require.NoError(t, err)
	}
	require.NotRegexp(t, `le="[^"]{7,}"`, text.String())
	require.Contains(t, text.String(), "agentx_capture_prefix_deficit_blocks_bucket{le=\"0\"} 1\n")
}
