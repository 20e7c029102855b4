package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/internal/settings"
	"github.com/agentx/agentx/simulate"
)

func newSimulate() *cobra.Command {
	var f simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate CACHE|INPUT",
		Short: "Play a cache against simulated engines, in virtual time",
		Long: `Play a prepared cache, or an INPUT, against a fleet of simulated inference engines. Time is virtual:
an hour of traffic takes a second. Of the cache it reads ids, lengths and times; an INPUT is converted as
far as that, without a tokenizer.

Mooncake rows arrive as recorded, divided by --arrival-speedup, or --concurrency of their sessions are
open at a time. Weka traces are played by the conductor of agentx replay: --concurrency lanes, each
with a tree of sessions at a time. --synthetic needs no input.

An engine schedules passes as vLLM does: a token budget, prompts in chunks, a pool of blocks with a prefix
cache, preemption; with "engine_type":"sglang" or "trtllm" as those do. --engine '{"num_gpu_blocks":8192,"block_size":16}' or a file of such JSON changes it;
doc/simulate.md lists the keys. Durations come from polynomials, or from a table of yours.

Several values of --concurrency, --workers, --prefill-workers, --decode-workers or --engine simulate every
combination, in parallel, and print one table. --workers auto finds the fewest workers that keep
every --gate; with --sla-ttft, --sla-itl or --sla-e2e alone, that 99 % of the requests are good.

--html writes a page: charts of the fleet and its planner on one axis of simulated time, and every request.

--hit-curve simulates no engine. It prints the share of prompt tokens that prefix caches of several sizes
would hold, as --workers caches see the load, played against a server of --server-rates; --router says who
chooses the cache. Several values of --workers or --concurrency give a curve each.

What is not in the model: frontend, network and tokenizer time; contention of links; memory tiers below
the GPU; speculative decoding; attention data parallelism. The default polynomials belong to no model and no GPU:
results compare policies, not hardware.

--start, --recycle, --speed, --max-gap and --asap change how lanes play trees, as in a replay.

--preset sets all switches, --set NAME=VALUE one of those at the end of this help. Times of Weka rows that
recorded what a server took are replaced by the engine. mooncake-delta, agentic_mooncake and
dynamo.request.trace are refused.`,
		Example: "  agentx simulate demo --concurrency 8\n" +
			"  agentx simulate toolagent_trace.jsonl --workers 8 --sla-ttft 2s --out results --per-request\n" +
			"  agentx simulate CACHE --concurrency 8,16,32,64 --workers 4\n" +
			"  agentx simulate conversation_trace.jsonl --workers auto --gate 'ttft.p95<2s' --gate 'token_gap.p99<50ms'\n" +
			"  agentx simulate --synthetic in=4000,out=200,n=1000,rate=5 --workers 2 --html",
		Args:              f.checkArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil }, // resolve reads the environment
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.simulate(cmd, args)
		},
	}
	f.register(cmd)
	return cmd
}

// checkArgs checks the number of arguments.
func (f *simulateFlags) checkArgs(cmd *cobra.Command, args []string) error {
	check := cobra.ExactArgs(1)
	switch {
	case f.synthetic != "":
		check = cobra.NoArgs
	case f.printConfig:
		check = cobra.MaximumNArgs(1)
	}
	if err := checkArgs(check)(cmd, args); err != nil {
		page := slices.IndexFunc(args, func(name string) bool { return strings.HasSuffix(name, ".html") })
		switch {
		case f.html != "" && page >= 0:
			err = usageError{fmt.Errorf("--html %s: want --html=%[1]s", args[page])}
		case f.synthetic != "":
			err = usageError{fmt.Errorf("%s beside --synthetic: want one of them", args[0])}
		}
		return errorList(append(f.errs, err))
	}
	return nil
}

// simulate resolves the configuration, simulates, and prints what came of it.
func (f *simulateFlags) simulate(cmd *cobra.Command, args []string) error {
	f.stderr = cmd.ErrOrStderr()
	f.set.Resolve(nil)
	tellOldNames(cmd, f.set)
	checkStart(f.set, &f.problems, &f.lanes)
	f.checkFleet()
	base := f.base()
	list := f.runs(base)
	size := f.readGates()
	f.checkPages(len(list) > 1 || size != nil)
	f.checkCurve(list)
	if f.printConfig {
		return errors.Join(f.set.Print(cmd.OutOrStdout(), f.asJSON), f.err())
	}
	f.checkRuns(list, size)
	if err := f.err(); err != nil {
		return err
	}
	if len(args) > 0 {
		dataset, input, err := f.openTables(cmd, args[0])
		if err != nil {
			return err
		}
		defer dataset.Close()
		for _, r := range list {
			r.config.Input = input
		}
	}
	if err := f.validate(list, size); err != nil {
		return err
	}
	if f.curve.on {
		return f.printCurves(cmd.Context(), cmd.OutOrStdout(), list)
	}
	if err := f.prepareOut(); err != nil {
		return err
	}
	f.next = time.Now().Add(lineEvery)
	f.quiet, _ = cmd.Flags().GetBool("quiet") // a flag of every command
	var answer *sizeAnswer
	var err error
	if size != nil {
		list, answer, err = f.findSize(cmd.Context(), size, list[0].config)
	} else {
		f.play(cmd.Context(), list)
	}
	if err := cmd.Context().Err(); err != nil {
		return err
	}
	warnRuns(f.stderr, list)
	if err := errors.Join(err, f.printSimulated(cmd.OutOrStdout(), list, answer)); err != nil {
		return err
	}
	if answer != nil {
		if answer.Workers == nil {
			return verdictError{errors.New(answer.Text)}
		}
		return nil
	}
	return judgeRuns(list)
}

