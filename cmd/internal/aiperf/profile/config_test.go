package profile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// configText is a file of the settings of a run, with the keys that the results of the harness have.
const configText = `{"models": {"items": [{"name": "m"}]},
 "endpoint": {"urls": ["http://h:1"], "type": "chat", "streaming": true, "use_server_token_count": true},
 "datasets": [{"name": "main", "type": "file", "path": ".", "format": "weka_trace", "entries": 393, "random_seed": 42, "trace_idle_gap_cap_seconds": 300.0}],
 "phases": [{"name": "profiling", "kind": "profiling", "type": "concurrency", "duration": 30.0, "concurrency": 4, "grace_period": 30.0,
  "timing_mode": "agentic_replay", "failed_request_threshold": 0.1, "trajectory_start_min_ratio": 0.25, "trajectory_start_max_ratio": 0.75,
  "system_idle_gap_cap_seconds": 10.0, "warmup_requests_per_lane": 10, "agentic_warmup_grace_period": 1800.0}],
 "artifacts": {"dir": "out", "slice_duration": 1.0, "auto_plot": false, "plot_required": false},
 "tokenizer": {"name": "builtin"}, "gpu_telemetry": {"enabled": false},
 "server_metrics": {"enabled": true, "urls": [], "formats": ["json", "csv"]}, "network_latency": {"enabled": false},
 "otel": {}, "mlflow": {}, "wandb": {}, "runtime": {"ui": "simple", "stats_interval": 30.0}, "scenario": "agentx", "unsafe_override": true}`

// fromFile translates a command line with a file of settings.
func fromFile(t *testing.T, text, flags string, environ ...string) (*Translation, string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "run.yaml")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return harnessTr(t, "--config "+name+" "+flags, environ...), name
}

const configLine = "agentx replay . --profile aiperf --preset agentx-1.0.12 --url http://h:1 --model m --limit-traces 393 --trace-idle-cap 300s --system-idle-cap 10s" +
	" --seed 42 --tokenizer o200k_base --scenario agentx --unsafe-override --concurrency 4 --duration 30s --grace 30s --max-error-rate 0.1 --start sampled" +
	" --start-min-ratio 0.25 --start-max-ratio 0.75 --warmup requests=10 --warmup-grace 1800s --slice-duration 1s --stats-interval 30s" + playedTail + playedOut

// The settings of a run make that run, below benchmark or not.
func TestSettingsOfTheHarness(t *testing.T) {
	for _, text := range []string{configText, `{"schemaVersion": "2.0", "randomSeed": 42, "benchmark": ` + configText + "}"} {
		tn, _ := fromFile(t, text, "")
		assert.Empty(t, errorsOf(tn))
		assert.Empty(t, tn.Notes)
		assert.Equal(t, configLine, tn.Line())
	}
}

// shortConfig has the forms in which values may be written, and a scenario without its values.
const shortConfig = `
benchmark:
  models: [m]
  scenario: agentx
  endpoint: {url: "${SERVER}", headers: {X-A: b, X-N: 3}, extra: {temperature: 0.5, stop: null, list: [1, a], nested: {top_k: 4}}, apiKey: "${KEY:none}"}
  datasets: [{type: public, dataset: semianalysis_cc_traces_weka_062126}]
  phases: {duration: 30 min, gracePeriod: 1h}
  tokenizer: {name: builtin}
  serverMetrics: {enabled: false}
`

