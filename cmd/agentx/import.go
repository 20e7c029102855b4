package main

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	chacha "math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentx/agentx/cmd/internal/capture/imports"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/hfsource/hub"
	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/internal/terminal"
	"github.com/agentx/agentx/internal/tokensource"
)

// logFlags say which sessions of logs are taken, and what stands in front of their prompts.
type logFlags struct {
	sessions, since, until string
	minTurns, maxSessions  int
	maxGap                 time.Duration
	prefix                 string
}

// register adds the flags to flags of a command.
func (f *logFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.sessions, "sessions", "", "of logs: sessions whose id in the log matches this pattern, such as 3f9a*")
	flags.StringVar(&f.since, "since", "", "of logs: sessions that began on this DATE or later: 2026-03-01, or an instant such as 2026-03-01T12:00:00Z")
	flags.StringVar(&f.until, "until", "", "of logs: sessions that began before the end of this DATE, or before an instant")
	flags.IntVar(&f.minTurns, "min-turns", 1, "of logs: sessions with at least so many turns")
	flags.IntVar(&f.maxSessions, "max-sessions", 0, "of logs: at most so many sessions, the first ones; 0: all")
	durationVar(flags, &f.maxGap, "max-gap", 0, "of logs: cut longer stretches without a request to this; 0: cut none")
	flags.StringVar(&f.prefix, "prefix", "filler", "of logs that lack the system prompt and the tools: filler, as many tokens as lack; none; or FILE, a request's body with system and tools, or the text of a system prompt, and filler for what still lacks")
}

// apply adds what the flags say to how logs are read, and what is wrong with them to the problems.
func (f *logFlags) apply(cmd *cobra.Command, o *convert.LogOptions, p *problems) {
	s := &o.Select
	if _, err := path.Match(f.sessions, ""); err != nil {
		p.add("%s: want a pattern: * stands for any characters, ? for one, [a-f] for one of a list", shown(cmd, "sessions", f.sessions))
	}
	s.Sessions = f.sessions
	var err error
	if s.Since, _, err = readDate(f.since); err != nil {
		p.add("%s: %w", shown(cmd, "since", f.since), err)
	}
	until, day, err := readDate(f.until)
	if err != nil {
		p.add("%s: %w", shown(cmd, "until", f.until), err)
	} else if day {
		until += (24 * time.Hour).Milliseconds()
	}
	s.Until = until
	if f.minTurns < 1 || f.maxSessions < 0 || f.maxGap < 0 || f.maxGap%time.Millisecond != 0 {
		p.add("--min-turns must be at least 1, --max-sessions at least 0, --max-gap at least 0 and of whole milliseconds")
	}
	if f.minTurns > 1 {
		s.MinTurns = f.minTurns
	}
	s.MaxSessions, s.MaxGap = f.maxSessions, f.maxGap.Milliseconds()
	switch f.prefix {
	case "filler":
	case "none":
		o.Prefix.None = true
	default:
		body, err := regular.Read(f.prefix, maxPrefix)
		if err == nil {
			err = o.SetPrefix(body)
		}
		if err != nil {
			p.add("%s: want filler, none, or a file with a system prompt: %w", shown(cmd, "prefix", f.prefix), err)
		}
	}
}

// maxPrefix bounds the bytes of a system prompt with tools.
const maxPrefix = 64 << 20

// readDate reads a day, in UTC, or an instant, as milliseconds since 1970; "" is 0.
func readDate(s string) (ms int64, day bool, err error) {
	if s == "" {
		return 0, false, nil
	}
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return t.UnixMilli(), true, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return 0, false, errors.New("want a date such as 2026-03-01, or an instant such as 2026-03-01T12:00:00Z")
	}
	return t.UnixMilli(), false, nil
}

// importFlags say what is imported, and how.
type importFlags struct {
	logFlags
	format, tokenizer, in, seedFile string
	scope                           string
	skipInvalid, strict, add        bool
	options                         imports.Options
}

