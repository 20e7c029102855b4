package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/internal/guard"
	"github.com/agentx/agentx/internal/suggest"
	"github.com/agentx/agentx/internal/terminal"
)

// newRoot returns the command tree.
func newRoot() *cobra.Command { return newRootWith(slices.Collect(maps.Values(verbs()))...) }

// verbs returns what makes each verb, by name.
func verbs() map[string]func() *cobra.Command {
	return map[string]func() *cobra.Command{
		"convert": newConvert, "replay": func() *cobra.Command { return newReplay(replayOf(knownScenarios())) }, "simulate": newSimulate,
		"capture": newCapture, "import": newImport, "export": newExport, "synth": newSynth, "fetch": newFetch, "inspect": newInspect, "cache": newCache,
		"report": newReport, "profile": newProfile, "aiperf": newAIPerf, "corpus": newCorpus, "tokenize": newTokenize, "mock": newMock,
		"demo": newDemo, "version": newVersion,
	}
}

// rootFor returns the command with the verbs that a command line may need: the one that it begins with, or all of them. Registering the
// flags of all takes a third of the time of agentx --version.
func rootFor(args []string) *cobra.Command {
	ours := func(variable string) bool { return strings.HasPrefix(variable, "AGENTX_") } // warnOfVariables needs to know all flags
	if len(args) == 0 || slices.ContainsFunc(os.Environ(), ours) {
		return newRoot()
	}
	if len(args) == 1 && args[0] == "--version" {
		return newRootWith(newVersion)
	}
	if verb := verbs()[args[0]]; verb != nil {
		return newRootWith(verb)
	}
	return newRoot()
}

func newRootWith(verbs ...func() *cobra.Command) *cobra.Command {
	root := &cobra.Command{
		Use:   "agentx",
		Short: "Prepare recorded AI-agent traces once, replay them against an inference server many times",
		Long: `agentx replays recorded AI-agent sessions against an OpenAI-compatible inference server and
measures it. A trace has no text, only token counts, ids of prefix-cache blocks, times and
subagents. agentx convert makes prompts that have the recorded lengths and share the recorded
prefixes, and stores them in a memory-mapped cache. Every replay reads that cache. The logs of your
own agents have their text, which is sent as it was recorded.

  agentx demo                                   all of it in a few seconds, without a GPU
  agentx convert TRACES                         prepare a directory, a file, hf://..., or "demo"
  agentx convert claude:                        prepare your own sessions of Claude Code; codex: of Codex
  agentx inspect CACHE                          show what will be sent
  agentx replay CACHE --url URL --model NAME    send it; print TTFT, ITL, latency, throughput
  agentx report DIR --format html               make a page of what was measured
  agentx profile FLAGS                          run a command line of agentx-harness, with its files
  agentx simulate TRACES --workers 8            play it against simulated engines, in virtual time
  agentx capture --upstream URL --out DIR       record live agents as traces
  agentx import claude: --out DIR               make traces of your sessions, without text
  agentx cache ls                               list what is prepared

Words that the help uses:

  trace   one recorded run of an agent: a main session and the subagents that it starts
  tree    a trace as it is played: sessions that start and join each other
  turn    one request of a session, and its answer
  gap     recorded time between an answer and the next turn: tools ran, or a person read
  lane    plays one tree at a time; --concurrency says how many lanes there are
  CACHE   the path that convert printed, or 8 characters or more of its key

"agentx help VERB" explains a verb, with examples. AGENTX_FLAG in the environment sets --flag.
Pages that the help names as doc/... are at https://github.com/agentx/agentx/tree/main/doc`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          refuseArgs,
		RunE:          helpOrVersion,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			var p problems
			for _, err := range settings.ReadEnvironment(cmd.Flags()) {
				p.tell(err, "")
			}
			return p.err()
		},
	}
	root.SetHelpCommand(newHelp(root))
	setHelp(root)
	setUsage(root)
	setVersion(root)
	root.SetFlagErrorFunc(flagError)
	addCommonFlags(root)
	for _, verb := range verbs {
		root.AddCommand(verb())
	}
	setCompletion(root)
	return root
}

// addCommonFlags adds the flags that every verb has.
func addCommonFlags(root *cobra.Command) {
	root.PersistentFlags().String("cache", "", "cache root, a directory (default: agentx in the user cache directory)")
	root.PersistentFlags().Bool("quiet", false, "no progress and no notes on standard error; warnings stay")
	root.PersistentFlags().Bool("no-color", false, "no colour (accepted for scripts: agentx prints none)")
}

