package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/internal/terminal"
	"github.com/agentx/agentx/mmapcache"
)

// version and commit are set by the build. What go install built says its version itself.
var (
	version = "0.1.0-dev"
	commit  = "unknown"
)

func init() {
	if info, ok := debug.ReadBuildInfo(); ok && commit == "unknown" && strings.HasPrefix(info.Main.Version, "v") {
		version = strings.TrimPrefix(info.Main.Version, "v")
	}
}

func newVersion() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print version, cache format and recipe",
		Args:  checkArgs(cobra.NoArgs),
		RunE:  printVersion,
	}
	cmd.Flags().Bool("json", false, "one JSON object")
	return cmd
}

// setVersion gives the root the flag --version, which does what the verb does.
func setVersion(root *cobra.Command) {
	root.Flags().BoolP("version", "v", false, "version for agentx")
	root.Flags().Bool("json", false, "with --version: one JSON object")
}

// helpOrVersion runs agentx without a verb: it prints the version with --version, else the help.
func helpOrVersion(cmd *cobra.Command, args []string) error {
	if asked, _ := cmd.Flags().GetBool("version"); asked {
		return printVersion(cmd, args)
	}
	out := cmd.OutOrStdout()
	_, err := io.WriteString(out, terminal.Wrap(cmd.Long, helpColumns(out)))
	return err
}

// printVersion prints the version, with --json as an object.
func printVersion(cmd *cobra.Command, _ []string) error {
	if asJSON, _ := cmd.Flags().GetBool("json"); !asJSON {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "agentx %s (commit %s, cache format %d, recipe %d, %s)\n",
			version, commit, mmapcache.Format, convert.Recipe, runtime.Version())
		return err
	}
	return printJSON(cmd.OutOrStdout(), map[string]any{
		"version": version, "commit": commit, "format": mmapcache.Format, "recipe": convert.Recipe,
		"probe": map[string]convert.Probes{
			"default": convert.Probe(rules.Default(), rules.Placement{Backend: rules.Exact, Seed: 42}),
			"aiperf":  convert.Probe(rules.AIPerf(), rules.Placement{Backend: rules.SHA256MT, Seed: 42, Stream: rules.CodingStream}),
		},
		"go": runtime.Version(),
	})
}