// readGates reads the gates, and the search that --workers may ask for. One that has no gate looks for the service levels.
func (f *simulateFlags) readGates() *sizing {
	size, err := f.sizing()
	if err != nil {
		f.add("%w", err)
	}
	texts := f.gates
	levels := f.slaTTFT > 0 || f.slaITL > 0 || f.slaE2E > 0
	if size != nil && len(texts) == 0 && levels {
		texts = []string{"good>=99%"}
	}
	for _, text := range texts {
		g, err := simulate.ParseGate(text)
		if err != nil {
			f.add("%s: %w", settings.FlagText("gate", text), err)
			continue
		}
		if g.NeedsSLA() && !levels {
			f.add("%s: no request is good or not without a limit: add --sla-ttft, --sla-itl or --sla-e2e", settings.FlagText("gate", text))
		}
		f.gateList = append(f.gateList, g)
	}
	switch {
	case size == nil:
	case len(texts) == 0:
		f.add("--workers %s: nothing to keep: add --gate 'ttft.p95<2s', or --sla-ttft, --sla-itl, --sla-e2e", f.workers)
	case len(f.concurrency) > 1 || len(f.engines) > 1:
		f.add("--workers %s with several values of --concurrency or --engine: want one of each", f.workers)
	case f.planner != "":
		f.add("--workers %s beside --planner, which chooses the workers itself: want one of them", f.workers)
	}
	return size
}

// checkRuns adds what is wrong with runs whatever they play, and with the directories of their results.
func (f *simulateFlags) checkRuns(list []*simulateRun, size *sizing) {
	var p problems
	for _, r := range list {
		checked := r.config
		if size != nil {
			checked.Workers = size.least
		}
		for _, one := range unjoin(checked.ValidateWithoutInput()) {
			p.addOnce(one)
		}
	}
	f.errs = append(f.errs, p.errs...)
	if f.out == "" || f.printConfig || f.curve.on {
		return
	}
	if size != nil {
		list = nil
		for n := size.least; n <= size.most; n++ {
			list = append(list, sizedRun(n, simulate.Config{}))
		}
	}
	checks := make([]func() error, 0, len(list)+1)
	for _, r := range list {
		checks = append(checks, f.files(r).Check)
	}
	if len(list) > 1 {
		checks = append(checks, f.checkComparison)
	}
	for _, check := range checks {
		switch err := check(); {
		case errors.Is(err, simulate.ErrResultsExist):
			f.errs = append(f.errs, hintError{usageError{err}, "--overwrite, or another --out"})
		case err != nil:
			f.errs = append(f.errs, usageError{fmt.Errorf("--out %s: %w", f.out, err)})
			return // the others say the same
		}
	}
}

// prepareOut makes the directory of the results, and finds out before anything runs whether files can be written to it.
func (f *simulateFlags) prepareOut() error {
	if f.out == "" {
		return nil
	}
	err := os.MkdirAll(f.out, 0o777)
	if err == nil {
		var probe *os.File
		if probe, err = os.CreateTemp(f.out, ".agentx-*"); err == nil {
			err = errors.Join(probe.Close(), os.Remove(probe.Name()))
		}
	}
	if err != nil {
		return usageError{fmt.Errorf("--out %s: %w", f.out, err)}
	}
	return nil
}

// validate checks every run before any begins.
func (f *simulateFlags) validate(list []*simulateRun, size *sizing) error {
	var p problems
	for _, r := range list {
		c := &r.config
		if c.Input != nil && c.LoadOf() == simulate.LoadLanes && c.Concurrency == 0 {
			c.Concurrency = 1 // as in a replay
		}
		checked := *c
		if size != nil {
			checked.Workers = size.least
		}
		for _, one := range unjoin(checked.Validate()) {
			p.addOnce(one)
		}
	}
	return p.err()
}

// unjoin returns the errors that were joined.
func unjoin(err error) []error {
	var several interface{ Unwrap() []error }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &several):
		var list []error
		for _, one := range several.Unwrap() {
			list = append(list, unjoin(one)...)
		}
		return list
	}
	return []error{err}
}
