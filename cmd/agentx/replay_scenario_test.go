package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/scenario"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mock"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
)

const fewTraces = `{"id":"a","models":["m"],"block_size":64,"hash_id_scope":"local","requests":[{"t":0,"type":"n","model":"m","in":150,"out":2,"hash_ids":[1,2],"api_time":1},{"t":2,"type":"n","model":"m","in":300,"out":2,"hash_ids":[1,2,3,4],"api_time":1}]}
`

// shortRun is a scenario whose runs need not last a quarter of an hour, and a table with a corpus of fewTraces. Its runs are too
// short for the gaps of these, hence noGate.
func shortRun(corpus string) scenarios {
	s := scenario.InferenceXAgentX()
	s.MinDuration, s.Duration = 50*time.Millisecond, 100*time.Millisecond
	return scenarios{
		list:    []scenario.Scenario{s},
		corpora: []scenario.Corpus{{Repository: "owner/few", SHA256: []string{manifest.Sum([]byte(corpus))}}},
		random:  bytes.NewReader(bytes.Repeat([]byte{0xff}, 64)),
	}
}

const noGate = "--set=coverage-gate=false"

// replayUnder runs agentx replay with the given scenarios against a mock.
func replayUnder(t *testing.T, known scenarios, args ...string) (status int, stdout, stderr string) {
	server := httptest.NewServer(mock.New(mock.Config{}))
	defer server.Close()
	root := newRoot()
	verb, _, err := root.Find([]string{"replay"})
	require.NoError(t, err)
	root.RemoveCommand(verb)
	root.AddCommand(newReplay(replayOf(known)))
	var out, errs strings.Builder
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(append([]string{"replay", "--url", server.URL, "--model", "m"}, args...))
	err = root.ExecuteContext(context.Background())
	status = reportError(context.Background(), &errs, err)
	return status, out.String(), errs.String()
}

// A run under a scenario without conflicts is valid, and its results say of which corpus.
func TestValidUnderAScenario(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "few.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(fewTraces), 0o600))
	for name, c := range map[string]struct {
		corpus     string
		args       []string
		status     int
		valid      *bool
		reasons    []string
		overridden int
		seed       string // and its origin; "": drawn
	}{
		"valid":                {corpus: fewTraces, valid: new(true)},
		"valid, with the word": {corpus: fewTraces, args: []string{"--unsafe-override"}, valid: new(true)},
		"another corpus":       {corpus: "other", status: exitUsage},
		"too short":            {corpus: fewTraces, args: []string{"--duration", "49ms"}, status: exitUsage},
		"with a seed":          {corpus: fewTraces, args: []string{"--seed", "7"}, seed: "7 flag", valid: new(true)},
		"long enough":          {corpus: fewTraces, args: []string{"--duration", "50ms"}, valid: new(true)},
		"overridden": {
			corpus: "other", args: []string{"--unsafe-override", "--duration", "49ms"}, status: exitVerdict,
			valid: new(false), reasons: []string{"unsafe_override"}, overridden: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := replayUnder(t, shortRun(c.corpus), append([]string{
				file, noGate, "--scenario", "inferencex-agentx-mvp", "--cache", filepath.Join(dir, "cache"), "--out", filepath.Join(t.TempDir(), "out"), "--json",
			}, c.args...)...)
			require.Equal(t, c.status, status, stderr)
			if c.valid == nil {
				require.Empty(t, stdout)
				return
			}
			var s measure.Summary
			require.NoError(t, json.Unmarshal([]byte(stdout), &s))
			require.Equal(t, c.valid, s.Valid)
			require.Equal(t, c.reasons, s.Reasons)
			require.Equal(t, "inferencex-agentx-mvp", s.Run.Scenario.Name)
			require.Len(t, s.Run.Scenario.Overridden, c.overridden)
			require.Equal(t, map[bool]string{true: "owner/few"}[c.corpus == fewTraces], s.Run.Scenario.Corpus)
			k := slices.IndexFunc(s.Run.Options, func(o measure.Option) bool { return o.Name == "seed" })
			require.Equal(t, cmp.Or(c.seed, "9223372036854775807 scenario"), string(s.Run.Options[k].Value)+" "+s.Run.Options[k].From)
			drawn := strings.Contains(stderr, "agentx: --seed 9223372036854775807, drawn for this run by scenario inferencex-agentx-mvp\n")
			require.Equal(t, c.seed == "", drawn, stderr)
		})
	}
}

