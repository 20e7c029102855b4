package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentx/agentx/cmd/internal/aiperf"
	"github.com/agentx/agentx/cmd/internal/aiperf/inferencex"
	"github.com/agentx/agentx/cmd/internal/report/compare"
	"github.com/agentx/agentx/cmd/internal/report/export"
	"github.com/agentx/agentx/cmd/internal/report/gate"
	"github.com/agentx/agentx/cmd/internal/report/markdown"
	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/internal/terminal"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
	"github.com/agentx/agentx/replay/slo"
)

// reportFlags say what to make of the results of runs.
type reportFlags struct {
	set    *settings.Set
	flags  *pflag.FlagSet
	export exportFlags
	slo    sloFlags
	out    string

	json, partial   bool
	compare, strict bool
	gpus            int
	index           indexFlags

	gates  []string
	list   []gate.Gate // of gates
	base   string      // directory of the run that relative gates compare with
	unseen float64     // largest share of requests that no figure is over
	problems
}

// formatWords are the formats of --format, with what each is behind a tab. The last two print, and are none of replay --report.
var formatWords = []string{
	export.HTML + "\tpage of the run", export.AIPerf + "\tfiles of AIPerf", export.JSON + "\tresults", export.CSV + "\tresults",
	export.Parquet + "\trecords", export.InferenceX + "\tnumbers of InferenceX", export.Markdown + "\tfor GitHub",
}

// reportFormats are the names of formatWords, replayFormats those of replay --report.
var (
	reportFormats = settings.Word(formatWords...).Words
	replayFormats = reportFormats[:len(reportFormats)-2]
)

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
			"  agentx report agentx-results --index\n" +
			"  agentx report results --format markdown --base before --gate 'ttft.p95<+5%'\n" +
			"  agentx report results --format aiperf,parquet --out results/aiperf_artifacts --slice-duration 1s",
		Args: checkArgs(cobra.MinimumNArgs(1)),
		RunE: f.run,
	}
	flags := cmd.Flags()
	f.flags = flags
	f.export.register(flags, "format", "files to make, with commas between: "+strings.Join(reportFormats, ", "))
	flags.StringVar(&f.out, "out", "", "directory of the files of --format (default: that of the run)")
	flags.StringArrayVar(&f.gates, "gate", nil, "end with status 3 unless this holds: 'ttft.p95<2s', 'goodput>3', 'error-rate<1%'; against --base 'ttft.p95<+5%'; error-rate=X, by the rule of InferenceX (repeatable; the shell wants quotes)")
	flags.Float64Var(&f.unseen, "gate-unseen", measure.MaxUnseen, "a --gate fails if more than this share of the requests is in no figure: cut off at the end, or over the context; of a latency also those that failed")
	flags.StringVar(&f.base, "base", "", "directory of the run that gates such as 'ttft.p95<+5%', and the differences of --format markdown, compare with")
	f.slo.register(flags, "overrides the run's own service levels; summary.json is not rewritten")
	flags.BoolVar(&f.compare, "compare", false, "compare the runs with the first: a table, and compare.html, compare.json, compare.csv in --out")
	flags.IntVar(&f.gpus, "gpus", 0, "with --compare: GPUs that served each run; throughput is then per GPU")
	flags.BoolVar(&f.strict, "strict", false, "with --compare: status 3 if the runs differ in a setting that must be equal")
	flags.BoolVar(&f.partial, "partial", false, "report a load although parts are missing, were killed or belong to another load, and say so")
	flags.BoolVar(&f.json, "json", false, "one JSON object for each directory: the summary, or what was written; with --compare one object")
	f.index.register(flags)
	f.set = settings.New(flags, f.tell)
	f.set.Adopt("")
	return cmd
}

// run makes the report of every directory.
func (f *reportFlags) run(cmd *cobra.Command, dirs []string) error {
	err := f.reports(cmd, dirs)
	if is[*merge.IncompleteError](err) && !f.partial {
		return hintError{err, "--partial, which reports the parts that there are and says so"}
	}
	return err
}