func newImport() *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import INPUT... --out DIR",
		Short: "Make traces without text of logs of agents, to give away",
		Long: `Make traces of the sessions in logs of agents and of inference APIs. They have token counts, numbers of
blocks, times, models and the shape of tool loops, as agentx capture writes them: no text, name of a file,
project or tool, id or time of day. agentx convert and other readers of Weka traces take them.

INPUT is a file or a directory of logs, as agentx convert takes them. Nothing of it is sent anywhere.

A log that lacks the system prompt and the tools of its sessions gets a filler in their place, of as many
tokens as the first recorded prompt says. The summary says how well the lengths of prompts fit those that
were recorded.

What readers of the traces should know: lengths, rhythm and how prompts share their beginnings stay
visible, and whoever has a transcript can recognize it by its lengths. Blocks have numbers within a trace:
equal numbers in two traces mean nothing, unless --scope dataset numbers them in all.

The last line printed is the directory.`,
		Example: "  agentx import claude: --out traces\n  agentx import logs/ --out traces --since 2026-03-01 --max-gap 10m\n  agentx convert $(agentx import otel.jsonl --out traces | tail -n 1)",
	}
	f.register(cmd.Flags())
	return answering(cmd, cobra.MinimumNArgs(1), func(cmd *cobra.Command, args []string) (any, func(io.Writer), error) {
		return f.run(cmd, args)
	})
}

// register adds the flags to those of a command.
func (f *importFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.options.Dir, "out", "", "directory of the traces; made where it is missing")
	flags.BoolVar(&f.add, "add", false, "add to the traces that --out has")
	flags.StringVar(&f.format, "format", "auto", strings.Join(convert.LogFormats(), ", ")+"; auto: the first object of each file says it")
	flags.StringVar(&f.tokenizer, "tokenizer", convert.DefaultTokenizer, "tokenizer that counts tokens, as agentx help tokenize names it")
	flags.IntVar(&f.options.BlockSize, "block-size", 64, "tokens of a block")
	flags.StringVar(&f.in, "in", "counted", "length of a prompt: counted, that of its messages and the filler; recorded, that of the log where it is longer: the difference becomes a tail that no other prompt has")
	flags.StringVar(&f.scope, "scope", "trace", "where equal numbers of blocks mean equal text: trace, within one trace; dataset, between all of them, so that sessions share their system prompts and all see which text they have in common")
	durationVar(flags, &f.options.Export.Grid, "grid", journal.DefaultGrid, "round times to multiples of this")
	flags.StringVar(&f.seedFile, "seed-file", "", "draw keys and ids from this FILE instead of from the system: equal bytes for equal input, for tests. Whoever has the file can find texts by guessing")
	f.logFlags.register(flags)
	flags.BoolVar(&f.skipInvalid, "skip-invalid", false, "leave broken lines out, and count them, also in formats in which they are refused")
	flags.BoolVar(&f.strict, "strict", false, "make no trace where something of the log is missing or could not be read; exit 3")
}

// check returns how logs are read, or all errors of the flags.
func (f *importFlags) check(cmd *cobra.Command, args []string) (convert.Options, error) {
	var p problems
	o := convert.Options{Inputs: args, Source: inputSources(cmd), Logs: convert.LogOptions{SkipInvalid: f.skipInvalid, Redact: "none"}}
	if f.options.Dir == "" {
		p.add("--out is missing: name the directory for traces")
	}
	for k, in := range args {
		if strings.HasPrefix(in, "hf://") {
			p.tell(fmt.Errorf("input %d: import reads logs on this machine, and fetches nothing", k+1), "agentx fetch, then the paths that it prints")
		}
	}
	word := func(name, value string, words ...string) {
		if !slices.Contains(words, value) {
			p.add("%s: %w", shown(cmd, name, value), wrongWord(value, either(words), words))
		}
	}
	word("format", f.format, append([]string{"auto"}, convert.LogFormats()...)...)
	word("in", f.in, "counted", "recorded")
	word("scope", f.scope, "trace", "dataset")
	if f.options.Export.Scope = journal.ScopeOf(f.scope); f.options.Export.Grid < time.Millisecond { // 0 is the default of Export
		p.add("--grid %v: want 1ms or more", f.options.Export.Grid)
	} else if err := f.options.Export.Validate(); err != nil && slices.Contains([]string{"trace", "dataset"}, f.scope) {
		p.add("--%w", err)
	}
	if o.Logs.Format = f.format; f.format == "auto" {
		o.Logs.Format = ""
	}
	if f.options.BlockSize < 1 || f.options.BlockSize > 1<<16 {
		p.add("--block-size must be 1 to %d", 1<<16)
	}
	if err := tokensource.Check(f.tokenizer); err != nil {
		p.add("%s: %w", shown(cmd, "tokenizer", f.tokenizer), err)
	}
	f.apply(cmd, &o.Logs, &p)
	return o, p.err()
}

