package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/convert/demo"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/settings"
	"github.com/agentx/agentx/internal/tokensource"
	"github.com/agentx/agentx/mmapcache"
)

// convertFlags say what a conversion makes, and how.
type convertFlags struct {
	profile, tokenizer, corpus string
	seed                       string
	set                        []string
	workers                    int
	force, skipInvalid, strict bool
	verifyHit, trustRoot       bool
	sources                    []mmapcache.Source // of the INPUT that was converted
	waitFlags
}

func (f *convertFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.profile, "profile", convert.DefaultProfile, "reconstruction rules: default (repaired), or aiperf (those of AIPerf 0.13.0, for comparable results)")
	flags.StringVar(&f.tokenizer, "tokenizer", convert.DefaultTokenizer, "tokenizer of the prompts: o200k_base, cl100k_base, the path of a tokenizer.json or its directory, PATTERN:FILE of tiktoken's ranks, or OWNER/NAME[@REVISION] of a model of the hub")
	flags.StringVar(&f.corpus, "corpus", convert.DefaultCorpus, "text that prompts are cut from: code, prose or words, which agentx makes; FILE or DIR of UTF-8 text; aiperf-sonnet:FILE, a text cut as AIPerf does; or FILE.u32le of token ids (sonnet:FILE.u32le for AIPerf's sonnet corpus)")
	seedVar(flags, &f.seed, "seed", strconv.Itoa(convert.DefaultSeed), "decides which part of the corpus a block shows; signed 64-bit, with --profile aiperf 0 to 2^64-1")
	flags.StringArrayVar(&f.set, "set", nil, "NAME=VALUE, one rule of the reconstruction, such as block_size=64 (repeatable); a wrong name lists them all")
	flags.IntVar(&f.workers, "workers", 0, "traces converted at a time (default: one per core)")
	flags.BoolVar(&f.force, "force", false, "build again what is prepared already")
	flags.BoolVar(&f.verifyHit, "verify-hit", false, "build a second time what is found prepared, and compare; exit 3 if it differs")
	flags.BoolVar(&f.trustRoot, "trust-root", false, "use what every user of this machine may write in the cache root, instead of building it again")
	f.waitFlags.register(cmd)
	flags.BoolVar(&f.skipInvalid, "skip-invalid", false, "leave invalid traces out, counted and listed, instead of failing; a file that cannot be read still fails")
	flags.BoolVar(&f.strict, "strict", false, "refuse traces with oddities that otherwise cause a warning, such as keys that no trace has or negative times")
}

// registerForInput registers the flags for a verb that converts an INPUT first. Usage lists them in a group of their own.
func (f *convertFlags) registerForInput(cmd *cobra.Command) {
	var own cobra.Command
	f.register(&own)
	cmd.Flags().AddFlagSet(own.Flags())
}

// has reports whether a flag belongs to a conversion.
func (convertFlags) has(name string) bool {
	var own cobra.Command
	new(convertFlags).register(&own)
	return own.Flags().Lookup(name) != nil
}

// options resolves the flags. The error is everything that is wrong with them.
func (f *convertFlags) options(cmd *cobra.Command, inputs []string) (convert.Options, error) {
	o := convert.Options{
		Inputs:    inputs,
		Tokenizer: f.tokenizer, Corpus: f.corpus, Workers: f.workers, Force: f.force,
		VerifyHit: f.verifyHit, TrustRoot: f.trustRoot, SkipInvalid: f.skipInvalid, Strict: f.strict, Version: version,
		Source: inputSources(cmd),
	}
	if k := slices.IndexFunc(inputs, cachestore.IsCachePath); k >= 0 {
		err := fmt.Errorf("input %s: a directory of a prepared cache, which is not converted again", inputs[k])
		return o, hintError{err, "agentx inspect or agentx replay with the path that convert printed; or the traces themselves"}
	}
	var p problems
	if err := o.SetProfile(f.profile); err != nil {
		p.add("%s: %w", settings.FlagText("profile", f.profile), err)
	}
	for _, s := range f.set {
		if err := setRule(&o, s); err != nil {
			p.errs = append(p.errs, usageError{err})
		}
	}
	if err := tokensource.Check(f.tokenizer); err != nil && cmd.Flags().Changed("tokenizer") {
		p.add("%s: %w", settings.FlagText("tokenizer", f.tokenizer), err)
	}
	if err := convert.CheckCorpus(f.corpus); err != nil && cmd.Flags().Changed("corpus") {
		p.add("--%w", err)
	}
	var err error
	if o.Placement.Seed, err = seedOf(f.seed, o.Placement.Backend); err != nil {
		p.add("%w", err)
	}
	if f.workers < 0 || f.workers > convert.MaxWorkers {
		p.add("--workers %d: want 0 to %d", f.workers, convert.MaxWorkers)
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
func setRule(o *convert.Options, text string) error {
	name, value, ok := strings.Cut(text, "=")
	switch {
	case !ok:
		return fmt.Errorf("%s: want NAME=VALUE", settings.FlagText("set", text))
	case name != "backend":
		return o.Rules.Set(name, value)
	}
	if words := weka.Backends(); !slices.Contains(words, value) {
		return fmt.Errorf("--set %s: %w", text, wrongWord(value, either(words), words))
	}
	o.Placement.Backend = value
	return nil
}

// check adds everything that is wrong with the flags to the problems.
func (f *convertFlags) check(cmd *cobra.Command, p *problems) {
	var wrong errorList
	if _, err := f.options(cmd, nil); errors.As(err, &wrong) {
		p.errs = append(p.errs, wrong...)
	}
}

// inputSources returns where input may come from besides files: standard input, and the demo traces.
func inputSources(cmd *cobra.Command) hfsource.Options {
	return hfsource.Options{Stdin: cmd.InOrStdin(), Embedded: map[string][]byte{"demo": demo.JSONL()}}
}

func newConvert() *cobra.Command {
	var f convertFlags
	var part builderFlag
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "convert INPUT...",
		Short: "Prepare traces as a cache, or find them prepared",
		Long: `Prepare traces as a memory-mapped cache, or find them prepared. The last line printed is the path
of the cache. doc/traces.md says what a trace looks like.

INPUT is one of:
  a directory    its .json, .jsonl, .ndjson and .parquet files, all but the last also as .zst and .gz, by
                 name; of a directory that capture made, its finished traces
  a file         one trace, JSON lines or Parquet, plain or as gzip or zstd: its content says which
  -              the same on standard input
  hf://datasets/OWNER/NAME[@REVISION][/PATH], or a name of "agentx fetch --list"
  demo           16 small traces inside agentx

A trace has no text. Each of its blocks gets a piece of --corpus that --seed chooses: equal block ids
show equal text, so a server's prefix cache hits where the recording says.

The same content and flags give the same cache, whatever the files are called, wherever they lie and
however many workers convert them.

An input of many files, or of more than 1024 traces, is cut into shards: one more file costs one more
file. Several processes may convert one input into one shared root at the same time, with the same
command: each builds the files that no other builds, and all end with the same path.`,
		Example: "  agentx convert demo\n  agentx convert traces/ --seed 7\n  CACHE=$(agentx convert traces.jsonl.zst | tail -n 1)",
		Args:    checkArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.options(cmd, args)
			if err != nil {
				return err
			}
			if o.Builder, err = part.builder(); err != nil {
				return err
			}
			begin := time.Now()
			r, err := runConvert(cmd, o)
			if err != nil {
				return err
			}
			return printConverted(cmd.OutOrStdout(), r, time.Since(begin), asJSON)
		},
	}
	f.register(cmd)
	part.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}
