package aiperf

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
	"github.com/agentx/agentx/report"
)

// Row is one line of the row files: one request that was sent.
type Row struct {
	Metadata Metadata
	Metrics  []report.RowMetric // in the order in which they are written; a failed request has none
	Error    *Error             // nil: the request ended well
	Agentx   *Agentx            // nil: agentx did not write the row
}

// Metadata says which request it was, and when, in the order of AIPerf. Instants are nanoseconds since 1970.
type Metadata struct {
	SessionNum       int64  `json:"session_num"` // number of the request in its phase
	RequestID        string `json:"x_request_id,omitempty"`
	CorrelationID    string `json:"x_correlation_id,omitempty"`
	Conversation     string `json:"conversation_id"`
	Turn             int    `json:"turn_index"`
	SourceTrace      string `json:"source_trace_id,omitempty"`
	SourceOuter      *int   `json:"source_outer_idx,omitempty"`
	SourceInner      *int   `json:"source_inner_idx,omitempty"`
	SourceKind       string `json:"source_kind,omitempty"`
	CreditIssued     int64  `json:"credit_issued_ns,omitempty"`
	RequestStart     int64  `json:"request_start_ns"`
	RequestAck       int64  `json:"request_ack_ns,omitempty"`
	RequestEnd       int64  `json:"request_end_ns"`
	Worker           string `json:"worker_id,omitempty"`
	Processor        string `json:"record_processor_id,omitempty"`
	Phase            string `json:"benchmark_phase,omitempty"`
	PhaseIndex       *int   `json:"phase_index,omitempty"` // of profiling alone, as the next
	ProfilingIndex   *int   `json:"profiling_index,omitempty"`
	PhaseName        string `json:"phase_name,omitempty"`
	PhaseKind        string `json:"phase_kind,omitempty"` // warmup or profiling
	Cancelled        bool   `json:"was_cancelled"`
	CancellationTime int64  `json:"cancellation_time_ns,omitempty"`
	Overflow         bool   `json:"context_overflow_skip"`
	Depth            int    `json:"agent_depth"`
	ParentID         string `json:"parent_correlation_id,omitempty"`
	RootID           string `json:"root_correlation_id,omitempty"`
}

// Error says why a request failed.
type Error struct {
	Code    int    `json:"code,omitempty"`
	Type    string `json:"type"` // a category of doc/spec/replay.md 9.5
	Message string `json:"message"`

	// Of files of the harness: the text of the exception that led to this one, and the names of both and of those before.
	Cause      string   `json:"cause,omitempty"`
	CauseChain []string `json:"cause_chain,omitempty"`
}

// Agentx has what agentx adds to AIPerf's rows.
type Agentx struct {
	Bucket   string    `json:"bucket"`
	Lane     int       `json:"lane"`
	Due      int64     `json:"due_ns"`
	Observed *Observed `json:"observed,omitempty"`
}

// Observed is what a failed request saw before it failed.
type Observed struct {
	FirstContent int64 `json:"first_content_ns,omitempty"`
	Contents     int   `json:"content_messages"`
	Bytes        int64 `json:"bytes"`
}

// worker is the value of members in which AIPerf names its processes.
const worker = "agentx"

// Names of phases in rows: that of the bucket cooldown, and AIPerf's name of a warmup for agents.
const (
	cooldown      = "cooldown"
	agenticWarmup = "agentic.warmup"
)

// row returns the row of a record as the dialect has it. origin is the start of its phase, in nanoseconds since 1970.
func (d *dialect) row(r *measure.Record, origin int64, metrics []report.RowMetric) Row {
	row := newRow(r, origin, d.rowMetrics(metrics))
	d.adjust(&row.Metadata, r)
	if r.Error != nil {
		row.Error = d.fail(r.Error)
	}
	if d.slim {
		row.Agentx = nil
	}
	return row
}

// newRow returns the row of a record as agentx writes it, without its error.
func newRow(r *measure.Record, origin int64, metrics []report.RowMetric) Row {
	wall := func(at measure.Time) int64 { return origin + int64(at) }
	row := Row{Metrics: metrics, Metadata: Metadata{
		SessionNum: int64(r.Credit), RequestID: r.RequestID, CorrelationID: r.CorrelationID, RootID: r.RootID, ParentID: r.ParentID,
		Conversation: r.Session, Turn: r.Turn, Depth: r.Depth,
		CreditIssued: wall(r.Admitted), RequestStart: wall(r.Sent), RequestEnd: wall(r.End), Worker: worker, Processor: worker, Phase: r.Phase, PhaseName: agenticWarmup,
		PhaseKind: r.Phase, Overflow: r.Error != nil && r.Error.Category == wire.ContextOverflow,
	}, Agentx: &Agentx{Bucket: string(r.Bucket), Lane: r.Lane, Due: wall(r.Due)}}
	m := &row.Metadata
	if r.Acknowledged > 0 {
		m.RequestAck = wall(r.Acknowledged)
	}
	if r.LastMessage > 0 {
		m.RequestEnd = wall(r.LastMessage)
	}
	if r.Phase == measure.ProfilingPhase {
		m.PhaseIndex, m.ProfilingIndex, m.PhaseName = new(int), new(int), r.Phase
	}
	if r.Bucket == measure.Cooldown {
		m.Phase = cooldown
	}
	if r.SourceKind != "" {
		outer := r.SourceOuter
		m.SourceTrace, m.SourceKind, m.SourceOuter = r.Trace, r.SourceKind, &outer
		if r.SourceInner != nil {
			inner := *r.SourceInner
			m.SourceInner = &inner
		}
	}
	if r.Error != nil {
		row.fail(r, wall)
	}
	return row
}

