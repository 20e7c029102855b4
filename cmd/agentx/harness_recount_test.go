package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/aiperf"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
	"github.com/agentx/agentx/report"
)

// phaseRange is when a phase of the harness was played.
type phaseRange struct {
	Start int64 `json:"start_ns"`
	End   int64 `json:"end_ns"`
}

// phaseRanges returns the phases of a run of the harness from its server metrics. They have its warmup until after its last scrape, so
// the length of that is the one that its rate of requests was divided by.
func (r *harnessRun) phaseRanges(t *testing.T, warmup report.Table) map[string]phaseRange {
	var file struct {
		Summary struct {
			Phases map[string]phaseRange `json:"phase_time_ranges"`
		}
	}
	require.NoError(t, json.Unmarshal([]byte(r.text(t, serverFile)), &file))
	phases := file.Summary.Phases
	if count, rate := warmup.Find("request_count"), warmup.Find("request_throughput"); count != nil && rate != nil {
		n, _ := count.Find("avg")
		perSecond, _ := rate.Find("avg")
		p := phases[measure.WarmupPhase]
		p.End = p.Start + int64(math.Round(n.Float64()/perSecond.Float64()*1e9))
		phases[measure.WarmupPhase] = p
	}
	return phases
}

// recount makes records of agentx from the rows of the harness and computes results from them.
func recount(t *testing.T, r *harnessRun, phases map[string]phaseRange, rounded bool) *aiperf.Aggregate {
	dir := t.TempDir()
	w, err := measure.Create(dir)
	require.NoError(t, err)
	for k := range r.requests {
		row := recountedRow{row: &r.requests[k].row, origin: phases[r.requests[k].key.phase].Start, rounded: rounded}
		record := row.record()
		require.NoError(t, w.Write(&record))
	}
	require.NoError(t, w.Close())
	profiling := phases[measure.ProfilingPhase]
	length := float64(profiling.End-profiling.Start) / 1e9
	info := measure.RunInfo{Run: measure.Run{Version: "1", Model: "m", Preset: preset.AgentX, Start: time.Unix(0, profiling.Start).UTC(), URLs: []string{"http://127.0.0.1:1"}},
		Facts: &measure.Facts{PhaseDuration: length, Deadline: length}}
	for _, name := range []string{measure.WarmupPhase, measure.ProfilingPhase} {
		p := phases[name]
		info.Phases = append(info.Phases, measure.PhaseSpan{Name: name, Start: time.Unix(0, p.Start).UTC(), Duration: float64(p.End-p.Start) / 1e9})
	}
	written, err := json.Marshal(info)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, measure.RunFile), written, 0o600))
	run, err := report.Open(dir)
	require.NoError(t, err)
	_, err = aiperf.Write(t.Context(), run, aiperf.Options{})
	require.NoError(t, err)
	written, err = os.ReadFile(filepath.Join(dir, aggregateFile))
	require.NoError(t, err)
	results, err := aiperf.ReadAggregate(written)
	require.NoError(t, err)
	return results
}

// recountedRow is a row of the harness on its way to a record. Its instants are on two clocks: requests begin and end by the wall clock,
// and spans are of another. The harness makes curves of the wall clock, which its floating-point numbers have in steps of 256 ns, and the
// statistics of requests of the other.
type recountedRow struct {
	row     *aiperf.Row
	origin  int64 // of the phase
	rounded bool  // by the wall clock, in such steps
	value   map[string]float64
}

// at returns an instant as a record has it: some spans after the start of the request, in ms.
func (r *recountedRow) at(spans ...string) float64 {
	ns := r.row.Metadata.RequestStart - r.origin
	for _, tag := range spans {
		ns += int64(math.Round(r.value[tag] * 1e6))
	}
	return r.wall(ns + r.origin)
}

// wall returns an instant as a record has it.
func (r *recountedRow) wall(ns int64) float64 {
	if r.rounded {
		ns = int64(float64(ns))
	}
	return float64(ns-r.origin) / 1e9
}

// tokens returns a count, nil if the row does not have it.
func (r *recountedRow) tokens(tag string) measure.Count {
	v, ok := r.value[tag]
	if !ok {
		return 0
	}
	return measure.Tokens(int64(v))
}

func (r *recountedRow) record() measure.Record {
	m := &r.row.Metadata
	r.value = map[string]float64{}
	var gaps []report.Number
	for _, x := range r.row.Metrics {
		if x.List != nil {
			gaps = x.List
		} else {
			r.value[x.Tag] = x.Value.Float64()
		}
	}
	issued := r.wall(m.CreditIssued)
	o := measure.Record{Phase: m.Phase, Credit: int(m.SessionNum), Trace: m.SourceTrace, Session: m.Conversation, Turn: m.Turn, Depth: m.Depth, SourceKind: m.SourceKind,
		RequestID: m.RequestID, CorrelationID: m.CorrelationID, RootID: m.RootID, ParentID: m.ParentID, Bucket: measure.Profiling,
		Numbers: measure.Numbers{Due: measure.At(issued), Admitted: measure.At(issued), Sent: measure.At(r.at()), End: measure.At(r.wall(m.RequestEnd)), Status: 200}}
	if m.Phase == measure.WarmupPhase {
		o.Bucket = measure.WarmupBucket
	}
	if r.row.Error != nil {
		o.End = measure.At(max(o.End.Seconds(), o.Sent.Seconds()))
		o.Error = &measure.Error{Category: wire.HTTPStatus, Code: r.row.Error.Code, Message: r.row.Error.Message}
		return o
	}
	o.FirstToken, o.LastToken, o.FirstOutput = measure.At(r.at("time_to_first_token")), measure.At(r.at("request_latency")), measure.At(r.at("time_to_first_output_token"))
	if _, ok := r.value["time_to_second_token"]; ok {
		o.SecondToken = measure.At(r.at("time_to_first_token", "time_to_second_token"))
	}
	if !r.rounded {
		o.End = measure.At(r.at("time_to_first_token", "full_decode_duration"))
	}
	o.LastToken = measure.At(min(o.LastToken.Seconds(), o.End.Seconds()))
	r.count(&o)
	r.connect(&o)
	at := r.value["time_to_first_token"]
	o.Contents.Add(spanOf(at), -1)
	for _, gap := range gaps {
		at += gap.Float64()
		o.Contents.Add(spanOf(at), -1)
	}
	o.Chunks = o.Contents.Len()
	return o
}

