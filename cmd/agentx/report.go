package main

import (
	"github.com/spf13/cobra"

	"github.com/agentx/agentx/replay"
)

func newReport() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "report DIR...",
		Short: "Rebuild the summaries of runs from their records",
		Long: `Rebuild summary.json of runs from their records, and print it. For a run that ended it is the same,
byte for byte. A run that was killed wrote no summary: the rebuilt one has the figures that the
records give, and null for those that are known only at the end of a run.`,
		Example: "  agentx replay demo --url http://127.0.0.1:8000 --model m --duration 10s --out results\n  agentx report results",
		Args:    checkArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, dirs []string) error {
			for _, dir := range dirs {
				s, about, err := replay.RebuildSummary(dir)
				for _, text := range about {
					printError(cmd.ErrOrStderr(), "agentx: warning: "+text)
				}
				if s != nil {
					if err := printSummary(cmd, s, asJSON); err != nil {
						return err
					}
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "the summary as JSON, one object for each directory")
	return cmd
}
