package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cmd/internal/search"
	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/capacity"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// list returns the runs that the command line asks for: one for each number of --concurrency and each of --repeat, or the probes of a search.
// several is false if that is one run alone.
func (f *replayFlags) list(o *replay.Options) (l replay.List, several bool) {
	l = replay.List{Concurrencies: f.auto.counts, StopOnFailure: f.stopOnFailure}
	if len(l.Concurrencies) == 1 {
		l.Concurrencies = []int{o.Concurrency} // 0 where trees arrive without a cap
	}
	if f.repeat > 1 {
		l.Repeat = f.repeat
	}
	if f.auto.auto != nil {
		l.Next = func([]measure.ListedRun) int { return 0 } // runSearch has the probes
		return l, true
	}
	return l, l.Repeat > 0 || len(l.Concurrencies) > 1
}

// runList plays the runs of a list, prints a table of them and writes their comparison.
func runList(cmd *cobra.Command, o replay.Options, l replay.List, export *exportFlags, asJSON bool) error {
	list, err := playList(cmd, o, l, export)
	if list != nil {
		err = errors.Join(err, printList(cmd, list, asJSON), pageOfList(cmd, list, asJSON, nil, unplayed(list, l)...))
	}
	switch {
	case err != nil:
		return hintReplay(err)
	case cmd.Context().Err() != nil:
		return cmd.Context().Err()
	}
	return judgeList(list, l)
}

// playList plays the runs of a list, and makes the files of --report of each. It prints the error of a run when that run has ended.
func playList(cmd *cobra.Command, o replay.Options, l replay.List, export *exportFlags) (*measure.List, error) {
	var p *progress
	begin, end := l.Begin, l.End
	l.Begin = func(o *replay.Options, r measure.ListedRun) {
		p = newProgress(cmd)
		if !p.quiet {
			p.println("agentx: " + runName(r))
		}
		_ = watch(cmd, o, p, newLiveState(o, false)) // the run returns the same error
		nameConcurrency(o)
		if begin != nil {
			begin(o, r)
		}
	}
	l.End = func(r measure.ListedRun, s *measure.Summary, err error) int {
		p.close()
		err = judge(cmd, s, err)
		r.Exit = endListed(cmd.Context(), cmd.ErrOrStderr(), r, export.afterReplay(cmd, s, err))
		if end != nil {
			return end(r, s, err)
		}
		return r.Exit
	}
	return replay.RunList(cmd.Context(), o, l)
}

// runName names a run of a list.
func runName(r measure.ListedRun) string { return "concurrency " + r.Name() }

// nameConcurrency sets the option concurrency in the results of a run to the run's own number of lanes.
func nameConcurrency(o *replay.Options) {
	o.Provenance.Options = slices.Clone(o.Provenance.Options)
	for k, option := range o.Provenance.Options {
		if option.Name == "concurrency" {
			o.Provenance.Options[k].Value = settings.JSON(o.Concurrency)
		}
	}
}

// endListed prints why a run of a list failed, and returns the exit status that this means.
func endListed(ctx context.Context, stderr io.Writer, r measure.ListedRun, err error) int {
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%s: %w", runName(r), err)
	} else if err != nil && errors.Is(err, context.Canceled) {
		return exitInterrupted // which the end of the list tells
	}
	return reportError(ctx, stderr, err)
}

// printList prints the table of a list of runs, or the list as JSON.
func printList(cmd *cobra.Command, list *measure.List, asJSON bool) error {
	if asJSON {
		return printJSON(cmd.OutOrStdout(), list)
	}
	return list.WriteTable(cmd.OutOrStdout(), terminalWidth(cmd.OutOrStdout()))
}

// pageOfList writes the comparison of the runs of a list, also of an interrupted one, with notes and lead of comparePage. It prints the
// answer, and the means of runs that repeat each other.
func pageOfList(cmd *cobra.Command, list *measure.List, asJSON bool, notes map[string]string, lead ...string) error {
	c, names, err := comparePage(context.WithoutCancel(cmd.Context()), list, notes, lead...)
	if err != nil {
		return fmt.Errorf("the comparison of the runs: %w", err)
	}
	if quiet, _ := cmd.Flags().GetBool("quiet"); len(names) > 0 && !quiet {
		fmt.Fprintf(cmd.ErrOrStderr(), "agentx: wrote %s to %s\n", strings.Join(names, ", "), list.Out)
	}
	if c == nil || asJSON {
		return nil
	}
	return c.WriteAnswers(cmd.OutOrStdout())
}

