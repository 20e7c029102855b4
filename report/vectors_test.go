package report

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// wireEvents is the input of a vector of the group request.
type wireEvents struct {
	Start  int64 `json:"start_ns"`
	End    int64 `json:"end_ns"`
	Events []struct {
		AtNS int64 `json:"at_ns"`
		Data *string
	}
	PerChunk bool `json:"per_chunk_usage"`
}

// record makes the record of a vector by a plain reading of its events. The kinds say which of them have content.
func (in *wireEvents) record(t *testing.T, kinds []string) measure.Record {
	r := measure.Record{Numbers: measure.Numbers{Sent: at(in.Start), Admitted: at(in.Start), Due: at(in.Start), End: at(in.End)}}
	for k, e := range in.Events {
		r.LastMessage = at(e.AtNS)
		var payload struct {
			Choices []struct {
				Delta struct{ Content string }
			}
			Usage *struct {
				Prompt     int64 `json:"prompt_tokens"`
				Completion int64 `json:"completion_tokens"`
				Details    struct {
					Reasoning *int64 `json:"reasoning_tokens"`
				} `json:"completion_tokens_details"`
			}
		}
		if e.Data != nil {
			_ = json.Unmarshal([]byte(*e.Data), &payload) // what is no JSON has no content
		}
		if u := payload.Usage; u != nil {
			r.PromptTokens = measure.Tokens(u.Prompt)
			r.OutputTokens = measure.Tokens(u.Completion)
			if u.Details.Reasoning != nil {
				r.OutputTokens, r.ReasoningTokens = measure.Tokens(u.Completion-*u.Details.Reasoning), measure.Tokens(*u.Details.Reasoning)
			}
		}
		if !slices.Contains([]string{"content", "reasoning", "tool_call"}, kinds[k]) {
			continue
		}
		r.Contents.Add(time.Duration(e.AtNS-in.Start), wire.Unknown)
		r.Chunks++
		r.LastToken = r.LastMessage
		switch r.Chunks {
		case 1:
			r.FirstToken = r.LastMessage
			if in.PerChunk && payload.Usage != nil {
				r.FirstChunkTokens = measure.Tokens(payload.Usage.Completion)
			}
		case 2:
			r.SecondToken = r.LastMessage
		}
		if r.FirstOutput == 0 && (kinds[k] != "reasoning" || payload.Choices[0].Delta.Content != "") {
			r.FirstOutput = r.LastMessage
		}
	}
	return r
}

// Every metric of a request that the vectors have, under each preset; and no other of those that they speak of.
//
// Covers T-39, T-54.
func TestVectorsRequest(t *testing.T) {
	type want struct {
		Kinds   []string
		Valid   bool
		Metrics map[string]any
	}
	spokenOf := map[string]bool{}
	list, err := fixtures.Cases("request")
	require.NoError(t, err)
	for _, c := range list {
		var w want
		require.NoError(t, json.Unmarshal(c.Want, &w))
		for name := range w.Metrics {
			spokenOf[strings.TrimSuffix(name, "_ns")] = true
		}
	}
	require.Len(t, spokenOf, 18)
	seen := 0
	fixtures.EachCase(t, "request", fixtures.Counts{28, 27, 27}, func(t *testing.T, c fixtures.Case, in wireEvents, want want) {
		r := in.record(t, want.Kinds)
		if !want.Valid {
			r.Error = &measure.Error{Category: wire.StreamTruncated}
			require.Empty(t, runUnder(t, c.Preset).RowMetrics(&r))
			return
		}
		got := map[string]RowMetric{}
		for _, m := range runUnder(t, c.Preset).RowMetrics(&r) {
			got[m.Tag] = m
		}
		for tag := range spokenOf {
			w, ns := want.Metrics[tag], 1.0
			if w == nil {
				w, ns = want.Metrics[tag+"_ns"], 1e6
			}
			m, ok := got[tag]
			if w == nil || tag == "request_end" {
				require.False(t, ok, tag)
				continue
			}
			require.True(t, ok, tag)
			seen++
			if list, ok := w.([]any); ok {
				require.Len(t, m.List, len(list))
				for k := range list {
					require.InDelta(t, list[k], m.List[k].Float64()*ns, 1e-9*max(1, list[k].(float64)))
				}
				continue
			}
			require.InDelta(t, w, m.Value.Float64()*ns, 1e-9*max(1, w.(float64)), tag)
			require.Equal(t, m.Unit == "tokens", m.Value.IsInt(), tag)
		}
	})
	require.Greater(t, seen, 600)
}

// Covers T-39.
func TestVectorsRequestArithmetic(t *testing.T) {
	type in struct {
		TTFT    float64  `json:"ttft_ms"`
		Latency float64  `json:"request_latency_ms"`
		End     *float64 `json:"request_duration_ms"`
		OSL     int64    `json:"output_sequence_length"`
	}
	fixtures.EachCase(t, "request_arithmetic", fixtures.Counts{4, 4, 4}, func(t *testing.T, c fixtures.Case, in in, want map[string]float64) {
		r := measure.Record{Numbers: measure.Numbers{Sent: measure.At(1), FirstToken: measure.At(1 + in.TTFT/1e3), LastToken: measure.At(1 + in.Latency/1e3), End: measure.At(1 + in.Latency/1e3), OutputTokens: measure.Tokens(in.OSL)}}
		if in.End != nil {
			r.End = measure.At(1 + *in.End/1e3)
		}
		got := map[string]float64{}
		for _, m := range runUnder(t, c.Preset).RowMetrics(&r) {
			got[m.Tag] = m.Value.Float64()
		}
		for name, w := range want {
			tag := strings.TrimSuffix(name, "_ms")
			require.Contains(t, got, tag)
			require.InDelta(t, w, got[tag], 1e-6*max(1, w), tag)
		}
	})
}

