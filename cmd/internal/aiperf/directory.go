package aiperf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/jsonlex"
	"github.com/agentx/agentx/internal/lines"
	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/report"
)

// Directory is a directory with files of AIPerf, written by agentx or by AIPerf.
type Directory struct {
	Path      string // in which the files are
	Aggregate *Aggregate
	table     report.Table // of the CSV: names with units, without tags
	Rows      RowCounts

	// Lacks says, in one line each, what is missing of the files that agentx would have written, or what readers misread. Differs says which
	// numbers differ between two files.
	Lacks, Differs []string
}

// RowCounts count the rows of a row file.
type RowCounts struct {
	Warmup    int `json:"warmup"`     // rows of that phase
	Succeeded int `json:"succeeded"`  // of the phase profiling, or of none
	Failed    int `json:"failed"`     // of the phase profiling, or of none
	Others    int `json:"others"`     // of other phases
	ZeroWidth int `json:"zero_width"` // failed rows that end when they start, as the release writes status errors
}

// maxFile bounds the bytes of an aggregate or a table.
const maxFile = 256 << 20

// ErrNoFiles says that a directory has none of the files of AIPerf.
var ErrNoFiles = errors.New("no files of AIPerf")

// OpenDirectory reads the files of a directory, or of the first of its child directories, by name, that has rows. Each file may be
// missing, but not all. The error names the file, and the line at which it cannot be read; what could be read comes with it.
func OpenDirectory(path string) (*Directory, error) {
	d := &Directory{}
	names := NamesOf("")
	if d.Path = findFiles(path, names); d.Path == "" {
		if _, err := os.Stat(path); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%s: %w: neither %s nor %s nor %s", path, ErrNoFiles, names.Rows, names.aggregate, names.table)
	}
	err := errors.Join(d.readAggregate(names.aggregate), d.readTable(names.table), d.readRows(names.Rows))
	d.compare()
	return d, err
}

// findFiles returns the directory of the files, "" if there are none.
func findFiles(path string, names Names) string {
	any := func(dir string, names ...string) bool {
		for _, name := range names {
			if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
				return true
			}
		}
		return false
	}
	if any(path, names.Rows, names.aggregate, names.table) {
		return path
	}
	children, _ := os.ReadDir(path) // sorted; a missing directory has none
	for _, c := range children {
		if below := filepath.Join(path, c.Name()); c.IsDir() && any(below, names.Rows) {
			return below
		}
	}
	return ""
}

// lack adds a line to Lacks.
func (d *Directory) lack(format string, args ...any) {
	d.Lacks = append(d.Lacks, fmt.Sprintf(format, args...))
}

// read returns the text of a file; nil if there is none.
func (d *Directory) read(name string) ([]byte, error) {
	data, err := regular.Read(filepath.Join(d.Path, name), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// readAggregate reads the JSON file of the whole run, and notes what it lacks.
func (d *Directory) readAggregate(name string) error {
	data, err := d.read(name)
	if err != nil {
		return err
	}
	if data == nil {
		d.lack("there is no %s: no statistics, no error rate, and the gate of InferenceX refuses", name)
		return nil
	}
	if d.Aggregate, err = ReadAggregate(data); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(d.Path, name), err)
	}
	a := d.Aggregate
	var missing []string
	for _, tag := range expected {
		if a.Headline.Find(tag) == nil {
			missing = append(missing, tag)
		}
	}
	if a.cooldown == nil {
		missing = append(missing, "cooldown_metrics")
	}
	if a.steady == nil {
		missing = append(missing, "steady_metrics")
	}
	if len(missing) > 0 {
		d.lack("%s lacks %s", name, strings.Join(missing, ", "))
	}
	for _, bound := range [][2]string{{"start_time", a.Start}, {"end_time", a.End}} {
		key, value := bound[0], bound[1]
		if value == "" {
			d.lack("%s lacks %s: InferenceX has no power window", name, key)
		} else if strings.Contains(value, ":") && !strings.HasSuffix(value, "Z") && !strings.ContainsAny(value[len(value)-6:], "+-") {
			d.lack("%s: %s %s has no zone: it is a local time of an unknown place, and InferenceX has no power window", name, key, value)
		}
	}
	d.findFaults(name, a.Version)
	return nil
}

// findFaults notes what releases of agentx-harness before 1.0.12 count wrongly.
func (d *Directory) findFaults(name, version string) {
	patch, ok := strings.CutPrefix(version, "1.0.")
	n, err := strconv.Atoi(patch)
	if !ok || err != nil || n < 7 {
		return
	}
	if n <= 8 {
		d.lack("%s: agentx-harness %s lets a subagent that waits at the end keep the phase open for the whole grace: rates divide by that, and are too low", name, version)
	}
	if n <= 11 {
		d.lack("%s: agentx-harness %s counts the warmup in the profiling totals of server metrics", name, version)
	}
}

