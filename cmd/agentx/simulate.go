package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cmd/internal/simulate"
	"github.com/agentx/agentx/cmd/internal/simulate/setup"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/mmapcache/cachestore"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
)

// simulateFlags say what is simulated, and how an INPUT is converted before.
type simulateFlags struct {
	setup.Flags
	tableFlags
	problems
}

func newSimulate() *cobra.Command {
	var f simulateFlags
	cmd := &cobra.Command{
		Use:   "simulate CACHE|INPUT|RUN",
		Short: "Play a cache against simulated engines, in virtual time",
		Long: `Play a prepared cache, or an INPUT, against a fleet of simulated inference engines. Time is virtual, so
an hour of traffic takes a second. Of the cache it reads ids, lengths and times; an INPUT is converted as
far as that, without a tokenizer.

Mooncake rows and tables arrive as recorded, divided by --arrival-speedup, or --concurrency of their sessions are
open at a time. Weka traces are played by the conductor of agentx replay: --concurrency lanes, each
with a tree of sessions at a time. --synthetic needs no input.

An engine schedules passes as vLLM does: a token budget, prompts in chunks, a pool of blocks with a prefix
cache, preemption; with "engine_type":"sglang" or "trtllm" as those do.
--engine '{"num_gpu_blocks":8192,"block_size":16}', or a file of such JSON, changes it;
doc/spec/simulate.md 2 lists the keys. Durations come from polynomials, or by --timing from a table.

Several values of --concurrency, --workers, --prefill-workers, --decode-workers or --engine simulate every
combination, in parallel, and print one table. --workers auto finds the fewest workers that keep
every --gate; with --sla-ttft, --sla-itl or --sla-e2e alone, that 99 % of the requests are good.

--html writes a page: charts of the fleet and its planner on one axis of simulated time, and every request.

--hit-curve simulates no engine. It prints the share of prompt tokens that prefix caches of several sizes
would hold, as --workers caches see the load, played against a server of --server-rates; --router says who
chooses the cache. Several values of --workers or --concurrency give a curve each.

RUN is the results of a replay. --fit finds the engine that answers as the measured one did: its structure and
the constants of its passes, from half of the trees. It prints how far off it is on the other half, and
writes fit.json, which --engine reads. Without --fit the requests of RUN are played on RUN/fit.json, or on --engine, and
measured figures stand beside simulated ones.

--tiers gpu:90GiB,host:1TiB:50 gives each worker a cache in host memory below its pool, which loads 50 GB/s.

What is not in the model: frontend, network and tokenizer time; contention of links but those of tiers;
stores to tiers; speculative decoding; attention data parallelism. The default polynomials belong to no model and
no GPU, so results compare policies, not hardware.

--start, --recycle, --speed, --max-gap and --asap change how lanes play trees, as in a replay.

--preset sets all switches, --set NAME=VALUE one of those at the end of this help. Times of Weka rows that
recorded what a server took are replaced by the engine. Dynamo's other forms are inputs, too:
agentic_mooncake, applied_compute_agentic, request traces, and mooncake-delta by --set session_rows=delta.`,
		Example: "  agentx simulate demo --concurrency 8\n" +
			"  agentx simulate toolagent_trace.jsonl --workers 8 --sla-ttft 2s --out results --per-request\n" +
			"  agentx simulate CACHE --concurrency 8,16,32,64 --workers 4\n" +
			"  agentx simulate conversation_trace.jsonl --workers auto --gate 'ttft.p95<2s' --gate 'token_gap.p99<50ms'\n" +
			"  agentx simulate results --fit\n" +
			"  agentx simulate CACHE --engine results/fit.json --concurrency 8..512\n" +
			"  agentx simulate --synthetic in=4000,out=200,n=1000,rate=5 --workers 2 --html",
		Args: f.checkArgs,
		RunE: f.simulate,
	}
	f.register(cmd)
	return cmd
}

// register adds the flags to a command.
func (f *simulateFlags) register(cmd *cobra.Command) {
	var own cobra.Command
	f.tableFlags.register(&own)
	f.Register(cmd.Flags(), own.Flags(), rules.Names(), f.tell)
}

