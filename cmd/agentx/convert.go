package main

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/cmd/internal/synth"
	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/hfsource/hub"
	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/internal/demo"
	"github.com/agentx/agentx/internal/suggest"
	"github.com/agentx/agentx/internal/terminal"
	"github.com/agentx/agentx/internal/tokensource"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/cachestore"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
)

// convertFlags say what a conversion makes, and how.
type convertFlags struct {
	profile, tokenizer, corpus string
	seed                       string
	set                        []string
	workers                    int
	force, skipInvalid, strict bool
	verifyHit, trustRoot       bool
	format, redact             string
	sources                    []mmapcache.Source // of the INPUT that was converted
	waitFlags
}

// register adds the flags to a command.
func (f *convertFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.profile, "profile", convert.DefaultProfile, "reconstruction rules: default (repaired), or aiperf (those of AIPerf 0.13.0, for comparable results)")
	flags.StringVar(&f.tokenizer, "tokenizer", convert.DefaultTokenizer, "tokenizer of the prompts: o200k_base, cl100k_base, the path of a tokenizer.json or its directory, PATTERN:FILE of tiktoken's ranks, or OWNER/NAME[@REVISION] of a model of the hub")
	flags.StringVar(&f.corpus, "corpus", convert.DefaultCorpus, "text that prompts are cut from: code, prose or words, which agentx makes; FILE or DIR of UTF-8 text; aiperf-sonnet:FILE, a text cut as AIPerf does; or FILE.u32le of token ids (sonnet:FILE.u32le for AIPerf's sonnet corpus)")
	f.seed = strconv.Itoa(convert.DefaultSeed)
	flags.Var(seed(&f.seed), "seed", "decides which part of the corpus a block shows; signed 64-bit, with --profile aiperf 0 to 2^64-1")
	flags.StringArrayVar(&f.set, "set", nil, "NAME=VALUE, one rule of the reconstruction, such as block_size=64 (repeatable); a wrong name lists them all")
	flags.StringVar(&f.format, "format", "auto", "of logs with text: "+strings.Join(convert.LogFormats(), ", ")+"; auto: the first object of each file says it")
	flags.StringVar(&f.redact, "redact", "secrets", "of logs with text: secrets, replaces keys and passwords of known shapes by others of the same length; none, keeps texts as they were recorded")
	flags.IntVar(&f.workers, "workers", 0, "traces converted at a time (default: one per core)")
	flags.BoolVar(&f.force, "force", false, "build again what is prepared already")
	flags.BoolVar(&f.verifyHit, "verify-hit", false, "build a second time what is prepared already, and compare; exit 3 if the two differ")
	flags.BoolVar(&f.trustRoot, "trust-root", false, "use directories of the cache root that every user of this machine may write to, instead of building them again")
	f.waitFlags.register(cmd)
	flags.BoolVar(&f.skipInvalid, "skip-invalid", false, "leave invalid traces out, counted and listed, instead of failing; a file that cannot be read still fails")
	flags.BoolVar(&f.strict, "strict", false, "refuse traces with oddities that otherwise cause a warning, such as keys that no trace has or negative times")
}

// inputFlags are the flags of verbs whose arguments are inputs alone.
type inputFlags struct {
	convertFlags
	logs logFlags
}

func (f *inputFlags) register(cmd *cobra.Command) {
	f.convertFlags.register(cmd)
	f.logs.register(cmd.Flags())
}

func (f *inputFlags) options(cmd *cobra.Command, inputs []string) (convert.Options, error) {
	var p problems
	o, err := f.convertFlags.options(cmd, inputs)
	f.logs.apply(cmd, &o.Logs, &p)
	var wrong errorList
	if errors.As(err, &wrong) {
		p.errs = append(wrong, p.errs...)
	} else if err != nil {
		return o, err
	}
	return o, p.err()
}

