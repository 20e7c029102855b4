package main

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cmd/internal/report/live"
	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// replayOf returns the flags of a replay that knows some scenarios.
func replayOf(known scenarios) *replayFlags {
	return &replayFlags{scenario: scenarioFlags{known: known}}
}

// newReplay returns the verb replay, which reads its command line into f.
func newReplay(f *replayFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "replay CACHE|INPUT",
		Short: "Play a prepared cache against an inference server, and measure it",
		Long: `Play a prepared cache against an OpenAI-compatible server, and measure it. An INPUT is converted
first, or found converted (agentx help convert).

Each of --concurrency lanes plays one tree at a time: it sends a turn, reads the streamed answer,
waits for the recorded gap, and sends the next turn. Subagents start and join where the recording
has them. When a tree is done its lane takes the next trace. Without a bound (--duration, --requests,
--trees) every trace is played once. The first interrupt stops sending and writes the results; the
second exits at once.

Lanes are a closed loop: a slow server gets less load. With --rate R, or --arrivals recorded, trees
open at instants of their own, however slow the answers are; inside a tree the gaps stay. Then
--concurrency bounds how many are open at a time; a tree that waits for its turn is reported as queued.
Recorded starts are the default for an INPUT that has them (Mooncake).

It prints TTFT, ITL, latency, throughput and how late it sent. The directory of --out gets the
summary and a record for every request, with --report html also a page of the run. agentx report
compares runs. --concurrency auto looks for the most lanes with which a server keeps every --slo on
the run.

To compare a run with one of another tool, let agentx play and count as that tool does:

  AIPerf 0.13.0   --profile aiperf --preset aiperf-0.13 --scenario inferencex-agentx-mvp
  InferenceX      --config contrib/inferencex.yaml
  agentx-harness  --profile aiperf --preset agentx-1.0.12 --scenario agentx

All three also need the text of AIPerf's prompts: --corpus FILE.u32le (doc/aiperf.md).

--preset sets all switches, which stand at the end of this help among further flags. --config FILE.yaml
and --set NAME=VALUE take every flag by its name. --print-config shows every value and where it comes
from: preset, scenario, file, environment, flag; a later one wins.`,
		Example: "  agentx replay demo --url http://127.0.0.1:8000 --model m --concurrency 8 --duration 30s\n  agentx replay CACHE --url http://127.0.0.1:8000 --model m --concurrency 64 --asap --requests 1000\n  agentx replay conversation_trace.jsonl --url http://127.0.0.1:8000 --model m --speed 60\n  agentx replay CACHE --url http://127.0.0.1:8000 --model m --rate 2.5 --duration 10m --ramp 1m\n  agentx replay CACHE --url http://127.0.0.1:8000 --model m --duration 15m --report html --listen :9090\n  agentx replay CACHE --url http://127.0.0.1:8000 --model m --concurrency auto --slo 'ttft.p95<2s' --reset-cache",
		Args:    f.checkArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.play(cmd, args)
		},
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return f.wrongFlags(cmd, err) })
	f.register(cmd)
	f.convert.registerForInput(cmd)
	f.set.Adopt(settings.Conversions)
	f.set.Describe("set", settings.Presets, "NAME=VALUE, a setting, or a rule of the reconstruction (repeatable)")
	f.set.Describe("seed", settings.Played, "decides what a run draws, such as where lanes begin, and "+strings.TrimPrefix(cmd.Flags().Lookup("seed").Usage, "decides "))
	return cmd
}

// checkArgs checks the number of arguments. A replay that only prints its configuration needs none.
func (f *replayFlags) checkArgs(cmd *cobra.Command, args []string) error {
	check := cobra.ExactArgs(1)
	if f.printConfig || f.configSchema {
		check = cobra.MaximumNArgs(1)
	}
	if err := checkArgs(check)(cmd, args); err != nil {
		return errorList(append(f.errs, err))
	}
	return nil
}

// play resolves the configuration and plays the cache of the argument, or shows the configuration.
func (f *replayFlags) play(cmd *cobra.Command, args []string) error {
	if f.configSchema {
		return f.set.Schema(cmd.OutOrStdout())
	}
	f.resolve(cmd, cmd.Flags().Arg(0))
	if f.printConfig {
		tellOldNames(cmd, f.set.OldNames)
		return errors.Join(f.set.Print(cmd.OutOrStdout(), f.json), f.wrong())
	}
	return f.run(cmd, args[0])
}

