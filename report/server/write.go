package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
	"github.com/agentx/agentx/replay/scrape"
)

// Names of the files.
const (
	JSONFile = "server_metrics_export.json"
	CSVFile  = "server_metrics_export.csv"
)

// Options say how the files are written. The zero value is the default.
type Options struct {
	Out      string // directory of the files; "": that of the run
	JSONName string // "": JSONFile
	CSVName  string // "": CSVFile

	// What only the caller knows, written as it is; zero values are left out.
	Version     string          // aiperf_version
	BenchmarkID string          // benchmark_id
	InputConfig json.RawMessage // input_config, a JSON object

	Slice   time.Duration // length of the slices of time, at least scrape.Interval; 0: none, and nothing that is computed over them
	Harness bool          // what agentx-harness leaves out is left out, and times are local
}

// Validate returns an error that names the first field that cannot be used.
func (o Options) Validate() error {
	if o.InputConfig != nil && !json.Valid(o.InputConfig) {
		return errors.New("input config: no JSON")
	}
	for _, name := range []string{o.JSONName, o.CSVName} {
		if name != "" && filepath.Base(name) != name {
			return fmt.Errorf("name %q: want a file name without a directory", name)
		}
	}
	return nil
}

// Result is what Write did.
type Result struct {
	Files   []string // names of the files that it wrote, in their order; none: nothing was scraped
	Missing []string // what the files lack, one line each
}

// Write computes the server metrics of a run and writes them. A run in which no page answered, or whose
// phases are not known because it was killed, has no files; the latter is told in Missing.
func Write(run *merge.Run, o Options) (Result, error) {
	if err := o.Validate(); err != nil {
		return Result{}, fmt.Errorf("server metrics: %w", err)
	}
	data, err := run.Servers()
	if errors.Is(err, fs.ErrNotExist) {
		return Result{}, nil
	}
	if err != nil {
		return Result{}, fmt.Errorf("server metrics: %w", err)
	}
	o = o.withDefaults()
	phases, err := phasesOf(&run.Info)
	if err != nil {
		return Result{}, fmt.Errorf("server metrics: %w", err)
	}
	answered := slices.ContainsFunc(data.Endpoints, func(e scrape.Endpoint) bool { return len(e.Answers) > 0 })
	if _, ok := phases[measure.ProfilingPhase]; !ok || !answered {
		if answered {
			return Result{Missing: []string{fmt.Sprintf("%s: the run tells no profiling phase: there are no server metrics", run.Dir)}}, nil
		}
		return Result{}, nil
	}
	r := Result{Files: []string{o.JSONName, o.CSVName}}
	if data.Torn {
		r.Missing = append(r.Missing, fmt.Sprintf("%s: the last line is cut off and left out", filepath.Join(run.Dir, scrape.File)))
	}
	if o.Out == "" {
		o.Out = run.Dir
	}
	e := newExport(data, phases, o)
	return r, write(o, e, e.csv())
}

// withDefaults returns the options with every default in its place, but Out.
func (o Options) withDefaults() Options {
	o.JSONName, o.CSVName = cmp.Or(o.JSONName, JSONFile), cmp.Or(o.CSVName, CSVFile)
	if o.Slice > 0 {
		o.Slice = max(o.Slice, scrape.Interval)
	}
	return o
}

// write writes the two files, each whole: an object as JSON, indented and without a line feed at its end, and the text of a table.
func write(o Options, e *export, table []byte) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(e); err != nil {
		return fmt.Errorf("server metrics: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(o.Out, o.JSONName), bytes.TrimSuffix(text.Bytes(), []byte{'\n'})); err != nil {
		return fmt.Errorf("server metrics: %w", err)
	}
	if err := durable.WriteFile(filepath.Join(o.Out, o.CSVName), table); err != nil {
		return fmt.Errorf("server metrics: %w", err)
	}
	return nil
}
