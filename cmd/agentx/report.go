package main

import (
	"path/filepath"

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
records give, and null for those that are known only at the end of a run. The directory of a list of
runs stands for those of its runs.`,
		Example: "  agentx replay demo --url http://127.0.0.1:8000 --model m --duration 10s --out results\n  agentx report results",
		Args:    checkArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, dirs []string) error {
			for _, dir := range runsIn(dirs) {
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

// runsIn returns the directories of runs, with those of its runs in the place of a list.
func runsIn(dirs []string) (runs []string) {
	for _, dir := range dirs {
		list, err := replay.ReadList(dir)
		if err != nil { // no list
			runs = append(runs, dir)
			continue
		}
		for _, r := range list.Runs {
			if r.Headline != nil {
				runs = append(runs, filepath.Join(dir, r.Dir))
			}
		}
	}
	return runs
}
