package aiperf

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/replay/wire"
)

// set returns options that a person set, from pairs of names and JSON values.
func set(pairs ...string) (list []measure.Option) {
	for k := 0; k < len(pairs); k += 2 {
		list = append(list, measure.Option{Name: pairs[k], Value: []byte(pairs[k+1]), From: "flag"})
	}
	return list
}

// inputOf returns input_config of a run, and run_info.
func inputOf(t *testing.T, change func(*measure.RunInfo)) (input, info string) {
	t.Helper()
	w := &writer{Options: Options{Out: "art", Slice: time.Second}, run: harnessRun(t, change, handMade()[1])}
	config, err := compact(w.harnessInput())
	require.NoError(t, err)
	started, err := compact(launchInfo(w.run, harnessID(w.run.Info.BenchmarkID)))
	require.NoError(t, err)
	return string(config), string(started)
}

// The settings of a run have the names and the order of the harness; what was not set is left out.
func TestHarnessInput(t *testing.T) {
	dir, err := filepath.Abs("art")
	require.NoError(t, err)
	rest := func(name string) string {
		return `"artifacts":{"dir":"` + dir + `","slice_duration":1.0,"auto_plot":false,"plot_required":false},"tokenizer":{"name":"` + name + `"},"gpu_telemetry":{"enabled":false},` +
			`"server_metrics":{"enabled":true,"urls":[],"formats":["json","csv"]},"network_latency":{"enabled":false},"otel":{},"mlflow":{},"wandb":{},"runtime":{"ui":"none"`
	}
	input, info := inputOf(t, func(i *measure.RunInfo) {
		i.Options = set("seed", "42", "payload", `"chat"`, "duration", "20", "grace", "30", "max-error-rate", "0.1", "start", `"sampled"`, "start-min-ratio", "0.25",
			"start-max-ratio", "0.75", "system-idle-cap", "10", "trace-idle-cap", "300", "warmup", `"requests=2"`, "warmup-grace", "1800", "limit-traces", "393",
			"stats-interval", "30", "unsafe-override", "true", "scrape", "[]")
		i.Scenario = &measure.Scenario{Name: "agentx"}
		i.Launch = []string{"profile", "--model", "m", "--input-file=traces", "--custom-dataset-type", "weka_trace", "--concurrency", "2", "--tokenizer", "builtin", "--unsafe-override"}
	})
	require.Equal(t, `{"models":{"items":[{"name":"m"}]},"endpoint":{"urls":["http://h:1"],"type":"chat","streaming":true,"use_server_token_count":true},`+
		`"datasets":[{"name":"main","type":"file","path":"traces","format":"weka_trace","entries":393,"random_seed":42,"trace_idle_gap_cap_seconds":300.0}],`+
		`"phases":[{"name":"profiling","kind":"profiling","type":"concurrency","duration":20.0,"concurrency":2,"grace_period":30.0,"timing_mode":"agentic_replay",`+
		`"failed_request_threshold":0.1,"trajectory_start_min_ratio":0.25,"trajectory_start_max_ratio":0.75,"system_idle_gap_cap_seconds":10.0,`+
		`"warmup_requests_per_lane":2,"agentic_warmup_grace_period":1800.0}],`+rest("builtin")+`,"stats_interval":30.0},"scenario":"agentx","unsafe_override":true}`, input)
	require.Equal(t, `{"benchmark_id":"0123456789ab","random_seed":42,"trial":0,"cli_command":"aiperf profile --model 'm' --input-file=traces --custom-dataset-type `+
		`'weka_trace' --concurrency 2 --tokenizer 'builtin' --unsafe-override"}`, info)

	input, info = inputOf(t, func(i *measure.RunInfo) {
		i.URLs = []string{"http://a", "http://b"}
		i.Options = set("payload", `"chat"`, "api-key-env", `"KEY"`, "timeout", "60", "connection-reuse", `"never"`, "max-tokens-field", `"max_tokens"`, "header", `["X-A"]`,
			"extra-body", `"{\"temperature\":0.5}"`, "requests", "10", "think-time-only", "true", "max-context", "1000", "marker", `"none"`, "warmup", `"duration=1m30s"`, "scrape", `["off"]`)
		i.Dataset.Inputs = []measure.Input{{Name: "hf://datasets/semianalysisai/cc-traces-weka-062126@" + commit + "/data/train-0.parquet"}}
		i.Dataset.Tokenizer = "cl100k_base"
		i.SLO = []slo.Condition{{Metric: "latency", Sign: slo.AtMost, Limit: 0.25, Unit: slo.Seconds, OfEach: true}, {Metric: "ttft", Statistic: "p95", Sign: slo.Less, Limit: 1, Unit: slo.Seconds}}
	})
	require.Equal(t, `{"models":{"items":[{"name":"m"}]},"endpoint":{"urls":["http://a","http://b"],"type":"chat","api_key":"<redacted>","timeout":60.0,"streaming":true,`+
		`"connection_reuse":"never","use_legacy_max_tokens":true,"use_server_token_count":true,"headers":{"X-A":"<redacted>"},"extra":{"temperature":0.5}},`+
		`"datasets":[{"name":"main","type":"public","dataset":"semianalysis_cc_traces_weka_062126","use_think_time_only":true,"max_context_length":1000,"cache_bust":{"target":"none"}}],`+
		`"phases":[{"name":"profiling","kind":"profiling","type":"concurrency","requests":10,"concurrency":2,"timing_mode":"agentic_replay","agentic_cache_warmup_duration":90.0}],`+
		strings.Replace(strings.Replace(rest("cl100k_base"), `"tokenizer"`, `"slos":{"request_latency":250.0},"tokenizer"`, 1), `{"enabled":true,"urls":[],"formats":["json","csv"]}`, `{"enabled":false}`, 1)+`}}`, input)
	require.Equal(t, `{"benchmark_id":"0123456789ab","trial":0,"cli_command":"agentx replay /cache/k --payload=chat --api-key-env=KEY --timeout=60s `+
		`--connection-reuse=never --max-tokens-field=max_tokens --header=X-A --extra-body='{\"temperature\":0.5}' --requests=10 --think-time-only=true `+
		`--max-context=1000 --marker=none --warmup=duration=1m30s"}`, strings.Replace(info, " --scrape=off", "", 1))
}

