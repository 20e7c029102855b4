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

	"github.com/agentx/agentx/internal/settings"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/report/aiperf"
	"github.com/agentx/agentx/report/gate"
	"github.com/agentx/agentx/report/inferencex"
)

// reportFlags say what to make of the results of runs.
type reportFlags struct {
	export exportFlags
	out    string
	json   bool

	compare compareFlags
	gate    gateFlags
	slo     sloFlags

	partial bool
	levels  []slo.Condition // of --slo
	problems
}

// reportFormats are the formats of --format.
var reportFormats = []string{formatHTML, formatAIPerf, formatJSON, formatCSV, formatParquet, formatInferenceX, formatMarkdown}

func newReport() *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:   "report DIR...",
		Short: "Show what runs measured: a page, a comparison, gates, files for other tools",
		Long:  reportHelp,
		Example: "  agentx replay demo --url http://127.0.0.1:8000 --model m --duration 10s --out results\n" +
			"  agentx report results --format html\n" +
			"  agentx report before after --compare --out comparison\n" +
			"  agentx report results --format aiperf --gate error-rate=0.1\n" +
			"  agentx report results --format markdown --base before --gate 'ttft.p95<+5%'\n" +
			"  agentx report results --format aiperf,parquet --out results/aiperf_artifacts --slice-duration 1s",
		Args: checkArgs(cobra.MinimumNArgs(1)),
		RunE: f.run,
	}
	flags := cmd.Flags()
	f.export.register(flags, "format", "files to make, with commas between: html, aiperf, json, csv, parquet, inferencex, markdown")
	flags.StringVar(&f.out, "out", "", "directory of the files of --format (default: that of the run)")
	f.gate.register(flags)
	f.slo.register(flags, "in the place of those of the run; summary.json stays")
	f.compare.register(flags)
	flags.BoolVar(&f.partial, "partial", false, "of a load whose parts are missing, were killed or are not of it: report the others, and say so")
	flags.BoolVar(&f.json, "json", false, "one JSON object for each directory: the summary, or what was written; with --compare one object")
	settings.New(flags, f.tell).Adopt("")
	return cmd
}

// run makes the report of every directory. Verdicts are told at the end.
func (f *reportFlags) run(cmd *cobra.Command, dirs []string) error {
	var verdicts, errs []error
	f.levels, errs = f.slo.conditions()
	f.export.levels, f.compare.levels, f.compare.partial = f.levels, f.levels, f.partial
	errs = slices.Concat(f.errs, f.export.check(reportFormats), f.compare.check(f.export.formats, f.gate.texts), f.gate.check(f.export.has(formatMarkdown)), errs)
	if f.json && f.export.has(formatMarkdown) {
		errs = append(errs, usageError{errors.New("--json and --format markdown: want one of the two")})
	}
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
	s := &subject{cmd: cmd, dir: dir, levels: f.levels, partial: f.partial}
	if !isRun(dir) {
		return f.reportFiles(s)
	}
	if s.opened, err = openResults(dir, f.partial); err != nil {
		return nil, err
	}
	if len(f.export.formats) == 0 {
		return f.rebuild(s)
	}
	e, err := f.export.export(cmd.Context(), s.opened, outOf(f.out, dir, several))
	if err != nil {
		return nil, err
	}
	s.results = e.results
	if e.Gates, err = f.gate.judge(s); err != nil {
		return nil, err
	}
	return gateErrors(dir, e.Gates), f.print(s, e)
}

// isRun reports whether a directory has the records of a run, or those of parts of a load, or is none at all.
func isRun(dir string) bool {
	for _, name := range []string{measure.RecordsFile, replay.RunFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	_, err := os.Stat(dir)
	return errors.Is(err, fs.ErrNotExist) || merge.IsLoad(dir)
}

// rebuild makes the summary of a run again and prints it. With --slo it is that of these service levels, and is not written.
func (f *reportFlags) rebuild(s *subject) (verdicts []error, err error) {
	var about []string
	s.summary, about, err = replay.Summarize(s.opened, f.levels)
	if err == nil && f.levels == nil {
		err = replay.WriteSummary(s.dir, s.summary)
	}
	warn(s.cmd, about)
	var gates []gate.Verdict
	if err == nil {
		gates, err = f.gate.judge(s)
	}
	switch {
	case s.summary == nil:
	case f.json:
		err = errors.Join(err, printJSON(s.cmd.OutOrStdout(), judged{s.summary, gates}))
	default:
		err = errors.Join(err, printSummary(s.cmd, s.summary, false))
		writePassed(s.cmd.OutOrStdout(), gates)
	}
	return gateErrors(s.dir, gates), err
}

// judged is the summary of a run with the verdicts of its gates.
type judged struct {
	*measure.Summary
	Gates []gate.Verdict `json:"gates,omitempty"`
}

// print tells what was made of a run. Numbers and Markdown have standard output for themselves.
func (f *reportFlags) print(s *subject, e *exported) error {
	out := s.cmd.OutOrStdout()
	if f.json {
		return printJSON(out, e)
	}
	warn(s.cmd, e.Missing)
	if e.InferenceX != nil {
		if err := printIndented(out, e.InferenceX); err != nil {
			return err
		}
	}
	if f.export.has(formatMarkdown) {
		if err := f.printMarkdown(s, e.Gates); err != nil {
			return err
		}
	}
	if e.InferenceX != nil || f.export.has(formatMarkdown) {
		out = s.cmd.ErrOrStderr()
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
func (f *reportFlags) reportFiles(s *subject) (verdicts []error, err error) {
	for _, format := range f.export.formats {
		if format != formatInferenceX && format != formatMarkdown {
			return nil, fmt.Errorf("%s: there are no records of a run (%s): --format %s needs them", s.dir, measure.RecordsFile, format)
		}
	}
	if f.levels != nil {
		return nil, fmt.Errorf("%s: there are no records of a run (%s): --slo needs them", s.dir, measure.RecordsFile)
	}
	d, err := aiperf.OpenDirectory(s.dir)
	if errors.Is(err, aiperf.ErrNoFiles) {
		what := strings.TrimPrefix(err.Error(), s.dir+": ")
		return nil, fmt.Errorf("%s: no results of a run: neither %s nor %s, and %s", s.dir, replay.RunFile, measure.RecordsFile, what)
	}
	if d == nil {
		return nil, err
	}
	s.files = d
	gates, gateErr := f.gate.judge(s)
	err = errors.Join(err, gateErr)
	switch {
	case len(f.export.formats) == 0:
		err = errors.Join(printFiles(s.cmd, d, gates, f.json), err)
	case err == nil:
		e := &exported{Dir: d.Path, Out: d.Path, Files: []string{}, Missing: append(d.Lacks, d.Differs...), Gates: gates}
		if f.export.has(formatInferenceX) {
			e.InferenceX, err = inferencex.Read(s.dir, inferencex.DefaultLimit)
		}
		if err == nil {
			err = f.print(s, e)
		}
	}
	return gateErrors(s.dir, gates), err
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
