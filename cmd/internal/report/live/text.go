package live

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/replay/measure"
)

// part is a piece of a line. If the line is too narrow for all parts, those of the highest rank are left out.
type part struct {
	rank int
	text string
}

// fit returns the parts that fit into columns, in their order: the lowest ranks first, and of one rank the first ones.
func fit(parts []part, columns int) string {
	order := make([]int, len(parts))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(x, y int) int { return parts[x].rank - parts[y].rank })
	fits, left := make([]bool, len(parts)), columns+len(gap)
	for _, k := range order {
		if n := utf8.RuneCountInString(parts[k].text) + len(gap); parts[k].text != "" && n <= left {
			fits[k] = true
			left -= n
		}
	}
	var line []string
	for k, p := range parts {
		if fits[k] {
			line = append(line, p.text)
		}
	}
	return strings.Join(line, gap)
}

const gap = "  " // between two parts

// blockLines is how many lines a block has.
const blockLines = 5

// Block describes the run in blockLines lines of at most some columns.
func (s *Status) Block(columns int) (lines [blockLines]string) {
	for k, parts := range [blockLines][]part{s.clock(), s.counts(), s.rates(), s.latencies(), s.trouble()} {
		lines[k] = fit(parts, columns)
	}
	return lines
}

// Log describes the run in one line.
func (s *Status) Log() string {
	var clauses []string
	for _, parts := range [][]part{s.counts(), s.rates(), s.latencies(), s.trouble()} {
		var clause []string
		for _, p := range parts {
			if p.text != "" {
				clause = append(clause, p.text)
			}
		}
		clauses = append(clauses, strings.Join(clause, ", "))
	}
	at := round(s.Elapsed)
	if !s.Remaining.IsMissing() {
		at += ", " + round(float64(s.Remaining)) + " left"
	}
	if of := s.partsText(); of != "" {
		at += ", " + of
	}
	if s.State == ended {
		at = "ended after " + at
	}
	return fmt.Sprintf("%s %s: %s", s.label(), at, strings.ReplaceAll(strings.Join(clauses, "; "), ", (", " ("))
}

// label names what is played: the warmup, or the replay that is measured.
func (s *Status) label() string {
	if s.State == measure.WarmupPhase {
		return "warmup"
	}
	return "replay"
}

// clock tells how far the run has come.
func (s *Status) clock() []part {
	parts := []part{{0, s.label()}}
	bar, percent, left := "", "", ""
	if whole := s.Elapsed + float64(s.Remaining); !s.Remaining.IsMissing() && whole > 0 {
		const cells = 20
		done := s.Elapsed / whole
		full := int(done * cells)
		bar = "[" + strings.Repeat("=", full) + strings.Repeat("-", cells-full) + "]"
		percent, left = fmt.Sprintf("%.0f %%", 100*done), round(float64(s.Remaining))+" left"
	}
	return append(parts, part{3, bar}, part{2, percent}, part{1, round(s.Elapsed)}, part{1, left}, part{1, s.partsText()})
}

// partsText says how many parts of a load play.
func (s *Status) partsText() string {
	if s.Parts == nil {
		return ""
	}
	return fmt.Sprintf("%d of %d parts", s.Parts.Playing, s.Parts.Of)
}

// saidSilent is after how many seconds without a received byte the block says so.
const saidSilent = 10

// counts tells the numbers of requests and trees.
func (s *Status) counts() []part {
	busy := fmt.Sprintf("%d of %d lanes", s.OpenTrees, s.Lanes)
	if s.WaitingTrees != nil {
		busy = fmt.Sprintf("%d trees open, %d waiting", s.OpenTrees, *s.WaitingTrees)
	}
	flying := fmt.Sprintf("%d in flight", s.InFlight)
	if s.Silent >= saidSilent {
		flying += fmt.Sprintf(", nothing received for %.0f s", s.Silent)
	}
	if s.State == ended {
		busy, flying = "", ""
	}
	return []part{
		{1, busy}, {0, flying}, {3, fmt.Sprintf("%d sent", s.Sent)}, {2, fmt.Sprintf("%d completed", s.Completed)},
		{4, count(s.Overflows, "context overflow")}, {4, count(s.Cancelled, "cancelled")},
	}
}

// rates tells the rates of the last 30 seconds.
func (s *Status) rates() []part {
	r := s.Recent
	cached := ""
	if !r.TokenHitRate.IsMissing() {
		cached = measure.FormatShare(r.TokenHitRate) + " cached"
	}
	return []part{
		{0, measure.FormatQuantity(r.RequestRate) + " requests/s"}, {1, "tokens/s in " + measure.FormatQuantity(r.PromptTokenRate)},
		{2, cached}, {1, "out " + measure.FormatQuantity(r.OutputTokenRate)},
	}
}

