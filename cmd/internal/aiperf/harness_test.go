package aiperf

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
	"github.com/agentx/agentx/report"
)

// harnessStart is when the profiling phase of these runs starts; their warmup starts a minute before.
const harnessStart = 1700000000250000000

// handMade returns records of a run: one of the warmup, two that ended well, an error status, an answer without content, an overflow
// and one that the end of the run cancelled.
func handMade() []measure.Record {
	good := func(credit int, sent, first, last float64) measure.Record {
		r := measure.Record{
			Phase: measure.ProfilingPhase, Bucket: measure.Profiling, Credit: credit, Trace: "t", Session: "t", Turn: credit, SourceOuter: credit,
			SourceKind: "weka_main", RequestID: fmt.Sprint("q", credit), CorrelationID: "c", RootID: "c",
			Numbers: measure.Numbers{
				Due: measure.At(sent), Admitted: measure.At(sent), Sent: measure.At(sent), Acknowledged: measure.At(first), Status: 200, WaitEnd: measure.At(sent),
				SendStart: measure.At(sent), SendEnd: measure.At(sent + 0.001), FirstByte: measure.At(first), LastByte: measure.At(last),
				FirstToken: measure.At(first), FirstOutput: measure.At(first), SecondToken: measure.At(last), LastToken: measure.At(last),
				LastMessage: measure.At(last + 0.001), End: measure.At(last + 0.002), PromptTokens: measure.Tokens(100), OutputTokens: measure.Tokens(11), MaxTokens: 11,
				RecordedBlocks: 10, RecordedHits: 4,
			},
			Transfer: measure.Transfer{Reused: true, Chunks: 2, BytesSent: 3000, BytesReceived: 900, BodySent: 2048, BodyReceived: 512, BodyReads: 3},
		}
		r.Contents.Add(time.Duration((first-sent)*1e9), wire.Unknown)
		r.Contents.Add(time.Duration((last-sent)*1e9), wire.Unknown)
		return r
	}
	bad := func(credit int, bucket measure.Bucket, category wire.Category, code int, message string) measure.Record {
		at := float64(credit) + 1
		r := good(credit, at, at+0.25, at+0.25)
		r.FirstToken, r.FirstOutput, r.SecondToken, r.LastToken, r.LastMessage, r.Chunks = 0, 0, 0, 0, 0, 0
		r.Contents, r.Bucket, r.Status, r.OutputTokens = wire.Contents{}, bucket, code, 0
		r.Error = &measure.Error{Category: category, Code: code, Message: message}
		return r
	}
	primer := good(0, 1, 1.5, 1.5)
	primer.Phase, primer.Bucket, primer.SecondToken, primer.Chunks = measure.WarmupPhase, measure.WarmupBucket, 0, 1
	primer.OutputTokens, primer.MaxTokens = measure.Tokens(1), 1
	primer.Contents = wire.Contents{}
	primer.Contents.Add(500*time.Millisecond, wire.Unknown)
	child := good(1, 2, 2.5, 3.5)
	inner := 3
	child.Session, child.Parent, child.ParentID, child.CorrelationID, child.Depth, child.SourceInner, child.SourceKind = "t::sa:a", "t", "c", "d", 1, &inner, "weka_subagent"
	empty := bad(3, measure.Profiling, wire.NoContent, 200, "the stream had no content")
	cancelled := bad(5, measure.CancelledAtEnd, wire.Cancelled, 0, "cancelled at the end of the phase")
	cancelled.CancelledAt = cancelled.End
	return []measure.Record{
		primer, good(0, 1, 1.5, 2.5), child,
		bad(2, measure.Profiling, wire.HTTPStatus, 500, `500 Internal Server Error: {"detail": "a: b"}`), empty,
		bad(4, measure.ContextOverflow, wire.ContextOverflow, 400, "400 Bad Request: prompt is too long"), cancelled,
	}
}

