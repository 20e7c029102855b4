package aiperf

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/scrape"
)

// told has a counter, a gauge, a histogram, a summary and an info metric, with descriptions. The run is that of runOf.
const described = `{"endpoint":0,"url":"http://a:1/metrics"}
{"endpoint":0,"at":1700000000100000000,"took":2000000}
{"series":0,"endpoint":0,"name":"vllm:prompt_tokens","type":"counter","labels":{"engine":"0"},"help":"Prompt, in all."}
{"series":1,"endpoint":0,"name":"vllm:num_requests_running","type":"gauge","labels":{},"help":"Running."}
{"series":2,"endpoint":0,"name":"wait","type":"histogram","labels":{},"bounds":["0.5","1","+Inf"],"help":"Time in seconds."}
{"series":3,"endpoint":0,"name":"old","type":"summary","labels":{}}
{"series":4,"endpoint":0,"name":"build_info","type":"gauge","labels":{"version":"1","arch":"x"}}
{"endpoint":0,"at":1700000000500000000,"took":2000000,"values":[[0,100],[1,3],[2,10,5,8,9,10],[3,1,1],[4,1]]}
{"endpoint":0,"at":1700000001500000000,"took":2000000,"values":[[0,130],[1,4],[2,14,7,10,13,14]]}
{"endpoint":0,"at":1700000002250000000,"took":2000000,"values":[[0,170],[1,6]]}
`

