package convert

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // of samples
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/aiperf"
	"github.com/agentx/agentx/convert/text/claude"
	"github.com/agentx/agentx/convert/text/codex"
	"github.com/agentx/agentx/convert/text/content"
	"github.com/agentx/agentx/convert/text/messages"
	"github.com/agentx/agentx/convert/text/otel"
	"github.com/agentx/agentx/hfsource"
)

// logFormat is a format of logs that have the text of their sessions. The next one is a package that imports convert/text, and a row of
// logFormats.
type logFormat struct {
	name string
	is   func(first content.Raw) bool // the first object of a file
	file func(path string) bool       // a file of another kind that belongs to the format; nil for none
	open func(d *text.Dataset, o LogOptions) text.Reader

	// growing: a program appends to these files, and links between rows show what is missing. A broken line is left out and counted. In
	// other formats it is an error.
	growing bool

	fidelity FormatFidelity // what a replay has of such a log

	sample string // rows that exercise the reader: keys contain a digest of what they become
}

// samples returns the rows of the sample.
func (f *logFormat) samples() []string { return strings.Split(strings.TrimSpace(f.sample), "\n") }

// LogOptions say how logs are read. The zero value reads all of each file, by the format that its first row shows.
type LogOptions struct {
	Format      string `json:"format,omitempty"`       // a name of LogFormats; "" or "auto": each file's first object says it
	SkipInvalid bool   `json:"skip_invalid,omitempty"` // leave broken rows out, and count them
	Redact      string `json:"redact,omitempty"`       // "none": texts as they were recorded; else secrets are replaced

	Select text.Selection `json:"select,omitzero"`
	Prefix text.Prefix    `json:"prefix,omitzero"`

	Claude claude.Options `json:"claude,omitzero"`

	FilePerSession bool `json:"file_per_session,omitempty"` // of raw_payload: the bodies of a file are one session, as those of a directory are

	// Formats has the formats of files whose rows may not show one, by path: LogFiles.
	Formats map[string]string `json:"-"`
}

// SetPrefix sets what stands in front of prompts whose beginning a log lacks: a body with tools and a system prompt, or the text of a
// system prompt. The error says what is wrong with it, without its text.
func (o *LogOptions) SetPrefix(body []byte) error {
	d := text.NewDataset(text.NewStore(""))
	defer d.Store.Close()
	if _, _, err := messages.Head(d, body); err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	o.Prefix = text.Prefix{SHA256: hex.EncodeToString(sum[:]), Text: body}
	return nil
}

// Set sets an option of a format: claude.meta and claude.thinking are keep or drop.
func (o *LogOptions) Set(name, value string) error {
	options := map[string]*bool{"claude.meta": &o.Claude.DropMeta, "claude.thinking": &o.Claude.DropThinking}
	drop, known := options[name]
	switch {
	case !known:
		return fmt.Errorf("%s: want one of %s", name, strings.Join(slices.Sorted(maps.Keys(options)), ", "))
	case value != "keep" && value != "drop":
		return fmt.Errorf("%s=%s: want keep or drop", name, value)
	}
	*drop = value == "drop"
	return nil
}

//go:embed sample-claude.jsonl
var sampleClaude string

//go:embed sample-codex.jsonl
var sampleCodex string

//go:embed sample-messages.jsonl
var sampleMessages string

//go:embed sample-otel.jsonl
var sampleOTel string

// logFormats are tried in this order on the first object of each file.
var logFormats = slices.Concat(agentLogs, formsOfAIPerf(), otherLogs)

// formsOfAIPerf returns the forms of AIPerf's files that have text.
func formsOfAIPerf() (list []logFormat) {
	for k := range aiperf.Forms {
		f := &aiperf.Forms[k]
		list = append(list, logFormat{name: f.Name, is: f.Is, sample: f.Sample,
			open: func(d *text.Dataset, o LogOptions) text.Reader { return aiperf.New(d, f, o.FilePerSession) },
			fidelity: FormatFidelity{
				Exact:       "messages, and other members of a body; tools; pauses and starts that the file has",
				Approximate: "lengths of prompts: counted",
				Missing:     "lengths of answers that the file does not ask for: none is asked for"}})
	}
	return list
}

// agentLogs are logs that clients append to.
var agentLogs = []logFormat{
	{name: "claude", is: claude.Is, file: claude.IsAgent, growing: true,
		open: func(d *text.Dataset, o LogOptions) text.Reader { return claude.New(d, o.Claude) }, sample: sampleClaude,
		fidelity: FormatFidelity{
			Exact:       "messages, thinking, calls of tools and their results; subagents; pauses; lengths of prompts",
			Approximate: "system prompt and tools: filler of their length; lengths of many answers, which the log has before they end",
			Missing:     "times of first outputs; encrypted reasoning; images and documents: words of their length"}},
	{name: "codex", is: codex.Is, open: func(d *text.Dataset, _ LogOptions) text.Reader { return codex.New(d) }, growing: true, sample: sampleCodex,
		fidelity: FormatFidelity{
			Exact:       "messages, calls of tools and their results; system prompt, since September 2025; pauses; lengths where counts are recorded",
			Approximate: "tools: filler of their length; prompts behind a compaction whose history the log lacks",
			Missing:     "times of first outputs; encrypted reasoning; images: words of their length"}},
}