// A conflict with a value of a file or of the environment says where that stands.
func TestConflictsHaveTheirPlace(t *testing.T) {
	configFile(t, "scenario: inferencex-agentx-mvp\nspeed: 2\nrequests: 7\n")
	t.Setenv("AGENTX_DURATION", "1s")
	const prefix = "agentx: --scenario inferencex-agentx-mvp: "
	require.Equal(t, []string{
		prefix + "speed: --speed is 2 (run.yaml:2): want 1: leave out --speed",
		prefix + "gap_cap: --max-gap is 9s: want off: leave out --max-gap; --tree-idle-cap may be set",
		prefix + "duration: --duration is 1s (AGENTX_DURATION): want at least 900s: leave out --duration, for 1800s",
		prefix + "early_bound: --requests may end the run before its duration (run.yaml:3): want no bound beside --duration: leave it out",
		"try: --unsafe-override starts such a run; its result is not valid",
	}, configErrors(t, "--config", "run.yaml", "--max-gap", "9"))
}

// Every run of a list of concurrencies is judged by itself, under the seed of the list.
func TestListUnderAScenario(t *testing.T) {
	dir := t.TempDir()
	file, out := filepath.Join(dir, "few.jsonl"), filepath.Join(dir, "out")
	require.NoError(t, os.WriteFile(file, []byte(fewTraces), 0o600))
	status, _, stderr := replayUnder(t, shortRun(fewTraces),
		file, noGate, "--scenario", "inferencex-agentx-mvp", "--concurrency", "1,2", "--cache", filepath.Join(dir, "cache"), "--out", out)
	require.Zero(t, status, stderr)
	require.Equal(t, 1, strings.Count(stderr, "drawn for this run"), stderr)
	for _, name := range []string{"c0001", "c0002"} {
		text, err := os.ReadFile(filepath.Join(out, name, "summary.json"))
		require.NoError(t, err)
		var s measure.Summary
		require.NoError(t, json.Unmarshal(text, &s))
		require.Equal(t, new(true), s.Valid)
		require.Equal(t, &measure.Scenario{Name: "inferencex-agentx-mvp", Corpus: "owner/few", PinnedBy: "content", MinDuration: 0.05}, s.Run.Scenario)
	}
}

// The command line of the documentation, and the file for --config that it names, are what InferenceX has, and the scenario
// allows them.
func TestConfigurationOfInferenceX(t *testing.T) {
	text, err := os.ReadFile("../../doc/harness.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(text), "\n## InferenceX\n")
	_, command, _ := strings.Cut(section, "\n    agentx replay agentx-062126 ")
	command, _, _ = strings.Cut(command, "\n\n")
	words := strings.Fields(strings.ReplaceAll(command, "\\\n", " "))
	for name, args := range map[string][]string{"file": {"--config", "../../contrib/inferencex.yaml"}, "command line": words} {
		t.Run(name, func(t *testing.T) {
			status, stdout, stderr := replayUnder(t, knownScenarios(), append(args, "--print-config", "--json")...)
			require.Zero(t, status, stderr)
			var values map[string]struct{ Value any }
			require.NoError(t, json.Unmarshal([]byte(stdout), &values))
			for name, want := range map[string]any{
				"scenario": "inferencex-agentx-mvp", "preset": "agentx-1.0.12", "profile": "aiperf", "duration": 3600., "seed": 42., "limit-traces": 393.,
				"start": "sampled", "start-min-ratio": .25, "start-max-ratio": .75, "warmup": "requests=10", "warmup-grace": 1800.,
				"tree-idle-cap": 300., "system-idle-cap": 10., "max-error-rate": .1, "marker": "first_turn_prefix",
			} {
				require.Equal(t, want, values[name].Value, name)
			}
		})
	}
}

func TestWhatContradictsAScenarioInBodies(t *testing.T) {
	for name, c := range map[string]struct {
		fields                payload.Fields
		unstreamed, endsEarly []string
	}{
		"nothing":           {},
		"as it is anyway":   {fields: payload.Fields{Extra: []byte(`{"stream": true, "ignore_eos": true, "top_k": 3}`), Length: "max_tokens", OmitStreamOptions: true}},
		"no stream":         {fields: payload.Fields{Extra: []byte(`{"stream": null}`)}, unstreamed: []string{"--extra-body has stream null"}},
		"a body may end":    {fields: payload.Fields{Extra: []byte(`{"ignore_eos": false}`)}, endsEarly: []string{"--extra-body has ignore_eos false"}},
		"flags for the end": {fields: payload.Fields{OmitIgnoreEOS: true, Length: "none"}, endsEarly: []string{"--no-ignore-eos", "--max-tokens-field none"}},
		"no body":           {fields: payload.Fields{Extra: []byte(`[`)}},
	} {
		unstreamed, endsEarly := contradictions(c.fields)
		require.Equal(t, c.unstreamed, unstreamed, name)
		require.Equal(t, c.endsEarly, endsEarly, name)
	}
}

func TestTruncationOfADataset(t *testing.T) {
	require.Equal(t, []string{"end_offset=7", "max_isl=16000000", "start_offset=1"},
		truncation(json.RawMessage(`{"start_offset":1,"max_osl":5,"max_isl":16000000,"end_offset":7}`)))
	require.Empty(t, truncation(nil))
}