// ownVariables are the variables that agentx reads besides those of flags.
var ownVariables = []string{guard.Variable, tokenVariable, "AGENTX_MEET_PORT", "AGENTX_PARTS", "AGENTX_DATASET_REVISION"}

// warnOfVariables warns of variables AGENTX_... of the environment that no flag reads.
func warnOfVariables(root *cobra.Command, stderr io.Writer) {
	read := slices.Clone(ownVariables)
	var collect func(cmd *cobra.Command)
	collect = func(cmd *cobra.Command) {
		for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) { read = append(read, settings.Variable(f.Name)) })
		}
		for _, c := range cmd.Commands() {
			collect(c)
		}
	}
	collect(root)
	if list := settings.Mistyped(os.Environ(), read); len(list) > 0 {
		printError(stderr, "agentx: warning: variables of the environment that agentx does not know: "+strings.Join(list, ", "))
	}
}

// setHelp makes help fit the terminal, and adds the exit statuses, the flags in brief and the form of durations at its end.
func setHelp(root *cobra.Command) {
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		out, text := cmd.OutOrStdout(), &strings.Builder{}
		cmd.SetOut(text)
		defer cmd.SetOut(out)
		if byFlag, _ := cmd.Flags().GetBool("help"); byFlag && cmd.Name() == "replay" {
			text.WriteString(shortHelp(cmd))
		} else {
			help(cmd, args)
			if cmd == root {
				text.WriteString(exitHelp)
			}
			text.WriteString(settings.Brief(cmd.Flags()))
		}
		text.WriteString(settings.Durations(cmd.Flags()))
		fmt.Fprint(out, terminal.Wrap(text.String(), helpColumns(out)))
	})
}

// shortFlags are the flags of a replay that most runs need, in the order in which people need them.
var shortFlags = []string{"url", "model", "concurrency", "duration", "out", "slo", "report", "rate", "max-gap", "asap", "marker", "preset"}

// shortHelp returns what agentx replay --help prints: what the verb does, four examples, and twelve flags.
func shortHelp(cmd *cobra.Command) string {
	what, _, _ := strings.Cut(cmd.Long, "\n\n")
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SortFlags = false
	for _, name := range shortFlags {
		flags.AddFlag(cmd.Flags().Lookup(name))
	}
	all, examples := 0, strings.Join(strings.SplitN(cmd.Example, "\n", 5)[:4], "\n")
	cmd.Flags().VisitAll(func(*pflag.Flag) { all++ })
	return fmt.Sprintf(`%s

Usage:
  %s

Examples:
%s

Flags that most runs need:
%s
All %d flags: agentx help replay. All settings, with their defaults and the values of the presets: agentx help settings.
`, what, cmd.UseLine(), examples, flags.FlagUsages(), all)
}

// newHelp replaces cobra's help, which for an unknown verb shows the help of the root and succeeds.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:               "help [VERB|settings [NAME...]]",
		Short:             "Explain a verb; agentx help settings lists the settings of a replay",
		ValidArgsFunction: verbNames,
		RunE: func(help *cobra.Command, args []string) error {
			if len(args) > 0 && args[0] == "settings" {
				replay, _, err := root.Find([]string{"replay"})
				for _, name := range args[1:] {
					if replay.Flags().Lookup(name) == nil {
						return flagError(replay, replay.Flags().Parse([]string{"--" + name}))
					}
				}
				out := help.OutOrStdout()
				fmt.Fprint(out, terminal.Wrap(settings.Table(replay.Flags(), args[1:]...), helpColumns(out)))
				return err
			}
			if write := manuals[strings.Join(args, " ")]; write != nil {
				_, err := fmt.Fprint(help.OutOrStdout(), write(root))
				return err
			}
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return unknownVerb(cmd, strings.Join(rest, " "))
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// setUsage makes usage list the flags of a group under its heading. It sets no template of cobra's: with one, the linker
// keeps every exported method of the program, 8 MB.
func setUsage(root *cobra.Command) {
	plain := root.UsageFunc()
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		out, text := cmd.OutOrStderr(), &strings.Builder{}
		cmd.SetOut(text)
		defer cmd.SetOut(out)
		err := plain(cmd)
		flags := "Flags:\n" + strings.TrimRight(cmd.LocalFlags().FlagUsages(), "\n")
		fmt.Fprint(out, strings.Replace(text.String(), flags, settings.Usages(cmd.LocalFlags()), 1))
		return err
	})
}