// unplayed returns a line that names the runs of a list that have not begun, or nothing if all have.
func unplayed(list *measure.List, asked replay.List) []string {
	var rest []string
	for _, r := range asked.Runs()[len(list.Runs):] {
		rest = append(rest, r.Name())
	}
	if rest == nil {
		return nil
	}
	return []string{"not played: " + strings.Join(rest, ",")}
}

// worst are the exit statuses of runs, the worst first.
var worst = []int{exitInterrupted, exitUsage, exitFailed, exitVerdict}

// judgeList returns the error of a list that came to its end, with the exit status of its worst run; nil if all runs are good.
func judgeList(list *measure.List, asked replay.List) error {
	var failed []string
	at := len(worst)
	for _, r := range list.Runs {
		if r.Exit != 0 {
			failed = append(failed, fmt.Sprintf("%s (exit status %d)", r.Name(), r.Exit))
			at = min(at, slices.Index(worst, r.Exit))
		}
	}
	if len(failed) == 0 {
		return nil
	}
	err := fmt.Errorf("replay: %d of %d runs failed or are not valid: concurrency %s", len(failed), len(list.Runs), strings.Join(failed, ", "))
	for _, text := range unplayed(list, asked) {
		err = fmt.Errorf("%w; %s", err, text)
	}
	switch worst[at] {
	case exitUsage:
		return usageError{err}
	case exitVerdict:
		return verdictError{err}
	}
	return err
}

// auto is the value of --concurrency that searches, alone or with a range.
const auto = "auto"

// Defaults of a search: how long a probe lasts, and the pause before each but the first.
const (
	defaultProbe = 120 * time.Second
	defaultDrain = 5 * time.Second
)

// autoRange is the range of lanes that a search tries.
type autoRange struct {
	capacity.Search
	text string // as the user wrote it
}

// parseAuto reads auto or auto:FROM-TO, with numbers of lanes up to most; ok is false for a text that is neither.
func parseAuto(text string, most int) (a *autoRange, ok bool) {
	from, to, ok := settings.ParseAuto(text, most)
	return &autoRange{capacity.Search{From: from, To: to}, text}, ok
}

// lanes is the value of --concurrency: some numbers, or a search. With a search, counts has the first number of the range.
type lanes struct {
	counts []int
	auto   *autoRange // nil: there is no search
}

func (l lanes) String() string {
	if l.auto != nil {
		return l.auto.text
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(l.counts), " ", ","), "[]")
}

// MarshalJSON returns one number, several as a list, or a search as its text.
func (l lanes) MarshalJSON() ([]byte, error) {
	switch {
	case l.auto != nil:
		return json.Marshal(l.auto.text)
	case len(l.counts) == 1:
		return json.Marshal(l.counts[0])
	}
	return json.Marshal(l.counts)
}

// lanesKind is the kind of --concurrency: one number of lanes, several different ones with commas between, or a search.
func lanesKind() settings.Kind {
	const most = replay.MaxConcurrency
	one := settings.Whole(1, most)
	k := settings.Kind{Want: one.Want + ", several with commas between, none twice, or auto:FROM-TO", Type: "int", Commas: true, Tags: []string{settings.Int, settings.Text}}
	k.Schema = map[string]any{"anyOf": []any{
		one.Schema, map[string]any{"type": "array", "items": one.Schema, "minItems": 1, "uniqueItems": true},
		map[string]any{"type": "string", "pattern": "^([1-9][0-9]*( *, *[1-9][0-9]*)*|" + settings.AutoPattern + ")$"},
	}}
	k.Read = func(text string) (any, bool) {
		if a, ok := parseAuto(text, most); ok {
			return lanes{[]int{a.From}, a}, true
		}
		list, err := readCounts(text)
		ok := err == nil
		for i, n := range list {
			ok = ok && n >= 1 && n <= most && !slices.Contains(list[:i], n)
		}
		return lanes{counts: list}, ok
	}
	k.Why = func(text string) error {
		if strings.HasPrefix(text, auto) {
			return fmt.Errorf("want auto, or auto:FROM-TO with 1 to %d lanes, the smaller number first", most)
		}
		if _, err := readCounts(text); err != nil {
			return err
		}
		return errors.New("want " + k.Want)
	}
	return k
}

// readCounts reads whole numbers with commas between.
func readCounts(text string) (list []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil {
			return nil, errors.New("want a whole number, or several with commas between")
		}
		list = append(list, n)
	}
	return list, nil
}

// autoFlags are --concurrency and --drain.
type autoFlags struct {
	lanes
	drain time.Duration
}

