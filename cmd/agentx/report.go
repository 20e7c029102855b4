package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/report"
	"github.com/agentx/agentx/report/aiperf"
	"github.com/agentx/agentx/report/inferencex"
)

// reportFlags say what to make of the results of runs.
type reportFlags struct {
	export exportFlags
	out    string
	gates  []string
	json   bool

	compare compareFlags

	wanted []gate
	problems
}

// reportFormats are the formats of --format.
var reportFormats = []string{formatHTML, formatAIPerf, formatJSON, formatCSV, formatParquet, formatInferenceX}

func newReport() *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:   "report DIR...",
		Short: "Make files for other tools from the records of runs, or rebuild their summaries",
		Long: `Read the records of runs and write what other tools read. DIR is a directory of replay --out; that
of a list of runs stands for those of its runs.

Without --format it rebuilds summary.json and prints it. For a run that ended it is the same, byte
for byte. A run that was killed wrote no summary: the rebuilt one has the figures that the records
give, and null for those that are known only at the end of a run.

--format makes one or more of

  html        report.html: the page of the run, for a browser
  aiperf      the files of AIPerf: profile_export.jsonl (a row for each request),
              profile_export_aiperf.json and .csv, profile_export_console.txt, with --slice-duration
              the time slices, server_metrics_export.json and .csv if servers were scraped, and
              .aiperf_results_ready.json last
  json, csv   profile_export_aiperf.json, profile_export_aiperf.csv alone
  parquet     records.parquet: the records of the run as a table
  inferencex  prints, as JSON, the numbers that InferenceX computes from the files of AIPerf

--compare compares two or more runs with the first: it prints a table with the differences, says
which of them exceed their intervals, and writes compare.html, compare.json and compare.csv to --out,
by default the current directory. Runs that differ in what must be equal (dataset, seed, preset,
scenario, model, payload, marker and others) are named first; --strict then ends with status 3.

Files go to DIR, or to --out; of several runs to a directory below it for each. Every file appears
whole or not at all, and replaces an older one. The paths are printed, one a line.

--gate error-rate=0.1 fails with status 3 if more than a tenth of the completed requests failed, by
the rule of InferenceX. The files are written all the same.

DIR may also hold files that AIPerf wrote: then report prints their numbers, says what they lack and
where two of them differ, and --gate and --format inferencex read them.`,
		Example: "  agentx report results --format html\n" +
			"  agentx report before after --compare --out comparison\n" +
			"  agentx replay demo --url http://127.0.0.1:8000 --model m --duration 10s --out results\n" +
			"  agentx report results --format aiperf --gate error-rate=0.1\n" +
			"  agentx report results --format aiperf,parquet --out results/aiperf_artifacts --slice-duration 1s",
		Args: checkArgs(cobra.MinimumNArgs(1)),
		RunE: f.run,
	}
	flags := cmd.Flags()
	f.export.register(flags, "format", "files to make, with commas between: html, aiperf, json, csv, parquet, inferencex")
	flags.StringVar(&f.out, "out", "", "directory of the files of --format (default: that of the run)")
	flags.StringArrayVar(&f.gates, "gate", nil, "error-rate=X: status 3 if a larger share of the completed requests failed (repeatable)")
	f.compare.register(flags)
	flags.BoolVar(&f.json, "json", false, "one JSON object for each directory: the summary, or what was written; with --compare one object")
	checkFlags(flags, &f.problems)
	return cmd
}

// run makes the report of every directory. Verdicts are told at the end.
func (f *reportFlags) run(cmd *cobra.Command, dirs []string) error {
	var verdicts, errs []error
	f.wanted, errs = parseGates(f.gates)
	errs = slices.Concat(f.errs, f.export.check(reportFormats), f.compare.check(f.export.formats, f.gates), errs)
	if f.out != "" && len(f.export.formats) == 0 && !f.compare.on {
		errs = append(errs, f.export.withoutFormats("--out "+f.out))
	}
	if len(errs) > 0 {
		return errorList(errs)
	}
	if slices.Contains(dirs, "") {
		return usageError{errors.New("DIR is empty: want the directory of a run")}
	}
	runs, err := runsIn(dirs)
	if err != nil {
		return err
	}
	if f.compare.on {
		return f.compare.run(cmd, runs, f.out, f.json)
	}
	if err := f.checkOut(runs); err != nil {
		return err
	}
	for _, dir := range runs {
		no, err := f.report(cmd, dir, len(runs) > 1)
		if err != nil {
			return err
		}
		verdicts = append(verdicts, no...)
	}
	if len(verdicts) > 0 {
		return errorList(verdicts)
	}
	return nil
}

// checkOut refuses runs whose files would replace one another.
func (f *reportFlags) checkOut(runs []string) error {
	seen := map[string]string{}
	for _, dir := range runs {
		out := outOf(f.out, dir, len(runs) > 1)
		if other, ok := seen[out]; ok && out != "" {
			return usageError{fmt.Errorf("--out %s: %s and %s would both go to %s", f.out, other, dir, out)}
		}
		seen[out] = dir
	}
	return nil
}