// harnessRun writes a run of records under the preset of the harness and opens it.
func harnessRun(t testing.TB, change func(*measure.RunInfo), list ...measure.Record) *report.Run {
	t.Helper()
	dir := t.TempDir()
	w, err := measure.Create(dir)
	require.NoError(t, err)
	for k := range list {
		require.NoError(t, w.Write(&list[k]))
	}
	require.NoError(t, w.Close())
	info := measure.RunInfo{
		Run: measure.Run{
			Version: "9.9", Model: "m", BenchmarkID: "01234567-89ab-cdef-0123-456789abcdef", Preset: preset.AgentX, URLs: []string{"http://h:1"},
			Start: time.Unix(0, harnessStart-60*second).UTC(), Dataset: measure.Dataset{Key: "k", Path: "/cache/k", Tokenizer: "o200k_base"},
			Options: []measure.Option{{Name: "seed", Value: []byte("42"), From: "flag"}, {Name: "payload", Value: []byte(`"chat"`), From: "default"}},
		},
		Lanes: 2,
		Phases: []measure.PhaseSpan{
			{Name: measure.WarmupPhase, Start: time.Unix(0, harnessStart-60*second).UTC(), Duration: 30},
			{Name: measure.ProfilingPhase, Start: time.Unix(0, harnessStart).UTC(), Duration: 10},
		},
		Facts: &measure.Facts{PhaseDuration: 10, Deadline: 10, ExpectedDuration: 10, Branches: measure.BranchCounts{Branches: conductor.Branches{ChildrenResumed: 2, ChildrenSpawned: 1}}},
	}
	if change != nil {
		change(&info)
	}
	putJSON(t, filepath.Join(dir, "run.json"), info)
	return open(t, dir)
}

// inUTC makes local times those of UTC.
func inUTC(t *testing.T) {
	local := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = local })
}

// written writes the files of a run and reads them.
func written(t *testing.T, run *report.Run) map[string]string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "art")
	_, err := Write(t.Context(), run, Options{Out: out, Slice: time.Second})
	require.NoError(t, err)
	return files(t, out)
}

// members returns the keys of a JSON object in their order.
func members(t *testing.T, text string) (keys []string) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	_, err := d.Token()
	require.NoError(t, err)
	for d.More() {
		key, err := d.Token()
		require.NoError(t, err)
		keys = append(keys, key.(string))
		var value json.RawMessage
		require.NoError(t, d.Decode(&value))
	}
	return keys
}

