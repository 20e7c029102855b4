package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/internal/suggest"
)

// What is wrong with a word, in the same words everywhere.
var wrongWord, either = suggest.Wrong, suggest.Either[string]

// shown returns a flag with a value as the user wrote them.
func shown(cmd *cobra.Command, name, text string) string {
	return settings.Shown(cmd.Flags().Lookup(name), text)
}

// refuseArgs refuses arguments of a command that has verbs: they name none of these.
func refuseArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return unknownVerb(cmd, args[0])
}

// otherVerbs and otherFlags say what agentx has for words of other tools.
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

// flagError says what is wrong with a flag or its value. For an unknown flag it suggests the most similar one.
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

// tellOldNames warns of names of before that a command line, a variable or a file has.
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