// ownError returns a failure as agentx writes it.
func ownError(e *measure.Error) *Error {
	return &Error{Type: string(e.Category), Code: e.Code, Message: e.Message}
}

// fail adds to a row what a failed request saw before it failed. wall turns an instant of a record into nanoseconds since 1970.
func (row *Row) fail(r *measure.Record, wall func(measure.Time) int64) {
	row.Agentx.Observed = &Observed{Contents: r.Chunks, Bytes: r.BytesReceived}
	if r.FirstToken > 0 {
		row.Agentx.Observed.FirstContent = wall(r.FirstToken)
	}
	if r.CancelledAt > 0 {
		row.Metadata.Cancelled, row.Metadata.CancellationTime = true, wall(r.CancelledAt)
	}
}

// excluded reports whether no headline number counts a request: its row is then in the file of excluded rows.
func excluded(r *measure.Record) bool {
	return r.Bucket != measure.WarmupBucket && r.Bucket != measure.Profiling
}

// appendTo appends the row as a line.
func (row *Row) appendTo(text *bytes.Buffer) error {
	e := json.NewEncoder(text)
	e.SetEscapeHTML(false)
	put := func(key string, v any) error {
		text.WriteString(key)
		if err := e.Encode(v); err != nil {
			return err
		}
		text.Truncate(text.Len() - 1) // the line feed
		return nil
	}
	err := put(`{"metadata":`, &row.Metadata)
	text.WriteString(`,"metrics":{`)
	for k, m := range row.Metrics {
		if k > 0 {
			text.WriteByte(',')
		}
		appendMetric(text, &m)
	}
	text.WriteByte('}')
	if row.Error != nil {
		err = errors.Join(err, put(`,"error":`, row.Error))
	}
	if row.Agentx != nil {
		err = errors.Join(err, put(`,"agentx":`, row.Agentx))
	}
	text.WriteString("}\n")
	return err
}

// appendMetric appends a metric as a member of an object.
func appendMetric(text *bytes.Buffer, m *report.RowMetric) {
	appendWord(text, m.Tag)
	text.WriteString(`:{"value":`)
	if m.List == nil {
		text.Write(m.Value.Append(text.AvailableBuffer()))
	} else {
		text.WriteByte('[')
		for k, n := range m.List {
			if k > 0 {
				text.WriteByte(',')
			}
			text.Write(n.Append(text.AvailableBuffer()))
		}
		text.WriteByte(']')
	}
	text.WriteString(`,"unit":`)
	appendWord(text, m.Unit)
	text.WriteByte('}')
}

// appendWord appends a text in quotes.
func appendWord(text *bytes.Buffer, s string) {
	if strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) >= 0 {
		quoted, _ := compact(s) // a text always marshals
		text.Write(quoted)
		return
	}
	text.WriteByte('"')
	text.WriteString(s)
	text.WriteByte('"')
}

// flushAt is how many bytes of rows are kept before they are written.
const flushAt = 1 << 18

// rowFile is a row file under construction.
type rowFile struct {
	file *durable.File
	text bytes.Buffer
	rows int
}

// add appends a row.
func (f *rowFile) add(row *Row) error {
	f.rows++
	if err := row.appendTo(&f.text); err != nil {
		return err
	}
	if f.text.Len() < flushAt {
		return nil
	}
	return f.flush()
}

// flush writes the rows that are kept.
func (f *rowFile) flush() error {
	_, err := f.text.WriteTo(f.file)
	return err
}

// publish makes the file appear.
func (f *rowFile) publish() error {
	if err := f.flush(); err != nil {
		return errors.Join(err, f.file.Discard())
	}
	return f.file.Publish()
}

// writeRows reads the records once more and writes a row for each. The file of the excluded rows exists only when it has some.
func (w *writer) writeRows(ctx context.Context) (err error) {
	var files [2]rowFile // of the headline, and of what is excluded
	names := []string{w.names.Rows, w.names.excluded}
	for k, name := range names {
		if files[k].file, err = durable.NewFile(w.path(name), w.disk); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, files[k].file.Discard()) }()
	}
	if err := w.eachRecord(ctx, func(r *measure.Record) error {
		if w.slim && rowless(r) {
			return nil
		}
		row := w.dialect.row(r, w.run.Origin(r.Phase), w.run.RowMetrics(r))
		if excluded(r) {
			return files[1].add(&row)
		}
		return files[0].add(&row)
	}); err != nil {
		return err
	}
	w.written.Rows, w.written.Excluded = files[0].rows, files[1].rows
	for k, name := range names {
		if k > 0 && files[k].rows == 0 {
			return w.remove(name)
		}
		if err := files[k].publish(); err != nil {
			return err
		}
		w.written.Files = append(w.written.Files, name)
	}
	return nil
}

// eachRecord calls use with every record of the run.
func (w *writer) eachRecord(ctx context.Context, use func(*measure.Record) error) error {
	reader, err := w.run.Files.Records()
	if err != nil {
		return err
	}
	defer reader.Close()
	for r, err := range measure.All(reader) {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = use(r)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", w.run.Dir, err)
		}
	}
	return nil
}