// reports checks the flags, makes the reports, and returns the verdicts of all gates that failed.
func (f *reportFlags) reports(cmd *cobra.Command, dirs []string) error {
	f.set.Resolve(nil)
	f.export.check(&f.problems, reportFormats)
	f.checkCompare()
	f.index.check(f)
	f.checkGates()
	f.export.Levels = f.slo.conditions(&f.problems)
	if f.json && f.export.Has(export.Markdown) {
		f.add("--json and --format markdown contradict each other: leave one of them out")
	}
	if f.out != "" && len(f.export.Formats) == 0 && !f.compare && !f.index.write {
		f.export.withoutFormats(&f.problems, "--out "+f.out)
	}
	if err := f.err(); err != nil {
		return err
	}
	if slices.Contains(dirs, "") {
		return usageError{errors.New("DIR is an empty text: name the directory of a run")}
	}
	if f.index.write || f.index.serve {
		return f.index.run(cmd, dirs, f.out)
	}
	runs, err := runsIn(dirs)
	if err != nil {
		return err
	}
	if f.compare {
		return f.runCompare(cmd, dirs)
	}
	if err := f.checkOut(runs); err != nil {
		return err
	}
	var verdicts []error
	for k, dir := range runs {
		if len(runs) > 1 && !f.json && len(f.export.Formats) == 0 {
			if k > 0 {
				fmt.Fprintln(cmd.OutOrStdout())
			}
			fmt.Fprintf(cmd.OutOrStdout(), "== %s%s\n", terminal.Sanitize(dir), f.servedOf(runs, k))
		}
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

// servedOf returns " (MODEL at URL)" of one of several runs if they differ in that, else "".
func (f *reportFlags) servedOf(runs []string, k int) string {
	var texts []string
	for _, dir := range runs {
		info, _ := measure.ReadInfo(dir) // of files of AIPerf nothing is known
		texts = append(texts, strings.TrimSpace(info.Model+" at "+strings.Join(info.URLs, ", ")))
	}
	if slices.Max(texts) == slices.Min(texts) || texts[k] == "at" {
		return ""
	}
	return " (" + terminal.Sanitize(texts[k]) + ")"
}

// checkOut returns an error if the files of two runs would go to the same directory.
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

// report makes the report of one directory. verdicts are the gates that failed.
func (f *reportFlags) report(cmd *cobra.Command, dir string, several bool) (verdicts []error, err error) {
	s := &subject{cmd, gate.Subject{Dir: dir, Levels: f.export.Levels, Base: f.base, Partial: f.partial}}
	s.Warn = func(text string) { warn(cmd, []string{text}) }
	s.Summarize = func() (*measure.Summary, []string, error) { return replay.Summarize(s.Opened, f.export.Levels) }
	if !isRun(dir) {
		return f.reportFiles(s)
	}
	if s.Opened, err = merge.Open(dir, merge.Options{Partial: f.partial}); err != nil {
		return nil, err
	}
	if len(f.export.Formats) == 0 {
		return f.rebuild(s)
	}
	e, err := export.Make(cmd.Context(), s.Opened, outOf(f.out, dir, several), f.export.Options)
	if err != nil {
		return nil, err
	}
	s.Results = e.Results
	if e.Gates, err = s.Judge(s.cmd.Context(), f.list, f.unseen); err != nil {
		return nil, err
	}
	return gateErrors(dir, e.Gates), f.print(s, e)
}

// isRun reports whether a directory has the records of a run or of parts of a load. A missing directory counts, so that its error is about a run.
func isRun(dir string) bool {
	for _, name := range []string{measure.RecordsFile, replay.RunFile} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	_, err := os.Stat(dir)
	return errors.Is(err, fs.ErrNotExist) || merge.IsLoad(dir)
}

// rebuild computes the summary of a run from its records, writes it and prints it. With --slo it is judged by these levels and not written.
func (f *reportFlags) rebuild(s *subject) (verdicts []error, err error) {
	summary, about, err := s.Rebuild()
	if err == nil && f.export.Levels == nil {
		err = replay.WriteSummary(s.Dir, summary)
	}
	warn(s.cmd, about)
	var gates []gate.Verdict
	if err == nil {
		gates, err = s.Judge(s.cmd.Context(), f.list, f.unseen)
	}
	switch {
	case summary == nil:
	case f.json:
		err = errors.Join(err, printJSON(s.cmd.OutOrStdout(), judged{summary, gates}))
	default:
		summary.Out = s.Dir // as the user names it
		err = errors.Join(err, printSummary(s.cmd, summary, false))
		writePassed(s.cmd.OutOrStdout(), gates)
	}
	return gateErrors(s.Dir, gates), err
}

// judged is the summary of a run with the verdicts of its gates.
type judged struct {
	*measure.Summary
	Gates []gate.Verdict `json:"gates,omitempty"`
}

// print tells which files were made of a run. If numbers or Markdown go to standard output, the paths go to standard error.
func (f *reportFlags) print(s *subject, e *export.Made) error {
	out := s.cmd.OutOrStdout()
	if f.json {
		return printJSON(out, e)
	}
	warn(s.cmd, e.Missing)
	if e.InferenceX != nil {
		if err := terminal.IndentedJSON(out, e.InferenceX); err != nil {
			return err
		}
	}
	if f.export.Has(export.Markdown) {
		if err := f.printMarkdown(s, e.Gates); err != nil {
			return err
		}
	}
	if e.InferenceX != nil || f.export.Has(export.Markdown) {
		out = s.cmd.ErrOrStderr()
	}
	for _, name := range e.Files {
		fmt.Fprintln(out, filepath.Join(e.Out, name))
	}
	return nil
}

// warn prints warnings to standard error.
func warn(cmd *cobra.Command, about []string) {
	for _, text := range about {
		printError(cmd.ErrOrStderr(), "agentx: warning: "+text)
	}
}

// reportFiles makes the report of a directory that has files of AIPerf, and no records.
func (f *reportFlags) reportFiles(s *subject) (verdicts []error, err error) {
	for _, format := range f.export.Formats {
		if format != export.InferenceX && format != export.Markdown {
			return nil, fmt.Errorf("%s: there are no records of a run (%s): --format %s needs them", s.Dir, measure.RecordsFile, format)
		}
	}
	if f.export.Levels != nil {
		return nil, fmt.Errorf("%s: there are no records of a run (%s): --slo needs them", s.Dir, measure.RecordsFile)
	}
	d, err := aiperf.OpenDirectory(s.Dir)
	if errors.Is(err, aiperf.ErrNoFiles) {
		what := strings.TrimPrefix(err.Error(), s.Dir+": ")
		return nil, hintError{fmt.Errorf("%s: not the results of a run: neither %s nor %s, and %s", s.Dir, replay.RunFile, measure.RecordsFile, what), hintRuns(s.Dir)}
	}
	if d == nil {
		return nil, err
	}
	s.Files = d
	gates, gateErr := s.Judge(s.cmd.Context(), f.list, f.unseen)
	err = errors.Join(err, gateErr)
	switch {
	case len(f.export.Formats) == 0:
		err = errors.Join(printFiles(s.cmd, d, gates, f.json), err)
	case err == nil:
		e := &export.Made{Dir: d.Path, Out: d.Path, Files: []string{}, Missing: append(d.Lacks, d.Differs...), Gates: gates}
		if f.export.Has(export.InferenceX) {
			e.InferenceX, err = inferencex.Read(s.Dir, inferencex.DefaultLimit)
		}
		if err == nil {
			err = f.print(s, e)
		}
	}
	return gateErrors(s.Dir, gates), err
}

// runsIn returns the directories of runs. The directory of a list of runs stands for those of its runs.
func runsIn(dirs []string) (runs []string, err error) {
	for _, dir := range dirs {
		info, err := os.Stat(dir)
		if err == nil && !info.IsDir() {
			err = fmt.Errorf("%s: not a directory", dir)
		}
		if err != nil {
			hint := hintRuns(dir)
			if info != nil && !info.IsDir() {
				hint = "agentx report " + filepath.Dir(dir) + ", which stands for all its runs"
			}
			return nil, hintError{fmt.Errorf("%w: want the directory of a run, as agentx replay --out names it", err), hint}
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
				return nil, fmt.Errorf("%s: it names the directory %q of a run, which lies outside it", filepath.Join(dir, replay.ConcurrenciesFile), r.Dir)
			}
			runs = append(runs, filepath.Join(dir, r.Dir))
		}
	}
	return runs, nil
}

// hintRuns returns the command that reports the latest run below a directory, or below the current one.
func hintRuns(dir string) string {
	var latest string
	var when time.Time
	for _, pattern := range []string{dir + "/*/", dir + "/agentx-results/*/", "agentx-results/*/", "*/"} {
		for _, name := range []string{replay.RunFile, replay.ConcurrenciesFile} {
			found, _ := filepath.Glob(pattern + name)
			for _, path := range found {
				if info, err := os.Stat(path); err == nil && info.ModTime().After(when) {
					latest, when = filepath.Dir(path), info.ModTime()
				}
			}
		}
	}
	if latest == "" {
		return "agentx replay CACHE --url URL --model NAME --out DIR, which writes one"
	}
	return "agentx report " + latest
}

// reportHelp is the manual of report.
const reportHelp = `Show what runs measured, from their records. DIR is a directory of replay --out. The directory of a
list of runs stands for all its runs. The directory of a load that several clients played (replay --part)
stands for all its parts as one run: times are moved to the clock of part 0, percentiles are over all
requests, and each rate has the error that the clocks of the parts leave. A part that is missing, was
killed or belongs to another load is an error; --partial reports the others, and says so above everything.
DIR/part-00001-of-00004 is one part.

  What happened?                        agentx report DIR --format html
  Is it better than last week?          agentx report LASTWEEK DIR --compare
  Is it good enough to ship?            agentx report DIR --base LASTWEEK --gate 'ttft.p95<+5%'
  How many agents does a server hold?   agentx replay CACHE --concurrency auto --slo 'ttft.p95<2s'
  What have I run so far?               agentx report --index agentx-results

doc/report.md says how to read what comes out.

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
  markdown    prints verdict, gates, figures with their intervals, and with --base the differences, as
              GitHub shows them; also appended to the file that GITHUB_STEP_SUMMARY names

--compare compares two or more runs with the first: it prints a table with the differences, says
which of them exceed their intervals, and writes compare.html, compare.json and compare.csv to --out,
by default the current directory. Runs that differ in what must be equal (dataset, seed, preset,
scenario, model, payload, marker and others) are named first; --strict then ends with status 3.

--index writes index.html to DIR: a table of all runs in and below it, with their figures and
conclusions, which sorts, filters, links to their pages and compares those that are ticked.
--listen-index serves the same while runs go on, with the page of every run, until it is interrupted.

Files go to DIR, or to --out; of several runs to a directory below it for each. Every file appears
whole or not at all, and replaces an older one. The paths are printed, one a line.

A --gate that does not hold ends the command with status 3 and says why. The files are written all the same.

  --gate 'ttft.p95<2s' --gate 'goodput>3' --gate 'error-rate<1%'    a figure of the run
  --gate 'ttft.p95<+5%' --base DIR    its difference to the run of DIR, unless it may be noise: the
              interval of the difference decides
  --gate error-rate=0.1    failed over completed requests, by the rule of InferenceX

--slo 'ttft<2s' judges the run by these service levels instead of its own.

Figures are ttft, itl, latency, tpot, lateness, prompt_tokens and output_tokens, each with .mean, .p50,
.p75, .p90, .p95, .p99 or .max; request_rate, output_token_rate, prompt_token_rate, error-rate, goodput
and token_hit_rate.

DIR may also hold files that AIPerf wrote: then report prints their numbers, says what they lack and
where two of them differ, and --gate and --format inferencex read them.`

// exportFlags say which files are made of the records of a run, and how.
type exportFlags struct {
	flags *pflag.FlagSet
	name  string // of the flag that names the formats
	export.Options
}

// register adds the flags. name is that of the formats.
func (f *exportFlags) register(flags *pflag.FlagSet, name, usage string) {
	f.name, f.flags = name, flags
	flags.StringSliceVar(&f.Formats, name, nil, usage)
	flags.StringVar(&f.Prefix, "prefix", "", "beginning of the names of the files of aiperf, json and csv, such as run7: run7.jsonl, run7.json, run7.csv (default: AIPerf's names)")
	durationVar(flags, &f.Slice, "slice-duration", 0, "length of the slices of time in the files of aiperf; 0: no slices")
}

// check adds errors of the flags to the problems. known are the formats that may be named.
func (f *exportFlags) check(p *problems, known []string) {
	for _, name := range f.Formats {
		if !slices.Contains(known, name) {
			p.add("%s: %w", settings.Shown(f.flags.Lookup(f.name), name), wrongWord(name, either(known), known))
		}
	}
	check := func(flag string, o aiperf.Options) {
		if err := o.Validate(); err != nil {
			_, why, _ := strings.Cut(err.Error(), ": ") // of an option, which the flag is
			p.add("%s: %s", flag, why)
		} else if len(f.Formats) == 0 && o != (aiperf.Options{}) {
			f.withoutFormats(p, flag)
		}
	}
	check(settings.Shown(f.flags.Lookup("prefix"), f.Prefix), aiperf.Options{Prefix: f.Prefix})
	check(settings.Named(f.flags.Lookup("slice-duration")), aiperf.Options{Slice: f.Slice})
}

// withoutFormats adds the error of a flag that is about files when no files are made.
func (f *exportFlags) withoutFormats(p *problems, flag string) {
	p.add("%s: no files are made: add --%s aiperf, or leave it out", flag, f.name)
}

// afterReplay makes the files of a run that has just ended, also of an interrupted one. It returns the run's error, ended, joined with that
// of the files.
func (f *exportFlags) afterReplay(cmd *cobra.Command, s *measure.Summary, ended error) error {
	if len(f.Formats) == 0 || s == nil || s.Out == "" {
		return ended
	}
	run, err := merge.Open(s.Out, merge.Options{})
	e := &export.Made{}
	if err == nil {
		e, err = export.Make(context.WithoutCancel(cmd.Context()), run, "", f.Options)
	}
	if quiet, _ := cmd.Flags().GetBool("quiet"); !quiet && len(e.Files) > 0 {
		printError(cmd.ErrOrStderr(), fmt.Sprintf("agentx: --report wrote %s to %s", strings.Join(e.Files, ", "), e.Out))
	}
	switch {
	case err == nil:
		return ended
	case ended == nil, errors.Is(ended, context.Canceled):
		return fmt.Errorf("--report: %w", err)
	}
	return errorList{ended, fmt.Errorf("--report: %w", err)}
}

// outOf returns the directory for the files of a run: --out, or of several runs --out with the name of the run's directory.
func outOf(out, dir string, several bool) string {
	if out == "" || !several {
		return out
	}
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs // which has a name even if dir is ..
	}
	return filepath.Join(out, filepath.Base(dir))
}

