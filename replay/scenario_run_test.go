package replay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/hfsource/hub"
	"github.com/agentx/agentx/hfsource/hub/fakehub"
	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/resume"
	"github.com/agentx/agentx/replay/scenario"
	"github.com/agentx/agentx/replay/wire"
)

const pinnedRepository = "semianalysisai/cc-traces-weka-062126"

// fetched converts the traces of a repository of a fake hub, and says where they came from.
func fetched(t *testing.T, repository string, traces ...string) (*mmapcache.Cache, measure.Dataset) {
	t.Helper()
	env := map[string]string{"HF_HOME": t.TempDir()}
	h := fakehub.New()
	defer h.Close()
	o := hub.Options{Version: "test", Transport: h.ListenInMemory(), Env: func(name string) (string, bool) { v, ok := env[name]; return v, ok }}
	env["HF_ENDPOINT"] = h.HubURL
	h.Commit(repository, "main", map[string]fakehub.File{"train.jsonl": {Data: []byte(strings.Join(traces, "")), LFS: true}})
	root := t.TempDir()
	r, err := convert.Convert(t.Context(), convert.Options{
		Root: root, Inputs: []string{"hf://datasets/" + repository}, Rules: rules.AIPerf(), Placement: rules.Placement{Backend: rules.XXH3, Seed: 42},
		Tokenizer: "o200k_base", Corpus: "code", Source: hfsource.Options{Hub: o},
	})
	require.NoError(t, err)
	info, err := cachestore.Describe(root, r.Key)
	require.NoError(t, err)
	var d measure.Dataset
	for _, part := range info.Directories {
		if part.Manifest.Kind == mmapcache.StructureKind {
			for _, s := range part.Provenance.Sources {
				d.Inputs = append(d.Inputs, measure.Input{Name: s.Path, SHA256: s.SHA256})
			}
		}
	}
	return cachetest.Open(t, root, r.Key), d
}

// underAgentX are the options of the scenario agentx, for its shortest run. What it conflicts with is overridden.
func underAgentX(t *testing.T, c *mmapcache.Cache, d measure.Dataset) Options {
	t.Helper()
	o := warming(t, c, preset.AgentX, Warmup{Primers: true, Requests: 10, Grace: 1800 * time.Second})
	o.AllowWrap, o.Concurrency, o.Traces, o.Duration, o.Grace = false, 4, 393, 900*time.Second, 30*time.Second
	o.Start.Ratios = &resume.Ratios{Min: 0.25, Max: 0.75}
	o.Limits, o.FailedRequestThreshold = Limits{LaneStart: Off, TraceIdle: 300 * time.Second, SystemIdle: 10 * time.Second}, 0.1
	s := scenario.AgentX()
	about := scenario.Dataset{SHA256: []string{d.Inputs[0].SHA256}}
	about.Repository, _, _ = d.Hub()
	conflicts := append(s.CheckDataset(about, scenario.Corpora()), s.Check(scenario.Settings{
		Speed: 1, TraceIdleCap: o.Limits.TraceIdle, TraceCap: map[bool]string{false: "run", true: "load"}[o.Switches.TraceCapAtLoad], SystemIdleCap: o.Limits.SystemIdle, Marker: o.Marker.String(),
		Duration: o.Duration, CoverageGate: o.Switches.CoverageGate,
	})...)
	corpus, pin := s.Identify(about, scenario.Corpora())
	o.Scenario = &measure.Scenario{Name: s.Name, Corpus: corpus.Repository, PinnedBy: string(pin), MinDuration: s.MinDuration.Seconds()}
	for _, c := range conflicts {
		o.Scenario.Overridden = append(o.Scenario.Overridden, c.Error())
	}
	o.Provenance.Dataset = d
	return o
}

// Played for 900 s under the scenario of the harness, a dataset of one of its names is valid; and not from another repository, nor if
// the server fails long before the end.
//
// Covers T-71.
func TestAValidRunUnderAgentX(t *testing.T) {
	var traces []string
	for k := range 6 {
		var calls []call
		for n := range 40 {
			calls = append(calls, call{at: float64(20*n + k), took: 1})
		}
		traces = append(traces, recording(fmt.Sprint("trace-", k), calls...))
	}
	// failing answers with errors alone from an instant on
	failing := func(from time.Duration) func(sentTurn) answerTo {
		return func(s sentTurn) answerTo {
			if s.name == measure.ProfilingPhase && s.at > from {
				return answerTo{takes: time.Second, category: wire.HTTPStatus}
			}
			return second(s)
		}
	}
	for name, c := range map[string]struct {
		repository string
		script     func(sentTurn) answerTo
		pin        string
		reasons    []string
	}{
		"a name of the harness": {pinnedRepository, second, "name", nil},
		"another name":          {"semianalysisai/cc-traces-weka-062127", second, "", []string{"unsafe_override"}},
		"errors from 800 s on":  {pinnedRepository, failing(800 * time.Second), "name", []string{"insufficient_profile_metric_coverage"}},
	} {
		t.Run(name, func(t *testing.T) {
			cache, dataset := fetched(t, c.repository, traces...)
			o := underAgentX(t, cache, dataset)
			o.FailedRequestThreshold = 0 // else the errors end the run
			v, err := virtually(t, o, c.script)
			require.NoError(t, err)
			require.Equal(t, c.reasons, v.summary.Reasons)
			for _, conflict := range o.Scenario.Overridden {
				require.Contains(t, conflict, "unknown_corpus: the dataset is made of one file, sha256 ")
			}
			require.Equal(t, new(len(c.reasons) == 0), v.summary.Valid)
			require.Equal(t, c.pin, v.summary.Run.Scenario.PinnedBy)
			require.EqualValues(t, 900, v.summary.Coverage.Expected)
			require.Equal(t, v.summary.Coverage.Required, v.results.info.Facts.Coverage.Required, "run.json has it for reports")
			require.GreaterOrEqual(t, v.summary.PhaseDuration, 900.)
			repository, commit, _ := v.summary.Run.Dataset.Hub()
			require.Equal(t, c.repository, repository)
			require.Len(t, commit, 40)
			require.Len(t, v.summary.Run.Dataset.Inputs[0].SHA256, 64)
			require.EqualValues(t, 40, v.summary.Warmup.StageRequests, "10 on each lane")
		})
	}
}

// The shortest TraceIdleCap, which stands for 0, leaves a tree no idle time: every turn is sent when the one before is answered.
//
// Covers T-72.
func TestNoIdleTime(t *testing.T) {
	c := recorded(t, recording("gaps", call{at: 0, took: 1}, call{at: 100, took: 1}, call{at: 5000, took: 1}, call{at: 5001, took: 1}))
	o := warming(t, c, preset.AgentX, Warmup{})
	o.Start, o.Once, o.Limits = Start{}, true, Limits{LaneStart: Off, TraceIdle: time.Nanosecond}
	v, err := virtually(t, o, second)
	require.NoError(t, err)
	require.Len(t, v.sent, 4)
	for k, s := range v.sent {
		require.InDelta(t, float64(k), s.at.Seconds(), 1e-6)
	}
}
