package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cmd/internal/synth"
	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/mmapcache"
)

// synthFlags say which traces to make, and where they go.
type synthFlags struct {
	synth.Options
	isl, osl     string
	gap          time.Duration
	from, output string
	asJSON       bool
}

func newSynth() *cobra.Command {
	var f synthFlags
	cmd := &cobra.Command{
		Use:   "synth --traces N|--isl N --osl N --requests N",
		Short: "Make traces up, as many as asked for, as JSON lines",
		Long: `Make traces up and write them to standard output, a line each. They have the format that capture writes,
and convert takes them. None is kept in memory, so there may be millions.

Lengths, times, shared prefixes and subagents are drawn from distributions of the public v8 corpus of
kv-cache-tester. With --from each trace is one of a CACHE, drawn at random, in which each shared stretch
of blocks, each completion and each interval of time is changed by up to a fifth.

With --isl and --osl a trace is a request of that many tokens with an answer of that many, or --turns of them:
each later prompt is the one before it, its answer, and ISL/TURNS tokens more. --shared-prefix tokens of the
prompt, in whole blocks of 64, are the same in all traces of one of --groups. Lengths are N, normal:MEAN,SD,
lognormal:MEAN,SD, uniform:A-B, or a FILE.csv with a column isl or osl, of which each trace draws a row. Such
loads have no recorded starts: a replay sends them by its lanes or its --request-rate. An INPUT of convert,
replay or simulate may be synth:isl=8000,osl=1000,requests=1000, without a file.

A trace depends on --seed and its number alone. Its number is in its id. Parts of a corpus can be made
apart: the traces from --first on are the same as in one run.

A trace has 0.6 MB of JSON on average. FILE.zst and FILE.gz are compressed; a FILE in .json holds one trace.`,
		Example: "  agentx synth --traces 100 | agentx convert -\n  agentx synth --traces 1000 --first 1000 --seed 7 --output part-1.jsonl.zst\n  agentx synth --traces 500 --from CACHE --output more.jsonl\n" +
			"  agentx synth --isl 8000 --osl 1000 --requests 1000 -o 8k1k.jsonl\n  agentx synth --isl normal:4000,500 --osl 200 --requests 1000 --shared-prefix 2048 --groups 10 --turns 5 --gap 2s | agentx convert -",
		Args: checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.IntVar(&f.Traces, "traces", 0, "how many traces (this or --requests is required)")
	flags.StringVar(&f.isl, "isl", "", "tokens of the first prompt of each trace, its shared prefix included: N, normal:MEAN,SD, lognormal:MEAN,SD, uniform:A-B or FILE.csv")
	flags.StringVar(&f.osl, "osl", "", "tokens of each answer, likewise")
	flags.IntVar(&f.Lengths.Requests, "requests", 0, "with --isl: how many requests in all, in traces of --turns")
	flags.IntVar(&f.Lengths.SharedPrefix, "shared-prefix", 0, "with --isl: tokens that all prompts of a group begin with")
	flags.IntVar(&f.Lengths.Groups, "groups", 0, "with --isl: groups of traces that share a prefix (default 1)")
	flags.IntVar(&f.Lengths.Turns, "turns", 0, "with --isl: turns of a trace (default 1)")
	durationVar(flags, &f.gap, "gap", 0, "with --isl: time between an answer and the next turn")
	flags.IntVar(&f.First, "first", 0, "number of the first trace")
	flags.Uint64Var(&f.Seed, "seed", 42, "seed of all draws")
	flags.StringVar(&f.from, "from", "", "draw the traces of this CACHE, and change them")
	flags.StringVarP(&f.output, "output", "o", "", "write to this FILE, which appears whole or not at all; .zst and .gz compress it")
	flags.IntVar(&f.Workers, "workers", 0, "traces made at a time; changes no byte (default: one per core)")
	flags.BoolVar(&f.asJSON, "json", false, "one JSON object about the traces; needs --output")
	return cmd
}

// check returns all errors of the flags.
func (f *synthFlags) check() error {
	var p problems
	f.Lengths.Gap = f.gap
	for _, l := range [...]struct {
		name, text string
		to         *synth.Distribution
	}{{"isl", f.isl, &f.Lengths.ISL}, {"osl", f.osl, &f.Lengths.OSL}} {
		var err error
		if *l.to, err = synth.ParseDistribution(l.text, l.name); l.text != "" && err != nil {
			p.add("--%s %w", l.name, err)
		}
	}
	if p.err() != nil {
		return p.err()
	}
	var several interface{ Unwrap() []error }
	if err := f.Validate(); errors.As(err, &several) {
		for _, err := range several.Unwrap() {
			p.add("--%w", err)
		}
	}
	if f.asJSON && f.output == "" {
		p.add("--json: works only with --output, because the traces are on standard output")
	}
	if format, _ := f.suffixes(); format == ".json" && f.Count() > 1 {
		p.add("--output %s: a .json file holds one trace, and these are %d: want a name in .jsonl, which has one a line", f.output, f.Count())
	}
	return p.err()
}

// run makes the traces, and prints how many there are.
func (f *synthFlags) run(cmd *cobra.Command) (err error) {
	if err := f.check(); err != nil {
		return err
	}
	if f.from != "" {
		found, err := findCaches(cmd, []string{f.from}, mmapcache.Kinds()...)
		if err != nil {
			return err
		}
		dataset, err := openPreparedTables(cmd, f.from, found[0])
		if err != nil {
			return err
		}
		defer dataset.Close()
		f.From = dataset.Cache
		if err := f.check(); err != nil {
			return err
		}
	}
	total, err := f.write(cmd)
	if err != nil {
		return err
	}
	if f.asJSON {
		return printJSON(cmd.OutOrStdout(), total)
	}
	p := newProgress(cmd)
	defer p.close()
	if !p.quiet {
		p.say(fmt.Sprintf("agentx: %s traces, %s requests, %s subagents, %s", groupDigits(total.Traces), groupDigits(total.Requests), groupDigits(total.Subagents), bytefmt.Format(total.Bytes)))
	}
	return nil
}

// write writes the traces to standard output, or to the file of --output.
func (f *synthFlags) write(cmd *cobra.Command) (total synth.Total, err error) {
	if f.output == "" {
		return synth.Write(cmd.Context(), cmd.OutOrStdout(), f.Options)
	}
	file, err := durable.NewFile(f.output, durable.Options{})
	if err != nil {
		return total, usageError{fmt.Errorf("--output %s: %w", f.output, err)}
	}
	defer func() { err = errors.Join(err, file.Discard()) }()
	if total, err = f.writeFile(cmd.Context(), file); err == nil {
		err = file.Publish()
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", f.output, err)
	}
	return total, err
}

// writeFile writes the traces to the file, compressed where its name says so.
func (f *synthFlags) writeFile(ctx context.Context, file io.Writer) (total synth.Total, err error) {
	var packed io.WriteCloser
	switch _, packing := f.suffixes(); packing {
	case ".zst", ".zstd":
		packed, err = zstd.NewWriter(file)
	case ".gz":
		packed = gzip.NewWriter(file)
	default:
		return synth.Write(ctx, file, f.Options)
	}
	if err != nil {
		return total, err
	}
	total, err = synth.Write(ctx, packed, f.Options)
	return total, errors.Join(err, packed.Close())
}

// suffixes returns the suffixes of the file of --output in small letters: that of the format, and that of the compression or "".
func (f *synthFlags) suffixes() (format, packing string) {
	name := strings.ToLower(f.output)
	if format = filepath.Ext(name); slices.Contains([]string{".zst", ".zstd", ".gz"}, format) {
		packing, format = format, filepath.Ext(strings.TrimSuffix(name, format))
	}
	return format, packing
}
