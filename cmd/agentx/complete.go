package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentx/agentx/cmd/internal/aiperf/profile"
	"github.com/agentx/agentx/cmd/internal/export"
	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/hfsource/hub"
	"github.com/agentx/agentx/internal/terminal"
	"github.com/agentx/agentx/internal/tokenizer"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/cachestore"
	"github.com/agentx/agentx/mock"
)

// Completions for shells: arguments by verb, values of flags by name. A flag has the same meaning in every verb.

// completedArguments completes the arguments of verbs. Verbs that are not listed take none.
var completedArguments = map[string]cobra.CompletionFunc{
	"agentx corpus aiperf":  once(idsFile),
	"agentx convert":        inputs,
	"agentx import":         inputs,
	"agentx cache explain":  inputs,
	"agentx cache warm":     inputs,
	"agentx replay":         once(cachesAndInputs),
	"agentx profile":        profileFlags(profile.HarnessFlags),
	"agentx aiperf profile": profileFlags(profile.Flags),
	"agentx inspect":        once(cachesAndInputs),
	"agentx export":         once(cachesAndInputs),
	"agentx simulate":       once(cachesAndInputs),
	"agentx fetch":          once(listed(cobra.ShellCompDirectiveNoFileComp, datasetNames)),
	"agentx cache info":     once(caches),
	"agentx cache path":     once(caches),
	"agentx cache pull":     once(cachesInFrom),
	"agentx cache verify":   cachesOf(mmapcache.Kinds()...),
	"agentx cache pin":      caches,
	"agentx cache unpin":    caches,
	"agentx cache rm":       caches,
	"agentx report":         directories,
	"agentx capture check":  inputs,
	"agentx capture finish": once(directories),
}

// idsFile completes the path of a file of token ids.
var idsFile = cobra.FixedCompletions([]string{"u32le"}, cobra.ShellCompDirectiveFilterFileExt)

// pemFile completes the path of a certificate or a key.
var pemFile = cobra.FixedCompletions([]string{"pem", "crt", "key"}, cobra.ShellCompDirectiveFilterFileExt)

// completedFlags completes the values of flags. Numbers, times and sizes are not completed.
var completedFlags = map[string]cobra.CompletionFunc{
	"kind":        choice("coding\tanother text for each seed", "sonnet\tone text"),
	"python":      cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault), // a file
	"limit":       prefixes(limitNames()...),
	"tls-cert":    pemFile,
	"tls-key":     pemFile,
	"profile":     choice("default\trepaired", "aiperf\tas AIPerf 0.13.0"),
	"in":          choice("counted\tmessages and filler", "recorded\tthat of the log where it is longer"),
	"seed-file":   cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault), // a file
	"scope":       choice("trace\tblocks are numbered in each trace", "dataset\tin all of them together"),
	"prefix":      cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault), // a file
	"redact":      choice("secrets\tkeys and passwords of known shapes", "none\ttexts as they were recorded"),
	"tokenizer":   cobra.FixedCompletions(tokenizer.Names(), cobra.ShellCompDirectiveDefault), // or a file
	"corpus":      cobra.FixedCompletions(convert.Corpora(), cobra.ShellCompDirectiveDefault), // or a file
	"set":         openWords(ruleWords),
	"as":          choice(presetWords[1:]...),
	"fault":       openWords(faults),
	"trace":       traceIDs,
	"session":     sessionIDs,
	"api-key-env": listed(cobra.ShellCompDirectiveNoFileComp, func() []string { return slices.Collect(maps.Keys(environment())) }),
	"cache":       directories,
	"from":        directories,
	"to":          formatsOrDirectories,
	"dest":        directories,
	"out":         directories,
	"base":        directories,
	"gate":        prefixes("error-rate=", "error-rate<", "ttft.p95<", "itl.p95<", "latency.p95<", "goodput>", "output_token_rate>"),
	"slo":         prefixes("ttft<", "itl<", "latency<", "ttft.p95<", "itl.p95<", "latency.p95<"),
	"format":      formatOf,
	"meet":        prefixes("none\teach part begins on its own"),
	"until":       openWords(untilNames),
	"otlp":        prefixes("http://", "https://"),
	"part":        prefixes("auto\tas the engine says", "0/"),
	"output":      cobra.FixedCompletions([]string{"jsonl", "zst"}, cobra.ShellCompDirectiveFilterFileExt),
	"log":         cobra.FixedCompletions([]string{"jsonl"}, cobra.ShellCompDirectiveFilterFileExt),
	"synth from":  caches,
	"report":      choice(formatWords[:len(replayFormats)]...),
}

var directories = cobra.FixedCompletions(nil, cobra.ShellCompDirectiveFilterDirs)

// choice completes one of some words.
func choice(values ...string) cobra.CompletionFunc {
	return listed(cobra.ShellCompDirectiveNoFileComp, func() []string { return slices.Clone(values) })
}