// checkArgs checks the number of arguments: none with --synthetic, else one.
func (f *simulateFlags) checkArgs(cmd *cobra.Command, args []string) error {
	check := cobra.ExactArgs(1)
	switch {
	case f.Synthetic != "":
		check = cobra.NoArgs
	case f.PrintConfig:
		check = cobra.MaximumNArgs(1)
	}
	if err := checkArgs(check)(cmd, args); err != nil {
		page := slices.IndexFunc(args, func(name string) bool { return strings.HasSuffix(name, ".html") })
		switch {
		case f.Player.HTML != "" && page >= 0:
			err = usageError{fmt.Errorf("--html %s: want --html=%[1]s", args[page])}
		case f.Synthetic != "":
			err = usageError{fmt.Errorf("%s beside --synthetic: leave one of them out", args[0])}
		}
		return errorList(append(f.errs, err))
	}
	return nil
}

// simulate resolves the configuration, simulates, and prints the results.
func (f *simulateFlags) simulate(cmd *cobra.Command, args []string) error {
	f.Stderr = cmd.ErrOrStderr()
	f.Quiet, _ = cmd.Flags().GetBool("quiet") // a flag of every command
	if len(args) > 0 && hasRun(args[0]) {
		f.RunDir = args[0]
	} else if len(args) > 0 {
		if below := runBelow(args[0]); below != "" {
			return usageError{fmt.Errorf("%s holds several runs: name one, such as %s", args[0], below)}
		}
	}
	tellOldNames(cmd, f.Plan())
	if f.PrintConfig {
		return errors.Join(f.Print(cmd.OutOrStdout()), f.err())
	}
	f.Check()
	if err := f.err(); err != nil {
		return err
	}
	if f.RunDir != "" {
		return f.simulateRun(cmd)
	}
	var input *simulate.Input
	f.Describe(cmd.Flags(), args, version)
	if len(args) > 0 {
		dataset, read, err := f.open(cmd, args[0])
		if err != nil {
			return err
		}
		defer dataset.Close()
		input = read
	}
	f.Validate(input)
	if err := f.err(); err != nil {
		return err
	}
	no, err := f.Play(cmd.Context(), cmd.OutOrStdout())
	if no {
		return verdictError{err}
	}
	return err
}

// hasRun reports whether a directory has the results of a replay, or of the parts of one.
func hasRun(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, measure.RunFile))
	return err == nil || merge.IsLoad(dir)
}

// runBelow returns the first directory in another that has results, "" for none.
func runBelow(dir string) string {
	list, _ := os.ReadDir(dir) // what is no directory has none
	for _, e := range list {
		if below := filepath.Join(dir, e.Name()); hasRun(below) {
			return below
		}
	}
	return ""
}

// simulateRun plays the load of a run, or fits an engine to it.
func (f *simulateFlags) simulateRun(cmd *cobra.Command) error {
	run, err := merge.Open(f.RunDir, merge.Options{})
	if err != nil {
		return err
	}
	f.Describe(cmd.Flags(), []string{f.RunDir}, version)
	dataset, input, err := f.open(cmd, run.Info.Dataset.Key)
	if _, missing := os.Stat(run.Info.Dataset.Path); err != nil && run.Info.Dataset.Path != "" && missing == nil {
		dataset, input, err = f.open(cmd, run.Info.Dataset.Path) // below another root
	}
	if err != nil {
		return fmt.Errorf("the dataset of %s: %w", f.RunDir, err)
	}
	defer dataset.Close()
	no, err := f.PlayRun(cmd.Context(), cmd.OutOrStdout(), run, input)
	if own := f.err(); own != nil {
		return own
	}
	if no {
		return verdictError{err}
	}
	return err
}

// open opens the tables of a CACHE, or of an INPUT.
func (f *simulateFlags) open(cmd *cobra.Command, name string) (*cachestore.Dataset, *simulate.Input, error) {
	dataset, err := f.openTables(cmd, name, f.Rules(), f.TraceBlock)
	if err != nil {
		return nil, nil, err
	}
	f.DescribeKey(f.key)
	input, err := simulate.NewInput(dataset.Cache)
	switch {
	case err != nil:
		err = fmt.Errorf("%s: %w", name, err)
	case f.TraceBlock != 0 && f.TraceBlock != input.BlockSize():
		err = usageError{fmt.Errorf("--trace-block-size %d: the hash ids of %s stand for %d tokens: leave the flag out", f.TraceBlock, name, input.BlockSize())}
	default:
		return dataset, input, nil
	}
	return nil, nil, errors.Join(err, dataset.Close())
}
