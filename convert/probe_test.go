package convert

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/weka"
)

// The digests of what this program makes. A change here means that caches made before are made anew: say in the commit
// what is made differently.
func TestProbesArePinned(t *testing.T) {
	assert.Equal(t, Probes{
		Structure: "a378b6870e66e42cc19f0d5976992fbdba41912b0baec69e8b336515752fb672",
		Starts:    "fe41c2965fa12d5774eb45a65610811fc1fa8466414cfd4b82af00f25cc26fca",
		Arenas:    "72cbec3f9c7a1632d78896aedc7688d623174313ed3577ef8ee5f27237518a82",
	}, Probe(weka.Default(), weka.Draws{Backend: weka.XXH3, Seed: 42}))
	assert.Equal(t, Probes{
		Structure: "969235fe54b10caddf082e3d021a188b12c34777f535a977e95a6b9c7089f93c",
		Starts:    "db088e73e7dee55fc9a60fd7633a5750b13e078490c6f2c97a5f54cd2ecae344",
		Arenas:    "72cbec3f9c7a1632d78896aedc7688d623174313ed3577ef8ee5f27237518a82",
	}, Probe(weka.AIPerf(), weka.Draws{Backend: weka.SHA256MT, Seed: 42, Stream: weka.CodingStream}))
}

// Every field of the rules changes what is made of the probe corpus, or it stresses too little.
func TestProbeNoticesEveryRule(t *testing.T) {
	other := map[string]string{
		"block_size": "8", "length_rule": "upstream", "unknown_keys": "reject", "nested_basis": "absolute", "marker_time": "start",
		"think_time_rule": "", "negative_api_time": "subtract", "refusals": "error", "filler_overrun": "", "predecessor_clock": "emitted",
		"replay_scope": "parsed", "cache_metric": "causal", "split_agents": "false", "aux_max_requests": "0", "aux_isl_ratio": "0.9",
		"aux_isl_floor": "100", "aux_cross_model": "false", "aux_reduction_osl_max": "0", "aux_reduction_ratio": "1000",
		"worker_group_min": "2", "seam_max_gap_seconds": "1", "seam_min_overlap_ratio": "0.9", "tool_shaped": "true",
		"max_isl": "1000", "start_offset": "1", "end_offset": "5000", "max_osl": "",
	}
	// What these change is not on disk: the reader applies them, and the manifest records them.
	byReader := map[string]bool{"think_time_rule": true, "filler_overrun": true, "max_osl": true, "replay_scope": true, "predecessor_clock": true}
	_, before := probeStructure(weka.Default())
	for _, name := range weka.Options() {
		value, ok := other[name]
		require.True(t, ok, "rule %s: say how the probe notices it", name)
		if byReader[name] {
			continue
		}
		r := weka.Default()
		require.NoError(t, r.Set(name, value))
		_, after := probeStructure(r)
		assert.NotEqual(t, before, after, "rule %s=%s", name, value)
	}
}

// All but what a profile refuses on purpose is planned.
func TestProbeIsPlanned(t *testing.T) {
	lines := bytes.Count(probeTraces, []byte("\n"))
	plans, _ := probeStructure(weka.Default())
	assert.Len(t, plans, lines+3) // and three sessions of Mooncake
	plans, _ = probeStructure(weka.AIPerf())
	assert.Greater(t, len(plans), lines/2)
}
