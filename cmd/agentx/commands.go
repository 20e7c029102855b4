package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// newRoot returns the command tree.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "agentx",
		Short: "Prepare recorded AI-agent traces once, replay them against an inference server many times",
		Long: `agentx turns recorded AI-agent sessions (token counts, cache-block ids, timing) into a
prepared cache, and replays them from it against an OpenAI-compatible server.

The three commonest commands:

  agentx convert TRACES            prepare a directory, .json, .jsonl(.zst|.gz), or "demo"
  agentx replay CACHE --url URL --model NAME
  agentx cache ls                  what has been prepared

"agentx demo" shows all of it in a few seconds; "agentx help VERB" explains a verb.`,
		Version:       version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          refuseArgs,
		Run:           func(cmd *cobra.Command, _ []string) { fmt.Fprintln(cmd.OutOrStdout(), cmd.Long) },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return fromEnvironment(cmd.Flags())
		},
	}
	root.SetHelpCommand(newHelp(root))
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		if help(cmd, args); cmd == root {
			fmt.Fprint(cmd.OutOrStdout(), exitHelp)
		}
	})
	root.SetVersionTemplate(versionText())
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().String("cache", "", "cache root (default: agentx in the user cache directory)")
	root.PersistentFlags().Bool("quiet", false, "no progress")
	root.PersistentFlags().Bool("no-color", false, "no colour (agentx uses none yet; accepted for scripts)")
	root.AddCommand(newConvert(), newReplay(), newFetch(), newInspect(), newCache(), newReport(), newMock(), newDemo(), newVersion())
	registerCompletions(root)
	return root
}

// newHelp is cobra's help, which for a verb that is not there shows the root's and succeeds.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:               "help [VERB]",
		Short:             "Explain a verb",
		ValidArgsFunction: verbNames,
		RunE: func(_ *cobra.Command, args []string) error {
			cmd, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return unknownVerb(cmd, strings.Join(rest, " "))
			}
			cmd.InitDefaultHelpFlag()
			return cmd.Help()
		},
	}
}

// exitHelp says what the exit statuses mean.
const exitHelp = `
Exit status:
    0  done
    1  failed: the message says what, nothing half-written is left; also a replay in which no
       request completed, or that --max-error-rate stopped: its results are written
    2  the command line is wrong
    3  the command ran to its end and its verdict is no: damage was found, a hit differs on
       rebuilding, a tree of a replay was wedged
  130  interrupted: what a replay had measured is written
`
