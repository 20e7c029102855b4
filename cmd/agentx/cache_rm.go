package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/mmapcache"
)

func newCacheRemove() *cobra.Command {
	var asJSON, force bool
	cmd := &cobra.Command{
		Use:   "rm CACHE...",
		Short: "Remove caches, and those of their parts that nothing else needs",
		Long: `Remove caches, and those of their parts that no other cache names and no process uses.

It refuses a cache that a process is using, and names that process. --force removes it all the same;
its parts then stay until a later agentx cache gc. AGENTX_FORCE in the environment means --force here
too. It refuses a pinned cache until agentx cache unpin.`,
		Example: "  agentx cache rm $(agentx convert demo | tail -n 1)",
		Args:    checkArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			caches, err := findCaches(cmd, args)
			if err != nil {
				return err
			}
			freed, shards := int64(0), 0
			keys, kept := []string{}, []cachestore.KeptDirectory{}
			for _, c := range caches {
				r, err := cachestore.Remove(cmd.Context(), c.root, c.key, cachestore.RemoveOptions{Force: force, OnWait: reportRemovalWait(cmd)})
				freed += r.Freed
				for _, d := range r.Removed {
					if d.Kind == mmapcache.StructureKind {
						shards++
					}
				}
				kept = append(kept, r.Kept...)
				if err != nil {
					return hintRemove(err, c.key)
				}
				keys = append(keys, c.key)
			}
			w := cmd.OutOrStdout()
			if asJSON {
				return printJSON(w, map[string]any{"removed": keys, "shards": shards, "bytes": freed, "kept": kept})
			}
			for _, g := range groupsOf(kept, kindAndReason) {
				what := g[0].Path
				if len(g) > 1 {
					what = fmt.Sprintf("%s directories of %s", groupDigits(len(g)), filepath.Dir(g[0].Path))
				}
				fmt.Fprintf(sanitizer{w}, "kept %s: %s\n", what, g[0].Why)
			}
			with := ""
			if shards > len(keys) {
				with = fmt.Sprintf(" with %s shards", groupDigits(shards))
			}
			fmt.Fprintf(w, "removed %d%s, %s freed\n", len(keys), with, bytefmt.Format(freed))
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "remove caches although they are in use")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}