// Rows have the members of the harness in its order. Requests that did not fit the context, and those that the run cancelled, have
// none. An error status ends when its request starts, and its message is the body.
//
//
func TestHarnessRows(t *testing.T) {
	late := handMade()[1]
	late.Bucket, late.Credit = measure.Cooldown, 9
	got := written(t, harnessRun(t, nil, append(handMade(), late)...))
	require.NotContains(t, got, "profile_export_excluded.jsonl")
	lines := strings.Split(strings.TrimSuffix(got["profile_export.jsonl"], "\n"), "\n")
	require.Len(t, lines, 5)
	var metadata, failures []string
	for _, line := range lines {
		var row struct{ Metadata, Metrics, Error json.RawMessage }
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		metadata = append(metadata, string(row.Metadata))
		if row.Error != nil {
			failures = append(failures, string(row.Metrics)+" "+string(row.Error))
		}
		require.NotContains(t, line, `"agentx":`)
	}
	require.Equal(t, `{"session_num":0,"x_request_id":"q0","x_correlation_id":"c","conversation_id":"t","turn_index":0,"source_trace_id":"t",`+
		`"source_outer_idx":0,"source_kind":"weka_main","credit_issued_ns":1699999941250000000,"request_start_ns":1699999941250000000,`+
		`"request_ack_ns":1699999941750000000,"request_end_ns":1699999941751000000,"worker_id":"agentx","record_processor_id":"agentx",`+
		`"benchmark_phase":"warmup","phase_kind":"warmup","was_cancelled":false,"context_overflow_skip":false,"agent_depth":0,"root_correlation_id":"c"}`, metadata[0])
	require.Equal(t, `{"session_num":1,"x_request_id":"q1","x_correlation_id":"d","conversation_id":"t::sa:a","turn_index":1,"source_trace_id":"t",`+
		`"source_outer_idx":1,"source_inner_idx":3,"source_kind":"weka_subagent","credit_issued_ns":1700000002250000000,"request_start_ns":1700000002250000000,`+
		`"request_ack_ns":1700000002750000000,"request_end_ns":1700000003751000000,"worker_id":"agentx","record_processor_id":"agentx",`+
		`"benchmark_phase":"profiling","phase_index":0,"profiling_index":0,"phase_name":"profiling","phase_kind":"profiling","was_cancelled":false,`+
		`"context_overflow_skip":false,"agent_depth":1,"parent_correlation_id":"c","root_correlation_id":"c"}`, metadata[2])
	require.Contains(t, metadata[3], `"request_start_ns":1700000003250000000,"request_end_ns":1700000003250000000,`)
	require.Equal(t, []string{
		`{} {"code":500,"type":"Internal Server Error","message":"{\"detail\": \"a: b\"}"}`,
		`{"error_isl":{"value":100,"unit":"tokens"}} {"type":"InvalidInferenceResultError","message":"the stream had no content","cause_chain":["InvalidInferenceResultError"]}`,
	}, failures)
	require.Contains(t, lines[1], `"http_req_data_sent":{"value":2.0,"unit":"KB"}`)
	require.Contains(t, lines[1], `"http_req_chunks_received":{"value":3,"unit":"count"}`)
	require.Contains(t, lines[1], `"http_req_total":{"value":1500.0,"unit":"ms"}`)
	require.NotContains(t, lines[1], "effective_latency")
	require.NotContains(t, lines[1], "due_to_sent_latency")
}

