package main

import (
	"github.com/spf13/cobra"
)

func newCapture() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "capture",
		Short: "Finish and check captured traces",
		Long: `Finish and check traces that were captured from live agents.

A capture has a directory: journals of open sessions in journal, finished traces in traces, and what is
to know of each in notes. "agentx convert DIR/traces" takes the folder as it is. A trace holds token
counts, numbers of blocks, times and names of models: no text, and no digest of one.`,
		Example: "  agentx capture check DIR/traces --trie\n  agentx capture finish DIR",
		Args:    refuseArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCaptureFinish(), newCaptureCheck())
	return cmd
}