// run plays a cache or an input by the options that resolve has made.
func (f *replayFlags) run(cmd *cobra.Command, name string) error {
	tellOldNames(cmd, f.set.OldNames)
	o := f.o
	f.scenario.checkPrepared(cmd, name)
	if err := f.wrong(); err != nil {
		return err
	}
	if err := f.listen.open(cmd); err != nil {
		return err
	}
	defer f.listen.close(cmd)
	dataset, err := openDataset(cmd, &f.convert, name)
	if err != nil {
		return err
	}
	defer dataset.Close()
	o.Cache = dataset.Cache
	f.chooseMarker(cmd, &o)
	if err := f.chooseArrivals(cmd, &o); err != nil {
		return err
	}
	f.chooseRetryAfter(&o)
	if o.Provenance, err = runProvenance(&o, f.set, f.convert.sources); err != nil {
		return err
	}
	o.Provenance.Launch = launchOf(cmd.Context())
	if o.Concurrency == 0 { // no cap on open trees
		nameConcurrency(&o)
	}
	if o.Scenario, err = f.scenarioOf(cmd, o.Provenance.Dataset); err != nil {
		return err
	}
	if f.prefault {
		if err := prefault(cmd, o.Cache); err != nil {
			return err
		}
	}
	warnOfProxies(cmd, o.URLs)
	if f.auto.auto != nil {
		return runSearch(cmd, o, &f.auto, &f.export, f.json)
	}
	if l, several := f.list(&o); several {
		return runList(cmd, o, l, &f.export, f.json)
	}
	f.warnOfNoMeeting(cmd, &o)
	return runReplay(cmd, o, &f.part.meet, &f.export, f.json)
}

// resolve finds the values of all settings, makes the options of the run of them, and adds all errors to the problems.
func (f *replayFlags) resolve(cmd *cobra.Command, name string) {
	f.set.Resolve(f.readScenario)
	f.convert.set = f.set.Ruled
	f.checkSettings()
	f.resolveSearch()
	f.options()
	f.checkLevels(f.o.SLO)
	f.o.Seed = f.convert.seed
	f.resolveArrivals(&f.o)
	f.checkPart(&f.o)
	f.checkContradictions()
	if !prepared(cmd, name) { // else nothing is converted
		f.convert.check(cmd, &f.problems)
	}
	f.checkScenario()
}

// prefault reads a cache into memory and shows the progress.
func prefault(cmd *cobra.Command, c *mmapcache.Cache) error {
	p := newProgress(cmd)
	defer p.close()
	last := int64(0)
	return c.Prefault(cmd.Context(), func(done, total int64) {
		p.update("prefault", done-last, total)
		last = done
	})
}

// runReplay plays a cache, with other parts of its load where they meet, prints the summary and makes the files of --report. Progress
// and warnings go to standard error.
func runReplay(cmd *cobra.Command, o replay.Options, parts *meetFlags, export *exportFlags, asJSON bool) error {
	p := newProgress(cmd)
	state := newLiveState(&o, parts.address != "")
	ctx, err := parts.join(cmd, &o, p, state)
	if err != nil {
		p.close()
		return err
	}
	var s *measure.Summary
	if err = watch(cmd, &o, p, state); err == nil {
		s, err = replay.Run(ctx, o)
	}
	p.close()
	err = leave(&o, err)
	if s != nil && (asJSON || !is[*replay.PreflightError](err)) { // there are measurements even after an error
		err = errors.Join(err, printSummary(cmd, s, asJSON))
	}
	return export.afterReplay(cmd, s, judge(cmd, s, err))
}

// watch makes a run show its progress, from a state, and its warnings. The error is about the cache.
func watch(cmd *cobra.Command, o *replay.Options, p *progress, state *live.State) error {
	length, err := plannedLength(cmd, *o, p)
	p.live = showLive(cmd, o, p, length, state)
	o.Warn = func(about string) { p.say("agentx: warning: " + about) }
	o.Notice = func(about string) { p.say("agentx: " + about) }
	return err
}

// plannedLength estimates how long a run without a bound lasts, and prints that. It returns 0 for a run with a bound.
func plannedLength(cmd *cobra.Command, o replay.Options, p *progress) (time.Duration, error) {
	if p.quiet || o.Duration > 0 || o.Requests > 0 || o.Trees > 0 {
		return 0, nil
	}
	length, err := replay.EstimateDuration(o)
	if err == nil {
		shorter := ", --speed, --max-gap and --asap shorten gaps"
		if o.Pace.ASAP {
			shorter = "" // there are none
		}
		p.println(fmt.Sprintf("agentx: every trace is played once, for about %s if the server answers as fast as the recorded one; --duration bounds it%s",
			max(length.Round(time.Second), time.Second), shorter))
	}
	return length, err
}