// The aggregate has the members of the harness in its order; what agentx has beyond stands below metadata.agentx.
func TestHarnessAggregate(t *testing.T) {
	inUTC(t)
	run := harnessRun(t, func(info *measure.RunInfo) {
		no := false
		info.Scenario, info.Facts.Valid, info.Facts.Reasons = &measure.Scenario{Name: "agentx"}, &no, []string{"unsafe_override"}
	}, handMade()...)
	text := written(t, run)["profile_export_aiperf.json"]
	require.True(t, strings.HasSuffix(text, "}\n}") && !strings.HasSuffix(text, "\n}\n"), "no line feed at the end")
	keys := members(t, text)
	cut := slices.Index(keys, "input_config")
	require.Equal(t, []string{
		"schema_version", "aiperf_version", "benchmark_id", "request_throughput", "request_latency", "request_count", "time_to_first_token", "time_to_second_token",
		"inter_token_latency", "output_token_throughput", "output_token_throughput_per_user", "full_decode_duration", "full_response_inter_token_latency",
		"full_response_output_token_throughput_per_user", "output_sequence_length", "input_sequence_length", "output_token_count", "inter_chunk_latency",
		"total_output_tokens", "benchmark_duration", "total_isl", "total_osl", "error_request_count", "error_isl", "total_error_isl",
	}, keys[:cut])
	require.Equal(t, []string{"input_config", "run_info", "was_cancelled", "error_summary", "start_time", "end_time", "branch_stats", "warmup_metrics"}, keys[cut:cut+8])
	require.Equal(t, "metadata", keys[len(keys)-1])
	var top map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(text), &top))
	compact := func(key string) string {
		var out bytes.Buffer
		require.NoError(t, json.Compact(&out, top[key]))
		return out.String()
	}
	for key, want := range map[string]string{
		"schema_version": `"1.4"`, "aiperf_version": `"1.0.12"`, "benchmark_id": `"0123456789ab"`, "was_cancelled": "false",
		"request_count": `{"unit":"requests","avg":2.0}`, "error_request_count": `{"unit":"requests","avg":2.0}`,
		"completed_request_count": `{"unit":"requests","avg":4.0}`, "request_error_rate": `{"unit":"%","avg":50.0}`,
		"context_overflow_count": `{"unit":"requests","avg":1.0}`, "skipped_context_overflow_count": `{"unit":"requests","avg":1.0}`,
		"total_error_isl": `{"unit":"tokens","avg":100.0}`, "theoretical_prefix_cache_hit": `{"unit":"%","avg":40.0,"count":20,"sum":8}`, "total_isl": `{"unit":"tokens","avg":200.0}`,
		"input_sequence_length": `{"unit":"tokens","avg":100.0,"p1":100.0,"p5":100.0,"p10":100.0,"p25":100.0,"p50":100.0,"p75":100.0,"p90":100.0,"p95":100.0,` +
			`"p99":100.0,"min":100.0,"max":100.0,"std":0.0,"count":2,"sum":200.0}`,
		"adj_full_decode_duration": `{"unit":"ms","p1":1002.0,"p5":1002.0,"p10":1002.0,"p25":1002.0,"min":1002.0,"count":4}`,
		"start_time":               `"2023-11-14T22:13:20.250000"`, "end_time": `"2023-11-14T22:13:30.250000"`,
		"branch_stats": `{"children_spawned":3,"children_completed":0,"children_errored":0,"children_truncated":0,"children_delayed":0,` +
			`"parents_suspended":0,"parents_resumed":0,"parents_failed_due_to_child_error":0,"joins_suppressed":0}`,
		"run_info": `{"benchmark_id":"0123456789ab","random_seed":42,"trial":0,"cli_command":"agentx replay /cache/k --seed=42"}`,
		"error_summary": `[{"error_details":{"code":500,"type":"Internal Server Error","message":"{\"detail\": \"a: b\"}"},"count":1},` +
			`{"error_details":{"type":"InvalidInferenceResultError","message":"the stream had no content","cause_chain":["InvalidInferenceResultError"]},"count":1}]`,
	} {
		require.Equal(t, want, compact(key), key)
	}
	require.Equal(t, []string{"scenario", "submission_valid", "submission_invalid_reasons", "agentx"}, members(t, compact("metadata")))
	for _, key := range []string{"is_complete", "steady_metrics", "cooldown_metrics", "runtime_submission_invalid_reasons", "wedged_tree_count", "phase_duration"} {
		require.NotContains(t, top, key)
	}
	var metadata struct {
		Agentx struct {
			Metrics  map[string]json.RawMessage
			Branches measure.BranchCounts
			Run      struct{ Version string }
		}
	}
	require.NoError(t, json.Unmarshal(top["metadata"], &metadata))
	require.Contains(t, metadata.Agentx.Metrics, "due_to_sent_latency")
	require.NotContains(t, metadata.Agentx.Metrics, "request_latency")
	require.Equal(t, 2, metadata.Agentx.Branches.ChildrenResumed)
	require.Equal(t, "9.9", metadata.Agentx.Run.Version)
	a, err := ReadAggregate([]byte(text))
	require.NoError(t, err)
	require.NotEmpty(t, a.steady, "the tables below metadata.agentx are read")
}

// Metrics about failures are there when something failed, and those about requests that ended well when one did.
func TestHarnessMetricsAtTimes(t *testing.T) {
	list := handMade()
	silent := list[1]
	silent.OutputTokens, silent.PromptTokens = 0, 0
	for name, c := range map[string]struct {
		list      []measure.Record
		has, lack []string
	}{
		"all well": {list[:3], []string{"request_count", "osl_mismatch_count"}, []string{"error_request_count", "completed_request_count", "request_error_rate", "context_overflow_count", "skipped_context_overflow_count", "error_isl"}},
		"overflow": {append(slices.Clone(list[:3]), list[5]), []string{"context_overflow_count", "skipped_context_overflow_count"}, []string{"error_request_count", "request_error_rate"}},
		"no usage": {[]measure.Record{silent}, []string{"request_count"}, []string{"osl_mismatch_count", "osl_mismatch_diff_pct", "total_osl"}},
	} {
		got := written(t, harnessRun(t, nil, c.list...))
		keys := members(t, got["profile_export_aiperf.json"])
		for _, key := range c.has {
			require.Contains(t, keys, key, name)
		}
		for _, key := range c.lack {
			require.NotContains(t, keys, key, name)
		}
		require.NotContains(t, got["profile_export_aiperf.csv"], "Skipped", name)
	}
}