// Under the dialect of the harness the files have its members, in its order.
//
// Covers T-59.
func TestServersOfHarness(t *testing.T) {
	local := time.Local
	time.Local = time.UTC
	defer func() { time.Local = local }()
	dir := writeScraped(t, described)
	require.NoError(t, ofServers(dir, runOf(), true, time.Second).writeServer())
	got := readFile(t, filepath.Join(dir, serverJSON))
	require.True(t, strings.HasPrefix(got, "{\n  \"schema_version\": \"1.1\",\n  \"aiperf_version\": \"1.0.12\",\n  \"benchmark_id\": \"b\",\n  \"summary\": {\n"))
	require.True(t, strings.HasSuffix(got, "\n}"))
	for _, key := range []string{"summary", "metrics_phase", "metrics", "warmup_metrics", "input_config"} {
		at := strings.Index(got, "\n  \""+key+"\": ")
		require.Positive(t, at, key)
		got = got[at:]
	}
	var e struct {
		Summary struct {
			Start     string                     `json:"start_time"`
			End       string                     `json:"end_time"`
			Endpoints map[string]json.RawMessage `json:"endpoint_info"`
		}
		Metrics map[string]struct {
			Type        string
			Description *string
			Unit        *string
			Series      []map[string]json.RawMessage
		}
	}
	require.NoError(t, json.Unmarshal([]byte(readFile(t, filepath.Join(dir, serverJSON))), &e))
	require.Equal(t, []string{"2023-11-14T22:13:21", "2023-11-14T22:13:22.500000"}, []string{e.Summary.Start, e.Summary.End})
	require.Contains(t, string(e.Summary.Endpoints["http://a:1/metrics"]), `"median_update_interval_ms": 750`)
	require.NotContains(t, e.Metrics, "old", "the harness has no summaries")
	require.Equal(t, "Running.", *e.Metrics["vllm:num_requests_running"].Description)
	require.Equal(t, "requests", *e.Metrics["vllm:num_requests_running"].Unit)
	require.Equal(t, "seconds", *e.Metrics["wait"].Unit)
	require.Nil(t, e.Metrics["build_info"].Unit)
	compact := func(metric, key string) string {
		var list figuresText
		require.NoError(t, json.Unmarshal(e.Metrics[metric].Series[0][key], &list))
		return string(list)
	}
	require.NotContains(t, e.Metrics["wait"].Series[0], "labels")
	require.Equal(t, `{"total":70.0,"rate":40.0,"rate_avg":30.0,"rate_min":30.0,"rate_max":30.0,"rate_std":0.0}`, compact("vllm:prompt_tokens", "stats"))
	require.Equal(t, `{"avg":5.0,"min":4.0,"max":6.0,"std":1.4142135623730951,"p1":4.02,"p5":4.1,"p10":4.2,"p25":4.5,"p50":5.0,"p75":5.5,"p90":5.8,"p95":5.9,"p99":5.98}`,
		compact("vllm:num_requests_running", "stats"))
	require.Equal(t, `{"count":4,"sum":2.0,"avg":0.5,"count_rate":2.2857142857142856,"sum_rate":1.1428571428571428,"p1_estimate":0.01,"p5_estimate":0.05,"p10_estimate":0.1,`+
		`"p25_estimate":0.25,"p50_estimate":0.5,"p75_estimate":0.75,"p90_estimate":0.9,"p95_estimate":0.95,"p99_estimate":0.99}`, compact("wait", "stats"))
	require.Equal(t, `{"0.5":2,"1":4,"+Inf":4}`, compact("wait", "buckets"))
	require.Equal(t, `[{"start_ns":1700000001000000000,"end_ns":1700000002000000000,"total":30.0,"rate":30.0},`+
		`{"start_ns":1700000002000000000,"end_ns":1700000002500000000,"is_complete":false,"total":40.0,"rate":80.0}]`, compact("vllm:prompt_tokens", "timeslices"))

	require.Equal(t, "# AIPerf Server Metrics Export (CSV)\n# aiperf_version: 1.0.12\n# schema_version: 1.0\n# benchmark_id: b\n"+
		"# Note: Same benchmark_id and version appear in JSON and Parquet exports\n#\n"+strings.ReplaceAll(`Endpoint,Type,Metric,Unit,avg,min,max,std,p1,p5,p10,p25,p50,p75,p90,p95,p99,Description
a:1,gauge,vllm:num_requests_running,requests,5.0000,4.0000,6.0000,1.4142,4.0200,4.1000,4.2000,4.5000,5.0000,5.5000,5.8000,5.9000,5.9800,Running.

Endpoint,Type,Metric,Unit,total,rate,rate_avg,rate_min,rate_max,rate_std,engine,Description
a:1,counter,vllm:prompt_tokens,tokens,70.0000,40.0000,30.0000,30.0000,30.0000,0.0000,0,"Prompt, in all."

Endpoint,Type,Metric,Unit,count,count_rate,sum,sum_rate,avg,p1_estimate,p5_estimate,p10_estimate,p25_estimate,p50_estimate,p75_estimate,p90_estimate,p95_estimate,p99_estimate,Description,buckets
a:1,histogram,wait,seconds,4,2.2857,2.0000,1.1429,0.5000,0.0100,0.0500,0.1000,0.2500,0.5000,0.7500,0.9000,0.9500,0.9900,Time in seconds.,0.5=2;1=4;+Inf=4

Endpoint,Metric,Key,Value,Description
a:1,build_info,arch,x,
a:1,build_info,version,1,
`, "\n", "\r\n"), readFile(t, filepath.Join(dir, serverTable)))
}