// resolveSearch gives probes without a bound their default length, and adds errors of settings that a search excludes or needs.
func (f *replayFlags) resolveSearch() {
	if f.auto.auto == nil {
		if f.set.IsSet("drain") && !f.set.Refused("concurrency") { // which is told already
			f.add("%s: works only with --concurrency auto", f.named("drain"))
		}
		return
	}
	if f.o.Duration == 0 && f.o.Requests == 0 && f.o.Trees == 0 {
		f.o.Duration = defaultProbe
	}
	for _, name := range []string{"stop-on-failure", "repeat", "until"} {
		if f.set.IsSet(name) {
			f.add("%s: a search plays probes of its own choice, each once: leave it out", f.named(name))
		}
	}
}

// checkLevels adds an error if a search has no service level on the run.
func (f *replayFlags) checkLevels(levels []slo.Condition) {
	if f.auto.auto == nil {
		return
	}
	if slices.ContainsFunc(levels, func(c slo.Condition) bool { return !c.OfEach }) || f.slo.wrong {
		return
	}
	f.errs = append(f.errs, hintError{
		usageError{fmt.Errorf("%s %s: the search needs a service level of the run, and none is given", f.named("concurrency"), f.auto.auto.text)},
		"--slo 'ttft.p95<2s', or another metric of the run with a limit",
	})
}

// runSearch plays the probes of a search, writes their comparison and prints the answer in one line.
func runSearch(cmd *cobra.Command, o replay.Options, f *autoFlags, export *exportFlags, asJSON bool) error {
	s := &search.Search{Search: f.auto.Search, Drain: f.drain, Tell: func(p capacity.Probe) {
		if quiet, _ := cmd.Flags().GetBool("quiet"); !quiet {
			printError(cmd.ErrOrStderr(), "agentx: "+p.String())
		}
	}}
	if quiet, _ := cmd.Flags().GetBool("quiet"); !quiet {
		printError(cmd.ErrOrStderr(), "agentx: "+searchLength(f, &o))
	}
	list, err := playList(cmd, o, s.List(cmd.Context()), export)
	if list != nil {
		err = errors.Join(err, printSearch(cmd, list, o, asJSON))
	}
	return judgeSearch(cmd.Context(), s.Failed, list, err)
}

// assumedLanes are those up to which a search without a limit says how long it takes.
const assumedLanes = 1024

// searchLength says before a search how many probes it may need, and how long that takes.
func searchLength(f *autoFlags, o *replay.Options) string {
	n, upTo := f.auto.Longest(assumedLanes), fmt.Sprintf("up to %s lanes", groupDigits(assumedLanes))
	if to := f.auto.To; to > 0 && to <= assumedLanes {
		upTo = fmt.Sprintf("up to %s", measure.Plural(to, "lane", "lanes"))
	}
	text := fmt.Sprintf("the search for %s has at most %s", upTo, measure.Plural(n, "probe", "probes"))
	if o.Duration == 0 {
		return text + "; how long they take is not known: add --duration to bound each"
	}
	whole := time.Duration(n)*o.Duration + time.Duration(n-1)*f.drain
	return fmt.Sprintf("%s of %s with pauses of %s: at most %s, and warmups; a probe that cannot meet a level any more ends early", text, o.Duration, f.drain, whole.Round(time.Second))
}

// printSearch writes the comparison of the probes, and prints their table and the answer.
func printSearch(cmd *cobra.Command, list *measure.List, o replay.Options, asJSON bool) error {
	lead, notes := []string{list.Capacity.String()}, map[string]string{}
	if !o.CacheReset.Enabled && len(list.Capacity.Probes) > 1 {
		lead = append(lead, warmCache)
	}
	for _, p := range list.Capacity.Probes {
		notes[p.Dir] = p.String()
	}
	if err := errors.Join(printList(cmd, list, asJSON), pageOfList(cmd, list, asJSON, notes, lead...)); err != nil || asJSON {
		return err
	}
	slices.Reverse(lead) // the answer comes last
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "\n%s\n", strings.Join(lead, "\n"))
	return err
}

// warmCache is a remark on a search without --reset-cache.
const warmCache = "Later probes found a warm KV cache: --reset-cache empties it before each"

// judgeSearch returns the error of a search that came to its end, nil if it has found a capacity. err is that of its list.
func judgeSearch(ctx context.Context, failed bool, list *measure.List, err error) error {
	switch {
	case err != nil:
		return hintReplay(err)
	case ctx.Err() != nil:
		return ctx.Err()
	case failed:
		return errors.New("replay: --concurrency auto: a probe gave no results, so the search has no answer")
	}
	switch list.Capacity.Outcome {
	case capacity.None:
		return verdictError{errors.New("replay: --concurrency auto: even the smallest concurrency violates a service level")}
	case capacity.Unknown:
		return verdictError{errors.New("replay: --concurrency auto: client-bound: this machine could not drive the servers, so their capacity is not known")}
	}
	return nil
}