// printSummary prints the summary of a run as a table, or as JSON.
func printSummary(cmd *cobra.Command, s *measure.Summary, asJSON bool) error {
	if asJSON {
		return s.WriteJSON(cmd.OutOrStdout())
	}
	return s.WriteTable(cmd.OutOrStdout(), terminalWidth(cmd.OutOrStdout()))
}

// judge returns the error with which the command ends after a run: the run's own error, an interrupt, or a verdict.
func judge(cmd *cobra.Command, s *measure.Summary, err error) error {
	allowed, _ := cmd.Flags().GetBool(allowFailures)
	switch {
	case err != nil:
		return hintReplay(err)
	case cmd.Context().Err() != nil:
		return cancelledRun{cmd.Context().Err(), s.Completed > 0}
	}
	return judgeRun(s, allowed)
}

// allowFailures is the flag that makes a broken run end with status 0.
const allowFailures = "allow-failures"

// brokenRun is the error of a run that broke: too many requests failed, a server went away, or none answered.
type brokenRun struct {
	how     []string
	verdict error // of the run apart from the break; nil: it is good
}

func (b brokenRun) Error() string {
	text := "replay: the run broke: " + strings.Join(b.how, "; ")
	if b.verdict != nil {
		text += "; " + b.verdict.Error()
	}
	return text + " (--" + allowFailures + " makes that no failure)"
}

// cancelledRun is the error of a run that was interrupted. Its results are written.
type cancelledRun struct {
	error
	measured bool // a request of the measured phase completed
}

func (c cancelledRun) Unwrap() error { return c.error }

// invalidRun is the error of a run that is not valid under its scenario, with the reasons.
type invalidRun struct {
	scenario string // "": none
	reasons  []string
}

func (i invalidRun) Error() string {
	if i.scenario == "" {
		return "replay: not valid: " + strings.Join(i.reasons, ", ")
	}
	return fmt.Sprintf("replay: not valid under the scenario %s: %s", i.scenario, strings.Join(i.reasons, ", "))
}

// judgeRun returns the error of a run that came to its end, nil if it is good. allowed: a break is no failure.
func judgeRun(s *measure.Summary, allowed bool) error {
	err := verdictOf(s)
	if how := s.RemarksOf(measure.Broken); len(how) > 0 && !allowed && s.Completed > 0 {
		return failedError{brokenRun{how, err}}
	}
	return err
}

// verdictOf returns the error of a run apart from a break: deadlocked trees, no completed request, or not valid.
func verdictOf(s *measure.Summary) error {
	if n := s.Deadlocked(); n > 0 {
		return verdictError{fmt.Errorf("replay: %d trees could not be played to their end", n)}
	}
	if s.Completed == 0 {
		return fmt.Errorf("replay: none of %d requests completed%s", s.Requests, mostFrequentError(s))
	}
	if s.Valid == nil || *s.Valid {
		return nil
	}
	invalid := invalidRun{reasons: s.Reasons}
	if s.Run.Scenario != nil {
		invalid.scenario = s.Run.Scenario.Name
	}
	if advice := s.Advice(); advice != "" {
		return hintError{verdictError{invalid}, advice}
	}
	return verdictError{invalid}
}

// mostFrequentError returns the most frequent message of the failed requests, as ": CATEGORY: MESSAGE", or "".
func mostFrequentError(s *measure.Summary) string {
	best, of := measure.ErrorSample{}, wire.Category("")
	for _, category := range slices.Sorted(maps.Keys(s.ErrorSamples)) {
		for _, m := range s.ErrorSamples[category] {
			if m.N > best.N {
				best, of = m, category
			}
		}
	}
	if best.N == 0 {
		return ""
	}
	return fmt.Sprintf(": %s: %s", of, best.Message)
}

// warnOfProxies warns if the environment names a proxy for a server: a replay does not use it. The warning leaves out the URL of the proxy,
// which may have a password.
func warnOfProxies(cmd *cobra.Command, servers []string) {
	for _, server := range servers {
		u, err := url.Parse(server)
		if err != nil {
			continue
		}
		if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: u}); proxy != nil || err != nil {
			printError(cmd.ErrOrStderr(), fmt.Sprintf("agentx: warning: %s_PROXY is not used: a replay measures the server, so it connects to %s itself (NO_PROXY=%s says the same and ends this warning)",
				strings.ToUpper(u.Scheme), u.Host, u.Hostname()))
		}
	}
}
