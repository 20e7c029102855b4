package scrape

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// oddPages are pages with lines that are odd, the series that they have all the same, and how many lines are lost.
var oddPages = map[string]struct {
	text string
	want []string
	odd  int
}{
	"twice": {
		"# HELP a x\n# TYPE a gauge\na{e=\"0\"} 1\n# HELP a x\n# TYPE a gauge\na{e=\"1\"} 2\n# TYPE p_total counter\np_total 100\n",
		[]string{"gauge a map[e:0] [1]", "gauge a map[e:1] [2]", "counter p map[] [100]"}, 2,
	},
	"exemplars": {
		"a 1\n# TYPE h histogram\nh_bucket{le=\"0.1\"} 1 # {trace_id=\"abc\"} 0.05 1700000000.1\nh_bucket{le=\"+Inf\"} 2 1700000000\nh_sum 1\nh_count 2\n# EOF\n",
		[]string{"gauge a map[] [1]", "histogram h map[] [2 1 1 2]"}, 0,
	},
	"OpenMetrics": {
		"# TYPE r gauge\n# UNIT r requests\nr{e=\"0\"} 1.0 1700000000.123\n# TYPE p counter\np_total{e=\"0\"} 100.0\np_created{e=\"0\"} 1.7e9\n# TYPE s info\ns_info{v=\"1\"} 1\n# TYPE u unknown\nu 5\n# EOF",
		[]string{"gauge p_created map[e:0] [1.7e+09]", "counter p map[e:0] [100]", "gauge r map[e:0] [1]", "gauge s_info map[v:1] [1]", "gauge u map[] [5]"}, 1,
	},
	"names":        {"a 1\na-b 2\n1a 3\n{\"q-r\",x=\"1\"} 4\n", []string{"gauge a map[] [1]", "gauge q-r map[x:1] [4]"}, 2},
	"CRLF":         {"# TYPE a gauge\r\na{x=\"1\"} 1\r\n# TYPE b counter\r\nb_total 4\r\n", []string{"gauge a map[x:1] [1]", "counter b map[] [4]"}, 0},
	"numbers":      {"a 1\nb 1e400\nc \nd{x=\"y\"}\ne 0x1p3\nf 1 x\ng 1 2 3\nh 1_0\ni nan\nj 2\nk 3\nl 4\nm 5\nn 6\no 7\n", []string{"gauge a map[] [1]", "gauge j map[] [2]", "gauge k map[] [3]", "gauge l map[] [4]", "gauge m map[] [5]", "gauge n map[] [6]", "gauge o map[] [7]"}, 7},
	"labels":       {"a{x=\"1\",} 1\na{x=\"} # {\"} 2\nb{x=1} 3\nc{x=\"1\" 4\nd{x=\"a\\\"}\"} 5\n", []string{"gauge a map[x:1] [1]", "gauge a map[x:} # {] [2]", "gauge d map[x:a\"}] [5]"}, 2},
	"part's type":  {"# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_sum 1\nh_count 1\n# TYPE h_count gauge\n# HELP h_count x\nh_count 4\n", []string{"histogram h map[] [1 1 1 1]"}, 3},
	"late type":    {"a 1\n# TYPE a counter\n", []string{"gauge a map[] [1]"}, 1},
	"bad bucket":   {"# TYPE h histogram\nh_bucket{le=\"x\"} 1\nh_bucket{le=\"1\"} 1\nh_sum 1\nh_count 1\n", []string{"histogram h map[] [1 1 1 1]"}, 1},
	"bad help":     {"# HELP a \\x\na 1\n", []string{"gauge a map[] [1]"}, 1},
	"bad encoding": {"a{x=\"\xff\"} 1\nb 2\n", []string{"gauge b map[] [2]"}, 1},
}

// A line of a page that is odd costs itself, not the page.
//
// Covers T-132.
func TestOddLines(t *testing.T) {
	for name, page := range oddPages {
		list, leftOut, odd, err := parsePage([]byte(page.text))
		require.NoError(t, err, name)
		assert.Zero(t, leftOut, name)
		assert.Equal(t, page.odd, odd, name)
		var got []string
		for _, s := range list {
			got = append(got, fmt.Sprint(s.series.Type, " ", s.series.Name, " ", s.series.Labels, " ", s.values))
		}
		assert.Equal(t, page.want, got, name)
	}
}

// The tidied text of a page without odd lines has the same metrics.
func TestTidyKeepsPages(t *testing.T) {
	for _, text := range []string{names, string(vllmPage(3))} {
		want, err := parseText([]byte(text))
		require.NoError(t, err)
		got, odd, err := familiesOf([]byte(text))
		require.NoError(t, err)
		require.Zero(t, odd)
		require.Len(t, got, len(want))
		for name := range want {
			require.Equal(t, want[name].String(), got[name].String())
		}
	}
}

// The page of TensorRT-LLM is JSON that every reader empties: it is read once, and the one beside it from then on. Without one it is left
// alone.
//
// Covers T-132.
func TestPageOfJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told said
		var mu sync.Mutex
		asked := map[string]int{}
		file := &memory{}
		c, err := Start(Options{
			Pages: []Page{
				{URL: "http://user:pw@h/metrics", Default: true, Instead: "http://user:pw@h/prometheus/metrics"},
				{URL: "http://j/metrics"},
			},
			Notice: told.add,
			Transport: answers(func(r *http.Request, n int) (string, error) {
				mu.Lock()
				asked[r.URL.String()]++
				mu.Unlock()
				if r.URL.Path == "/metrics" {
					return `[{"iter":1,"numActiveRequests":3}]`, nil
				}
				assert.NotEmpty(t, r.Header.Get("Authorization"))
				return fmt.Sprintf("trtllm_kv_cache_utilization 0.%d\n", n), nil
			}).transport(),
		})
		require.NoError(t, err)
		c.Open(file)
		time.Sleep(time.Second)
		require.Empty(t, c.Boundary(t.Context(), time.Second))
		f, err := c.Close()
		require.NoError(t, err)
		assert.Equal(t, 1, asked["http://h/metrics"])
		assert.Equal(t, 1, asked["http://j/metrics"])
		assert.Equal(t, "http://h/prometheus/metrics", f.Pages[0].URL)
		assert.Zero(t, f.Pages[0].Failures)
		assert.Equal(t, asked["http://h/prometheus/metrics"], f.Pages[0].Fetches)
		assert.Equal(t, 1, f.Pages[1].Failures)
		assert.Contains(t, strings.Join(told.list, "\n"), "http://h/metrics is JSON, as TensorRT-LLM answers: http://h/prometheus/metrics is read instead")
		assert.Contains(t, strings.Join(told.list, "\n"), "at /prometheus/metrics: it is left alone")
		d, err := Read(&file.Buffer)
		require.NoError(t, err)
		require.Len(t, d.Endpoints, 2)
		assert.Equal(t, "http://h/prometheus/metrics", d.Endpoints[0].URL)
		assert.Equal(t, "http://j/metrics", d.Endpoints[1].URL)
	})
}
