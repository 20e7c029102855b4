package scrape

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// names are those that InferenceX reads, with the types that their servers declare.
const names = `# HELP vllm:prompt_tokens_total Number of prefill tokens processed.
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="m"} 1.234567e+06
# TYPE vllm:prompt_tokens_by_source_total counter
vllm:prompt_tokens_by_source_total{source="local_cache_hit"} 5.0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{engine="0"} 0.25
# TYPE vllm:prompt_tokens_created gauge
vllm:prompt_tokens_created{engine="0"} 1.7622e+09
# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{le="0.1"} 1
vllm:time_to_first_token_seconds_bucket{le="+Inf"} 2
vllm:time_to_first_token_seconds_count 2
vllm:time_to_first_token_seconds_sum 0.75
# TYPE sglang:cached_tokens_total counter
sglang:cached_tokens_total{cache_source="device"} 7
# TYPE sglang:max_total_num_tokens gauge
sglang:max_total_num_tokens 100
# TYPE sglang:realtime_tokens_total counter
sglang:realtime_tokens_total{mode="decode"} 3
# TYPE dynamo_component_requests_total counter
dynamo_component_requests_total 4
# TYPE atom:token_usage gauge
atom:token_usage 0.5
untyped_total 9
`

// TestNamesOfServers keeps names, labels and types as they are declared, but for _total of counters.
//
// Covers T-59.
func TestNamesOfServers(t *testing.T) {
	list, leftOut, _, err := parsePage([]byte(names))
	require.NoError(t, err)
	assert.Zero(t, leftOut)
	var got []string
	for _, s := range list {
		got = append(got, fmt.Sprint(s.series.Type, " ", s.series.Name, s.series.Labels, s.series.Bounds, s.values))
	}
	assert.Equal(t, []string{
		"gauge atom:token_usagemap[] [] [0.5]",
		"counter dynamo_component_requestsmap[] [] [4]",
		"counter sglang:cached_tokensmap[cache_source:device] [] [7]",
		"gauge sglang:max_total_num_tokensmap[] [] [100]",
		"counter sglang:realtime_tokensmap[mode:decode] [] [3]",
		"gauge untyped_totalmap[] [] [9]",
		"gauge vllm:kv_cache_usage_percmap[engine:0] [] [0.25]",
		"counter vllm:prompt_tokens_by_sourcemap[source:local_cache_hit] [] [5]",
		"gauge vllm:prompt_tokens_createdmap[engine:0] [] [1.7622e+09]",
		"counter vllm:prompt_tokensmap[engine:0 model_name:m] [] [1.234567e+06]",
		"histogram vllm:time_to_first_token_secondsmap[] [0.1 +Inf] [2 0.75 1 2]",
	}, got)
}

// TestHostilePages has an answer to pages that are wrong or too large: none, or without what is too large.
func TestHostilePages(t *testing.T) {
	for name, page := range map[string]struct{ text, want string }{
		"empty":       {"", "no metrics"},
		"space":       {" \n\n", "no metrics"},
		"comments":    {"# HELP x y\n# TYPE x gauge\n", "no metrics"},
		"html":        {"<html>secret</html>", "not the text format of Prometheus: line 1"},
		"json":        {`{"error":"secret"}`, "not the text format of Prometheus: line 1"},
		"words":       {"ok", "not the text format of Prometheus: line 1"},
		"values":      {"x 1\ny secret\nz secret\n", "not the text format of Prometheus: line 2"},
		"iterations":  {`[{"iter":1,"secret":3}]`, "JSON"},
		"many lines":  {strings.Repeat("x 1\n", maxLines+1), "100001 lines: want at most 100000"},
		"many labels": {"x{" + strings.Repeat(`a="",`, maxLabels+1) + "} 1\n", "500001 labels: want at most 500000"},
		"not UTF-8":   {"x{a=\"\xff\"} 1\n", "not the text format"},
		"binary":      {"\x00\x01\x02", "not the text format"},
	} {
		_, _, _, err := parsePage([]byte(page.text))
		require.ErrorContains(t, err, page.want, name)
		assert.NotContains(t, err.Error(), "secret")
	}
	large := "good 1\n" + strings.Repeat("n", maxName+1) + " 1\n" +
		"v{a=\"" + strings.Repeat("x", maxLabelValue+1) + "\"} 1\n" +
		"nan NaN\ninf +Inf\nminus -Inf\n"
	list, leftOut, _, err := parsePage([]byte(large))
	require.NoError(t, err)
	assert.Equal(t, 2, leftOut)
	require.Len(t, list, 1)
	assert.Equal(t, "good", list[0].series.Name)
}

// TestSeriesOfLabels tells series apart whose labels would be the same text when they are joined.
func TestSeriesOfLabels(t *testing.T) {
	list, _, _, err := parsePage([]byte("x{a=\"b\",c=\"d\"} 1\nx{a=\"b,c=d\"} 2\nx{ac=\"bd\"} 3\nx{c=\"d\",a=\"b\"} 4\n"))
	require.NoError(t, err)
	keys := map[string]int{}
	for _, s := range list {
		keys[s.key]++
	}
	assert.Equal(t, []int{1, 1, 2}, slices.Sorted(maps.Values(keys)))
	file := &memory{}
	l := &log{limit: maxFile, file: file}
	l.addEndpoint(0, Page{URL: "http://h/"})
	l.addAnswer(0, 1, 1, list, map[string]*known{})
	assert.Contains(t, file.String(), `"values":[[0,1],[1,2],[2,3]]`, "of two that are the same the first counts")
}