// Covers T-39.
func TestVectorsPercentile(t *testing.T) {
	type in struct {
		Values []float64
		ITL    []float64 `json:"itl_ms"`
	}
	type want struct {
		Avg, Min, Max, Std float64
		Percentiles        map[string]float64
		ITL                map[string]float64 `json:"itl_s"`
		Interactivity      map[string]float64
	}
	fixtures.EachCase(t, "percentile", fixtures.Counts{9, 9, 9}, func(t *testing.T, _ fixtures.Case, in in, want want) {
		s := samples{}
		for _, v := range append(in.Values, in.ITL...) {
			s.add(Float(v))
		}
		b := Block{Stats: s.distribution()}
		stat := func(name string) float64 {
			n, ok := b.Find(name)
			require.True(t, ok, name)
			return n.Float64()
		}
		for name, w := range want.ITL {
			require.InDelta(t, w, stat(name)/1e3, 1e-9)
			require.InDelta(t, want.Interactivity[name], 1e3/stat(name), 1e-9, "the reciprocal has the same label")
		}
		if in.ITL != nil {
			return
		}
		require.Len(t, want.Percentiles, len(percentiles))
		for name, w := range want.Percentiles {
			require.InDelta(t, w, stat(name), 1e-9, name)
		}
		for name, w := range map[string]float64{"avg": want.Avg, "min": want.Min, "max": want.Max, "std": want.Std, "count": float64(len(in.Values))} {
			require.InDelta(t, w, stat(name), 1e-9, name)
		}
	})
}

// Covers T-56.
func TestVectorsDispatchLatency(t *testing.T) {
	type in struct {
		Due    int64 `json:"due_ns"`
		Issued int64 `json:"issued_ns"`
		Start  int64 `json:"start_ns"`
		End    int64 `json:"end_ns"`
		Error  *string
	}
	fixtures.EachCase(t, "dispatch_latency", fixtures.Counts{2, 2, 2}, func(t *testing.T, c fixtures.Case, in in, want map[string]float64) {
		r := measure.Record{Numbers: measure.Numbers{Due: at(in.Due), Admitted: at(in.Issued), Sent: at(in.Start), End: at(in.End)}, Phase: measure.ProfilingPhase, Bucket: measure.Profiling}
		if in.Error != nil {
			r.Error = &measure.Error{Category: wire.Category(*in.Error)}
		}
		got := map[string]float64{}
		for _, m := range runUnder(t, c.Preset).RowMetrics(&r) {
			got[m.Tag+"_ms"] = m.Value.Float64()
		}
		table := compute(t, infoOf(c.Preset, 1), r).Headline
		for _, tag := range []string{"due_to_sent_latency", "credit_to_start_latency", "effective_latency"} {
			w, ok := want[tag+"_ms"]
			if !ok {
				require.NotContains(t, got, tag+"_ms")
				require.Nil(t, table.Find(tag))
				continue
			}
			require.InDelta(t, w, got[tag+"_ms"], 1e-12)
			require.InDelta(t, w, value(t, table, tag, "p99"), 1e-12)
		}
	})
}

// Covers T-56.
func TestVectorsHTTPTrace(t *testing.T) {
	type in struct {
		WaitStart    int64  `json:"wait_start_ns"`
		WaitEnd      int64  `json:"wait_end_ns"`
		ConnectStart *int64 `json:"connect_start_ns"`
		ConnectEnd   *int64 `json:"connect_end_ns"`
		SendStart    int64  `json:"send_start_ns"`
		SendEnd      int64  `json:"send_end_ns"`
		FirstByte    int64  `json:"first_byte_ns"`
		LastByte     int64  `json:"last_byte_ns"`
		Sent         int64  `json:"bytes_sent"`
		Received     int64  `json:"bytes_received"`
		Reused       bool
	}
	fixtures.EachCase(t, "http_trace", fixtures.Counts{2, 2, 2}, func(t *testing.T, c fixtures.Case, in in, want map[string]float64) {
		r := measure.Record{
			Numbers: measure.Numbers{Sent: at(in.WaitStart), WaitEnd: at(in.WaitEnd), SendStart: at(in.SendStart), SendEnd: at(in.SendEnd),
				FirstByte: at(in.FirstByte), LastByte: at(in.LastByte), End: at(in.LastByte)},
			Transfer: measure.Transfer{BytesSent: in.Sent, BytesReceived: in.Received, Reused: in.Reused},
		}
		if in.ConnectStart != nil {
			r.ConnectStart, r.ConnectEnd = at(*in.ConnectStart), at(*in.ConnectEnd)
		}
		got := map[string]float64{}
		for _, m := range runUnder(t, c.Preset).RowMetrics(&r) {
			got[m.Tag] = m.Value.Float64()
		}
		require.Len(t, want, 8)
		for tag, w := range want {
			require.Contains(t, got, tag)
			require.InDelta(t, w, got[tag], 1e-9, tag)
		}
	})
}