// registerForInput adds the flags to a verb that converts an INPUT first. Flags that the verb has already stay.
func (f *convertFlags) registerForInput(cmd *cobra.Command) {
	var own cobra.Command
	f.register(&own)
	cmd.Flags().AddFlagSet(own.Flags())
}

// has reports whether a conversion has a flag of this name.
func (convertFlags) has(name string) bool {
	var own cobra.Command
	new(convertFlags).register(&own)
	return own.Flags().Lookup(name) != nil
}

// options makes the options of a conversion of inputs. The error has everything that is wrong with the flags.
func (f *convertFlags) options(cmd *cobra.Command, inputs []string) (convert.Options, error) {
	o := convert.Options{
		Inputs:    inputs,
		Tokenizer: f.tokenizer, Corpus: f.corpus, Workers: f.workers, Force: f.force,
		VerifyHit: f.verifyHit, TrustRoot: f.trustRoot, SkipInvalid: f.skipInvalid, Strict: f.strict, Version: version,
		Source: inputSources(cmd), Logs: convert.LogOptions{SkipInvalid: f.skipInvalid},
	}
	if k := slices.IndexFunc(inputs, cachestore.IsCachePath); k >= 0 {
		err := fmt.Errorf("input %s: this directory is a prepared cache already: name the recording that it was made from, or play it as it is", inputs[k])
		return o, hintError{err, "agentx inspect or agentx replay with the path that convert printed; or the traces themselves"}
	}
	var p problems
	if err := o.SetProfile(f.profile); err != nil {
		p.add("%s: %w", shown(cmd, "profile", f.profile), err)
	}
	for _, s := range f.set {
		if err := setRule(cmd, &o, s); err != nil {
			p.errs = append(p.errs, usageError{err})
		}
	}
	if err := tokensource.Check(f.tokenizer); err != nil && cmd.Flags().Changed("tokenizer") {
		p.add("%s: %w", shown(cmd, "tokenizer", f.tokenizer), err)
	}
	if err := convert.CheckCorpus(f.corpus); err != nil && cmd.Flags().Changed("corpus") {
		p.add("%s%s", strings.TrimSuffix(shown(cmd, "corpus", "_"), "_"), strings.TrimPrefix(err.Error(), "corpus "))
	}
	if names := append([]string{"auto"}, convert.LogFormats()...); !slices.Contains(names, f.format) {
		p.add("%s: %w", shown(cmd, "format", f.format), wrongWord(f.format, either(names), names))
	} else if f.format != "auto" {
		o.Logs.Format = f.format
	}
	if names := []string{"secrets", "none"}; !slices.Contains(names, f.redact) {
		p.add("%s: %w", shown(cmd, "redact", f.redact), wrongWord(f.redact, either(names), names))
	} else if f.redact == "none" {
		o.Logs.Redact = "none"
	}
	var err error
	if o.Placement.Seed, err = seedOf(f.seed, o.Placement.Backend); err != nil {
		p.add("%s: %w", shown(cmd, "seed", f.seed), err)
	}
	if f.workers < 0 || f.workers > convert.MaxWorkers {
		p.add("%s: want 0 to %d", shown(cmd, "workers", strconv.Itoa(f.workers)), convert.MaxWorkers)
	}
	if _, err := o.CheckCorpusSeed(); err != nil {
		p.errs = append(p.errs, hintCorpusSeed(cmd, err, &o))
	}
	if o.Wait, err = f.limit(); err != nil {
		p.errs = append(p.errs, err)
	}
	if err := p.err(); err != nil {
		return o, err
	}
	o.Root, err = cacheRoot(cmd)
	return o, err
}

// setRule sets a rule of the reconstruction: NAME=VALUE.
func setRule(cmd *cobra.Command, o *convert.Options, text string) error {
	name, value, ok := strings.Cut(text, "=")
	switch {
	case !ok:
		return fmt.Errorf("%s: want NAME=VALUE", shown(cmd, "set", text))
	case strings.HasPrefix(name, "claude."):
		if err := o.Logs.Set(name, value); err != nil {
			return fmt.Errorf("--set %w", err)
		}
		return nil
	case name != "backend":
		if err := o.Rules.Set(name, value); err != nil {
			return fmt.Errorf("--set %w", err)
		}
		return nil
	}
	if words := rules.Backends(); !slices.Contains(words, value) {
		return fmt.Errorf("%s: %w", shown(cmd, "set", text), wrongWord(value, either(words), words))
	}
	o.Placement.Backend = value
	return nil
}