// exitHelp says what the exit statuses mean.
const exitHelp = `
Exit status:
    0  done
    1  failed: the message says why; nothing is left half-written. Also a replay
       that broke, that --max-error-rate ended, or in which no request
       completed: its results are written
    2  the command line, the environment or a configuration file is wrong
    3  the command ran to its end and its verdict is no: damage was found, a
       second build differs, a tree of a replay deadlocked, a replay is not
       valid under its scenario
  130  interrupted: a replay writes what it had measured
`

// wrongWord is the error of a word that is none of some words, either lists words with or before the last.
var wrongWord, either = suggest.Wrong, suggest.Either[string]

// shown returns a flag with a value as the user wrote them.
func shown(cmd *cobra.Command, name, text string) string {
	return settings.Shown(cmd.Flags().Lookup(name), text)
}

// refuseArgs returns an error for arguments of a command that has verbs: cobra has found no verb of that name.
func refuseArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return unknownVerb(cmd, args[0])
}

// otherVerbs and otherFlags map verbs and flags of other tools to those of agentx.
var (
	otherVerbs = map[string]string{
		"run": "agentx replay", "bench": "agentx replay", "benchmark": "agentx replay", "play": "agentx replay", "compare": "agentx report DIR DIR --compare", "diff": "agentx report DIR DIR --compare",
		"serve": "agentx mock", "record": "agentx capture", "download": "agentx fetch", "list": "agentx cache ls", "ls": "agentx cache ls", "prepare": "agentx convert", "show": "agentx inspect", "settings": "agentx help settings", "options": "agentx help settings",
	}
	otherFlags = map[string]string{
		"users": "concurrency", "num-users": "concurrency", "max-concurrency": "concurrency", "request-rate": "rate", "rps": "rate", "qps": "rate", "num-prompts": "requests", "num-requests": "requests",
		"request-count": "requests", "max-requests": "requests", "max-seconds": "duration", "time": "duration", "benchmark-duration": "duration", "base-url": "url", "server": "url", "endpoint": "url", "target": "url",
		"output": "out", "output-dir": "out", "goodput": "slo",
		"stream": "", "streaming": "", // it has none like it
	}
)

// unknownVerb returns an error about a verb that a command lacks. It suggests the most similar verb.
func unknownVerb(cmd *cobra.Command, name string) error {
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	help := "agentx help" + strings.TrimPrefix(cmd.CommandPath(), "agentx")
	err := usageError{fmt.Errorf("unknown verb %q: see %s", name, help)}
	if len(names) == 0 {
		return usageError{fmt.Errorf("%s has no verbs, such as %q: see %s", cmd.CommandPath(), name, help)}
	}
	if instead := harnessVerbs[name]; instead != "" && !cmd.HasParent() {
		return hintError{usageError{fmt.Errorf("%q is a verb of the AgentX harness that agentx does not have: see %s", name, help)}, instead}
	}
	if instead := otherVerbs[name]; instead != "" && !cmd.HasParent() {
		return hintError{err, instead}
	}
	if verb := suggest.Closest(name, names); verb != "" {
		return hintError{err, cmd.CommandPath() + " " + verb}
	}
	return err
}

// flagError turns pflag's error about a flag into a usage error. For an unknown flag it suggests the most similar one.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "" {
		return hintError{usageError{err}, "agentx help " + strings.TrimPrefix(cmd.CommandPath(), "agentx ")}
	} else if unknown != nil {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if name, known := otherFlags[unknown.GetSpecifiedName()]; slices.Contains(names, name) {
			return hintError{usageError{err}, "--" + name}
		} else if known && name == "" {
			return usageError{fmt.Errorf("%w: every request asks for a stream, unless --extra-body has \"stream\": false", err)}
		}
		if name := suggest.Closest(unknown.GetSpecifiedName(), names); name != "" {
			return hintError{usageError{err}, "--" + name}
		}
	}
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		err = fmt.Errorf("%s: %w", settings.FlagText(value.GetFlag().Name, value.GetValue()), settings.Explain(err))
	}
	return usageError{err}
}

// tellOldNames warns of old names of settings that a command line, a variable or a file has.
func tellOldNames(cmd *cobra.Command, names []string) {
	if len(names) > 0 {
		printError(cmd.ErrOrStderr(), "agentx: warning: old names, which the next release will not accept: "+strings.Join(names, ", "))
	}
}

// checkArgs turns cobra's check of the number of arguments into one that returns a usage error.
func checkArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check(cmd, args) != nil {
			_, want, _ := strings.Cut(cmd.Use, " ")
			err := fmt.Errorf("arguments beside flags: %d: want %s", len(args), cmp.Or(want, "none"))
			return hintError{usageError{err}, "agentx help " + strings.TrimPrefix(cmd.CommandPath(), "agentx ")}
		}
		return nil
	}
}