// filesReport is what report says of files of AIPerf.
type filesReport struct {
	Dir     string           `json:"dir"`
	Version string           `json:"aiperf_version"`
	Schema  string           `json:"schema_version"`
	Start   string           `json:"start_time"`
	End     string           `json:"end_time"`
	Rows    aiperf.RowCounts `json:"rows"`
	Metrics json.Marshaler   `json:"metrics"` // null: there is no aggregate
	Lacks   []string         `json:"lacks"`
	Differs []string         `json:"differs"`
	Gates   []gate.Verdict   `json:"gates,omitempty"`
}

// printFiles prints the numbers in files of AIPerf, what the files lack, and which numbers differ between two of them.
func printFiles(cmd *cobra.Command, d *aiperf.Directory, gates []gate.Verdict, asJSON bool) error {
	r := filesReport{Dir: d.Path, Rows: d.Rows, Lacks: d.Lacks, Differs: d.Differs, Gates: gates}
	if a := d.Aggregate; a != nil {
		r.Version, r.Schema, r.Start, r.End, r.Metrics = a.Version, a.Schema, a.Start, a.End, aiperf.Blocks(a.Headline)
	}
	if asJSON {
		return printJSON(cmd.OutOrStdout(), r)
	}
	for _, text := range slices.Concat(d.Lacks, d.Differs) {
		warn(cmd, []string{d.Path + ": " + text})
	}
	out := cmd.OutOrStdout()
	fmt.Fprintf(out, "%s: files of AIPerf", d.Path)
	if a := d.Aggregate; a != nil {
		fmt.Fprintf(out, ", written by %s, schema %s, %s to %s", a.Version, a.Schema, a.Start, a.End)
	}
	fmt.Fprintf(out, "\nrows: %d succeeded, %d failed, %d of the warmup, %d others\n", d.Rows.Succeeded, d.Rows.Failed, d.Rows.Warmup, d.Rows.Others)
	_, err := out.Write(d.Text())
	writePassed(out, gates)
	return err
}