// CSV files end lines with CR LF and write counts of metrics as floats; slices divide by their length.
func TestHarnessTables(t *testing.T) {
	got := written(t, harnessRun(t, nil, handMade()...))
	for _, name := range []string{"profile_export_aiperf.csv", "profile_export_aiperf_timeslices.csv"} {
		require.Equal(t, strings.Count(got[name], "\n"), strings.Count(got[name], "\r\n"), name)
	}
	for _, line := range []string{
		"Input Sequence Length (tokens),100.00,100.00,100.00,200.00,100.00,", "Request Count,2.00", "Full-Response Inter Token Latency (ms),", "HTTP Chunks Received,3.00,",
		"HTTP Duration (excl. conn) (ms),", "HTTP DNS Lookup (ms),0.00,", "Context Overflow Count,0.00",
	} {
		require.Contains(t, got["profile_export_aiperf.csv"], "\r\n"+line)
	}
	var slices struct {
		Timeslices []map[string]json.RawMessage
		Input      json.RawMessage `json:"input_config"`
	}
	require.NoError(t, json.Unmarshal([]byte(got["profile_export_aiperf_timeslices.json"]), &slices))
	require.Len(t, slices.Timeslices, 4)
	require.JSONEq(t, `{"unit":"requests/sec","avg":1.0}`, string(slices.Timeslices[1]["request_throughput"]))
	require.JSONEq(t, `{"unit":"sec","avg":1.5}`, string(slices.Timeslices[1]["benchmark_duration"]))
	require.JSONEq(t, `{"unit":"requests","avg":1.0}`, string(slices.Timeslices[2]["error_request_count"]))
	require.JSONEq(t, `{"unit":"requests","avg":0.0}`, string(slices.Timeslices[2]["context_overflow_count"]))
	require.NotContains(t, slices.Timeslices[2], "request_count")
	require.NotContains(t, slices.Timeslices[0], "theoretical_prefix_cache_hit")
	require.NotContains(t, slices.Timeslices[0], "effective_latency")
	require.JSONEq(t, "false", string(slices.Timeslices[3]["is_complete"]))
	require.Contains(t, got["profile_export_aiperf_timeslices.csv"], ",Request Throughput,requests/sec,avg,1.00\r\n")
	require.NotRegexp(t, `,count,[0-9.]+\r`, got["profile_export_aiperf_timeslices.csv"])
}

// A run without a slice has no files of slices, and a second call removes those of a first.
func TestHarnessHasNoEmptySlices(t *testing.T) {
	run := harnessRun(t, nil, handMade()...)
	_, err := Write(t.Context(), run, Options{Out: run.Dir, Slice: time.Second})
	require.NoError(t, err)
	require.Contains(t, files(t, run.Dir), "profile_export_aiperf_timeslices.json")
	_, err = Write(t.Context(), run, Options{Out: run.Dir})
	require.NoError(t, err)
	require.NotContains(t, files(t, run.Dir), "profile_export_aiperf_timeslices.json")
	require.Contains(t, files(t, run.Dir), "profile_export_aiperf.json")
}

