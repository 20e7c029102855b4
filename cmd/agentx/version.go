package main

import (
	"fmt"
	"io"
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
	return answering(&cobra.Command{
		Use:   "version",
		Short: "Print version, cache format and recipe",
	}, cobra.NoArgs, func(*cobra.Command, []string) (any, func(io.Writer), error) {
		return map[string]any{
			"version": version, "commit": commit, "format": mmapcache.Format, "recipe": convert.Recipe,
			"probe": map[string]convert.Probes{
				"default": convert.Probe(weka.Default(), weka.Placement{Backend: weka.Exact, Seed: 42}),
				"aiperf":  convert.Probe(weka.AIPerf(), weka.Placement{Backend: weka.SHA256MT, Seed: 42, Stream: weka.CodingStream}),
			},
			"go": runtime.Version(),
		}, func(w io.Writer) { fmt.Fprint(w, versionText()) }, nil
	})
}

// versionText returns what version and --version print.
func versionText() string {
	return fmt.Sprintf("agentx %s (commit %s, cache format %d, recipe %d, %s)\n",
		version, commit, mmapcache.Format, convert.Recipe, runtime.Version())
}