// expected are the metrics that readers look for. The release leaves counts of 0 out.
var expected = []string{
	"time_to_first_token", "request_latency", "inter_token_latency", "full_response_inter_token_latency", "input_sequence_length",
	"output_sequence_length", "request_count", "error_request_count", "context_overflow_count", "theoretical_prefix_cache_hit",
}

// readTable reads the CSV.
func (d *Directory) readTable(name string) error {
	data, err := d.read(name)
	if err != nil {
		return err
	}
	if data == nil {
		d.lack("there is no %s: the sweep collector of InferenceX counts the run as failed", name)
		return nil
	}
	if d.table, err = readCSV(data); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(d.Path, name), err)
	}
	return nil
}

// readRows counts the rows by phase and outcome.
func (d *Directory) readRows(name string) error {
	path := filepath.Join(d.Path, name)
	err := EachRow(path, func(row *Row) error {
		m := &row.Metadata
		switch {
		case m.Phase == "warmup":
			d.Rows.Warmup++
		case m.Phase != "" && m.Phase != "profiling":
			d.Rows.Others++
		case row.Error != nil:
			d.Rows.Failed++
		default:
			d.Rows.Succeeded++
		}
		if row.Error != nil && m.RequestStart == m.RequestEnd {
			d.Rows.ZeroWidth++
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		d.lack("there is no %s: no rows, and the aggregation of InferenceX fails", name)
		return nil
	}
	if n := d.Rows.ZeroWidth; n > 0 {
		d.lack("%s: %d failed rows end when they start: they have no width in time", name, n)
	}
	return err
}

// Aggregate is what the JSON file of a run says.
type Aggregate struct {
	Schema   string       // schema_version
	Version  string       // aiperf_version
	Start    string       // start_time as it stands there; "": there is none
	End      string       // end_time
	Headline report.Table // every block at the top level, sorted by tag
	Warmup   report.Table // of warmup_metrics
	cooldown report.Table // of cooldown_metrics
	steady   report.Table // of steady_metrics
	Valid    *bool        // metadata.submission_valid; nil: it does not say
	Reasons  []string     // of both lists of reasons

	top map[string]json.RawMessage
}

// ReadAggregate reads the JSON file of a run of agentx or of AIPerf. It leaves out members that are neither blocks of metrics nor known keys.
func ReadAggregate(data []byte) (*Aggregate, error) {
	var top map[string]json.RawMessage
	if err := json.Unmarshal(data, &top); err != nil {
		return nil, describeJSON(data, err)
	}
	if top == nil {
		return nil, errors.New("the file has null: want a JSON object")
	}
	a := &Aggregate{Headline: readTable(top), top: top}
	text := func(key string) string { return strings.Trim(string(top[key]), `"`) }
	a.Schema, a.Version, a.Start, a.End = text("schema_version"), text("aiperf_version"), text("start_time"), text("end_time")
	var metadata struct {
		Valid   *bool                      `json:"submission_valid"`
		Reasons []string                   `json:"submission_invalid_reasons"`
		Agentx  map[string]json.RawMessage `json:"agentx"` // has tables where they stand nowhere else
	}
	_ = json.Unmarshal(top["metadata"], &metadata) // absent in old files
	for key, to := range map[string]*report.Table{"warmup_metrics": &a.Warmup, "cooldown_metrics": &a.cooldown, "steady_metrics": &a.steady} {
		for _, members := range []map[string]json.RawMessage{metadata.Agentx, top} {
			var below map[string]json.RawMessage
			if json.Unmarshal(members[key], &below) == nil {
				*to = readTable(below)
			}
		}
	}
	var others []string
	_ = json.Unmarshal(top["runtime_submission_invalid_reasons"], &others)
	a.Valid, a.Reasons = metadata.Valid, metadata.Reasons
	for _, reason := range others {
		if !slices.Contains(a.Reasons, reason) {
			a.Reasons = append(a.Reasons, reason)
		}
	}
	return a, nil
}

// Setting returns a value of the file by the path of keys, or places in lists, that leads to it: a text as it is, another value as JSON, ""
// if there is none.
func (a *Aggregate) Setting(path ...string) string {
	var value any = map[string]any{}
	if len(path) == 0 || json.Unmarshal(a.top[path[0]], &value) != nil {
		return ""
	}
	for _, key := range path[1:] {
		switch v := value.(type) {
		case map[string]any:
			value = v[key]
		case []any:
			k, err := strconv.Atoi(key)
			if err != nil || k < 0 || k >= len(v) {
				return ""
			}
			value = v[k]
		default:
			return ""
		}
	}
	if text, ok := value.(string); ok || value == nil {
		return text
	}
	text, _ := json.Marshal(value) // which was JSON before
	return string(text)
}

// describeJSON adds to a syntax error the line at which the text stops being JSON.
func describeJSON(data []byte, err error) error {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return err
	}
	line := 1 + bytes.Count(data[:min(int(syntax.Offset), len(data))], []byte{'\n'})
	if int(syntax.Offset) >= len(bytes.TrimSpace(data)) {
		return fmt.Errorf("line %d: cut off after %d bytes: %w", line, len(data), err)
	}
	return fmt.Errorf("line %d: %w", line, err)
}

// readTable returns the members that are blocks of metrics, sorted by tag.
func readTable(members map[string]json.RawMessage) (t report.Table) {
	for tag, text := range members {
		if b, ok := readBlockJSON(tag, text); ok {
			t = append(t, b)
		}
	}
	slices.SortFunc(t, func(x, y report.Block) int { return strings.Compare(x.Tag, y.Tag) })
	return t
}

// stats are the statistics that a block may have, in the order of files.
var stats = []string{"avg", "min", "max", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "std", "count", "sum"}

// readBlockJSON reads a block: an object with a unit and numbers. It is false for any other value.
func readBlockJSON(tag string, text json.RawMessage) (b report.Block, ok bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return b, false
	}
	b = report.Block{Tag: tag, Name: tag, Unit: strings.Trim(string(members["unit"]), `"`)}
	for _, name := range stats {
		v, ok := members[name]
		if !ok || string(v) == "null" {
			continue
		}
		n, err := report.ParseNumber(string(v))
		if err != nil {
			return b, false
		}
		b.Stats = append(b.Stats, report.Stat{Name: name, Value: n})
	}
	if _, percentiles := b.Find("p50"); percentiles {
		b.Kind = report.Distribution
	}
	return b, len(b.Stats) > 0
}