var otherLogs = []logFormat{
	{name: "messages", is: messages.Is, open: func(d *text.Dataset, _ LogOptions) text.Reader { return messages.New(d, "") }, sample: sampleMessages,
		fidelity: FormatFidelity{
			Exact:       "messages, tools, calls and their results; times and counts of request logs that have them",
			Approximate: "lengths without counts; sessions of requests that name none: by equal beginnings",
			Missing:     "times of conversations: no pauses; images and documents: words of their length"}},
	{name: "otel", is: otel.Is, open: func(d *text.Dataset, _ LogOptions) text.Reader { return otel.New(d) }, sample: sampleOTel,
		fidelity: FormatFidelity{
			Exact:       "times, also of first outputs where recorded; counts; messages and tools where the instrumentation records content",
			Approximate: "which part of a pause is of tools",
			Missing:     "requests without content; images and documents: words of their length"}},
}

// LogFormats lists the formats of logs.
func LogFormats() (names []string) {
	for _, f := range logFormats {
		names = append(names, f.name)
	}
	return names
}

// logFormatNamed returns the format of a name, nil for none.
func logFormatNamed(name string) *logFormat {
	if k := slices.Index(LogFormats(), name); k >= 0 {
		return &logFormats[k]
	}
	return nil
}

// agentOfFile returns what the name of a log says of the agent that wrote it.
func agentOfFile(path string) string {
	if name := filepath.Base(path); strings.HasPrefix(name, "agent-") {
		return name
	}
	return ""
}

// logFormatOf returns the format of the first object of a file, nil for one that is no log with text.
func logFormatOf(first []byte) *logFormat {
	first = bytes.TrimLeft(bytes.TrimPrefix(first, []byte("\xef\xbb\xbf")), " \t\r\n[") // the first of a list, too
	for k := range logFormats {
		if logFormats[k].is(first) {
			return &logFormats[k]
		}
	}
	return nil
}

// FormatOf returns the format that the beginning of a file shows, "" for that of Weka and for none.
func FormatOf(path string) string {
	head := hfsource.BeginningOf(path, logHead, textFormats()...)
	if f := logFormatOf(head); f != nil {
		return f.name
	}
	first, _, _ := bytes.Cut(head, []byte("\n"))
	if f := formatOf(first); f != formatNamed("") {
		return f.name
	}
	return ""
}

// How many bytes of a file show that it has traces, and which format of logs it has; and how many rows may stand before the first that
// shows one.
const (
	traceHead   = 8 << 10
	logHead     = 1 << 20
	logHeadRows = 100
)

// fileFormat returns the format of file k of a snapshot: the one that was asked for, that of its first row, one that clients append to of one
// of its first rows, or that of its directory; nil where it is no log with text.
func (o LogOptions) fileFormat(s *hfsource.Snapshot, k int) (*logFormat, error) {
	if o.Format != "" && o.Format != "auto" {
		return logFormatNamed(o.Format), nil
	}
	f := &s.Files[k]
	for k := range logFormats {
		if is := logFormats[k].file; is != nil && is(f.Path) {
			return &logFormats[k], nil
		}
	}
	if f.Format.Parquet {
		return nil, nil
	}
	if f.Rows == formatNamed("").name {
		return logFormatNamed(o.Formats[f.Path]), nil
	}
	for _, size := range [...]int{traceHead, logHead} {
		head, err := s.Beginning(k, size)
		if err != nil {
			return nil, err
		}
		if found := growingFormatOf(head); found != nil && f.Format.Lines {
			return found, nil
		}
		if size == traceHead && (bytes.Contains(head, []byte(`"requests"`)) || bytes.Contains(head, []byte(`"hash_ids"`))) { // keys: in a text quotes are escaped
			break
		}
		first := head
		if f.Format.Lines {
			first, _, _ = bytes.Cut(bytes.TrimLeft(head, " \t\r\n"), []byte("\n"))
		}
		if found := logFormatOf(first); found != nil {
			return found, nil
		}
		if len(head) < size/2 {
			break
		}
	}
	return logFormatNamed(o.Formats[f.Path]), nil
}

// growingFormatOf returns the format of the first of some rows that shows one that clients append to; nil for none.
func growingFormatOf(rows []byte) *logFormat {
	n := 0
	for row := range bytes.Lines(rows) {
		if f := logFormatOf(row); f != nil {
			if !f.growing {
				return nil
			}
			return f
		}
		if n++; n == logHeadRows {
			return nil
		}
	}
	return nil
}

// rowMemory is how many bytes the tables of a log may have for each row, so that a conversion takes about 200 MB and 120 bytes a row in all. It is
// told for so many rows at a time.
const (
	rowMemory  = 92
	memoryRows = 1 << 16
)