// prefixes completes words that want more after them.
func prefixes(values ...string) cobra.CompletionFunc {
	return openWords(func() []string { return slices.Clone(values) })
}

// formatsOrDirectories completes --to: of export a format, of cache warm a directory.
func formatsOrDirectories(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if cmd.Name() == "export" {
		return choice(export.Formats()...)(cmd, args, begun)
	}
	return directories(cmd, args, begun)
}

// openWords is prefixes with words that a function lists: the shell puts no blank behind them.
func openWords(list func() []string) cobra.CompletionFunc {
	return listed(cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace, list)
}

// listed completes the words of a list that begin with what the user has typed. A tab in a word begins its description.
func listed(directive cobra.ShellCompDirective, list func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return withPrefix(list(), begun), directive
	}
}

// registerCompletions registers the completions of a command and of its subcommands.
func registerCompletions(cmd *cobra.Command) {
	arguments, ok := completedArguments[cmd.CommandPath()]
	if !ok {
		arguments = cobra.NoFileCompletions
	}
	cmd.ValidArgsFunction = arguments
	register := func(f *pflag.Flag) {
		if f.Value.Type() == "bool" {
			return
		}
		words := settings.Complete(f)
		if words == nil {
			words = completedFlags[f.Name]
		}
		if words == nil {
			words = cobra.NoFileCompletions
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, words) // the flag exists
	}
	cmd.Flags().VisitAll(register)
	cmd.PersistentFlags().VisitAll(register)
	for _, sub := range cmd.Commands() {
		registerCompletions(sub)
	}
}

// once completes only the first argument.
func once(f cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, begun)
	}
}

// withPrefix keeps the values that begin with what the user has typed.
func withPrefix(values []string, begun string) []string {
	return slices.DeleteFunc(values, func(v string) bool { return !strings.HasPrefix(v, begun) })
}

// verbNames completes the subcommands of the verbs typed so far.
func verbNames(cmd *cobra.Command, args []string, begun string) (names []string, _ cobra.ShellCompDirective) {
	at, rest, err := cmd.Root().Find(args)
	if err != nil || len(rest) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if !at.HasParent() {
		names = append(names, "settings\tAll settings of a replay")
	}
	for _, c := range at.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name()+"\t"+c.Short)
		}
	}
	return withPrefix(names, begun), cobra.ShellCompDirectiveNoFileComp
}

var inputs = listed(cobra.ShellCompDirectiveDefault, func() []string { // or a file
	return append([]string{"demo\tthe corpus inside agentx"}, datasetNames()...)
})

// datasetNames are the short names of datasets of the hub, described.
func datasetNames() (names []string) {
	for _, n := range hub.NamedDatasets() {
		names = append(names, n.Name+"\t"+n.Description)
	}
	return names
}

// cachesOf completes the directories of some kinds, or a path.
func cachesOf(kinds ...string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return cacheKeys(rootOf(cmd), begun, kinds...), cobra.ShellCompDirectiveDefault
	}
}

var caches = cachesOf(mmapcache.DatasetKind)

// cachesAndInputs completes a CACHE or an INPUT.
func cachesAndInputs(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	values, directive := inputs(cmd, args, begun)
	return append(cacheKeys(rootOf(cmd), begun, mmapcache.DatasetKind), values...), directive
}

// cachesInFrom completes the caches in the root of --from.
func cachesInFrom(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	rootOf(cmd)
	from, _ := cmd.Flags().GetString("from")
	return cacheKeys(from, begun, mmapcache.DatasetKind), cobra.ShellCompDirectiveDefault
}

// rootOf returns the cache root of a command that has not read its environment yet, or "".
func rootOf(cmd *cobra.Command) string {
	_ = settings.ReadEnvironment(cmd.Flags())
	root, _ := cacheRoot(cmd)
	return root
}

// cacheKeys lists the keys in a cache root that begin with what the user has typed, each with its source.
func cacheKeys(root, begun string, kinds ...string) (values []string) {
	if root == "" {
		return nil
	}
	var entries []cachestore.Entry // none of a root that cannot be read
	if slices.Equal(kinds, []string{mmapcache.DatasetKind}) {
		if all, err := cachestore.Survey(root); err == nil {
			entries = all.Datasets
		}
	} else {
		entries, _ = cachestore.List(root)
	}
	for _, e := range entries {
		if slices.Contains(kinds, e.Kind) && strings.HasPrefix(e.Key, begun) {
			values = append(values, e.Key[:max(cachestore.KeyShown, len(begun))]+"\t"+terminal.Sanitize(strings.TrimSpace(e.Kind+" "+e.Source)))
		}
	}
	return values
}

// traceIDs completes the ids of traces in the cache of the first argument, and sessionIDs those of sessions.
func traceIDs(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return idsIn(cmd, args, begun, func(s *mmapcache.Structure) (int, func(int) string) {
		return s.Traces.Len(), func(i int) string { return s.Traces.At(i).ID }
	})
}

