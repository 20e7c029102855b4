package convert

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/trace"
)

// A change of a probe changes the keys: every cache is built again. Say in the commit what is built differently.
func TestProbesArePinned(t *testing.T) {
	assert.Equal(t, Probes{
		Structure: "a378b6870e66e42cc19f0d5976992fbdba41912b0baec69e8b336515752fb672",
		Placement: "fe41c2965fa12d5774eb45a65610811fc1fa8466414cfd4b82af00f25cc26fca",
		Arenas:    "72cbec3f9c7a1632d78896aedc7688d623174313ed3577ef8ee5f27237518a82",
	}, Probe(rules.Default(), rules.Placement{Backend: rules.XXH3, Seed: 42}))
	assert.Equal(t, Probes{
		Structure: "3814b0ead344aa5116c2252f983ee8251db1aa456e08ff5b6dbe845402812296",
		Placement: "848225cfd4b934900f417ef50c2f21f6662ce30bccad0bf264cf39dcedc571a7",
		Arenas:    "72cbec3f9c7a1632d78896aedc7688d623174313ed3577ef8ee5f27237518a82",
	}, Probe(rules.AIPerf(), rules.Placement{Backend: rules.SHA256MT, Seed: 42, Stream: rules.CodingStream}))
}

// A change of this probe changes the keys of Mooncake rows alone. Say in the commit what is built differently.
func TestProbeOfMooncakeIsPinned(t *testing.T) {
	assert.Equal(t, "85d0d74e9c12a6bc73c42deeda411db4e4af8e6f92c0c8ba3915a6780adb4741", ProbeMooncake(rules.Default()))
	assert.Equal(t, "3f93506a40513c4d89eeb74878bf3bb5c84256795eaeb2d57e50c59a84ad97c4", ProbeMooncake(rules.AIPerf()))
}

// Every field of the rules changes the probe. A field that does not needs more traces in the probe.
func TestProbeNoticesEveryRule(t *testing.T) {
	other := map[string]string{
		"block_size": "8", "length_rule": "upstream", "unknown_keys": "reject", "nested_basis": "absolute", "marker_time": "start",
		"think_time_rule": "", "negative_api_time": "subtract", "refusals": "error", "filler_overrun": "", "predecessor_clock": "emitted",
		"replay_scope": "parsed", "cache_metric": "causal", "split_agents": "false", "aux_max_requests": "0", "aux_isl_ratio": "0.9",
		"aux_isl_floor": "100", "aux_cross_model": "false", "aux_reduction_osl_max": "0", "aux_reduction_ratio": "1000",
		"worker_group_min": "2", "seam_max_gap_seconds": "1", "seam_min_overlap_ratio": "0.9", "tool_shaped": "true",
		"spliced_order": "true", "max_isl": "1000", "start_offset": "1", "end_offset": "5000", "max_osl": "",
	}
	ofMooncake := map[string][]string{"timestamps": {"s", "ms", "us", "ns"}, "namespace": nil, "session_rows": {"whole", "new", "delta", "live"}}
	// These change nothing on disk: readers of the cache apply them, and the manifest records them.
	byReader := map[string]bool{"think_time_rule": true, "filler_overrun": true, "max_osl": true, "replay_scope": true, "predecessor_clock": true}
	_, before := probeStructure(rules.Default(), weka.Scan)
	for _, name := range rules.Names() {
		for _, value := range ofMooncake[name] {
			r := rules.Default()
			require.NoError(t, r.Set(name, value))
			assert.NotEqual(t, ProbeMooncake(rules.Default()), ProbeMooncake(r), "rule %s=%s", name, value)
			assert.Equal(t, rules.Default().WithoutMooncake(), r.WithoutMooncake(), "keys of other inputs have no %s", name)
			_, after := probeStructure(r, weka.Scan)
			assert.Equal(t, before, after, "%s=%s would move the keys of all inputs", name, value)
		}
		if _, ok := ofMooncake[name]; ok || name == "loads.failed" { // see TestNamespacesOfMooncakeFiles and TestFailedRowsAreKept
			continue
		}
		value, ok := other[name]
		require.True(t, ok, "rule %s: say how the probe notices it", name)
		if byReader[name] {
			continue
		}
		r := rules.Default()
		require.NoError(t, r.Set(name, value))
		_, after := probeStructure(r, weka.Scan)
		assert.NotEqual(t, before, after, "rule %s=%s", name, value)
	}
}

