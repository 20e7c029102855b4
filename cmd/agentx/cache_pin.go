package main

import (
	"fmt"
	"os"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cachestore"
)

func newCachePin() *cobra.Command {
	var cmd *cobra.Command
	cmd = newPinning(&cobra.Command{
		Use:   "pin CACHE...",
		Short: "Keep caches from being removed by gc and rm",
		Long: `Keep caches from being removed by gc and rm, until agentx cache unpin. Their parts stay with them.
agentx cache info says who pinned a cache.`,
		Example: "  agentx cache pin $(agentx convert demo | tail -n 1)\n  agentx cache gc --max-bytes 0             # keeps it",
	}, "pinned", func(root, key string) (bool, error) {
		return true, cachestore.Pin(cmd.Context(), root, key, userName())
	})
	return cmd
}

func newCacheUnpin() *cobra.Command {
	return newPinning(&cobra.Command{
		Use:     "unpin CACHE...",
		Short:   "Let gc and rm remove pinned caches again, also those that other users pinned",
		Example: "  agentx cache pin $(agentx convert demo | tail -n 1)\n  agentx cache unpin $(agentx convert demo | tail -n 1)",
	}, "unpinned", cachestore.Unpin)
}

// newPinning completes a verb that does something to each cache and prints the keys, under word in JSON.
func newPinning(cmd *cobra.Command, word string, do func(root, key string) (bool, error)) *cobra.Command {
	var asJSON bool
	cmd.Args = checkArgs(cobra.MinimumNArgs(1))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		caches, err := findCaches(cmd, args)
		if err != nil {
			return err
		}
		keys := []string{}
		for _, c := range caches {
			done, err := do(c.root, c.key)
			if err != nil {
				return err
			}
			if done {
				keys = append(keys, c.key)
			}
			if !asJSON {
				fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", map[bool]string{true: word, false: "was not pinned"}[done], c.key)
			}
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), map[string]any{word: keys})
		}
		return nil
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

// userName names who runs the command.
func userName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return fmt.Sprintf("user %d", os.Getuid())
}