// check adds all errors of the flags to the problems.
func (f *convertFlags) check(cmd *cobra.Command, p *problems) {
	var wrong errorList
	if _, err := f.options(cmd, nil); errors.As(err, &wrong) {
		p.errs = append(p.errs, wrong...)
	}
}

// inputSources returns the sources of input besides files: standard input, the demo traces, and loads of lengths by their description.
func inputSources(cmd *cobra.Command) hfsource.Options {
	return hfsource.Options{Stdin: cmd.InOrStdin(), Embedded: map[string][]byte{"demo": demo.JSONL()}, Make: synth.Described}
}

func newConvert() *cobra.Command {
	var f inputFlags
	var alone convertAlone
	cmd := &cobra.Command{
		Use:   "convert INPUT...",
		Short: "Prepare traces as a cache, or find them prepared",
		Long: `Prepare traces as a memory-mapped cache, or find them prepared. The last line printed is the path
of the cache. doc/traces.md says what a trace looks like.

INPUT is one of:
  a directory    its .json, .jsonl, .ndjson, .csv and .parquet files, all but the last also as .zst and
                 .gz, by name; of a directory that capture made, its finished traces
  a file         one trace, JSON lines or Parquet, plain or as gzip or zstd: its content says which. Rows may be traces, or requests
                 without text: of Mooncake, Dynamo or Bailian, or a table (CSV) of Azure or BurstGPT
  -              the same on standard input
  hf://datasets/OWNER/NAME[@REVISION][/PATH], or a name of "agentx fetch --list"
  demo           16 small traces inside agentx
  claude:        your sessions of Claude Code (~/.claude/projects); codex: those of Codex. Logs with
                 text may also be files: conversations, logs of requests, spans of OpenTelemetry

A log has its text: a replay sends what was recorded. Its cache is as private as the log; only you can
read it. A trace has no text. Each of its blocks gets a piece of --corpus that --seed chooses: equal block ids
show equal text, so a server's prefix cache hits where the recording says.

The same content and flags give the same cache, whatever the files are called, wherever they lie and
however many workers convert them.

An input of many files, or of more than 1024 traces, is cut into shards. When a file is added, only
that file is converted. Several processes may convert one input into one shared root at the same time,
with the same command: each builds the files that no other builds, and all end with the same path.`,
		Example: "  agentx convert demo\n  agentx convert claude: --since 2026-03-01\n  agentx convert traces/ --seed 7\n  CACHE=$(agentx convert traces.jsonl.zst | tail -n 1)",
	}
	f.register(cmd)
	alone.register(cmd)
	return answering(cmd, cobra.MinimumNArgs(1), func(cmd *cobra.Command, args []string) (any, func(io.Writer), error) {
		return alone.run(cmd, &f, args)
	})
}

// run converts inputs, or says what logs would become.
func (f *convertAlone) run(cmd *cobra.Command, of *inputFlags, args []string) (any, func(io.Writer), error) {
	o, err := of.options(cmd, args)
	if err == nil {
		o.Builder, err = f.part.builder()
	}
	if err != nil {
		return nil, nil, err
	}
	var fidelity *convert.Fidelity
	if f.explain {
		if fidelity, err = explainLogs(cmd, o); err != nil {
			return nil, nil, err
		}
	}
	if f.dryRun {
		return dryConvert(cmd, o, f.ids, fidelity)
	}
	begin := time.Now()
	r, err := runConvert(cmd, o)
	if err != nil {
		return nil, nil, err
	}
	wall, usage := time.Since(begin), measure.ReadProcessUsage()
	out := r.JSON(wall, usage.CPU, usage.PeakRSS)
	if fidelity != nil {
		out["fidelity"] = fidelity
	}
	return out, func(w io.Writer) {
		if quiet, _ := cmd.Flags().GetBool("quiet"); quiet {
			fmt.Fprintln(w, r.Path)
			return
		}
		printFidelity(w, fidelity)
		r.Write(w, wall, usage.CPU, usage.PeakRSS)
	}, nil
}

