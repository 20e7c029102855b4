package scrape

import (
	"bytes"
	"fmt"
	"io"
	"testing"
)

// vllmPage returns a page of about as many series as a vLLM server of several engines has: lines of 40 histograms, with labels.
func vllmPage(tick int) []byte {
	var b bytes.Buffer
	for h := range 40 {
		name := fmt.Sprintf("vllm:some_time_of_a_request_%d_seconds", h)
		fmt.Fprintf(&b, "# HELP %s Histogram of some time of a request in seconds.\n# TYPE %s histogram\n", name, name)
		for engine := range 2 {
			labels := fmt.Sprintf(`engine="%d",model_name="some-organisation/Some-Model-70B"`, engine)
			for bucket := range 22 {
				fmt.Fprintf(&b, "%s_bucket{%s,le=\"%d.5\"} %d.0\n", name, labels, bucket, tick*bucket*(h%4))
			}
			fmt.Fprintf(&b, "%s_bucket{%s,le=\"+Inf\"} %d.0\n%s_count{%s} %d.0\n%s_sum{%s} %d.25\n", name, labels, tick*99*(h%4), name, labels, tick*99*(h%4), name, labels, tick)
		}
	}
	return b.Bytes()
}

// BenchmarkAnswer parses a page of 2,000 lines and writes what has changed: the CPU that a page costs, three times a second.
func BenchmarkAnswer(b *testing.B) {
	pages := [][]byte{vllmPage(1), vllmPage(2)}
	l := &log{limit: maxFile, file: struct {
		io.Writer
		io.Closer
	}{io.Discard, nil}}
	l.addEndpoint(0, Page{URL: "http://h/"})
	series := map[string]*known{}
	b.SetBytes(int64(len(pages[0])))
	b.ReportAllocs()
	for k := 0; b.Loop(); k++ {
		samples, _, _, err := parsePage(pages[k%2])
		if err != nil {
			b.Fatal(err)
		}
		l.size = 0
		l.addAnswer(0, int64(k), 1, samples, series)
	}
}
