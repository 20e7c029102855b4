package main

import (
	"github.com/spf13/cobra"

	"github.com/agentx/agentx/replay"
)

func newReport() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "report DIR...",
		Short: "Make the summaries of runs again from their records",
		Long: `Make summary.json of runs again from what they wrote, and print it. That of a run which came to its
end is the same, byte for byte. A run that was killed has none: then its summary is what its
records say, and what only its end would have told is null.`,
		Example: "  agentx replay demo --url http://127.0.0.1:8000 --model m --duration 10s --out results\n  agentx report results",
		Args:    checkArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, dirs []string) error {
			for _, dir := range dirs {
				s, about, err := replay.RebuildSummary(dir)
				for _, text := range about {
					printError(cmd.ErrOrStderr(), "agentx: warning: "+text)
				}
				if s != nil {
					if err := printReplayed(cmd, s, asJSON); err != nil {
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