func spanOf(ms float64) time.Duration { return time.Duration(math.Round(ms * 1e6)) }

// count fills in tokens and bytes.
func (r *recountedRow) count(o *measure.Record) {
	o.PromptTokens, o.CachedTokens = r.tokens("usage_prompt_tokens"), r.tokens("usage_prompt_cache_read_tokens")
	o.OutputTokens, o.TotalTokens = r.tokens("usage_completion_tokens"), r.tokens("usage_total_tokens")
	o.BytesSent, o.BytesReceived = int64(math.Round(r.value["http_req_data_sent"]*1024)), int64(math.Round(r.value["http_req_data_received"]*1024))
	o.BodySent, o.BodyReceived, o.BodyReads = o.BytesSent, o.BytesReceived, int(r.value["http_req_chunks_received"])
	o.Reused = r.value["http_req_connection_reused"] == 1
	if off, ok := r.value["osl_mismatch_diff_pct"]; ok && o.OutputTokens != 0 {
		o.MaxTokens = int64(math.Round(float64(o.OutputTokens.N()) / (1 + off/100)))
	}
}

// connect fills in the steps of the connection.
func (r *recountedRow) connect(o *measure.Record) {
	o.WaitEnd = measure.At(r.at("http_req_blocked"))
	o.SendStart = measure.At(r.at("http_req_blocked", "http_req_connecting"))
	if r.value["http_req_connecting"] > 0 {
		o.ConnectStart, o.ConnectEnd = o.WaitEnd, o.SendStart
	}
	o.SendEnd = measure.At(r.at("http_req_blocked", "http_req_connecting", "http_req_sending"))
	o.FirstByte = measure.At(r.at("http_req_blocked", "http_req_connecting", "http_req_sending", "http_req_waiting"))
	o.LastByte = measure.At(r.at("http_req_blocked", "http_req_connecting", "http_req_sending", "http_req_waiting", "http_req_receiving"))
}

// notRecounted are blocks that rows do not tell enough of: the recording decides the hits, overflows have no rows, and failed requests no
// tokens.
var notRecounted = []string{"theoretical_prefix_cache_hit", "context_overflow_count", "skipped_context_overflow_count", "error_isl", "total_error_isl"}

var (
	// byWallClock are curves, and spans from the credit on.
	byWallClock = regexp.MustCompile(`^(effective|active)_|^tokens_in_flight$|^credit_to_start_latency$`)
	// overChunks are curves over the gaps between content messages, which may be shorter than a step of the harness's clock: 256 ns.
	overChunks = regexp.MustCompile(`^(effective|active)_decode_throughput|^tokens_in_flight$`)
)

// How far a number of the harness and of agentx may be apart, as a share of it: of curves over chunks more, and their maximum is that of
// what overlaps for a step of the clock. Spans have the nanosecond of records besides, which is a spanStep of their ms.
const (
	recountedWithin = 1e-6
	chunksWithin    = 5e-3
	spanStep        = 1e-6
)

// compareRecount compares the blocks of the harness's aggregate with those that agentx computes from its rows.
func compareRecount(t *testing.T, r *harnessRun) (found map[string]string, compared int) {
	theirs, err := aiperf.ReadAggregate([]byte(r.text(t, aggregateFile)))
	require.NoError(t, err)
	phases := r.phaseRanges(t, theirs.Warmup)
	spans, curves := recount(t, r, phases, false), recount(t, r, phases, true)
	found = map[string]string{}
	for _, c := range []struct {
		phase                 string
		theirs, spans, curves report.Table
	}{{"profiling", theirs.Headline, spans.Headline, curves.Headline}, {"warmup", theirs.Warmup, spans.Warmup, curves.Warmup}} {
		for k := range c.theirs {
			b := &c.theirs[k]
			ours := c.spans.Find(b.Tag)
			if byWallClock.MatchString(b.Tag) {
				ours = c.curves.Find(b.Tag)
			}
			if slices.Contains(notRecounted, b.Tag) {
				continue
			}
			n, text := compareBlock(b, ours)
			compared += n
			if text != "" {
				found[c.phase+b.Tag] = c.phase + " " + b.Tag + ":" + text
			}
		}
	}
	return found, compared
}

// compareBlock compares the statistics of a block with those of agentx.
func compareBlock(b, ours *report.Block) (compared int, text string) {
	if ours == nil {
		return 0, " agentx does not compute it"
	}
	chunks, within := overChunks.MatchString(b.Tag), recountedWithin
	if chunks {
		within = chunksWithin
	}
	for _, s := range b.Stats {
		want := s.Value.Float64()
		got, ok := ours.Find(s.Name)
		compared++
		if !ok || math.Abs(got.Float64()-want) > within*math.Abs(want)+spanStep && !(chunks && s.Name == "max") {
			text += fmt.Sprintf(" %s %v and %v", s.Name, want, got.Float64())
		}
	}
	return compared, text
}
