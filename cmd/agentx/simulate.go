package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/internal/settings"
	"github.com/agentx/agentx/replay/capacity"
	"github.com/agentx/agentx/simulate"
	"github.com/agentx/agentx/simulate/engine"
	"github.com/agentx/agentx/simulate/hitcurve"
	"github.com/agentx/agentx/simulate/hitcurve/chart"
	"github.com/agentx/agentx/simulate/runs"
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
doc/spec/simulate.md 2 lists the keys. Durations come from polynomials, or from a table of yours.

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
		case f.p.HTML != "" && page >= 0:
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
	checkStart(f.set, &f.problems, &f.c.Lanes.Options)
	f.checkFleet()
	f.base()
	list := f.runs()
	size := f.readGates()
	f.checkPages(len(list) > 1 || size != nil)
	f.checkCurve(list)
	if f.printConfig {
		return errors.Join(f.set.Print(cmd.OutOrStdout(), f.asJSON), f.err())
	}
	f.checkRuns(cmd, list, size)
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
			r.Config.Input = input
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
	p := f.player(cmd)
	var answer *runs.Answer
	var err error
	if size != nil {
		list, answer, err = p.Size(cmd.Context(), size.From, size.To, list[0].Config)
	} else {
		p.Play(cmd.Context(), list)
	}
	if err := cmd.Context().Err(); err != nil {
		return err
	}
	f.warnOf(list)
	if err := errors.Join(err, p.Print(cmd.OutOrStdout(), list, answer, f.asJSON)); err != nil {
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

// warnOf prints what a user should know of each run beside its numbers.
func (f *simulateFlags) warnOf(list []*runs.Run) {
	for _, r := range list {
		for _, text := range r.Warnings {
			printError(f.stderr, "agentx: warning: "+strings.TrimPrefix(r.Name+": ", ": ")+text)
		}
	}
}

// player completes what plays the runs. It says, at most every five seconds, which of several has ended.
func (f *simulateFlags) player(cmd *cobra.Command) *runs.Player {
	quiet, _ := cmd.Flags().GetBool("quiet") // a flag of every command
	next, ended := time.Now().Add(lineEvery), 0
	f.p.Files.Dynamo = f.format == "dynamo"
	f.p.Ended = func(last *runs.Run) {
		ended++
		if now := time.Now(); !quiet && last.Name != "" && now.After(next) {
			next = now.Add(lineEvery)
			fmt.Fprintf(f.stderr, "agentx: runs that have ended: %d, the last %s\n", ended, last.Name)
		}
	}
	return &f.p
}

// judgeRuns returns the error of several runs: that of the worst.
func judgeRuns(list []*runs.Run) error {
	var failed []string
	worst := 0
	for _, r := range list {
		switch {
		case r.Err == nil:
			continue
		case r.Name == "" && r.Exit == runs.No:
			return verdictError{r.Err}
		case r.Name == "":
			return r.Err
		}
		failed = append(failed, fmt.Sprintf("%s: %s", r.Name, strings.ReplaceAll(r.Err.Error(), "\n", "; ")))
		if worst == 0 || r.Exit == runs.Failed {
			worst = r.Exit
		}
	}
	err := fmt.Errorf("%d of %d runs: %s", len(failed), len(list), strings.Join(failed, "; "))
	switch worst {
	case 0:
		return nil
	case runs.No:
		return verdictError{err}
	}
	return err
}

// readGates reads the gates, and the search that --workers may ask for. One that has no gate looks for the service levels.
func (f *simulateFlags) readGates() *capacity.Search {
	size, err := f.sizing()
	if err != nil {
		f.add("%w", err)
	}
	texts := f.gates
	levels := f.c.SLA != simulate.SLA{}
	if size != nil && len(texts) == 0 && levels {
		texts = []string{"good>=99%"}
	}
	for _, text := range texts {
		g, err := simulate.ParseGate(text)
		if err != nil {
			f.add("%s: %w", f.shown("gate", text), err)
			continue
		}
		if g.NeedsSLA() && !levels {
			f.add("%s: no request is good or not without a limit: add --sla-ttft, --sla-itl or --sla-e2e", f.shown("gate", text))
		}
		f.p.Gates = append(f.p.Gates, g)
	}
	switch {
	case size == nil:
	case len(texts) == 0:
		f.add("%s: nothing to keep: add --gate 'ttft.p95<2s', or --sla-ttft, --sla-itl, --sla-e2e", f.shown("workers", f.workers))
	case len(f.concurrency) > 1 || len(f.engines) > 1:
		f.add("%s with several values of --concurrency or --engine: want one of each", f.shown("workers", f.workers))
	case f.planner != "":
		f.add("%s beside --planner, which chooses the workers itself: want one of them", f.shown("workers", f.workers))
	}
	return size
}

// checkRuns adds what is wrong with runs whatever they play, and with the directories of their results.
func (f *simulateFlags) checkRuns(cmd *cobra.Command, list []*runs.Run, size *capacity.Search) {
	f.errs = append(f.errs, wrongOf(list, size, simulate.Config.ValidateWithoutInput).errs...)
	if f.p.Files.Dir == "" || f.printConfig || f.curve.on {
		return
	}
	if size != nil {
		list = nil
		for n := size.From; n <= size.To; n++ {
			list = append(list, runs.Sized(n, simulate.Config{}))
		}
	}
	p := f.player(cmd)
	checks := make([]func() error, 0, len(list)+1)
	for _, r := range list {
		checks = append(checks, p.FilesOf(r).Check)
	}
	if len(list) > 1 {
		checks = append(checks, p.CheckPage)
	}
	for _, check := range checks {
		switch err := check(); {
		case errors.Is(err, simulate.ErrResultsExist):
			f.errs = append(f.errs, hintError{usageError{err}, "--overwrite, or another --out"})
		case err != nil:
			f.errs = append(f.errs, usageError{fmt.Errorf("%s: %w", f.shown("out", f.p.Files.Dir), err)})
			return // the others say the same
		}
	}
}

// prepareOut makes the directory of the results, and finds out before anything runs whether files can be written to it.
func (f *simulateFlags) prepareOut() error {
	if f.p.Files.Dir == "" {
		return nil
	}
	err := os.MkdirAll(f.p.Files.Dir, 0o777)
	if err == nil {
		var probe *os.File
		if probe, err = os.CreateTemp(f.p.Files.Dir, ".agentx-*"); err == nil {
			err = errors.Join(probe.Close(), os.Remove(probe.Name()))
		}
	}
	if err != nil {
		return usageError{fmt.Errorf("%s: %w", f.shown("out", f.p.Files.Dir), err)}
	}
	return nil
}

// validate checks every run before any begins.
func (f *simulateFlags) validate(list []*runs.Run, size *capacity.Search) error {
	for _, r := range list {
		c := &r.Config
		if c.Input != nil && c.LoadOf() == simulate.LoadLanes && c.Concurrency == 0 {
			c.Concurrency = 1 // as in a replay
		}
	}
	wrong := wrongOf(list, size, simulate.Config.Validate)
	return wrong.err()
}

// wrongOf returns what is wrong with runs, once. Those of a search begin with its fewest workers.
func wrongOf(list []*runs.Run, size *capacity.Search, validate func(simulate.Config) error) (p problems) {
	for _, r := range list {
		checked := r.Config
		if size != nil {
			checked.Workers = size.From
		}
		for _, one := range unjoin(validate(checked)) {
			p.addOnce(one)
		}
	}
	return p
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

// variant is one value of something that runs differ in.
type variant struct {
	name string
	set  func(*runs.Run)
}

// runs returns the runs of all combinations, the last flag changing fastest.
func (f *simulateFlags) runs() []*runs.Run {
	list := []*runs.Run{{Config: f.c}}
	for _, variants := range [][]variant{f.engineVariants(), f.workerVariants(), f.concurrencyVariants()} {
		var next []*runs.Run
		for _, r := range list {
			for _, v := range variants {
				one := &runs.Run{Name: r.Name, Engine: r.Engine, Config: r.Config}
				if len(variants) > 1 {
					one.Name = strings.TrimPrefix(r.Name+"_"+v.name, "_")
				}
				v.set(one)
				next = append(next, one)
			}
		}
		list = next
	}
	return list
}

func (f *simulateFlags) engineVariants() (list []variant) {
	texts := f.engines
	if len(texts) == 0 {
		texts = []string{""}
	}
	for k, text := range texts {
		base := f.engineOf("engine", text, simulate.Default().Engine.Config)
		prefill := f.engineOf("prefill-engine", f.prefillEngine, base)
		decode := f.engineOf("decode-engine", f.decodeEngine, base)
		var engines [3]simulate.Engine
		for n, c := range []engine.Config{base, prefill, decode} {
			one, err := simulate.NewEngine(c)
			if err != nil {
				f.addOnce(fmt.Errorf("%s: %w", f.shown("engine", text), withoutPrefix(err, "engine: ")))
				one = simulate.Default().Engine
			}
			engines[n] = one
		}
		name := engineName(text, k+1)
		if slices.ContainsFunc(list, func(v variant) bool { return v.name == name }) { // two files of the same name
			name += "-" + strconv.Itoa(k+1)
		}
		list = append(list, variant{name, func(r *runs.Run) {
			r.Config.Engine, r.Config.PrefillEngine, r.Config.DecodeEngine = engines[0], engines[1], engines[2]
			if len(texts) > 1 {
				r.Engine = name
			}
		}})
	}
	return list
}

// engineName names an engine after its file, or by its number. As the name is that of a directory too, it does not begin with a dot.
func engineName(text string, number int) string {
	name := strings.TrimSuffix(filepath.Base(text), filepath.Ext(text))
	if strings.HasPrefix(strings.TrimSpace(text), "{") || name == "" || strings.HasPrefix(name, ".") {
		return "engine-" + strconv.Itoa(number)
	}
	return name
}

func (f *simulateFlags) workerVariants() (list []variant) {
	if f.disaggregated() {
		f.checkCounts("prefill-workers", f.prefillWorkers)
		f.checkCounts("decode-workers", f.decodeWorkers)
		for _, p := range orOne(f.prefillWorkers) {
			for _, d := range orOne(f.decodeWorkers) {
				list = append(list, variant{fmt.Sprintf("prefill-%d_decode-%d", p, d), func(r *runs.Run) {
					c := &r.Config
					c.Workers, c.PrefillWorkers, c.DecodeWorkers = 0, max(p, min(1, len(f.prefillWorkers))), max(d, min(1, len(f.decodeWorkers))) // checkCounts tells of others
				}})
			}
		}
		return list
	}
	for _, n := range f.fleetSizes() {
		list = append(list, variant{"workers-" + strconv.Itoa(n), func(r *runs.Run) { r.Config.Workers = n }})
	}
	return list
}

// disaggregated reports whether a flag asks for prefill and decode workers.
func (f *simulateFlags) disaggregated() bool { return len(f.prefillWorkers)+len(f.decodeWorkers) > 0 }

// checkFleet adds what does not go together.
func (f *simulateFlags) checkFleet() {
	workers := f.flags.Lookup("workers")
	if f.disaggregated() && workers.Changed {
		f.add("%s %s beside --prefill-workers and --decode-workers: want one kind of fleet", settings.Named(workers), f.workers)
	}
	for _, name := range []string{"prefill-engine", "decode-engine"} {
		if one := f.flags.Lookup(name); one.Changed && !f.disaggregated() {
			f.add("%s: only a disaggregated fleet has it: want --prefill-workers and --decode-workers, or --engine", settings.Named(one))
		}
	}
}

// checkCounts adds what is wrong with the numbers of a flag: each makes a run of its own.
func (f *simulateFlags) checkCounts(name string, list []int) {
	for k, n := range list {
		switch {
		case n < 1:
			f.add("%s: %d: want at least 1", settings.Named(f.flags.Lookup(name)), n)
		case slices.Contains(list[:k], n):
			f.add("%s: %d twice", settings.Named(f.flags.Lookup(name)), n)
		}
	}
}

// orOne returns the numbers of a flag; 0 where it is not given, which is refused with the other of its pair.
func orOne(list []int) []int {
	if len(list) == 0 {
		return []int{0}
	}
	return list
}

func (f *simulateFlags) concurrencyVariants() (list []variant) {
	f.checkCounts("concurrency", f.concurrency)
	for _, n := range orOne(f.concurrency) {
		list = append(list, variant{"concurrency-" + strconv.Itoa(n), func(r *runs.Run) { r.Config.Concurrency = n }})
	}
	return list
}

// maxSized bounds a search without a bound of its own.
const maxSized = 256

// sizing reads auto[:FROM-TO]; nil for another value of --workers. The search is one of 1 where the value is wrong.
func (f *simulateFlags) sizing() (*capacity.Search, error) {
	a, ok := parseAuto(f.workers, math.MaxInt)
	switch {
	case !strings.HasPrefix(f.workers, auto):
		return nil, nil
	case !ok:
		return &capacity.Search{From: 1, To: 1}, fmt.Errorf("%s: want auto, or auto:FROM-TO such as auto:2-64", f.shown("workers", f.workers))
	case f.workers != auto:
	case f.c.Router == simulate.KVRouter: // which needs a choice
		a.From, a.To = 2, maxSized
	default:
		a.To = maxSized
	}
	return &a.Search, nil
}

// fleetSizes returns the numbers of --workers.
func (f *simulateFlags) fleetSizes() (list []int) {
	if s, _ := f.sizing(); s != nil { // simulate tells the error
		return []int{s.From}
	}
	for text := range strings.SplitSeq(f.workers, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			f.add("%s: want a number from 1, several with commas, or auto", f.shown("workers", f.workers))
			return []int{1}
		}
		if slices.Contains(list, n) {
			f.add("%s: %d twice", f.shown("workers", f.workers), n)
		}
		list = append(list, n)
	}
	return list
}

// sampling says which samples a page needs, and adds what is wrong with its flags. A planner's ticks take the place of samples.
func (f *simulateFlags) sampling(planned bool) simulate.Sampling {
	switch f.p.HTML {
	case "true": // of a file or the environment
		f.p.HTML = simulate.PageFile
	case "false":
		f.p.HTML = ""
	}
	switch {
	case f.sample == 0:
	case f.p.HTML == "":
		f.add("%s: it concerns a page: add --html", f.shown("sample", f.sample.String()))
	case planned:
		f.add("%s beside --planner: the page has the ticks of the planner", f.shown("sample", f.sample.String()))
	}
	if f.p.HTML == "" {
		return simulate.Sampling{}
	}
	switch {
	case filepath.Ext(f.p.HTML) != ".html":
		f.add("%s: want a name that ends in .html", f.shown("html", f.p.HTML))
	case f.p.Files.Dir != "" && filepath.Base(f.p.HTML) != f.p.HTML:
		f.add("%s beside --out: want a name without a directory, which --out is", f.shown("html", f.p.HTML))
	case f.p.Files.Dir == "" && !isDirectory(filepath.Dir(f.p.HTML)):
		f.add("%s: there is no directory %s", f.shown("html", f.p.HTML), filepath.Dir(f.p.HTML))
	default:
		for _, name := range []string{f.p.HTML, runs.LogName(f.p.HTML)} {
			if path := filepath.Join(f.p.Files.Dir, name); isDirectory(path) {
				f.add("%s: %s is a directory: want another name", f.shown("html", f.p.HTML), path)
			}
		}
	}
	samples := simulate.Sampling{On: !planned, Every: f.sample}
	if err := samples.Validate(); err != nil {
		f.add("--sample: %w", err)
		samples.Every = 0
	}
	return samples
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// checkPages adds what is wrong with the pages of several runs.
func (f *simulateFlags) checkPages(several bool) {
	if several && !f.curve.on && f.p.HTML != "" && f.p.Files.Dir == "" {
		f.add("--html of several runs: add --out DIR, in which each has a directory with its page")
	}
}

// curveFlags say which caches --hit-curve compares.
type curveFlags struct {
	on          bool
	policies    []string
	sizes       []string
	rates       []float64
	order       string
	modelConfig string
	tokenBytes  int64
}

// curveNames are the flags that concern --hit-curve alone.
const curveNames = "hit-policy hit-sizes hit-order server-rates model-config kv-bytes-per-token"

func (c *curveFlags) rows() []settings.Setting {
	row := rowOf(settings.Curve)
	lists := settings.List(func(text string) ([]string, error) { return strings.Split(text, ","), nil })
	lists.Type = "stringSlice"
	policies := lists
	policies.Words = []string{"lru", "fifo", "optimal"}
	bytes := settings.Kind{Want: fmt.Sprintf("1 to %d", int64(maxTokenBytes)), Type: "int64", Tags: []string{settings.Int}, Read: func(text string) (any, bool) {
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err == nil && n >= 1 && n <= maxTokenBytes
	}}
	return []settings.Setting{
		row("hit-curve", settings.Yes, false, &c.on, "print the prefix-cache hit rate against the size of the cache, instead of simulating engines; each of --workers is a cache"),
		row("hit-policy", policies, []string{"lru"}, &c.policies, "which blocks a cache drops: lru, fifo, optimal; several with commas"),
		row("hit-sizes", lists, nil, &c.sizes, "sizes of each cache: N blocks, Ntok tokens, NGiB; several with commas (default: powers of two)"),
		row("hit-order", settings.Word("load\tas the load sends requests", "recorded\tas the input has their times"), "load", &c.order, "order of the requests: load (as the load sends them to the server), or recorded (as the input has their times)"),
		row("server-rates", numbersKind("float64Slice", func(text string) (float64, error) { return strconv.ParseFloat(text, 64) }), []float64{10000, 50}, &c.rates, "`PREFILL,DECODE` tokens a second of the server, prompt and output, which decide the order of requests"),
		row("model-config", objectKind(), "", &c.modelConfig, "config.json of a model, which says what a token costs in its KV cache"),
		row("kv-bytes-per-token", bytes, int64(0), &c.tokenBytes, "what a token costs in the KV cache of a worker, in place of --model-config"),
	}
}

// checkCurve adds what is wrong with the flags of a curve, and what does not go with it.
func (f *simulateFlags) checkCurve(list []*runs.Run) {
	c := &f.curve
	if !c.on {
		for name := range strings.FieldsSeq(curveNames) {
			if f.flags.Lookup(name).Changed {
				f.add("--%s: it concerns --hit-curve", name)
			}
		}
		return
	}
	for _, name := range []string{"out", "per-request", "sample", "format", "overwrite", "gate", "sla-ttft", "sla-itl", "sla-e2e", "prefill-workers", "decode-workers", "planner"} {
		if f.flags.Lookup(name).Changed {
			f.add("--%s beside --hit-curve, which simulates no engine", name)
		}
	}
	if len(f.engines) > 1 || strings.HasPrefix(f.workers, "auto") {
		f.add("--hit-curve: want one --engine, and numbers of --workers")
	}
	for _, p := range c.policies {
		if !slices.Contains(hitcurve.Policies, hitcurve.Policy(p)) {
			f.add("%s: %w", f.shown("hit-policy", p), wrongWord(p, "lru, fifo or optimal", []string{"lru", "fifo", "optimal"}))
		}
	}
	f.checkOrder()
	if len(c.rates) != 2 {
		f.add(f.set.Named("server-rates")+": %d numbers: want PREFILL,DECODE", len(c.rates))
	} else if err := c.serverRates().Validate(); err != nil {
		f.add(f.set.Named("server-rates")+": %w", err)
	}
	f.checkTokenBytes(list[0].Config.Engines()[0])
	if _, err := c.blocks(list[0].Config.BlockSize()); err != nil {
		f.add("--hit-sizes %w", err)
	}
}

// checkOrder adds what is wrong with --hit-order.
func (f *simulateFlags) checkOrder() {
	if f.curve.order == "recorded" {
		if f.c.Router == simulate.KVRouter {
			f.add("--router kv_router beside --hit-order recorded: a router needs to know which requests are at work")
		}
		for _, name := range []string{"load", "concurrency", "arrival-speedup", "max-sim-time", "synthetic"} {
			if f.flags.Lookup(name).Changed {
				f.add("--%s beside --hit-order recorded, which plays no load", name)
			}
		}
		for _, name := range f.lanesSet() {
			f.add("%s beside --hit-order recorded, which plays no load", f.set.Show(name))
		}
	}
}

// maxTokenBytes bounds what a token costs.
const maxTokenBytes = 1 << 32

// checkTokenBytes finds what a token costs; 0: nothing says it.
func (f *simulateFlags) checkTokenBytes(e simulate.Engine) {
	c := &f.curve
	switch {
	case c.modelConfig != "" && c.tokenBytes != 0:
		f.add("--model-config beside --kv-bytes-per-token: want one of them")
	case c.modelConfig != "":
		data, err := regular.Read(c.modelConfig, maxObject)
		if err == nil {
			c.tokenBytes, err = hitcurve.BytesPerToken(data)
		}
		if err != nil {
			f.add("%s: %w", f.shown("model-config", c.modelConfig), err)
		}
	case c.tokenBytes == 0:
		c.tokenBytes = int64(e.Config.KVBytesPerToken)
	}
}

func (c *curveFlags) serverRates() hitcurve.Rates {
	return hitcurve.Rates{Prefill: c.rates[0], Decode: c.rates[1]}
}

// blocks returns the sizes in blocks, rounded down.
func (c *curveFlags) blocks(blockSize int) (list []int64, err error) {
	for _, text := range c.sizes {
		number, unit := text, float64(1)
		switch {
		case strings.HasSuffix(text, "tok"):
			number, unit = strings.TrimSuffix(text, "tok"), 1/float64(blockSize)
		case strings.HasSuffix(text, "GiB") && c.tokenBytes == 0:
			return nil, fmt.Errorf("%s: what a token costs is not known: add --model-config or --kv-bytes-per-token", text)
		case strings.HasSuffix(text, "GiB"):
			number, unit = strings.TrimSuffix(text, "GiB"), (1<<30)/(float64(blockSize)*float64(c.tokenBytes))
		}
		v, err := strconv.ParseFloat(number, 64)
		if size := math.Floor(v * unit); err == nil && size >= 0 && size < 1<<53 {
			list = append(list, int64(size))
			continue
		}
		return nil, fmt.Errorf("%s: want a number of blocks, such as 16384, of tokens, such as 1e6tok, or 80GiB", text)
	}
	return list, nil
}

// printCurves computes the curves and prints them.
func (f *simulateFlags) printCurves(ctx context.Context, w io.Writer, list []*runs.Run) error {
	o, page := hitcurve.Options{}, ""
	if f.p.HTML != "" {
		o.Fine, page = chart.Smooth, f.curvePage()
	}
	for _, p := range f.curve.policies {
		o.Policies = append(o.Policies, hitcurve.Policy(p))
	}
	var err error
	if o.Sizes, err = f.curve.blocks(list[0].Config.BlockSize()); err != nil {
		return usageError{err}
	}
	var curves []*chart.Result
	recorded := f.curve.order == "recorded"
	for _, r := range list {
		curve, err := r.Config.HitCurve(ctx, f.curve.serverRates(), recorded, o)
		if err != nil {
			return err
		}
		one := chart.New(curve, &r.Config, f.curve.serverRates(), recorded, f.curve.tokenBytes)
		one.Name = r.Name
		curves = append(curves, one)
	}
	if page != "" {
		if err := chart.Write(page, "Hit-rate curve", curves); err != nil {
			return err
		}
	}
	if f.asJSON {
		if len(curves) == 1 {
			return printJSON(w, curves[0])
		}
		return printJSON(w, struct {
			Curves []*chart.Result `json:"curves"`
		}{curves})
	}
	var text strings.Builder
	for k, c := range curves {
		if k > 0 {
			text.WriteByte('\n')
		}
		text.WriteString(c.Text(o.Policies))
	}
	if page != "" {
		fmt.Fprintf(&text, "\npage            %s\n", page)
	}
	_, err = io.WriteString(w, text.String())
	return err
}

// curvePage returns the file of the page of a curve. That of a run has another name.
func (f *simulateFlags) curvePage() string {
	if f.p.HTML == simulate.PageFile {
		return chart.PageFile
	}
	return f.p.HTML
}

// openTables opens the tables of the CACHE that an argument names, or of an INPUT, which it converts as far as that.
func (f *simulateFlags) openTables(cmd *cobra.Command, name string) (*cachestore.Dataset, *simulate.Input, error) {
	root, rootErr := cacheRoot(cmd)
	found, kind, key, err := cachestore.FindAny(root, name) // a path needs no cache root
	var dataset *cachestore.Dataset
	if err == nil {
		dataset, err = openPreparedTables(cmd, name, cacheName{found, kind, key})
	} else if err = maybeInput(name, rootErr, err); err == nil {
		dataset, err = f.convertTables(cmd, name, root)
	}
	if err != nil {
		return nil, nil, err
	}
	input, err := simulate.NewInput(dataset.Cache)
	switch {
	case err != nil:
		err = fmt.Errorf("%s: %w", name, err)
	case f.traceBlock != 0 && f.traceBlock != input.BlockSize():
		err = usageError{fmt.Errorf("--trace-block-size %d: the hash ids of %s stand for %d tokens", f.traceBlock, name, input.BlockSize())}
	default:
		return dataset, input, nil
	}
	return nil, nil, errors.Join(err, dataset.Close())
}

// convertTables converts an input as far as its tables, or finds that done, and opens them.
func (f *simulateFlags) convertTables(cmd *cobra.Command, name, root string) (*cachestore.Dataset, error) {
	o, err := f.conversion(cmd, name, root)
	if err == nil {
		err = checkInput(cmd, name, root)
	}
	if err != nil {
		return nil, err
	}
	var r *convert.Result
	err = withProgress(cmd, &o, func() (err error) {
		if r, err = convert.Structure(cmd.Context(), o); err != nil {
			return hintConvert(err)
		}
		warnConverted(o, r)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return cachestore.OpenStructure(cmd.Context(), root, r.Key)
}

// conversion returns the options of a conversion.
func (f *simulateFlags) conversion(cmd *cobra.Command, name, root string) (convert.Options, error) {
	o := convert.Options{
		Inputs: []string{name}, Root: root, Force: f.force, SkipInvalid: f.skipInvalid, Strict: f.strict, Version: version, Source: inputSources(cmd),
		MooncakeBlock: f.traceBlock,
	}
	if err := o.SetProfile(f.profile); err != nil {
		return o, usageError{fmt.Errorf("%s: %w", f.shown("profile", f.profile), err)}
	}
	for _, rule := range f.set.Ruled {
		if err := setRule(&o, rule); err != nil {
			return o, usageError{err}
		}
	}
	var err error
	o.Wait, err = f.limit()
	return o, err
}