// checkGates parses the gates, and adds errors of --gate, --gate-unseen and --base to the problems.
func (f *reportFlags) checkGates() {
	before := len(f.errs)
	for _, text := range f.gates {
		g, err := gate.Parse(text)
		if err == nil && g.Relative && f.base == "" {
			err = errors.New("compared with which run? Add --base DIR")
		}
		if err != nil {
			f.add("%s: %w", settings.Shown(f.flags.Lookup("gate"), text), err)
			continue
		}
		f.list = append(f.list, g)
	}
	if !(f.unseen >= 0 && f.unseen <= 1) {
		f.add("%s: want a share from 0 to 1", settings.Shown(f.flags.Lookup("gate-unseen"), fmt.Sprint(f.unseen)))
	}
	base := f.flags.Lookup("base")
	if f.base == "" {
		return
	}
	if !f.export.Has(export.Markdown) && !slices.ContainsFunc(f.list, func(g gate.Gate) bool { return g.Relative }) && len(f.errs) == before {
		f.add("%s: nothing is compared with it: add --gate 'ttft.p95<+5%%' or --format markdown, or leave it out", settings.Shown(base, f.base))
	}
	if info, err := os.Stat(f.base); err != nil {
		f.add("%s: %w: want the directory of a run", settings.Named(base), err)
	} else if !info.IsDir() {
		f.add("%s: not a directory: name the directory of a run", settings.Shown(base, f.base))
	}
}

