package scrape

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// Bounds of a page. One that is larger is no answer, because the parser has a few hundred bytes for each of its lines and labels.
const (
	maxPage   = 16 << 20 // bytes
	maxLines  = 100_000  // that are no comments
	maxLabels = 500_000
)

// Bounds of a series. One that is larger is left out, and counted.
const (
	maxName         = 256 // bytes, also of a label's name
	maxLabelValue   = 1024
	maxSeriesLabels = 64
	maxBuckets      = 1024
)

var (
	errEmpty  = errors.New("no metrics in the text format of Prometheus")
	errFormat = errors.New("not the text format of Prometheus")
	errJSON   = errors.New("JSON, as the page of TensorRT-LLM, which every reader empties: its metrics are at /prometheus/metrics")
)

// sample is a series of a page, with its values.
type sample struct {
	key    string // of the series on its page
	series Series // without its endpoint
	values []float64
}

// parsePage returns the series of a page, in the order of their names. Those whose values are not finite are left out; those that
// are too large are left out and counted, as are lines that are odd.
func parsePage(text []byte) (list []sample, leftOut, odd int, err error) {
	if err := checkPage(text); err != nil {
		return nil, 0, 0, err
	}
	families, odd, err := familiesOf(text)
	if err != nil {
		return nil, 0, 0, err
	}
	for _, name := range slices.Sorted(maps.Keys(families)) {
		f := families[name]
		for _, m := range f.GetMetric() {
			s, ok := sampleOf(name, f.GetType(), m)
			s.series.Help = cutHelp(f.GetHelp())
			if !ok {
				leftOut++
			} else if s.values != nil {
				list = append(list, s)
			}
		}
	}
	if len(list) == 0 && leftOut == 0 {
		return nil, 0, 0, errEmpty
	}
	return list, leftOut, odd, nil
}

// maxHelp bounds the text that says what a series is, bytes.
const maxHelp = 1024

// cutHelp bounds a text, at the border of a character.
func cutHelp(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxHelp)], "")
}

// checkPage returns an error about a page that has too much, before the parser allocates memory for it.
func checkPage(text []byte) error {
	start := bytes.TrimSpace(text)
	switch {
	case len(start) == 0:
		return errEmpty
	case start[0] == '[' && json.Valid(start):
		return errJSON
	}
	lines := 0
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			lines++
		}
	}
	if lines > maxLines {
		return fmt.Errorf("%d lines: want at most %d", lines, maxLines)
	}
	if labels := bytes.Count(text, []byte{'='}); labels > maxLabels {
		return fmt.Errorf("%d labels: want at most %d", labels, maxLabels)
	}
	return nil
}

// sampleOf returns a metric as a series with its values, nil where one is not finite. ok is false if the series is too large.
func sampleOf(name string, t dto.MetricType, m *dto.Metric) (s sample, ok bool) {
	s.series = Series{Name: name, Type: Gauge, Labels: make(map[string]string, len(m.GetLabel()))}
	switch t {
	case dto.MetricType_COUNTER:
		s.series.Type, s.series.Name = Counter, strings.TrimSuffix(name, "_total")
		s.values = []float64{m.GetCounter().GetValue()}
	case dto.MetricType_HISTOGRAM:
		s.series.Type = Histogram
		s.series.Bounds, s.values = histogramOf(m.GetHistogram())
	case dto.MetricType_SUMMARY:
		s.series.Type = Summary
		s.values = []float64{float64(m.GetSummary().GetSampleCount()), m.GetSummary().GetSampleSum()}
	case dto.MetricType_UNTYPED:
		s.values = []float64{m.GetUntyped().GetValue()}
	case dto.MetricType_GAUGE:
		s.values = []float64{m.GetGauge().GetValue()}
	default:
		return s, false
	}
	for _, l := range m.GetLabel() {
		if len(l.GetName()) > maxName || len(l.GetValue()) > maxLabelValue {
			return s, false
		}
		s.series.Labels[l.GetName()] = l.GetValue()
	}
	if len(name) > maxName || len(s.series.Labels) > maxSeriesLabels || len(s.series.Bounds) > maxBuckets {
		return s, false
	}
	if slices.ContainsFunc(s.values, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }) {
		s.values = nil
	}
	s.key = s.series.key()
	return s, true
}

// histogramOf returns the bounds of a histogram's buckets, with one of +Inf at the end, and its values: count, sum, and the cumulative
// count of each bucket.
func histogramOf(h *dto.Histogram) (bounds []string, values []float64) {
	values = []float64{max(h.GetSampleCountFloat(), float64(h.GetSampleCount())), h.GetSampleSum()}
	buckets := slices.SortedStableFunc(slices.Values(h.GetBucket()), func(a, b *dto.Bucket) int {
		return cmp.Compare(a.GetUpperBound(), b.GetUpperBound())
	})
	for _, b := range buckets {
		bounds = append(bounds, formatBound(b.GetUpperBound()))
		values = append(values, max(b.GetCumulativeCountFloat(), float64(b.GetCumulativeCount())))
	}
	if n := len(bounds); n == 0 || bounds[n-1] != formatBound(math.Inf(1)) {
		bounds, values = append(bounds, formatBound(math.Inf(1))), append(values, values[0])
	}
	return bounds, values
}

// formatBound returns a bound as Prometheus writes it.
func formatBound(x float64) string {
	if math.IsInf(x, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// key returns what tells a series from all others of its page. Texts of a page are UTF-8, so that none contains the separator.
func (s *Series) key() string {
	var b strings.Builder
	for _, part := range [][]string{{string(s.Type), s.Name}, s.Bounds} {
		for _, text := range part {
			b.WriteString(text)
			b.WriteByte(0xff)
		}
		b.WriteByte(0xff)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		b.WriteString(name)
		b.WriteByte(0xff)
		b.WriteString(s.Labels[name])
		b.WriteByte(0xff)
	}
	return b.String()
}
