package main

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/mmapcache"
)

// version and commit are set by the build.
var (
	version = "0.1.0-dev"
	commit  = "unknown"
)

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print version, cache format and recipe",
		Args:  checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asJSON {
				return printJSON(cmd.OutOrStdout(), map[string]any{
					"version": version, "commit": commit, "format": mmapcache.Format, "recipe": convert.Recipe,
					"probe": map[string]convert.Probes{
						"default": convert.Probe(weka.Default(), weka.Placement{Backend: weka.Exact, Seed: 42}),
						"aiperf":  convert.Probe(weka.AIPerf(), weka.Placement{Backend: weka.SHA256MT, Seed: 42, Stream: weka.CodingStream}),
					},
					"go": runtime.Version(),
				})
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), versionText())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

// versionText returns what version and --version print.
func versionText() string {
	return fmt.Sprintf("agentx %s (commit %s, cache format %d, recipe %d, %s)\n",
		version, commit, mmapcache.Format, convert.Recipe, runtime.Version())
}