// imported is the JSON of import.
type imported struct {
	Format   string         `json:"format"`
	Branches int            `json:"branches"`
	Turns    int            `json:"turns"`
	Warnings map[string]int `json:"warnings"`
	Fit      text.Fit       `json:"fidelity"`
	*imports.Result
	Dir string `json:"dir"`
}

// run imports.
func (f *importFlags) run(cmd *cobra.Command, args []string) (any, func(io.Writer), error) {
	o, err := f.check(cmd, args)
	if whole := f.scope == "dataset"; err == nil && (whole || !f.add) {
		if err = imports.Check(f.options.Dir); errors.Is(err, imports.ErrNotEmpty) {
			hint := "another --out, or --add"
			if whole { // blocks of two keys would have the same numbers
				hint = "another --out: with --scope dataset all traces of a directory are of one import"
			}
			err = hintError{usageError{fmt.Errorf("--out %w", err)}, hint}
		}
	}
	if err == nil {
		err = f.draw()
	}
	if err != nil {
		return nil, nil, err
	}
	defer limitMemory(&o)()
	var r *imported
	err = withProgress(cmd, &o, func() (err error) {
		r, err = f.make(cmd, o)
		return err
	})
	if r == nil || r.Result == nil {
		return nil, nil, hintConvert(err)
	}
	return r, r.print, err
}

// draw chooses where keys and ids are drawn from.
func (f *importFlags) draw() error {
	if f.options.Random = rand.Reader; f.seedFile == "" {
		return nil
	}
	seed, err := os.ReadFile(f.seedFile)
	if err != nil {
		return fmt.Errorf("--seed-file: %w", err)
	}
	f.options.Random = chacha.NewChaCha8(sha256.Sum256(seed))
	return nil
}

// make reads the logs and writes traces. The result of a dataset that is refused has no traces.
func (f *importFlags) make(cmd *cobra.Command, o convert.Options) (*imported, error) {
	ctx := cmd.Context()
	source, err := tokensource.Resolve(ctx, f.tokenizer, hub.Options{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", settings.Shown(cmd.Flags().Lookup("tokenizer"), f.tokenizer), err)
	}
	tok, err := source.Load()
	if err != nil {
		return nil, err
	}
	d, sizes, err := convert.ReadLogs(ctx, o, tok)
	if errors.Is(err, convert.ErrUnread) {
		return nil, hintError{err, "agentx convert INPUT --dry-run, which names it"}
	} else if err != nil {
		return nil, err
	}
	defer d.Store.Close()
	r := &imported{Format: strings.Join(d.Formats, ", "), Dir: f.options.Dir}
	for _, t := range d.Traces {
		for k := range t.Sessions {
			if r.Turns += len(t.Sessions[k].Turns); t.Sessions[k].Kind == text.Branch {
				r.Branches++
			}
		}
	}
	if lost := lossesOf(text.Public(d.Warnings)); f.strict && len(lost) > 0 {
		return nil, verdictError{fmt.Errorf("--strict: the log is not whole: %s", strings.Join(lost, ", "))}
	}
	f.options.Tokenizer, f.options.Name, f.options.Recorded = tok, tok.Name(), f.in == "recorded"
	r.Result, err = imports.Write(ctx, d, sizes, f.options)
	r.Warnings = text.Public(d.Warnings)
	if errors.Is(err, journal.ErrBusy) {
		err = hintError{err, "another --out, or end that process"}
	}
	if err == nil {
		var stretches []text.Stretch
		stretches, err = sizes.Stretches(f.options.BlockSize)
		r.Fit = text.FitOf(stretches)
	}
	if err == nil && r.Bad > 0 {
		err = verdictError{fmt.Errorf("import: %d of %d sessions gave no valid trace: they are set aside as .bad", r.Bad, r.Sessions)}
	}
	return r, err
}

// losses are the names by which an import counts what a log lacks, or what it could not read.
var losses = []string{"bad_line", "missing_parent", "compaction_rebuilt", "no_content", "unknown_item"}

// lossesOf lists what means a loss, with its count.
func lossesOf(counts map[string]int) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		kind, _, _ := strings.Cut(name, ":")
		if slices.Contains(losses, kind) {
			list = append(list, fmt.Sprintf("%s %d", name, counts[name]))
		}
	}
	return list
}