// readCSV reads the first two tables of a CSV that agentx or AIPerf has written: lines that end with LF or CRLF, counts as 39 or 39.00. Its
// blocks have no tags, and units are in their names. Errors name the line.
func readCSV(data []byte) (t report.Table, err error) {
	var header []string
	blank := false // the line before was
	for line, err := range lines.Each(bytes.NewReader(data)) {
		if err != nil {
			return nil, err
		}
		after := blank
		blank = len(bytes.TrimSpace(line.Text)) == 0
		cells := strings.Split(string(line.Text), ",")
		switch {
		case blank:
			continue
		case cells[0] == "Metric":
			header = cells
			continue
		case after && len(header) == 2: // of a third table, such as that of GPUs
			return t, nil
		case len(cells) != len(header):
			return nil, fmt.Errorf("line %d: %d cells: want %d, as in the header", line.Number, len(cells), len(header))
		}
		b, err := readBlock(header, cells)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line.Number, err)
		}
		t = append(t, b)
	}
	if header == nil {
		return nil, fmt.Errorf("there is no header: want a line that begins with Metric")
	}
	return t, nil
}

// readBlock reads one line of a table. A table of two columns has scalars.
func readBlock(header, cells []string) (report.Block, error) {
	b := report.Block{Name: cells[0], Kind: report.Scalar}
	if len(header) > 2 {
		b.Kind = report.Distribution
	}
	for k, text := range cells[1:] {
		if text == "" {
			continue
		}
		n, err := report.ParseNumber(text)
		if err != nil {
			return b, fmt.Errorf("%s: %w", cells[0], err)
		}
		name := header[k+1]
		if name == "Value" {
			name = "avg"
		}
		b.Stats = append(b.Stats, report.Stat{Name: name, Value: n})
	}
	return b, nil
}

// ParseRow reads a line of a row file of agentx or of AIPerf, which also writes defaults and further keys. A metric is an object with a value
// and a unit, or a bare number. Metadata and metrics must be objects.
func ParseRow(line []byte) (Row, error) {
	var text struct {
		Metadata json.RawMessage
		Metrics  json.RawMessage
		Error    json.RawMessage
		Agentx   *Agentx
	}
	var row Row
	if err := json.Unmarshal(line, &text); err != nil {
		return row, err
	}
	for _, part := range []struct {
		name string
		text json.RawMessage
	}{{"metadata", text.Metadata}, {"metrics", text.Metrics}} {
		if len(part.text) == 0 || part.text[0] != '{' {
			return row, fmt.Errorf("%s is %.20q: want an object", part.name, part.text)
		}
	}
	if err := json.Unmarshal(text.Metadata, &row.Metadata); err != nil {
		return row, fmt.Errorf("metadata: %w", err)
	}
	row.Agentx = text.Agentx
	if err := row.readError(text.Error); err != nil {
		return row, fmt.Errorf("error: %w", err)
	}
	return row, row.readMetrics(text.Metrics)
}