// latencies tells the latencies of the last 30 seconds.
func (s *Status) latencies() []part {
	pair := func(name string, of Stat) string {
		return name + " " + measure.FormatSeconds(of.P50) + " / " + measure.FormatSeconds(of.P95)
	}
	return []part{{0, pair("ttft", s.Recent.TTFT)}, {1, pair("itl", s.Recent.ITL)}, {2, "(p50 / p95, last 30 s)"}}
}

// trouble tells failures, lateness, and whether this machine holds requests up.
func (s *Status) trouble() []part {
	failed := s.failed()
	parts := []part{{0, "0 failed"}, {2, ""}, {1, "lateness p99 " + measure.FormatSeconds(s.Recent.Lateness.P99)}}
	if failed > 0 {
		parts[0].text = fmt.Sprintf("%d failed (%s)", failed, measure.FormatShare(s.ErrorRate))
		parts[1].text = s.categories()
	}
	if s.ClientBound {
		parts = append(parts, part{0, "client-bound"})
	}
	if s.Standstills.Long() {
		parts = append(parts, part{0, "stood still for " + measure.FormatSeconds(measure.Number(s.Standstills.Longest.Seconds))})
	}
	return parts
}

// categories counts the failed requests by category, the commonest first.
func (s *Status) categories() string {
	var parts []string
	for _, c := range measure.ErrorCounts(s.Errors).CommonestFirst() {
		parts = append(parts, fmt.Sprintf("%s %d", c, s.Errors[c]))
	}
	return strings.Join(parts, ", ")
}

// count describes a count that is not 0.
func count(n int, of string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s", n, of)
}

// round formats seconds without a fraction.
func round(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}

// Realtime writes the blocks that agentx-harness logs while it measures: doc/spec/report.md 7.3.
type Realtime struct {
	state *State

	done    int // in the block before
	elapsed time.Duration
	servers Servers
	begun   bool // there was one
}

// Servers are metrics of the servers by name: counters since the measured phase began, and gauges.
type Servers struct{ Counters, Gauges map[string]float64 }

// NewRealtime returns a writer of blocks about a run.
func NewRealtime(s *State) *Realtime { return &Realtime{state: s} }

// Block returns the lines of a block at some time after the start of the measured phase; none if no request is over, or if nothing has changed
// since the last block.
func (r *Realtime) Block(elapsed time.Duration, servers Servers) []string {
	r.state.mu.Lock()
	defer r.state.mu.Unlock()
	t := r.state.totals[measure.ProfilingPhase]
	done := t.Requests - t.Buckets[measure.CancelledAtEnd]
	same := done == r.done && maps.Equal(servers.Counters, r.servers.Counters) && maps.Equal(servers.Gauges, r.servers.Gauges)
	if done == 0 || same {
		return nil
	}
	span := t.Last - t.First
	average := ratio(float64(t.Measured), span)
	rate := average
	if r.begun {
		rate = ratio(float64(done-r.done), (elapsed - r.elapsed).Seconds())
	}
	r.done, r.elapsed, r.servers, r.begun = done, elapsed, servers, true
	lines := []string{
		fmt.Sprintf("[realtime %s profiling]", clockText(elapsed)),
		fmt.Sprintf("  rps=%s (avg %s)  tput_in=%s/s  tput_out=%s/s  done=%s ok=%s err=%s", tenths(rate), tenths(average),
			whole(ratio(float64(t.Tokens.Prompt), span)), whole(ratio(float64(t.Tokens.Output), span)), bytefmt.Digits(done), bytefmt.Digits(t.Measured), bytefmt.Digits(done-t.Measured)),
	}
	lines = append(lines, t.percentileRows()...)
	if t.Measured > 0 {
		lines = append(lines, fmt.Sprintf("  tot     in=%s  out=%s", bytefmt.Digits(int(t.Tokens.Prompt)), bytefmt.Digits(int(t.Tokens.Output))))
	}
	if t.Blocks > 0 {
		lines = append(lines, fmt.Sprintf("  trace  theoretical_prefix_cache_hit=%.1f%%", 100*float64(t.Hits)/float64(t.Blocks)))
	}
	if parts := servers.parts(elapsed); len(parts) > 0 {
		lines = append(lines, "  srv    "+strings.Join(parts, " "))
	}
	return lines
}