// explainLogs says how close a replay of logs is to what was recorded.
func explainLogs(cmd *cobra.Command, o convert.Options) (f *convert.Fidelity, err error) {
	err = withProgress(cmd, &o, func() (err error) {
		f, err = convert.FidelityOf(cmd.Context(), o, 64)
		return hintConvert(err)
	})
	return f, err
}

// convertAlone are the flags that convert has and verbs that convert an INPUT first have not.
type convertAlone struct {
	part                 builderFlag
	dryRun, ids, explain bool
}

func (f *convertAlone) register(cmd *cobra.Command) {
	f.part.register(cmd)
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "print what would be built, session by session with --json, and build nothing")
	cmd.Flags().BoolVar(&f.explain, "explain", false, "of logs with text: also print what of them a replay has exactly, about, and not at all, and how well lengths fit; this counts the tokens of all texts")
	cmd.Flags().BoolVar(&f.ids, "ids", false, "with --dry-run: list sessions by their ids in the input, which --sessions takes")
}

// dryConvert says what logs would become, and what a replay has of them where that was asked for.
func dryConvert(cmd *cobra.Command, o convert.Options, ids bool, fidelity *convert.Fidelity) (any, func(io.Writer), error) {
	d := &dryRun{Fidelity: fidelity}
	blockSize := 0 // people read no list of turns
	if asJSON, _ := cmd.Flags().GetBool("json"); asJSON {
		blockSize = 64
	}
	err := withProgress(cmd, &o, func() (err error) {
		d.Answer, err = convert.DryRun(cmd.Context(), o, blockSize, ids, d.turn)
		return err
	})
	if err != nil {
		return nil, nil, errors.Join(hintConvert(err), d.close())
	}
	a := d.Answer
	return d, func(w io.Writer) {
		printFidelity(w, fidelity)
		fmt.Fprintf(w, "%s: %s, %s, %s, %s; nothing was built\n", a.Format, bytefmt.Count(a.Sessions, "session"), bytefmt.Count(a.Subagents, "subagent"), measure.Plural(a.Branches, "branch", "branches"), bytefmt.Count(a.Turns, "turn"))
		for _, name := range slices.Sorted(maps.Keys(a.Warnings)) {
			fmt.Fprintf(w, "  %-24s %s\n", name, bytefmt.Digits(a.Warnings[name]))
		}
		for k := 0; k < len(a.List) && ids; k++ {
			fmt.Fprintf(terminal.Writer(w), "%s %s\n", a.List[k].Kind, a.List[k].ID)
		}
	}, nil
}

// dryRun is the JSON of --dry-run. Its turns, each with all ids of its prompt, lie in a file until they are printed.
type dryRun struct {
	*text.Answer
	Fidelity *convert.Fidelity `json:"fidelity,omitempty"`

	file  *os.File
	w     *bufio.Writer
	sizes []int64 // of the turns of each session
	err   error
}

// turn keeps a turn of a session.
func (d *dryRun) turn(session int, t text.AnswerTurn) {
	if d.file == nil && d.err == nil {
		if d.file, d.err = os.CreateTemp("", ".turns-*"); d.err == nil {
			_ = os.Remove(d.file.Name()) // where the system removes open files; close removes it elsewhere
			d.w = bufio.NewWriterSize(d.file, 1<<20)
		}
	}
	d.sizes = append(d.sizes, make([]int64, session+1-len(d.sizes))...)
	var b bytes.Buffer
	if d.sizes[session] > 0 {
		b.WriteByte(',')
	}
	if d.err = cmp.Or(d.err, printJSON(&b, t)); d.err == nil {
		d.sizes[session] += int64(b.Len() - 1)
		_, d.err = d.w.Write(b.Bytes()[:b.Len()-1]) // without the line end
	}
}