// readError reads an error: an object, or a text. Null and an empty object are none.
func (row *Row) readError(text json.RawMessage) error {
	if s := string(bytes.Join(bytes.Fields(text), nil)); s == "" || s == "null" || s == "{}" {
		return nil
	}
	row.Error = &Error{}
	if text[0] == '"' {
		return json.Unmarshal(text, &row.Error.Message)
	}
	return json.Unmarshal(text, row.Error)
}

// readMetrics reads the metrics in their order. The text is JSON: a part of a row that was decoded.
func (row *Row) readMetrics(text json.RawMessage) error {
	l := jsonlex.New(text)
	return l.Object(func(key []byte) error {
		m := report.RowMetric{Tag: string(key)}
		if err := readMetric(&m, l); err != nil {
			return fmt.Errorf("metrics: %s: %w", m.Tag, err)
		}
		row.Metrics = append(row.Metrics, m)
		return nil
	})
}

// readMetric reads a number, an object, or a list in an object.
func readMetric(m *report.RowMetric, l *jsonlex.Lexer) error {
	if l.Kind() != jsonlex.Object {
		return readNumber(&m.Value, l)
	}
	found := false
	err := l.Object(func(key []byte) (err error) {
		switch {
		case string(key) == "unit" && !l.Null():
			m.Unit, err = l.Text()
		case string(key) != "value":
			err = l.Skip()
		default:
			found, m.List = true, nil
			if l.Kind() != jsonlex.Array {
				return readNumber(&m.Value, l)
			}
			m.List = []report.Number{}
			err = l.Array(func() error {
				m.List = append(m.List, report.Number{})
				return readNumber(&m.List[len(m.List)-1], l)
			})
		}
		return err
	})
	if err == nil && !found {
		return errors.New("there is no value")
	}
	return err
}

// readNumber reads a number; any other value is an error.
func readNumber(n *report.Number, l *jsonlex.Lexer) (err error) {
	begin := l.Pos
	if err := l.Skip(); err != nil {
		return err
	}
	*n, err = report.ParseNumber(string(l.Data[begin:l.Pos]))
	return err
}

// EachRow calls use with every row of a row file, and stops at its first error. Blank lines are skipped. An error names the file and
// the line.
func EachRow(path string, use func(*Row) error) error {
	file, err := regular.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	for line, err := range lines.Each(file) {
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if len(bytes.TrimSpace(line.Text)) == 0 {
			continue
		}
		row, err := ParseRow(line.Text)
		if err != nil && !line.Whole {
			err = fmt.Errorf("cut off after %d bytes: %w", len(line.Text), err)
		}
		if err == nil {
			err = use(&row)
		}
		if err != nil {
			return fmt.Errorf("%s: line %d: %w", path, line.Number, err)
		}
	}
	return nil
}

// compare adds a line to Differs for each number that two files have differently.
func (d *Directory) compare() {
	if d.Aggregate == nil {
		return
	}
	names := NamesOf("")
	for k := range d.table {
		row := &d.table[k]
		b := d.Aggregate.Headline.Find(tagOf(row.Name))
		if b == nil {
			continue
		}
		for _, s := range row.Stats {
			if n, ok := b.Find(s.Name); ok && !sameCell(n, s.Value) {
				d.differ("%s of %s is %s in %s and %s in %s", s.Name, b.Tag, text(n), names.aggregate, text(s.Value), names.table)
			}
		}
	}
	for _, c := range []struct {
		tag  string
		rows int
	}{{"request_count", d.Rows.Succeeded}, {"error_request_count", d.Rows.Failed}} {
		if b := d.Aggregate.Headline.Find(c.tag); b != nil && d.Rows.Succeeded+d.Rows.Failed > 0 {
			if n, ok := b.Find("avg"); ok && n.Float64() != float64(c.rows) {
				d.differ("%s is %s in %s, and %s has %d such rows", c.tag, text(n), names.aggregate, names.Rows, c.rows)
			}
		}
	}
}

// differ adds a line to Differs.
func (d *Directory) differ(format string, args ...any) {
	d.Differs = append(d.Differs, fmt.Sprintf(format, args...))
}

// text is a number as JSON has it.
func text(n report.Number) string { return string(n.Append(nil)) }

// tagOf makes the tag of a metric from its name in a CSV, which ends with the unit in parentheses.
func tagOf(name string) string {
	if k := strings.LastIndex(name, " ("); k >= 0 {
		name = name[:k]
	}
	return strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(name))
}

// sameCell reports whether a cell of a CSV, an integer or with two decimals, can be the number.
func sameCell(n, cell report.Number) bool {
	if n.IsInt() && cell.IsInt() {
		return n.Int64() == cell.Int64()
	}
	x, y := n.Float64(), cell.Float64()
	return math.Abs(x-y) <= 0.005+1e-9*math.Abs(x)
}