// Beside a file the harness presumes nothing but what its scenario locks, a duration and ratios. Flags take precedence.
func TestFileWithoutPresumedValues(t *testing.T) {
	off := " --warmup primers --warmup-grace off --trace-idle-cap off --max-error-rate 0 --limit-traces 0 --slice-duration 0"
	tn, _ := fromFile(t, shortConfig, "--random-seed 3 --use-server-token-count --output-artifact-dir out", "SERVER=h:1")
	assert.Empty(t, errorsOf(tn))
	assert.Equal(t, []string{"AIPERF_API_KEY", "AIPERF_HEADER_X_A", "AIPERF_HEADER_X_N"}, tn.Variables())
	assert.Equal(t, playedHead+` --header 'Authorization: Bearer '"$AIPERF_API_KEY" --header 'X-A: '"$AIPERF_HEADER_X_A" --header 'X-N: '"$AIPERF_HEADER_X_N"`+
		` --seed 3 --tokenizer o200k_base --scenario agentx --duration 1800s --grace 3600s --scrape off --extra-body '{"temperature":0.5,"stop":null,"list":[1,"a"],"nested":{"top_k":4}}'`+
		playedTail+off+playedOut, tn.Line())
	tn, _ = fromFile(t, shortConfig, "--url i:2 --server-metrics p:3 --benchmark-duration 900 --agentic-cache-warmup-duration 5 --model n --slice-duration 3", "SERVER=h:1")
	assert.Empty(t, errorsOf(tn))
	assert.Contains(t, tn.Line(), " --url http://i:2 --model n ")
	assert.Contains(t, tn.Line(), " --duration 900s --grace 3600s --warmup duration=5s --slice-duration 3s --scrape http://i:2/metrics --scrape http://p:3 ")
	assert.NotContains(t, tn.Line(), "primers")

	plain, _ := fromFile(t, "models: m\nendpoint: {url: h:1, streaming: true}\ndatasets: [{path: .}]", "--random-seed 3")
	assert.Empty(t, errorsOf(plain))
	assert.Contains(t, plain.Line(), " --requests 10 ", "without a scenario AIPerf sends 10")
	assert.Contains(t, plain.Line(), " --tcp-user-timeout 30s ")
	silent, _ := fromFile(t, "models: m\nendpoint: {url: h:1}\ndatasets: [{path: .}]", "")
	assert.Contains(t, errorsOf(silent), "not supported: a run without --streaming: agentx reads answers as streams: add it")
}

// A value may be joined to a short flag, as the harness and AIPerf take it, and is not told: it may be a secret.
func TestJoinedShortFlags(t *testing.T) {
	_, name := fromFile(t, "", "")
	require.NoError(t, os.WriteFile(name, []byte(configText), 0o600))
	assert.Equal(t, configLine, harnessTr(t, "-f"+name).Line())
	assert.Equal(t, configLine, harnessTr(t, "-f="+name).Line())
	tn := harnessTr(t, "-mm -uh:1 -HX-A:hush --tokenizer builtin --public-dataset semianalysis_cc_traces_weka_062126")
	assert.Empty(t, errorsOf(tn))
	assert.Contains(t, tn.Line(), ` --url http://h:1 --model m --header 'X-A: '"$AIPERF_HEADER_X_A"`)
	assert.Equal(t, []string{"profile", "-mm", "-uh:1", "-HX-A:<redacted>"}, tn.Launch()[:4])
}

// Where there is no scenario there is nothing to override.
func TestOverrideWithoutAScenario(t *testing.T) {
	text := "{models: m, unsafe_override: true, endpoint: {url: h:1, streaming: true}, datasets: [{path: .}]}"
	for _, flags := range []string{"", "--unsafe-override"} {
		tn, _ := fromFile(t, text, flags)
		assert.Empty(t, errorsOf(tn))
		assert.NotContains(t, tn.Line(), "--unsafe-override")
		assert.Contains(t, tn.Notes, "--unsafe-override: there is no scenario, and nothing to override")
	}
}

// A file says true and false as YAML and the harness have them.
func TestSwitchesOfAFile(t *testing.T) {
	text := "benchmark: {models: m, scenario: agentx, unsafe_override: VALUE, endpoint: {url: h:1}, datasets: [{path: .}], phases: {duration: 900}, server_metrics: {enabled: VALUE}, " +
		"gpu_telemetry: {enabled: off}}"
	for _, no := range []string{"no", "Off", "0", "false", `"False"`, "n"} {
		tn, _ := fromFile(t, strings.ReplaceAll(text, "VALUE", no), "")
		require.NotEmpty(t, errorsOf(tn), no)
		assert.Contains(t, errorsOf(tn)[0], "--scenario agentx: unknown_corpus: ", no)
	}
	for _, yes := range []string{"yes", "On", "1", "true", `"True"`, "y"} {
		tn, _ := fromFile(t, strings.ReplaceAll(text, "VALUE", yes), "")
		assert.Empty(t, errorsOf(tn), yes)
		assert.NotContains(t, tn.Line(), "--scrape off", yes)
	}
	assert.Contains(t, lineOf(fromFile(t, strings.Replace(strings.ReplaceAll(text, "VALUE", "yes"), "enabled: yes", "enabled: no", 1), "")), "--scrape off")
	tn, name := fromFile(t, "endpoint: {streaming: maybe}", "")
	assert.Contains(t, errorsOf(tn), name+":1: endpoint.streaming: want true or false")
}