// close removes the file.
func (d *dryRun) close() error {
	if d.file == nil {
		return nil
	}
	err := d.file.Close()
	_ = os.Remove(d.file.Name())
	return err
}

// writeJSON writes what printJSON would of an answer that has its turns.
func (d *dryRun) writeJSON(w io.Writer) error {
	list := d.List
	d.List = []text.AnswerSession{}
	var all, one bytes.Buffer
	err := cmp.Or(d.err, printJSON(&all, d))
	if d.List = list; err == nil && d.file != nil {
		if err = d.w.Flush(); err == nil {
			_, err = d.file.Seek(0, io.SeekStart)
		}
	}
	const empty = `"list":[]` // no name of a warning has a quote
	before, behind, _ := bytes.Cut(all.Bytes(), []byte(empty))
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, `%s%s`, before, empty[:len(empty)-1])
	for k := 0; k < len(list) && err == nil; k++ {
		if one.Reset(); k > 0 {
			one.WriteByte(',')
		}
		err = printJSON(&one, list[k])
		head, _ := bytes.CutSuffix(one.Bytes(), []byte("]}\n")) // of turns, the last member
		out.Write(head)
		if k < len(d.sizes) && d.sizes[k] > 0 && err == nil {
			_, err = io.CopyN(out, d.file, d.sizes[k])
		}
		out.WriteString("]}")
	}
	fmt.Fprintf(out, "]%s", behind)
	return errors.Join(err, out.Flush(), d.close())
}

// withProgress runs f with options under which progress, waiting and warnings go to standard error.
func withProgress(cmd *cobra.Command, o *convert.Options, f func() error) error {
	p := newProgress(cmd)
	defer p.close()
	o.Progress, o.OnWait = p.update, p.waiting
	o.Source.Hub = hubOptions(p, o.Root, o.Wait)
	o.Warn = func(format string, args ...any) {
		p.println("agentx: warning: " + fmt.Sprintf(format, args...))
	}
	return f()
}

// convertMemory is the soft memory limit of a conversion, in bytes. A build of shards needs half of it; without the limit the heap would
// grow to twice what is needed before it is collected.
const convertMemory = 160 << 20

// limitMemory sets the soft limit, unless the user has set one, and lets it grow with the tables of logs. Call restore at the end.
func limitMemory(o *convert.Options) (restore func()) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	before := debug.SetMemoryLimit(convertMemory)
	o.Memory = func(bytes int64) { debug.SetMemoryLimit(convertMemory + bytes) }
	return func() { debug.SetMemoryLimit(before) }
}

// runConvert converts. Progress, waiting and warnings go to standard error.
func runConvert(cmd *cobra.Command, o convert.Options) (r *convert.Result, err error) {
	defer limitMemory(&o)()
	err = withProgress(cmd, &o, func() (err error) {
		if o.Placement.Backend == rules.SHA256MT && slices.Contains(convert.Corpora(), o.Corpus) {
			o.Warn("the corpus %s is agentx's own: prompts have AIPerf's shape, but not its text; agentx corpus aiperf exports that", o.Corpus)
		}
		if warning, _ := o.CheckCorpusSeed(); warning != "" { // options has told the error
			o.Warn("%s; agentx corpus aiperf makes one that says it", warning)
		}
		if r, err = convert.Convert(cmd.Context(), o); err == nil {
			r.Warnings(o.Warn)
		}
		return hintConvert(err)
	})
	return r, err
}

// builderFlag is --part of convert: where among the files of an input this process begins, when several convert it.
type builderFlag struct{ value partValue }