// Every metric of the table stands there once, those of the head first; a run of any records has no metric that the table lacks, and all
// numbers but counts are floats.
func TestHarnessTagsAreAll(t *testing.T) {
	seen, tail := map[string]bool{}, false
	for _, m := range harnessTags {
		require.False(t, seen[m.tag], m.tag)
		require.False(t, m.head && tail, m.tag)
		seen[m.tag], tail = true, !m.head
	}
	run := newRun(t, 7, 200)
	run.Info.Preset = preset.AgentX
	data, err := json.Marshal(run.Info)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(run.Dir, "run.json"), data, 0o600))
	got := written(t, open(t, run.Dir))
	a, err := ReadAggregate([]byte(got["profile_export_aiperf.json"]))
	require.NoError(t, err)
	require.Greater(t, len(a.Headline), 60)
	for _, table := range []report.Table{a.Headline, a.Warmup} {
		for _, b := range table {
			require.True(t, seen[b.Tag], b.Tag)
			for _, s := range b.Stats {
				require.Equal(t, s.Name == "count" || b.Tag == "theoretical_prefix_cache_hit" && s.Name == "sum", s.Value.IsInt(), "%s %s", b.Tag, s.Name)
			}
		}
	}
	for line := range strings.Lines(got["profile_export.jsonl"]) {
		row, err := ParseRow([]byte(line))
		require.NoError(t, err)
		for _, m := range row.Metrics {
			require.True(t, seen[m.Tag], m.Tag)
		}
	}
}

// The coverage of a run stands in the aggregate where the run has looked at it; a run that was cancelled has no counters of branches.
func TestHarnessCoverage(t *testing.T) {
	for _, covered := range []bool{false, true} {
		run := harnessRun(t, func(info *measure.RunInfo) {
			info.Scenario, info.Facts.Cancelled = &measure.Scenario{Name: "agentx"}, !covered
			if covered {
				info.Facts.Coverage = &measure.Coverage{FirstToken: 0.5, ITL: 1, Content: measure.Missing, Expected: 900, Required: 0.95}
			}
		}, handMade()...)
		var top struct {
			Metadata map[string]json.RawMessage
			Branches json.RawMessage `json:"branch_stats"`
		}
		require.NoError(t, json.Unmarshal([]byte(written(t, run)["profile_export_aiperf.json"]), &top))
		require.Equal(t, covered, top.Branches != nil)
		if !covered {
			require.NotContains(t, top.Metadata, "metric_duration_coverage")
			continue
		}
		var text bytes.Buffer
		require.NoError(t, json.Compact(&text, top.Metadata["metric_duration_coverage"]))
		require.Equal(t, `[{"phase_name":"profiling","expected_duration_seconds":900.0,"required_ratio":0.95,"ttft_ratio":0.5,"inter_token_latency_ratio":1.0}]`, text.String())
	}
}

// Times from the order of a request on are of failed requests too, from the instants of the rows, as floats.
func TestHarnessTimesOfRows(t *testing.T) {
	list := handMade()[1:5]
	for k := range list {
		list[k].Admitted = measure.At(list[k].Sent.Seconds() - 0.25)
	}
	var top struct {
		Credit    struct{ Count, Sum float64 } `json:"credit_to_start_latency"`
		Effective struct{ Count, Sum float64 } `json:"effective_latency"`
	}
	require.NoError(t, json.Unmarshal([]byte(written(t, harnessRun(t, nil, list...))["profile_export_aiperf.json"]), &top))
	require.InDelta(t, 4, top.Credit.Count, 0)
	require.InDelta(t, 1000, top.Credit.Sum, 0.002)
	require.InDelta(t, 4, top.Effective.Count, 0)
	require.InDelta(t, 2*1751+250+502, top.Effective.Sum, 0.002, "an error status ends when it starts")
}

// A run that ended before its profiling phase began, or of which no measured request completed, has rows alone, and loses what an earlier
// call has written.
func TestHarnessWritesRowsAloneWithoutASuccess(t *testing.T) {
	warmup, failed := handMade()[0], handMade()[3]
	for name, run := range map[string]*report.Run{
		"warmup alone": harnessRun(t, func(info *measure.RunInfo) { info.Phases, info.Facts.Cancelled = info.Phases[:1], true }, warmup),
		"failed alone": harnessRun(t, nil, warmup, failed),
	} {
		out := t.TempDir()
		put(t, out, "profile_export_aiperf.json", []byte("old"))
		w, err := Write(t.Context(), run, Options{Out: out})
		require.NoError(t, err)
		require.Equal(t, []string{"profile_export.jsonl", ".aiperf_results_ready.json"}, w.Files, name)
		require.Len(t, files(t, out), 2)
	}
}