// lineOf returns the line of a translation of a file.
func lineOf(tn *Translation, _ string) string { return tn.Line() }

// What a file says wrong is told with its line and its key, all of it.
func TestWrongFiles(t *testing.T) {
	for text, want := range map[string]string{
		"models: m\nwheels: 4":                         ":2: wheels: agentx does not know this key: leave it out, or give its flag",
		"endpoint:\n  doors: 2":                        ":2: endpoint.doors: agentx does not know this key: leave it out, or give its flag",
		"wandb: {project: x}":                          ":1: wandb: agentx does not know this key: leave it out, or give its flag",
		"benchmark: {benchmark: {models: m}}":          ":1: benchmark: agentx does not know this key: leave it out, or give its flag",
		"phases: [{name: a}, {name: b}]":               ":1: phases: want one: agentx plays one load of one model and one recording",
		"phases: [{name: warmup, kind: warmup}]":       ":1: phases.kind: warmup: want profiling",
		"phases: {type: poisson, rate: 5}":             ":1: phases.type: poisson: want concurrency",
		"gpu_telemetry: {enabled: true}":               ":1: gpu_telemetry.enabled: true: want false",
		"models: m\nmodels: n":                         ":2: models: given twice",
		"random_seed: 1\ndatasets: [{random_seed: 2}]": ":2: datasets.random_seed: 2 here and 1 elsewhere contradict each other: leave one of them out",
		"endpoint: {url: '${NOWHERE}'}":                ":1: endpoint.url: the variable NOWHERE is not set",
		"endpoint: {url: '{{ x }}'}":                   ":1: endpoint.url: agentx does not fill in templates: write the value",
		"endpoint: {extra: {a: {b: '${NOWHERE}'}}}":    ":1: endpoint.extra: the variable NOWHERE is not set",
		"endpoint: {urls: [{a: b}]}":                   ":1: endpoint.urls: want a value, or a list of values",
		"endpoint: &e {type: *e}":                      ":1: endpoint.type: want a value, or a list of values",
		"endpoint: {extra: &x {a: *x}}":                ":1: endpoint.extra: want a value, or a list of values",
	} {
		tn, name := fromFile(t, text, "")
		assert.Contains(t, errorsOf(tn), name+want, text)
	}
	for text, want := range map[string]string{"": ": want a mapping: keys with values", "[1]": ": want a mapping: keys with values", "a: [": "did not find"} {
		tn, name := fromFile(t, text, "")
		require.Len(t, errorsOf(tn), 1)
		assert.Contains(t, errorsOf(tn)[0], "--config "+name)
		assert.Contains(t, errorsOf(tn)[0], want)
	}
	assert.Equal(t, []string{"-f: stat nowhere.yaml: no such file or directory"}, errorsOf(harnessTr(t, "-f nowhere.yaml")))
}

// Every key of the table that stands for a flag names one that the harness has.
func TestKeysNameFlags(t *testing.T) {
	has := map[string]bool{}
	for _, name := range HarnessFlags() {
		has[name] = true
	}
	for key, name := range configFlags {
		if name != "" && name[0] != '=' {
			assert.True(t, has[trimNot(name)], key)
		}
	}
}

// trimNot returns the flag of a key that is its opposite.
func trimNot(name string) string {
	if name[0] == '!' {
		return name[1:]
	}
	return name
}

// Whatever a file has in it, it is read or refused.
func FuzzConfig(f *testing.F) {
	for _, text := range []string{configText, shortConfig, "a: &a {b: *a}", "benchmark: &b {endpoint: {extra: {x: *b}}}", "phases: [[{}]]", "models: {items: [a, b]}"} {
		f.Add(text)
	}
	name := filepath.Join(f.TempDir(), "run.yaml")
	f.Fuzz(func(t *testing.T, text string) {
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		Translate(Source{
			Args: []string{"--config", name}, Random: strings.NewReader("12345678"), Harness: true, Check: func(string, []Setting) []Problem { return nil },
		}).Line()
	})
}