// Rates, gauges and slices reach to the answer of the page behind a phase, as its totals do.
func TestCountsToTheClosingAnswer(t *testing.T) {
	behind := `{"endpoint":0,"at":1700000002600000000,"took":20000000,"values":[[0,310],[1,11]]}` + "\n"
	dir := writeScraped(t, described+behind)
	require.NoError(t, ofServers(dir, runOf(), true, time.Second).writeServer())
	var e struct {
		Metrics map[string]struct {
			Series []struct {
				Stats      map[string]float64
				Timeslices []map[string]any
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(readFile(t, filepath.Join(dir, serverJSON))), &e))
	counter, gauge := e.Metrics["vllm:prompt_tokens"].Series[0], e.Metrics["vllm:num_requests_running"].Series[0]
	require.InDelta(t, 210, counter.Stats["total"], 0)
	require.InDelta(t, 100, counter.Stats["rate"], 1e-9, "of the 2.1 s from the answer before the phase to that behind it")
	require.InDelta(t, 7, gauge.Stats["avg"], 1e-9)
	last := counter.Timeslices[1]
	require.Equal(t, "1.7000000026e+18", fmt.Sprint(last["end_ns"]))
	require.InDelta(t, 180/0.6, last["rate"], 1e-6)
}

// figuresText is a JSON value without blanks.
type figuresText string

func (f *figuresText) UnmarshalJSON(data []byte) error {
	*f = figuresText(strings.NewReplacer("\n", "", " ", "").Replace(string(data)))
	return nil
}

// A unit is what the description tells, else what the name ends in.
func TestUnits(t *testing.T) {
	for _, c := range [][3]string{
		{"vllm:num_requests_running", "", "requests"}, {"vllm:prefix_cache_queries", "", ""}, {"x_seconds", "", "seconds"}, {"x_seconds_total", "", "seconds"}, {"x_ms", "", "milliseconds"},
		{"a_total", "", "count"}, {"a_tokens_total", "", "tokens"}, {"kv_usage_perc", "", "percent"}, {"kv_usage_perc", "1 means 100 percent usage.", "ratio"},
		{"x_seconds", "range 0-100", "percent"}, {"y", "in tokens/s", "tokens/s"}, {"y", "Used (in MiB)", "megabytes"}, {"z_joules", "", "joule"}, {"x_rate", "", ""},
	} {
		require.Equal(t, c[2], unitOf(c[0], c[1]), "%s: %s", c[0], c[1])
	}
}

// Labels that occur together have columns side by side, those of a single series before those of several.
func TestLabelColumns(t *testing.T) {
	rows := []csvRow{}
	for _, labels := range []map[string]string{{"b": "1", "a0": "1"}, {"a": "1", "a0": "2"}, {"q": "1"}, nil, {"c": "1", "m": "1"}} {
		rows = append(rows, csvRow{"x", &serverMetric{Type: scrape.Gauge}, &series{Labels: labels}})
	}
	require.Equal(t, []string{"a", "b", "a0", "c", "m", "q"}, labelColumns(rows))
}

// Without a length there are no slices, and no spread of rates over them.
func TestWithoutSlices(t *testing.T) {
	dir := writeScraped(t, described)
	require.NoError(t, ofServers(dir, runOf(), true, 0).writeServer())
	text := readFile(t, filepath.Join(dir, serverJSON))
	require.NotContains(t, text, "timeslices")
	require.NotContains(t, text, "rate_avg")
	require.Contains(t, text, `"rate"`)
}

// Beyond AIPerf, the files have summaries, without estimates, and a time with its zone.
//
// Covers T-59.
func TestSummariesAreKept(t *testing.T) {
	dir := writeScraped(t, described+`{"endpoint":0,"at":1700000002400000000,"took":2000000,"values":[[3,5,3]]}`+"\n")
	require.NoError(t, ofServers(dir, runOf(), false, 0).writeServer())
	text := readFile(t, filepath.Join(dir, serverJSON))
	var compact figuresText
	require.NoError(t, compact.UnmarshalJSON([]byte(text)))
	require.Contains(t, string(compact), `"old":{"type":"summary","description":"","series":[{"endpoint_url":"http://a:1/metrics","stats":{"count":4,"sum":2.0,"avg":0.5,"count_rate":2.1052631578947367,"sum_rate":1.0526315789473684}}]}`)
	require.Contains(t, text, `"end_time": "2023-11-14T22:13:22.5Z"`)
	require.Contains(t, readFile(t, filepath.Join(dir, serverTable)), "\r\nEndpoint,Type,Metric,Unit,count,count_rate,sum,sum_rate,avg,Description\r\na:1,summary,old,,4,2.1053,2.0000,1.0526,0.5000,\r\n")
}
