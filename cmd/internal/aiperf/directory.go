package aiperf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/report"
)

// Directory is a directory with files of AIPerf, written by agentx or by AIPerf.
type Directory struct {
	Path      string // in which the files are
	Aggregate *Aggregate
	table     report.Table // of the CSV: names with units, without tags
	Rows      RowCounts

	// Lacks says, in one line each, what agentx would have written and is not there, or cannot be read as it stands. Differs says
	// which numbers are not the same in two files.
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

// findFaults notes what releases of agentx-harness before 1.0.12 count wrong.
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

// readRows counts the rows.
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