// FuzzPage parses pages of servers that lie. What it takes can be written and read again, value by value.
func FuzzPage(f *testing.F) {
	f.Add([]byte(names))
	f.Add([]byte("# TYPE h histogram\nh_bucket{le=\"NaN\"} 1\nh_bucket{le=\"-Inf\"} 2\nh_count 1e400\n"))
	f.Add([]byte("# TYPE h histogram\nh_count 1\nh_bucket{le=\"1\",le=\"2\"} 2\n{\"a b\",\"c d\"=\"e\"} 1 -1\n"))
	for _, page := range oddPages {
		f.Add([]byte(page.text))
	}
	f.Add([]byte("# TYPE s summary\ns{quantile=\"x\"} 1\n# TYPE g gauge_histogram\ng_bucket{le=\"1\"} 1\n# TYPE i info\ni 1"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list, _, _, err := parsePage(bytes.Clone(text))
		if err != nil {
			return
		}
		file := &memory{}
		l := &log{limit: maxFile, file: file}
		l.addEndpoint(0, Page{URL: "http://h/"})
		series := map[string]*known{}
		l.addAnswer(0, 1, 2, list, series)
		l.addAnswer(0, 3, 4, nil, series)
		d, err := Read(&file.Buffer)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string][]float64{}
		for _, s := range list {
			if _, twice := want[s.key]; !twice {
				want[s.key] = s.values
			}
		}
		for k := range d.Series {
			s := &d.Series[k]
			_, values := s.Change(0)
			if !slices.Equal(values, want[s.key()]) || s.Len() != 2 {
				t.Fatalf("%s: %v, want %v", s.Name, values, want[s.key()])
			}
			if slices.ContainsFunc(values, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }) {
				t.Fatalf("%s: %v", s.Name, values)
			}
		}
		if len(d.Series) != len(want) {
			t.Fatalf("%d series, want %d", len(d.Series), len(want))
		}
	})
}

// FuzzRead reads files that somebody else has written.
func FuzzRead(f *testing.F) {
	f.Add([]byte("{\"endpoint\":0,\"url\":\"\"}\n{\"series\":0,\"endpoint\":0,\"name\":\"x\",\"type\":\"gauge\"}\n{\"endpoint\":0,\"at\":1,\"values\":[[0,1]]}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Read(bytes.NewReader(text))
		if err != nil {
			return
		}
		for k := range d.Series {
			s := &d.Series[k]
			for n := range s.Len() {
				if answer, _ := s.Change(n); answer >= len(d.Endpoints[s.Endpoint].Answers) {
					t.Fatalf("answer %d of %d", answer, len(d.Endpoints[s.Endpoint].Answers))
				}
			}
		}
	})
}

// TestFilesOfOthers refuses what no Collector writes, and names the line.
func TestFilesOfOthers(t *testing.T) {
	head := "{\"endpoint\":0,\"url\":\"u\"}\n{\"series\":0,\"endpoint\":0,\"name\":\"x\",\"type\":\"gauge\"}\n"
	for text, want := range map[string]string{
		"{\"endpoint\":1,\"url\":\"u\"}\n":                                             "line 1: endpoint 1: want 0",
		"{\"endpoint\":0,\"at\":1}\n":                                                  "line 1: endpoint 0: want one of the 0 before",
		head + "{\"series\":2,\"endpoint\":0}\n":                                       "line 3: series 2: want 1",
		head + "{\"series\":1,\"endpoint\":0,\"name\":\"y\",\"type\":\"z\"}\n":         "line 3: series y: type \"z\": want counter, gauge, histogram or summary",
		head + "{\"series\":1,\"endpoint\":0,\"name\":\"y\",\"type\":\"histogram\"}\n": "line 3: series y: a histogram without bounds",
		head + "{\"endpoint\":0,\"at\":1,\"values\":[[0,1,2]]}\n":                      "line 3: 2 values of series x: want 1",
		head + "{\"endpoint\":0,\"at\":1,\"values\":[[]]}\n":                           "line 3: values without a series",
		head + "{\"endpoint\":0,\"at\":1,\"values\":[[0.5,1]]}\n":                      "line 3: series 0.5 of endpoint 0: it has no such series",
		head + "{\"endpoint\":0,\"at\":1,\"gone\":[-1]}\n":                             "line 3: series -1 of endpoint 0: it has no such series",
		head + "{\"endpoint\":0,\"at\":2}\n{\"endpoint\":0,\"at\":1}\n":                "line 4: answer at 1: want one after that at 2",
		head + "{\"endpoint\":0}\n":                                                    "line 3: it is none of the lines that a run writes: want one with url, series or at",
		head + "\n":                                                                    "line 3: unexpected end of JSON input",
	} {
		_, err := Read(strings.NewReader(text))
		require.EqualError(t, err, want)
	}
	_, err := ReadFile("testdata/none")
	require.Error(t, err)
}