// percentileRows returns a row for each distribution, whose columns are aligned.
func (t *totals) percentileRows() (lines []string) {
	middle, tokens := []float64{50, 75, 95, 99}, []float64{50, 75, 90, 99}
	rows := []struct {
		label  string
		of     *distribution
		at     []float64
		format func(measure.Number) string
		unit   string
		always bool // also without a value
		values [4]string
	}{
		{label: "ttft", of: t.named("ttft"), at: middle, format: milliseconds, always: true},
		{label: "itl", of: t.named("itl"), at: middle, format: milliseconds, always: true},
		{label: "e2e", of: t.named("latency"), at: middle, format: milliseconds, always: true},
		{label: "intvty", of: t.named("itl"), at: middle, format: whole, unit: "  (1/tpot tok/s)", always: true},
		{label: "isl", of: t.named("prompt_tokens"), at: tokens, format: whole, unit: "  (tokens)"},
		{label: "osl", of: t.named("output_tokens"), at: tokens, format: whole, unit: "  (tokens)"},
	}
	var widths [4]int
	for k := range rows {
		r := &rows[k]
		for c, p := range r.at {
			v := r.of.at(p)
			if r.label == "intvty" {
				v = ratio(1, float64(r.of.at(100-p)))
			}
			r.values[c] = r.format(v)
			widths[c] = max(widths[c], len(r.values[c]))
		}
	}
	for _, r := range rows {
		if r.of.Cells.n == 0 && !r.always {
			continue
		}
		var cells []string
		for c, p := range r.at {
			cells = append(cells, fmt.Sprintf("p%.0f=%*s", p, widths[c], r.values[c]))
		}
		lines = append(lines, fmt.Sprintf("  %-6s  %s%s", r.label, strings.Join(cells, "  "), r.unit))
	}
	return lines
}

// parts returns the fields of the row of the servers.
func (s *Servers) parts(elapsed time.Duration) (list []string) {
	add := func(ok bool, format string, values ...any) {
		if ok {
			list = append(list, fmt.Sprintf(format, values...))
		}
	}
	hits, queries, known := s.prefixHits()
	rate, rated := s.gauge("sglang:cache_hit_rate")
	if known {
		rate, rated = min(hits, queries)/queries, true
	}
	add(rated, "prefix_cache_hit=%.1f%%", percent(rate))
	add(known, "unique_in_srv=%s", whole(measure.Number(max(queries-hits, 0))))
	hits, queries, known = s.pair("vllm:external_prefix_cache_hits", "vllm:external_prefix_cache_queries")
	add(known, "ext_cache_hit=%.1f%%", 100*min(hits, queries)/queries)
	used, known := s.gauge("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc", "sglang:token_usage")
	add(known, "kv_usage=%.1f%%", percent(used))
	used, known = s.gauge("vllm:cpu_cache_usage_perc")
	add(known, "cpu_kv_usage=%.1f%%", percent(used))
	running, some := s.gauge("vllm:num_requests_running", "sglang:num_running_reqs")
	waiting, more := s.gauge("vllm:num_requests_waiting", "sglang:num_queue_reqs")
	add(some || more, "queue=%dr/%dw", int(running), int(waiting))
	tokens, known := firstOf(s.Counters, "vllm:prompt_tokens", "sglang:prompt_tokens")
	add(known, "tput_in_srv=%s/s", whole(ratio(tokens, elapsed.Seconds())))
	tokens, known = firstOf(s.Counters, "vllm:generation_tokens", "sglang:generation_tokens")
	add(known, "tput_out_srv=%s/s", whole(ratio(tokens, elapsed.Seconds())))
	return list
}

// prefixHits returns the hits and the queries of the prefix cache.
func (s *Servers) prefixHits() (hits, queries float64, ok bool) {
	if hits, queries, ok = s.pair("vllm:prefix_cache_hits", "vllm:prefix_cache_queries"); !ok {
		hits, queries, ok = s.pair("sglang:cached_tokens", "sglang:prompt_tokens")
	}
	return hits, queries, ok
}

// pair returns two counters; ok is false if one is missing or the second is 0.
func (s *Servers) pair(first, second string) (a, b float64, ok bool) {
	a, ok = s.Counters[first]
	b = s.Counters[second]
	return a, b, ok && b > 0
}

// gauge returns the first gauge of some names that the servers have.
func (s *Servers) gauge(names ...string) (float64, bool) { return firstOf(s.Gauges, names...) }

// firstOf returns the value of the first name that has one.
func firstOf(values map[string]float64, names ...string) (float64, bool) {
	for _, name := range names {
		if v, ok := values[name]; ok {
			return v, true
		}
	}
	return 0, false
}

// percent returns a share in per cent. Most servers give it from 0 to 1, some from 0 to 100.
func percent(v float64) float64 {
	if v <= 1 {
		return 100 * v
	}
	return v
}

// clockText writes MM:SS, from an hour on H:MM:SS.
func clockText(d time.Duration) string {
	s := int(d.Seconds())
	if s < 3600 {
		return fmt.Sprintf("%02d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

// tenths writes a number with one decimal.
func tenths(v measure.Number) string {
	if v.IsMissing() {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(v))
}

// milliseconds writes seconds in whole milliseconds.
func milliseconds(v measure.Number) string {
	switch ms := 1000 * v; {
	case v.IsMissing():
		return "-"
	case ms < 1:
		return "<1ms"
	default:
		return whole(ms) + "ms"
	}
}

// whole writes a rounded number with commas. It rounds halves to even, as Python does.
func whole(v measure.Number) string {
	if v.IsMissing() {
		return "-"
	}
	return bytefmt.Digits(int(math.RoundToEven(float64(v))))
}