func (f *builderFlag) register(cmd *cobra.Command) {
	cmd.Flags().Var(value[partValue]{&f.value, "string", parsePart, partValue.String}, "part", "I/N: N processes convert the same input into one cache root, and this one begins at file I/N of it; each builds any file that no other builds (default: all begin at the first file); auto: take I and N from an array of Slurm, or from what replay --part auto reads")
}

// builder returns the number of this process and of all, from the environment with auto.
func (f *builderFlag) builder() (convert.Builder, error) {
	p := f.value.Part
	if f.value.auto {
		var err error
		if p, err = replay.BuilderOfEnvironment(os.LookupEnv); err != nil {
			return convert.Builder{}, usageError{fmt.Errorf("--part auto: %w", err)}
		}
	}
	return convert.Builder{Number: p.Number, Of: p.Of}, nil
}

// prepared reports whether the argument of a command is a prepared cache.
func prepared(cmd *cobra.Command, name string) bool {
	root, _ := cacheRoot(cmd) // a path needs none
	_, err := cachestore.Find(root, name)
	return name != "" && err == nil
}

// openDataset opens the dataset that a CACHE argument names, or that an INPUT converts to.
func openDataset(cmd *cobra.Command, f *convertFlags, name string) (*cachestore.Dataset, error) {
	root, rootErr := cacheRoot(cmd)
	found, err := cachestore.Find(root, name) // a path needs no cache root
	if err == nil {
		cmd.Flags().Visit(func(flag *pflag.Flag) {
			typed := settings.OriginOf(flag).Kind == settings.FromFlag
			laneSeed := flag.Name == "seed" && cmd.Flags().Lookup("start") != nil // in a replay it also decides where lanes begin
			if typed && !laneSeed && f.has(flag.Name) && (flag.Name != "set" || len(f.set) > 0) {
				fmt.Fprintf(cmd.ErrOrStderr(), "agentx: warning: --%s has no effect: %s is prepared already\n", flag.Name, name)
			}
		})
		return cachestore.Open(cmd.Context(), found.Root, found.Key)
	}
	if err := maybeInput(name, rootErr, err); err != nil {
		return nil, err
	}
	o, err := f.options(cmd, []string{name})
	if err == nil {
		err = checkInput(cmd, name, root)
	}
	if err != nil {
		return nil, err
	}
	r, err := runConvert(cmd, o)
	if err != nil {
		return nil, err
	}
	f.sources = r.Sources
	return cachestore.Open(cmd.Context(), o.Root, r.Key)
}

// maybeInput returns nil if an argument that names no cache may be an input, else the error of looking for the cache.
func maybeInput(name string, rootErr, err error) error {
	switch {
	case rootErr != nil:
		return rootErr
	case errors.Is(err, mmapcache.ErrNoCache) && !cachestore.IsCachePath(name):
		return nil
	}
	return err // such as more than one cache
}

// checkInput returns an error if a name that is no cache is no input either.
func checkInput(cmd *cobra.Command, name, root string) error {
	embedded := inputSources(cmd).Embedded
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) || name == "-" || embedded[name] != nil || strings.HasPrefix(name, synth.Prefix) || hub.IsRef(name) || slices.Contains(convert.AgentInputs, name) {
		return nil
	}
	err := fmt.Errorf("%s: neither a prepared cache in %s, by its path or 8 characters or more of its key, nor an input", name, root)
	return hintError{err, cmp.Or(withFlags(hub.Suggest(name)), suggest.Closest(name, append(slices.Collect(maps.Keys(embedded)), convert.AgentInputs...)), "agentx cache ls")}
}

// tableFlags say how an input is converted as far as its tables: sessions, turns and blocks, without prompts.
type tableFlags struct {
	profile                    string
	force, skipInvalid, strict bool
	waitFlags

	key string // of the tables that were opened last
}