func sessionIDs(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return idsIn(cmd, args, begun, func(s *mmapcache.Structure) (int, func(int) string) {
		return s.Sessions.Len(), func(i int) string { return s.Sessions.At(i).ID }
	})
}

// idsIn completes ids that are read from the cache of the first argument.
func idsIn(cmd *cobra.Command, args []string, begun string, in func(s *mmapcache.Structure) (n int, id func(int) string)) (ids []string, _ cobra.ShellCompDirective) {
	if len(args) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	found, err := cachestore.Find(rootOf(cmd), args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, err := mmapcache.Open(found.Root, found.Key)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer c.Close()
	_ = c.EachShard(func(_ int, s *mmapcache.Structure) error { // damage completes nothing
		n, id := in(s)
		for i := range n {
			ids = append(ids, id(i))
		}
		return nil
	})
	return withPrefix(ids, begun), cobra.ShellCompDirectiveNoFileComp
}

// ruleWords are names for the --set of a conversion.
func ruleWords() (list []string) {
	for _, name := range slices.Sorted(slices.Values(append(rules.Names(), "backend"))) {
		list = append(list, name+"=")
	}
	return list
}

// faults are the kinds of faults for --fault.
func faults() (values []string) {
	for _, k := range mock.FaultKinds {
		name, _, _ := strings.Cut(k.Name, "NNN")
		if name == k.Name {
			name += ":"
		}
		values = append(values, name+"\t"+k.Doc)
	}
	return values
}

// bashWords replaces a call of the package bash-completion in cobra's script for bash. If that package is missing, it computes the words of
// the line up to the cursor, because bash has cut words at = and :.
const bashWords = `    COMPREPLY=()
    if declare -F _get_comp_words_by_ref >/dev/null 2>&1; then
        _get_comp_words_by_ref "$@" cur prev words cword
        return
    fi
    local line="${COMP_LINE:0:COMP_POINT}" i word
    words=() cword=-1
    for ((i = 0; i <= COMP_CWORD; i++)); do
        if [[ ${cword} -lt 0 || ${line} == [[:space:]]* ]]; then
            line="${line#"${line%%[![:space:]]*}"}"
            cword=$((cword + 1))
            words[cword]=""
        fi
        word="${COMP_WORDS[i]}"
        if [[ ${i} -eq ${COMP_CWORD} ]]; then
            word="${line}"
        fi
        words[cword]="${words[cword]}${word}"
        line="${line#"${word}"}"
    done
    cur="${words[cword]}"
    prev=""
    if [[ ${cword} -gt 0 ]]; then
        prev="${words[cword-1]}"
    fi
`

// zshRegister replaces the registration in cobra's script for zsh, which fails before compinit. If compinit has not run yet, it registers at
// the first prompt.
const zshRegister = `if (( $+functions[compdef] )); then
    compdef _agentx agentx
else
    __agentx_register() {
        add-zsh-hook -d precmd __agentx_register
        (( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }
        compdef _agentx agentx
    }
    autoload -Uz add-zsh-hook && add-zsh-hook precmd __agentx_register
fi
`

// setCompletion changes cobra's verb completion: its scripts for bash and zsh then need neither the package bash-completion nor compinit.
func setCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	completion, _, _ := root.Find([]string{"completion"})
	completion.Args, completion.RunE = refuseArgs, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	for shell, script := range map[string]struct {
		write    func(w io.Writer, described bool) error
		old, new string
	}{
		"bash": {root.GenBashCompletionV2, "    COMPREPLY=()\n    _get_comp_words_by_ref \"$@\" cur prev words cword\n", bashWords},
		"zsh": {func(w io.Writer, described bool) error {
			if described {
				return root.GenZshCompletion(w)
			}
			return root.GenZshCompletionNoDesc(w)
		}, "compdef _agentx agentx\n", zshRegister},
	} {
		cmd, _, _ := completion.Find([]string{shell})
		cmd.Long = fmt.Sprintf("Print the script with which %s completes command lines of agentx. It needs nothing else.", shell)
		cmd.Example = fmt.Sprintf("  source <(agentx completion %s)        # in this shell; in ~/.%src for all", shell, shell)
		cmd.RunE = func(cmd *cobra.Command, _ []string) error {
			var text bytes.Buffer
			plain, _ := cmd.Flags().GetBool("no-descriptions")
			if err := script.write(&text, !plain); err != nil {
				return err
			}
			_, err := io.WriteString(cmd.OutOrStdout(), strings.Replace(text.String(), script.old, script.new, 1))
			return err
		}
	}
}

// formatOf completes the format of a report, or of the logs of other verbs.
func formatOf(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if cmd.Name() == "report" {
		return choice(formatWords...)(cmd, args, typed)
	}
	return choice(append([]string{"auto"}, convert.LogFormats()...)...)(cmd, args, typed)
}
