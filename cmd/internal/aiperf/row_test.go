package aiperf

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
	"github.com/agentx/agentx/report"
)

// recordIn is the record of a vector. Instants are nanoseconds of a monotonic clock; start_wall_ns is the wall clock at start_ns.
type recordIn struct {
	Credit, Turn, Depth, Lane int
	Request                   string `json:"request_id"`
	Session                   string `json:"session_id"`
	Root                      string `json:"root_id"`
	Parent                    string `json:"parent_id"`
	Conversation              string `json:"conversation_id"`
	Phase                     string
	Bucket                    measure.Bucket
	Wall                      int64   `json:"start_wall_ns"`
	Start                     int64   `json:"start_ns"`
	Due                       int64   `json:"due_ns"`
	Issued                    int64   `json:"issued_ns"`
	Ack                       int64   `json:"ack_ns"`
	Contents                  []int64 `json:"content_ns"`
	LastMessage               int64   `json:"last_message_ns"`
	End                       int64   `json:"end_ns"`
	Cancelled                 int64   `json:"cancelled_ns"`
	ISL, OSL                  measure.Count
	Error                     *Error
	Source                    *struct {
		Trace, Kind string
		Outer       int
		Inner       *int
	}
}

// record returns the record, as a run would write it.
func (in recordIn) record() *measure.Record {

	r := &measure.Record{
		Phase: in.Phase, Bucket: in.Bucket, Credit: in.Credit, RequestID: in.Request, CorrelationID: in.Session, RootID: in.Root,
		ParentID: in.Parent, Session: in.Conversation, Turn: in.Turn, Depth: in.Depth, Lane: in.Lane,
		Numbers: measure.Numbers{Due: measure.Time(in.Due), Admitted: measure.Time(in.Issued), Sent: measure.Time(in.Start), Acknowledged: measure.Time(in.Ack), LastMessage: measure.Time(in.LastMessage), End: measure.Time(in.End),
			CancelledAt: measure.Time(in.Cancelled), PromptTokens: in.ISL, OutputTokens: in.OSL}, Transfer: measure.Transfer{Chunks: len(in.Contents), BytesReceived: 345},
	}
	for k, at := range in.Contents {
		r.Contents.Add(time.Duration(at-in.Start), wire.Unknown)
		switch k {
		case 0:
			r.FirstToken = measure.Time(at)
		case 1:
			r.SecondToken = measure.Time(at)
		}
		r.LastToken = measure.Time(at)
	}
	if in.Error != nil {
		r.Error = &measure.Error{Category: wire.Category(in.Error.Type), Code: in.Error.Code, Message: in.Error.Message}
	}
	if in.Source != nil {
		r.Trace, r.SourceKind, r.SourceOuter, r.SourceInner = in.Source.Trace, in.Source.Kind, in.Source.Outer, in.Source.Inner
	}
	return r
}

// textOf returns the line of a row.
func textOf(t *testing.T, row *Row) []byte {
	var text bytes.Buffer
	require.NoError(t, row.appendTo(&text))
	return text.Bytes()
}

// decode reads JSON with its numbers as they stand.
func decode(t *testing.T, data []byte) (o map[string]any) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	require.NoError(t, d.Decode(&o))
	return o
}

// The rows of the vectors come out with every key as given, and read back as the same row.
func TestRowVectors(t *testing.T) {
	type in struct{ Record recordIn }
	type want struct {
		File string
		Row  json.RawMessage
	}
	fixtures.EachCase(t, "export_row", fixtures.Counts{11, 11, 11}, func(t *testing.T, c fixtures.Case, in in, want want) {
		run, r := &report.Run{}, in.Record.record()
		row := dialects[false].row(r, in.Record.Wall-in.Record.Start, run.RowMetrics(r))
		require.Equal(t, want.File == "profile_export_excluded.jsonl", excluded(r))
		text := textOf(t, &row)
		got, wanted := decode(t, text), decode(t, want.Row)
		require.Equal(t, wanted["metadata"], got["metadata"])
		require.Equal(t, wanted["error"], got["error"])
		for key, v := range wanted["agentx"].(map[string]any) {
			require.Equal(t, v, got["agentx"].(map[string]any)[key], key)
		}
		require.Equal(t, wanted["error"] != nil, row.Agentx.Observed != nil)
		metrics, wantMetrics := got["metrics"].(map[string]any), wanted["metrics"].(map[string]any)
		for tag, v := range wantMetrics {
			one, of := metrics[tag].(map[string]any), v.(map[string]any)
			require.Equal(t, of["unit"], one["unit"], tag)
			requireNumbers(t, of["value"], one["value"], tag)
		}
		if len(wantMetrics) == 0 {
			require.Empty(t, metrics)
		}
		for _, tag := range []string{"inter_token_latency", "input_sequence_length", "time_to_second_token"} {
			assert.Equal(t, wantMetrics[tag] != nil, metrics[tag] != nil, tag)
		}
		again, err := ParseRow(text)
		require.NoError(t, err)
		require.Equal(t, row, again)
	})
}

// requireNumbers requires equal numbers, or lists of them, within 1e-9. Integers are equal digit by digit.
func requireNumbers(t *testing.T, want, got any, at string) {
	if list, ok := want.([]any); ok {
		require.Len(t, got, len(list), at)
		for k := range list {
			requireNumbers(t, list[k], got.([]any)[k], at)
		}
		return
	}
	w, g := want.(json.Number), got.(json.Number)
	if _, err := w.Int64(); err == nil {
		require.Equal(t, w, g, at)
		return
	}
	x, err := w.Float64()
	require.NoError(t, err)
	y, err := g.Float64()
	require.NoError(t, err)
	require.InDelta(t, x, y, 1e-9, at)
}