// writePassed writes a line for each gate that holds. gateErrors has the others.
func writePassed(w io.Writer, verdicts []gate.Verdict) {
	for _, v := range verdicts {
		if v.Passed {
			fmt.Fprintf(w, "gate        %s %s: %s\n", &v, v.Outcome(), v.Reason)
		}
	}
}

// gateErrors returns an error for each gate that does not hold.
func gateErrors(dir string, verdicts []gate.Verdict) (errs []error) {
	for _, v := range verdicts {
		if v.Passed {
			continue
		}
		errs = append(errs, verdictError{fmt.Errorf("%s: --gate %s: %s", dir, &v, v.Reason)})
	}
	return errs
}

// checkCompare adds errors of flags that need --compare, or that contradict it.
func (f *reportFlags) checkCompare() {
	gpus := f.flags.Lookup("gpus").Changed
	if !f.compare {
		const alone = ": nothing is compared: add --compare, or leave it out"
		if gpus {
			f.add("--gpus" + alone)
		}
		if f.strict {
			f.add("--strict" + alone)
		}
		return
	}
	if gpus && f.gpus < 1 {
		f.add("--gpus %d: want 1 or more", f.gpus)
	}
	if len(f.export.Formats) > 0 {
		f.add("--compare and --format: a comparison makes files of its own: give one of them")
	}
	if len(f.gates) > 0 {
		f.add("--compare and --gate: a gate judges one run: give one of them")
	}
}