// report makes the report of one directory. It returns the verdicts that are no.
func (f *reportFlags) report(cmd *cobra.Command, dir string, several bool) (verdicts []error, err error) {
	if !isRun(dir) {
		return f.reportFiles(cmd, dir)
	}
	if len(f.export.formats) == 0 {
		return f.rebuild(cmd, dir)
	}
	e, err := f.export.export(cmd.Context(), dir, outOf(f.out, dir, several))
	if err != nil {
		return nil, err
	}
	if len(f.wanted) > 0 {
		if e.Gates, err = f.judgeRun(dir, e.results); err != nil {
			return nil, err
		}
	}
	return gateErrors(dir, e.Gates), f.print(cmd, e)
}

// isRun reports whether a directory has the records of a run, or is none at all.
func isRun(dir string) bool {
	for _, name := range []string{measure.RecordsFile, replay.RunFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	_, err := os.Stat(dir)
	return errors.Is(err, fs.ErrNotExist)
}

// rebuild makes the summary of a run again and prints it.
func (f *reportFlags) rebuild(cmd *cobra.Command, dir string) (verdicts []error, err error) {
	s, about, err := replay.RebuildSummary(dir)
	warn(cmd, about)
	if s != nil {
		if err := printSummary(cmd, s, f.json); err != nil {
			return nil, err
		}
	}
	if err != nil || len(f.wanted) == 0 {
		return nil, err
	}
	gates, err := f.judgeRun(dir, nil)
	return gateErrors(dir, gates), err
}

// judgeRun judges a run by its results, which it computes unless they are known.
func (f *reportFlags) judgeRun(dir string, res *report.Results) ([]gateVerdict, error) {
	if res == nil {
		run, err := report.Open(dir)
		if err != nil {
			return nil, err
		}
		if res, err = run.Compute(); err != nil {
			return nil, err
		}
	}
	return judgeResults(f.wanted, res)
}

// print tells what was made of a run.
func (f *reportFlags) print(cmd *cobra.Command, e *exported) error {
	out := cmd.OutOrStdout()
	if f.json {
		return printJSON(out, e)
	}
	warn(cmd, e.Missing)
	if e.InferenceX != nil {
		if err := printIndented(out, e.InferenceX); err != nil {
			return err
		}
		out = cmd.ErrOrStderr()
	}
	for _, name := range e.Files {
		fmt.Fprintln(out, filepath.Join(e.Out, name))
	}
	return nil
}

// warn prints what is not known of a run.
func warn(cmd *cobra.Command, about []string) {
	for _, text := range about {
		printError(cmd.ErrOrStderr(), "agentx: warning: "+text)
	}
}

// reportFiles tells what is in a directory with files of AIPerf, and no records.
func (f *reportFlags) reportFiles(cmd *cobra.Command, dir string) (verdicts []error, err error) {
	for _, format := range f.export.formats {
		if format != formatInferenceX {
			return nil, fmt.Errorf("%s: there are no records of a run (%s): --format %s needs them", dir, measure.RecordsFile, format)
		}
	}
	d, err := aiperf.OpenDirectory(dir)
	if errors.Is(err, aiperf.ErrNoFiles) {
		what := strings.TrimPrefix(err.Error(), dir+": ")
		return nil, fmt.Errorf("%s: no results of a run: neither %s nor %s, and %s", dir, replay.RunFile, measure.RecordsFile, what)
	}
	if d == nil {
		return nil, err
	}
	gates := judgeBy(f.wanted, func(limit float64) error { return inferencex.Gate(d.Path, limit) })
	switch {
	case !f.export.has(formatInferenceX):
		err = errors.Join(printFiles(cmd, d, gates, f.json), err)
	case err == nil:
		e := &exported{Dir: d.Path, Out: d.Path, Files: []string{}, Missing: append(d.Lacks, d.Differs...), Gates: gates}
		if e.InferenceX, err = inferencex.Read(dir, inferencex.DefaultLimit); err == nil {
			err = f.print(cmd, e)
		}
	}
	return gateErrors(dir, gates), err
}

// runsIn returns the directories of runs, with those of its runs in the place of a list.
func runsIn(dirs []string) (runs []string, err error) {
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s: no directory", dir)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: want the directory of a run, as agentx replay --out names it", err)
		}
		list, err := replay.ReadList(dir)
		if errors.Is(err, fs.ErrNotExist) {
			runs = append(runs, dir)
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, r := range list.Runs {
			if r.Headline == nil {
				continue
			}
			if !filepath.IsLocal(r.Dir) {
				return nil, fmt.Errorf("%s: the directory %q of a run lies outside", filepath.Join(dir, replay.ConcurrenciesFile), r.Dir)
			}
			runs = append(runs, filepath.Join(dir, r.Dir))
		}
	}
	return runs, nil
}
