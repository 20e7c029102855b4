package measure

import (
	"fmt"
	"strings"
)

// Remark says what a reader of some metrics must know, because the answers of a run do not show them as they were.
type Remark struct {
	Kind    string   `json:"kind"`    // of Summary.Deviations
	Metrics []string `json:"metrics"` // short names, as in MetricList
	Text    string   `json:"text"`
}

// distortions are the kinds of deviation that distort metrics.
var distortions = map[string]struct {
	metrics []string            // short names
	what    string              // they tell instead
	by      func(r *Record) int // how far a request deviates
	unit    string              // of by
}{
	"silent_tokens": {[]string{"itl", "latency"}, "leave out tokens that no message shows", func(r *Record) int { return r.Silent }, "% of them"},
	"buffered":      {[]string{"ttft", "itl"}, "tell when a buffer was emptied", func(r *Record) int { return r.Burst }, "messages at once"},
}

// remarkShare is the share of answers above which a deviation is a remark on the metrics that it distorts.
const remarkShare = 0.1

// remarks returns the remarks on a run by its deviations. It is never nil.
func (s *Summary) remarks() []Remark {
	list := []Remark{}
	for _, d := range deviations {
		n, x := s.Deviations[d.kind], distortions[d.kind]
		if len(x.metrics) > 0 && float64(n.Requests) > remarkShare*float64(s.Completed) {
			list = append(list, Remark{d.kind, x.metrics, fmt.Sprintf("%s: %s %s, for %d of %d answers, typically %.0f %s",
				d.kind, strings.Join(x.metrics, " and "), x.what, n.Requests, s.Completed, float64(n.Typical), x.unit)})
		}
	}
	return list
}

// remarkRows writes the remarks below the metrics.
func (s *Summary) remarkRows(b *strings.Builder) {
	label := "remarks"
	for _, r := range s.Remarks {
		row(b, label, "%s", r.Text)
		label = ""
	}
}