// sources returns the runs of directories to compare. Where one of these is that of a list of runs, each directory is a series.
func (f *reportFlags) sources(dirs []string) (list []compare.Source, err error) {
	several := false
	for k, name := range compare.Names(dirs) {
		runs, err := runsIn(dirs[k : k+1])
		if err != nil {
			return nil, err
		}
		several = several || !slices.Equal(runs, dirs[k:k+1])
		for _, dir := range runs {
			list = append(list, compare.Source{Dir: dir, SLO: f.export.Levels, Group: listedGroup(dir), Series: name, Partial: f.partial})
		}
	}
	for k := range list {
		if !several {
			list[k].Series = ""
		}
	}
	return list, nil
}

// runCompare compares the runs of directories: it writes the files and prints the table, or with --json the object of compare.json.
func (f *reportFlags) runCompare(cmd *cobra.Command, dirs []string) error {
	list, err := f.sources(dirs)
	if err != nil {
		return err
	}
	if len(list) < 2 {
		return usageError{fmt.Errorf("--compare: %s given: name two or more, or the directory of a list of runs", measure.Plural(len(list), "run", "runs"))}
	}
	c, err := compare.Make(cmd.Context(), list, compare.Options{GPUs: f.gpus, InSeconds: settings.InSeconds})
	if err != nil {
		return err
	}
	out := cmp.Or(f.out, ".")
	names, err := c.Write(cmd.Context(), out)
	if err != nil {
		return err
	}
	if w := cmd.OutOrStdout(); f.json {
		err = printJSON(w, c)
	} else {
		_ = c.WriteTable(terminal.Writer(w), terminalWidth(w)) // names and settings are of files
		fmt.Fprintln(w)
		for _, name := range names {
			fmt.Fprintln(w, filepath.Join(out, name))
		}
	}
	if err == nil && f.strict && !c.Comparable {
		err = verdictError{fmt.Errorf("--strict: the runs cannot be compared, because they differ in %s", c.MismatchNames())}
	}
	return err
}

