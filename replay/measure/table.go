package measure

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// WriteTable writes the summary for people: plain text, a few aligned lines, no colour.
func (s Summary) WriteTable(w io.Writer) error {
	var b strings.Builder
	s.counts(&b)
	s.throughput(&b)
	s.latencies(&b)
	s.client(&b)
	s.verdict(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// row writes a label and what belongs to it.
func row(b *strings.Builder, label, format string, args ...any) {
	fmt.Fprintf(b, "%-12s", label)
	fmt.Fprintf(b, format, args...)
	b.WriteByte('\n')
}

func (s *Summary) counts(b *strings.Builder) {
	parts := []string{plural(s.Completed, "completed", "completed")}
	add := func(n int, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	failed := 0
	for _, n := range s.Errors {
		failed += n
	}
	add(failed, "failed")
	add(s.Buckets.Cooldown, "in cooldown")
	add(s.Buckets.CancelledAtEnd, "cancelled at the end")
	add(s.Buckets.ContextOverflow, "context overflow")
	row(b, "requests", "%d sent: %s", s.Requests, strings.Join(parts, ", "))
	categories := slices.Sorted(maps.Keys(s.Errors))
	slices.SortStableFunc(categories, func(x, y string) int { return s.Errors[y] - s.Errors[x] })
	for i, c := range categories {
		label := ""
		if i == 0 {
			label = "errors"
		}
		row(b, label, "%6d  %s", s.Errors[c], c)
		s.messages(b, c)
	}
	if len(s.Samples[overflow]) > 0 {
		row(b, "", "%6d  %s", s.Buckets.ContextOverflow, overflow)
		s.messages(b, overflow)
	}
	if s.BackOff.Pauses > 0 {
		row(b, "back-off", "%s of lanes without a connection, %s in sum", plural(s.BackOff.Pauses, "pause", "pauses"), duration(s.BackOff.Seconds))
	}
	row(b, "load", "%s in %s%s", plural(s.Trees, "tree", "trees"), plural(s.Lanes.Started, "lane", "lanes"), s.laneStart())
}

// overflow is the category whose requests have a bucket of their own.
const overflow = "context_overflow"

// messages writes the samples of a category.
func (s *Summary) messages(b *strings.Builder, category string) {
	for _, m := range s.Samples[category] {
		row(b, "", "%6d    %s", m.N, m.Message)
	}
}

func (s *Summary) laneStart() string {
	of := ""
	if s.Lanes.Started != s.Lanes.N {
		of = fmt.Sprintf(" of %d", s.Lanes.N)
	}
	if s.Lanes.FirstRequest.First.IsMissing() {
		return of
	}
	return of + fmt.Sprintf(", first requests from %s to %s",
		duration(float64(s.Lanes.FirstRequest.First)), duration(float64(s.Lanes.FirstRequest.Last)))
}

func (s *Summary) throughput(b *strings.Builder) {
	row(b, "throughput", "%s requests/s, %s prompt tokens/s, %s output tokens/s over %s",
		quantity(s.RequestRate), quantity(s.PromptTokenRate), quantity(s.OutputTokenRate), seconds(s.Duration))
	cached := "cached not reported"
	if !s.TokenHitRate.IsMissing() {
		cached = fmt.Sprintf("%s of them cached (hit rate per token %.1f %%)", quantity(s.CachedTokens), 100*s.TokenHitRate)
	}
	row(b, "tokens", "%s prompt, %s; %s output; %s prompt recorded",
		quantity(s.PromptTokens), cached, quantity(s.OutputTokens), quantity(s.RecordedPromptTokens))
}

func (s *Summary) latencies(b *strings.Builder) {
	b.WriteByte('\n')
	row(b, "", "%10s%10s%10s%10s%10s%10s%10s", "mean", "p50", "p75", "p90", "p95", "p99", "max")
	for _, l := range []struct {
		label string
		stat  *Stat
	}{{"ttft", &s.TTFT}, {"itl", &s.ITL}, {"latency", &s.RequestLatency}, {"lateness", &s.Lateness}} {
		fmt.Fprintf(b, "%-12s", l.label)
		for _, n := range []Number{l.stat.Mean, l.stat.P50, l.stat.P75, l.stat.P90, l.stat.P95, l.stat.P99, l.stat.Max} {
			fmt.Fprintf(b, "%10s", seconds(n))
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
}

func (s *Summary) client(b *strings.Builder) {
	peak := "-"
	if !s.Client.PeakRSS.IsMissing() {
		peak = bytesText(int64(s.Client.PeakRSS))
	}
	row(b, "client", "%s of CPU, peak memory %s, sent %s, received %s", seconds(s.Client.CPU), peak, bytesText(s.Client.BytesSent), bytesText(s.Client.BytesReceived))
	if s.Client.Bound {
		row(b, "", "the client, or a limit set on it, was part of the measurement: see lateness")
	}
}

func (s *Summary) verdict(b *strings.Builder) {
	if s.WedgedTrees > 0 {
		row(b, "wedged", "%s", plural(int(s.WedgedTrees), "tree", "trees"))
	}
	switch {
	case s.Valid != nil && *s.Valid:
		row(b, "valid", "yes")
	case s.Valid != nil:
		row(b, "valid", "no: %s", strings.Join(s.Reasons, ", "))
	}
	if s.Out != "" {
		row(b, "results", "%s", s.Out)
	}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// seconds is a duration that may be missing.
func seconds(n Number) string {
	if n.IsMissing() {
		return "-"
	}
	return duration(float64(n))
}

// duration writes seconds with three digits or four in the unit that fits.
func duration(s float64) string {
	switch a := max(s, -s); {
	case a == 0:
		return "0 s"
	case a < 0.9995e-3:
		return digits(s*1e6) + " us"
	case a < 0.9995:
		return digits(s*1e3) + " ms"
	case a < 1000:
		return digits(s) + " s"
	default:
		return strconv.FormatFloat(s, 'f', 0, 64) + " s"
	}
}

// quantity writes a count or a rate with three digits or four and k, M or G.
func quantity(n Number) string {
	if n.IsMissing() {
		return "-"
	}
	v, unit := float64(n), ""
	for _, u := range []string{"k", "M", "G"} {
		if max(v, -v) < 9999.5 {
			break
		}
		v, unit = v/1000, u
	}
	if unit == "" && v == float64(int64(v)) {
		return strconv.FormatInt(int64(v), 10)
	}
	return digits(v) + unit
}

func bytesText(n int64) string {
	v, unit := float64(n), "B"
	for _, u := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if v < 1023.5 {
			break
		}
		v, unit = v/1024, u
	}
	if unit == "B" {
		return strconv.FormatInt(n, 10) + " B"
	}
	return digits(v) + " " + unit
}

// digits writes three significant digits, or all those before the point.
func digits(v float64) string {
	switch a := max(v, -v); {
	case a < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case a < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
}