// A public dataset is told by the name that the harness has for its repository; another repository by that of the generic loader.
func TestHarnessDataset(t *testing.T) {
	for repository, want := range map[string]string{
		"semianalysisai/cc-traces-weka-with-subagents-060226-256k": `{"source_type":"public_dataset","loader":"semianalysis_cc_traces_weka_with_subagents_060226_256k",` +
			`"hf_dataset_name":"semianalysisai/cc-traces-weka-with-subagents-060226-256k","hf_split":"train","num_dataset_entries":5}`,
		"o/n": `{"source_type":"public_dataset","loader":"weka_hf","hf_dataset_name":"o/n","hf_split":"train","num_dataset_entries":5}`,
	} {
		run := harnessRun(t, func(i *measure.RunInfo) {
			i.Options = set("limit-traces", "5")
			i.Dataset.Inputs = []measure.Input{{Name: "hf://datasets/" + repository + "@" + commit + "/a.jsonl"}}
		})
		text, err := compact(publicDataset(run))
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
	require.Nil(t, publicDataset(harnessRun(t, nil)), "a file")
}

// Failures have the types of the harness. The message of an error status is the body alone, whatever stands in it.
//
//
func TestHarnessErrors(t *testing.T) {
	for _, c := range []struct {
		category wire.Category
		code     int
		message  string
		want     string
	}{
		{wire.HTTPStatus, 500, "500 Internal Server Error: a: b", `{"code":500,"type":"Internal Server Error","message":"a: b"}`},
		{wire.HTTPStatus, 404, "404 Not Found", `{"code":404,"type":"Not Found","message":""}`},
		{wire.Overload, 503, "503 : busy", `{"code":503,"type":"","message":"busy"}`},
		{wire.ContextOverflow, 400, "400 Bad Request: prompt is too long", `{"code":400,"type":"Bad Request","message":"prompt is too long"}`},
		{wire.NoContent, 200, "x", `{"type":"InvalidInferenceResultError","message":"x","cause_chain":["InvalidInferenceResultError"]}`},
		{wire.StreamEvent, 502, "x", `{"code":502,"type":"SSEResponseError","message":"x","cause_chain":["SSEResponseError"]}`},
		{wire.Timeout, 0, "x", `{"type":"TimeoutError","message":"x","cause":"x","cause_chain":["TimeoutError","CancelledError"]}`},
		{wire.Connection, 200, "x", `{"type":"ClientPayloadError","message":"ClientPayloadError(\"Response payload is not completed: ` + brokenChunk +
			`\")","cause":"` + brokenChunk + `","cause_chain":["ClientPayloadError","TransferEncodingError"]}`},
		{wire.Connection, 0, "dial tcp h: connection refused", `{"type":"ClientConnectorError","message":"dial tcp h: connection refused",` +
			`"cause":"dial tcp h: connection refused","cause_chain":["ClientConnectorError","ConnectionRefusedError"]}`},
		{wire.Connection, 0, "lookup h", `{"type":"ClientConnectorDNSError","message":"lookup h","cause":"lookup h","cause_chain":["ClientConnectorDNSError","gaierror"]}`},
		{wire.Connection, 0, "the server closed the connection before its answer ended", `{"type":"ServerDisconnectedError",` +
			`"message":"the server closed the connection before its answer ended","cause_chain":["ServerDisconnectedError"]}`},
		{wire.Connection, 0, "read: reset", `{"type":"ClientOSError","message":"read: reset","cause":"read: reset","cause_chain":["ClientOSError","ConnectionResetError"]}`},
		{wire.Internal, 0, "x", `{"type":"internal","message":"x"}`},
		{wire.Internal, 0, "dial tcp h: no files", `{"type":"ClientConnectorError","message":"dial tcp h: no files","cause":"dial tcp h: no files","cause_chain":["ClientConnectorError","OSError"]}`},
	} {
		text, err := compact(harnessError(&measure.Error{Category: c.category, Code: c.code, Message: c.message}))
		require.NoError(t, err)
		require.Equal(t, c.want, string(text), "%s %d", c.category, c.code)
	}
}

// The tables of the console file have borders, a title in the middle, and names that are long on two lines.
func TestHarnessConsole(t *testing.T) {
	got := written(t, harnessRun(t, nil, handMade()...))["profile_export_console.txt"]
	require.True(t, strings.HasPrefix(got, `

                      NVIDIA AIPerf | Error Summary                       
┏━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━┓
┃ Code ┃                        Type ┃ Message                   ┃ Count ┃
┡━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━┩
│  500 │       Internal Server Error │ {"detail": "a: b"}        │     1 │
│  N/A │ InvalidInferenceResultError │ the stream had no content │     1 │
└──────┴─────────────────────────────┴───────────────────────────┴───────┘


`), got)
	for _, line := range []string{
		" NVIDIA AIPerf | LLM Metrics: Effective ", " NVIDIA AIPerf | LLM Metrics: Active ", " NVIDIA AIPerf | LLM Metrics: Usage ", " NVIDIA AIPerf | LLM Metrics  ",
		"│                  Full-Response Inter Token Latency │   100.20 │   100.20 │", "│                                               (ms) │          │          │",
		"│                   Request Latency (error-adjusted) │", "│                               Request Latency (ms) │ 1,500.00 │ 1,500.00 │", "│     2.00 │      N/A │      N/A │",
	} {
		require.Contains(t, got, line)
	}
	wide := grid{title: "T", rows: [][]string{{"Metric", "avg"}, {"alpha name (of it)", strings.Repeat("9", 123)}}}
	var text bytes.Buffer
	wide.write(&text)
	require.Contains(t, text.String(), "│ alpha name │ 999")
	require.Contains(t, text.String(), "│    (of it) │    ")
	require.Equal(t, "1,234,567.80", grouped(1234567.8))
	require.Equal(t, "-999.99", grouped(-999.99))
	require.Equal(t, "-1,000.00", grouped(-1000))
	require.Equal(t, "ab cd\nefghij\nkl", wrap("ab cd efghijkl", 6))
	require.Equal(t, "a\nb", wrap("a\r\nb", 6))
}