// stepSummary is the variable that names the file of the summary of a job on GitHub.
const stepSummary = "GITHUB_STEP_SUMMARY"

// printMarkdown prints what a run measured as Markdown, and appends it to the job summary of GitHub if there is one.
func (f *reportFlags) printMarkdown(s *subject, verdicts []gate.Verdict) error {
	d := markdown.Document{Gates: verdicts}
	var err error
	if s.Base != "" {
		d.Against, err = s.Against(s.cmd.Context())
	}
	if err == nil {
		d.Run, err = s.Read()
	}
	if err == nil {
		d.Summary, err = s.Summary()
	}
	var text bytes.Buffer
	if err == nil {
		err = d.Write(&text)
	}
	if err != nil {
		return err
	}
	if _, err := s.cmd.OutOrStdout().Write(text.Bytes()); err != nil {
		return err
	}
	return appendStepSummary(os.Getenv(stepSummary), text.Bytes())
}

// appendStepSummary appends a text to the file at path; "": there is none.
func appendStepSummary(path string, text []byte) error {
	if path == "" {
		return nil
	}
	const noWait = syscall.O_NONBLOCK // for a reader, where the file is a pipe
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|noWait, 0o666)
	if err == nil {
		_, err = file.Write(text)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", stepSummary, err)
	}
	return nil
}

// subject is a run of which a command makes a report.
type subject struct {
	cmd *cobra.Command
	gate.Subject
}

// comparePage compares the runs of a list, and writes the comparison into the list's directory. notes
// has a line about a run by its directory; lead are lines above the tables. It returns nothing if fewer than two runs have results.
func comparePage(ctx context.Context, list *measure.List, notes map[string]string, lead ...string) (*compare.Comparison, []string, error) {
	var sources []compare.Source
	for _, r := range list.Runs {
		if r.Headline == nil || r.Dir == "" {
			continue
		}
		sources = append(sources, compare.Source{Dir: filepath.Join(list.Out, r.Dir), Note: notes[r.Dir], Group: groupOf(r), Series: compare.Names([]string{list.Out})[0]})
	}
	if len(sources) < 2 || list.Out == "" {
		return nil, nil, nil
	}
	c, err := compare.Make(ctx, sources, compare.Options{Lead: lead, Search: list.Capacity, InSeconds: settings.InSeconds})
	if err != nil {
		return nil, nil, err
	}
	names, err := c.Write(ctx, list.Out)
	return c, names, err
}

// groupOf names the group of runs that repeat the same as r; "" if r repeats none.
func groupOf(r measure.ListedRun) string {
	if r.Repeat == 0 {
		return ""
	}
	return fmt.Sprintf("concurrency %d", r.Concurrency)
}

// listedGroup is groupOf the run in a directory, by the index of the list that it belongs to; "" if it belongs to none.
func listedGroup(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	list, err := replay.ReadList(filepath.Dir(abs))
	if err != nil { // no list, or none that can be read, which its own report tells
		return ""
	}
	k := slices.IndexFunc(list.Runs, func(r measure.ListedRun) bool { return r.Dir == filepath.Base(abs) })
	if k < 0 || list.Runs[k].Repeat == 0 {
		return ""
	}
	return filepath.Base(filepath.Dir(abs)) + ", " + groupOf(list.Runs[k])
}

// sloFlags are the service levels of a command.
type sloFlags struct {
	flags *pflag.FlagSet
	texts []string
	wrong bool // one of them is no level
}

// register adds --slo. usage ends its help.
func (f *sloFlags) register(flags *pflag.FlagSet, usage string) {
	f.flags = flags
	flags.StringArrayVar(&f.texts, "slo", nil, "service level NAME<VALUE: 'ttft<2s' on every request, 'ttft.p95<2s' on the run (repeatable; the shell wants quotes); "+usage)
}

// conditions parses the service levels, without duplicates, and adds their errors to the problems.
func (f *sloFlags) conditions(p *problems) (list []slo.Condition) {
	for _, text := range f.texts {
		c, err := measure.ParseCondition(text)
		switch {
		case err != nil:
			f.wrong = true
			p.add("%s: %w", settings.Shown(f.flags.Lookup("slo"), text), err)
		case !slices.Contains(list, c):
			list = append(list, c)
		}
	}
	return list
}