// print prints what was imported, for people.
func (r *imported) print(w io.Writer) {
	safe := terminal.Writer(w)
	fmt.Fprintf(safe, "%s: %s, %s, %s\n", r.Format, bytefmt.Count(r.Sessions, "session"), bytefmt.Count(r.Subagents, "subagent"), bytefmt.Count(r.Turns, "turn"))
	for _, name := range slices.Sorted(maps.Keys(r.Warnings)) {
		fmt.Fprintf(safe, "  %-24s %s\n", name, bytefmt.Digits(r.Warnings[name]))
	}
	if r.Filler > 0 {
		fmt.Fprintf(safe, "filler: %.1f %% of %s prompt tokens stand for a prefix that the log lacks\n", 100*float64(r.Filler)/float64(max(r.Counted, 1)), bytefmt.Digits(int(r.Counted)))
	}
	printFit(safe, &r.Fit)
	for _, one := range r.Worst() {
		for _, problem := range one.Problems {
			fmt.Fprintf(safe, "bad %s: %s\n", one.Trace, problem)
		}
		if !one.Bad {
			fmt.Fprintf(safe, "incomplete %s: %d of %d requests\n", one.Trace, one.Recorded, one.Requests)
		}
	}
	fmt.Fprintf(safe, "%s: %s, %d of %s\n", bytefmt.Count(r.Sessions, "session"), bytefmt.Count(r.Total.Traces, "trace"), r.Recorded, bytefmt.Count(r.Requests, "request"))
	fmt.Fprintln(w, r.Dir)
}

// printFidelity prints what a replay has of logs, nothing where it is not known.
func printFidelity(w io.Writer, f *convert.Fidelity) {
	if f == nil {
		return
	}
	for _, of := range f.Formats {
		for _, part := range [...][2]string{{"exact", of.Exact}, {"approximate", of.Approximate}, {"missing", of.Missing}} {
			fmt.Fprintf(w, "%s, %s: %s\n", of.Name, part[0], part[1])
		}
	}
	turns := bytefmt.Count(f.Turns, "turn")
	fmt.Fprintf(w, "recorded of %s: %s lengths of prompts, %s of answers, %s times; the other lengths are counted\n", turns, bytefmt.Digits(f.Prompts), bytefmt.Digits(f.Answers), bytefmt.Digits(f.Times))
	if f.Filler > 0 {
		fmt.Fprintf(w, "filler: %.1f %% of the tokens of prompts stand for a prefix that the log lacks\n", 100*f.Filler)
	}
	if f.NoText > 0 {
		fmt.Fprintf(w, "without text, and left out: %s\n", bytefmt.Count(f.NoText, "turn"))
	}
	printFit(w, &f.Fit)
}

// printFit prints how well the lengths of prompts fit those that were recorded.
func printFit(w io.Writer, f *text.Fit) {
	if f.Stretches == 0 {
		fmt.Fprintln(w, "fidelity: unknown: no 8 turns of a session in a row have recorded lengths")
		return
	}
	fmt.Fprintf(w, "fidelity: recorded lengths are %.2f times the counted ones, and %.0f tokens for each call of a tool; residual p50 %.2f %%, p99 %.1f %%, over %s stretches; prefix %s tokens\n",
		f.Ratio, f.Call, 100*f.P50, 100*f.P99, bytefmt.Digits(f.Stretches), bytefmt.Digits(f.Filler))
	if f.Cached > 0 {
		fmt.Fprintf(w, "shared blocks: %.1f %% of a prompt; recorded as read from the cache: %.1f %%; median difference %.2f %%\n", 100*f.Reuse, 100*f.Cached, 100*f.Apart)
	}
	if f.Shrunk > 0 {
		fmt.Fprintf(w, "left out: %s stretches in which a recorded length fell though the prompt grew\n", bytefmt.Digits(f.Shrunk))
	}
	if f.P99 > text.WorstResidual {
		fmt.Fprintf(w, "attention: %s stretches have a residual above %.0f %% at p99: prompts of this log are not what was sent\n", bytefmt.Digits(f.Above), 100*text.WorstResidual)
	}
}