// readLogs reads the files of a snapshot into a dataset.
func readLogs(ctx context.Context, s *hfsource.Snapshot, d *text.Dataset, o Options) error {
	d.Select, d.Prefix = o.Logs.Select, o.Logs.Prefix
	var tools []text.Text
	var front []int32
	if body := o.Logs.Prefix.Text; body != nil {
		var err error
		if tools, front, err = messages.Head(d, body); err != nil {
			return err
		}
	}
	l := &logs{snapshot: s, data: d, options: o.Logs, readers: map[*logFormat]text.Reader{}}
	err := s.LogRows(ctx, o.stageProgress("plan", s.Bytes()), func(row hfsource.Row) error {
		if l.number%memoryRows == 0 {
			o.Memory(rowMemory * int64(l.number+memoryRows))
		}
		if err := l.row(row); err != nil {
			return &LogError{row.FileIndex + 1, row.Line, row.Location(), row.Err != nil, err}
		}
		return nil
	})
	if e := (*LogError)(nil); err != nil && !errors.As(err, &e) && ctx.Err() == nil {
		return &LogError{unread: true, Err: err}
	} else if err != nil {
		return err
	}
	if l.number == 0 {
		return &LogError{where: s.Files[0].Path, Err: errors.New("it is empty: want rows")}
	}
	for k := range logFormats { // in one order, whatever the files'
		if r := l.readers[&logFormats[k]]; r != nil {
			if err := r.End(); err != nil {
				return &LogError{where: s.Files[0].Path, Err: err}
			}
		}
	}
	if err := d.Finish(); err != nil {
		what := s.Files[0].Path
		if n := len(s.Files); n > 1 {
			what = fmt.Sprintf("%d files", n)
		}
		if !errors.Is(err, text.ErrNoneSelected) {
			err = fmt.Errorf("%w: choose files of whole sessions", err)
		}
		return &LogError{where: what, Err: err}
	}
	d.Give(tools, front)
	return nil
}

// LogError is about a row of a log, a file that cannot be read, or all files.
type LogError struct {
	File, Line int    // of the input, from 1; Line 0: the file is one value; File 0: it is not known, or all are meant
	where      string // by its name
	unread     bool   // Err is of the file, which it names
	Err        error
}

func (e *LogError) Error() string {
	if e.unread {
		return e.Err.Error()
	}
	return e.where + ": " + e.Err.Error()
}

func (e *LogError) Unwrap() error { return e.Err }

// logs reads the rows of a snapshot.
type logs struct {
	snapshot *hfsource.Snapshot
	data     *text.Dataset
	options  LogOptions
	readers  map[*logFormat]text.Reader
	file     int // from 1, of the row before
	format   *logFormat
	number   int // of rows
}

// row reads a row of a file: an object, or a list of them.
func (l *logs) row(row hfsource.Row) error {
	defer row.Free()
	if row.Err != nil {
		return row.Err
	}
	if l.file != row.FileIndex+1 {
		if err := l.enter(row); err != nil {
			return err
		}
	}
	err := l.read(row)
	switch broken := errors.Is(err, content.ErrMalformed); {
	case err == nil:
		return nil
	case broken && row.Unended:
		l.data.Warn("truncated_last_line")
		return nil
	case broken && l.format.growing, l.options.SkipInvalid:
		l.data.Warn("bad_line")
		return nil
	}
	return err
}

// enter begins a file with its first row.
func (l *logs) enter(row hfsource.Row) (err error) {
	l.file = row.FileIndex + 1
	if row.Marked {
		l.data.Warn("bom")
	}
	if l.format = logFormatNamed(l.snapshot.Files[row.FileIndex].Rows); l.format == nil {
		l.format, err = l.options.fileFormat(l.snapshot, row.FileIndex)
	}
	switch {
	case err != nil:
		return err
	case l.format == nil:
		return fmt.Errorf("its first rows show none of the formats %s: name the format if it is a log", strings.Join(LogFormats(), ", "))
	}
	if !slices.Contains(l.data.Formats, l.format.name) {
		l.data.Formats = append(l.data.Formats, l.format.name)
	}
	if l.readers[l.format] == nil {
		l.readers[l.format] = l.format.open(l.data, l.options)
	}
	return nil
}

// read gives a row to the reader of its format, each element of a list as one.
func (l *logs) read(row hfsource.Row) error {
	at := text.Place{File: row.FileIndex, Path: row.File, Line: row.Line}
	if data := bytes.TrimLeft(row.Data, " \t\r\n"); len(data) == 0 || data[0] != '[' || row.Line > 0 {
		l.number++
		at.Number = l.number
		return l.readers[l.format].Row(row.Data, at)
	}
	list, err := content.Value(row.Data)
	if err != nil {
		return err
	}
	return list.Array(func(v content.Raw) error {
		l.number++
		at.Line++
		at.Number = l.number
		if err := l.readers[l.format].Row(v, at); err != nil {
			return fmt.Errorf("row %d: %w", at.Line, err)
		}
		return nil
	})
}