// Every trace of the probe is planned, except those that a profile refuses on purpose.
func TestProbeIsPlanned(t *testing.T) {
	lines := bytes.Count(probeTraces, []byte("\n"))
	plans, _ := probeStructure(rules.Default(), weka.Scan)
	assert.Len(t, plans, lines+3) // and three sessions of Mooncake
	plans, _ = probeStructure(rules.AIPerf(), weka.Scan)
	assert.Greater(t, len(plans), lines/2)
}

// Both decoders give the same probe, under the rules of either profile and with any rule changed.
func TestProbeOfColumnsIsThatOfJSON(t *testing.T) {
	for name, r := range map[string]rules.Rules{"default": rules.Default(), "aiperf": rules.AIPerf()} {
		assert.Equal(t, Probe(r, rules.Placement{Backend: rules.XXH3}).Structure, probeColumns(r), name)
		r.BlockSize = 8
		assert.Equal(t, Probe(r, rules.Placement{Backend: rules.XXH3}).Structure, probeColumns(r), name)
	}
	_, want := probeStructure(rules.Default(), weka.Scan)
	_, other := probeStructure(rules.Default(), func(line []byte, r rules.Rules) (*trace.Trace, error) {
		tr, err := weka.Scan(line, r)
		if err == nil {
			tr.Entries[0].Out++
		}
		return tr, err
	})
	assert.NotEqual(t, want, other, "a decoder that reads something else")
}

// Keys of what is built from Parquet contain the probe of its decoder. Keys of JSON do not.
func TestKeysOfParquetHaveTheProbeOfColumns(t *testing.T) {
	p, err := resolvePromptCorpus(options(t).Corpus, builtinTokenizer(t, options(t).Tokenizer))
	require.NoError(t, err)
	image := func(forms ...hfsource.FileFormat) string {
		s := &hfsource.Snapshot{}
		for _, f := range forms {
			s.Files = append(s.Files, hfsource.File{Format: f, SHA256: "x"})
		}
		list, err := wantedParts(rules.Default(), rules.Placement{Backend: rules.XXH3}, Probe(rules.Default(), rules.Placement{Backend: rules.XXH3}), s, nil, p)
		require.NoError(t, err)
		return string(list[mmapcache.StructureKind].PreImage)
	}
	field := `"probe_columns":"` + probeColumns(rules.Default()) + `"`
	assert.NotContains(t, image(hfsource.FileFormat{Lines: true}), "probe_columns")
	assert.Contains(t, image(hfsource.FileFormat{Parquet: true}), field)
	assert.Contains(t, image(hfsource.FileFormat{Lines: true}, hfsource.FileFormat{Parquet: true}), field)
}

// Explain leaves out differences of probes that follow from the format of the input.
func TestExplainPassesOverTheProbeOfColumns(t *testing.T) {
	rows := [][]byte{[]byte(traceText("a"))}
	text, table := write(t, "in.jsonl", rows[0]), write(t, "in.parquet", libraryParquet(t, rows))
	for _, c := range [][2]string{{text, table}, {table, text}} {
		o := options(t, c[0])
		o.convert(t)
		o.Inputs = []string{c[1]}
		e, err := Explain(t.Context(), o)
		require.NoError(t, err)
		require.NotEmpty(t, e.Parts[0].Nearest)
		require.NotEmpty(t, e.Parts[0].Nearest[0].Differences)
		for _, d := range e.Parts[0].Nearest[0].Differences {
			assert.Contains(t, d.Field, "inputs[0]")
		}
	}
}

// The file of the probe has the traces of the lines, besides the keys that no schema has: TestProbeOfColumnsIsThatOfJSON compares what
// follows from the two. Empty the file, and run this test, where the lines have changed.
func TestProbeParquet(t *testing.T) {
	if len(probeParquet) == 0 {
		rows := bytes.Split(bytes.TrimSpace(probeTraces), []byte("\n"))
		require.NoError(t, os.WriteFile("probe.parquet", libraryParquet(t, rows), 0o644))
	}
}