// register adds the flags to those of a command.
func (f *tableFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.profile, "profile", convert.DefaultProfile, "reconstruction rules: default (repaired), or aiperf (those of AIPerf 0.13.0)")
	flags.BoolVar(&f.force, "force", false, "build the tables again although they are there")
	flags.BoolVar(&f.skipInvalid, "skip-invalid", false, "leave invalid traces out, counted and listed, instead of failing")
	flags.BoolVar(&f.strict, "strict", false, "refuse traces with oddities that otherwise cause a warning")
	f.waitFlags.register(cmd)
}

// openTables opens the tables of a CACHE. It converts an INPUT first, by rules NAME=VALUE; block is the tokens of a block of Mooncake rows that do
// not say so, 0: as they say.
func (f *tableFlags) openTables(cmd *cobra.Command, name string, rules []string, block int) (*cachestore.Dataset, error) {
	root, rootErr := cacheRoot(cmd)
	found, err := cachestore.Find(root, name, mmapcache.Kinds()...) // a path needs no cache root
	if err == nil {
		f.key = found.Key
		return openPreparedTables(cmd, name, found)
	}
	if err := maybeInput(name, rootErr, err); err != nil {
		return nil, err
	}
	o := convert.Options{
		Inputs: []string{name}, Root: root, Force: f.force, SkipInvalid: f.skipInvalid, Strict: f.strict, Version: version, Source: inputSources(cmd),
		MooncakeBlock: block,
	}
	if err := o.SetProfile(f.profile); err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", shown(cmd, "profile", f.profile), err)}
	}
	for _, rule := range rules {
		if err := setRule(cmd, &o, rule); err != nil {
			return nil, usageError{err}
		}
	}
	if o.Wait, err = f.limit(); err == nil {
		err = checkInput(cmd, name, root)
	}
	if err != nil {
		return nil, err
	}
	var r *convert.Result
	err = withProgress(cmd, &o, func() (err error) {
		if r, err = convert.Structure(cmd.Context(), o); err == nil {
			r.Warnings(o.Warn)
		}
		return hintConvert(err)
	})
	if err != nil {
		return nil, err
	}
	f.key = r.Key
	return cachestore.OpenStructure(cmd.Context(), root, r.Key)
}

// openPreparedTables opens the tables of a found cache, which must be a dataset or a structure whose prompts have blocks. name is what the
// user called it.
func openPreparedTables(cmd *cobra.Command, name string, c cachestore.Name) (dataset *cachestore.Dataset, err error) {
	switch c.Kind {
	case mmapcache.DatasetKind:
		dataset, err = cachestore.OpenTables(cmd.Context(), c.Root, c.Key)
	case mmapcache.StructureKind:
		dataset, err = cachestore.OpenStructure(cmd.Context(), c.Root, c.Key)
	default:
		err = fmt.Errorf("%s is a part of kind %s, which has no tables: name a dataset or a structure", name, c.Kind)
	}
	if err != nil {
		return nil, err
	}
	first, err := dataset.Trace(0)
	if err == nil && first.Scope == mmapcache.ScopeText {
		err = hintConvert(fmt.Errorf("%s: %w", name, convert.ErrNoBlocks))
	}
	if err != nil {
		return nil, errors.Join(err, dataset.Close())
	}
	return dataset, nil
}

// waitFlags say how long to wait for another process that makes the same cache.
type waitFlags struct {
	wait   time.Duration
	noWait bool
}

func (f *waitFlags) register(cmd *cobra.Command) {
	durationVar(cmd.Flags(), &f.wait, "wait", 0, "how long to wait for another process that makes the same cache; 0: no limit")
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "fail at once when another process makes the same cache")
}

// limit returns how long to wait: 0 without limit, below 0 not at all. Its errors are usage errors.
func (f *waitFlags) limit() (time.Duration, error) {
	switch {
	case f.wait < 0:
		return 0, usageError{fmt.Errorf("--wait %s: want 0 or more", f.wait)}
	case f.noWait && f.wait > 0:
		return 0, usageError{errors.New("--wait, --no-wait: choose one")}
	case f.noWait:
		return -1, nil
	}
	return f.wait, nil
}
