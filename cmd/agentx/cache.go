package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

func newCache() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "List, describe, verify and remove prepared caches",
		Long: `List, describe, verify and remove prepared caches.

A cache is a dataset and the three parts it names: structure, starts and arenas. CACHE is the
path that convert printed, or 8 characters or more of its key.`,
		Example: "  agentx cache ls\n  agentx cache verify $(agentx convert demo | tail -n 1)",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("cache: unknown verb %q: see agentx help cache", args[0])}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCacheList(), newCacheInfo(), newCachePath(), newCacheExplain(), newCacheVerify(), newCacheWarm(), newCachePull(), newCacheGC(), newCachePin(), newCacheUnpin(), newCacheRemove())
	return cmd
}

func newCacheList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List what the cache root holds",
		Args:  arguments(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := cacheRoot(cmd)
			if err != nil {
				return err
			}
			entries, err := mmapcache.List(root)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			if asJSON {
				return printJSON(w, map[string]any{"entries": entries})
			}
			for _, e := range entries {
				created := "-"
				if e.Created != nil {
					created = e.Created.Local().Format(time.DateTime)
				}
				note := e.Source
				if e.Damaged != "" {
					note = "damaged: " + e.Damaged
				}
				fmt.Fprintf(w, "%-9s  %s  %9s  %-19s  %s\n", e.Kind, e.Key[:min(12, len(e.Key))], bytesText(e.Bytes), created, note)
			}
			if len(entries) == 0 {
				fmt.Fprintf(w, "%s holds nothing yet: agentx convert demo makes a first cache\n", root)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

func newCacheInfo() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "info CACHE",
		Short: "Print the manifests of a cache: what it was made from, and its files",
		Args:  arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, key, err := findCache(cmd, args[0])
			if err != nil {
				return err
			}
			info, err := mmapcache.Describe(root, key)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			if asJSON {
				return printJSON(w, info)
			}
			for _, d := range info.Directories {
				fmt.Fprintf(w, "%s %s\n  path     %s\n  size     %s in %d files\n", d.Manifest.Kind, d.Manifest.Key, d.Path, bytesText(d.Manifest.Size()), len(d.Manifest.Files))
				if p := d.Provenance; p != nil {
					fmt.Fprintf(w, "  created  %s on %s by agentx %s\n", p.Created.Local().Format(time.DateTime), p.Host, p.Agentx)
					for k, s := range p.Sources {
						if k == 3 {
							fmt.Fprintf(w, "  source   and %d more\n", len(p.Sources)-k)
							break
						}
						fmt.Fprintf(w, "  source   %s (%s, sha256 %s)\n", s.Path, bytesText(s.Size), s.SHA256)
					}
				}
				fmt.Fprintf(w, "  made of  %s\n", d.Manifest.PreImage)
				for _, f := range d.Manifest.Files {
					fmt.Fprintf(w, "  %10s  %s\n", bytesText(f.Size), f.Name)
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

func newCachePath() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "path CACHE",
		Short: "Print the directory of a cache",
		Args:  arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, key, err := findCache(cmd, args[0])
			if err != nil {
				return err
			}
			path := mmapcache.DatasetPath(root, key)
			if asJSON {
				return printJSON(cmd.OutOrStdout(), map[string]string{"path": path, "key": key})
			}
			fmt.Fprintln(cmd.OutOrStdout(), path)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

func newCacheVerify() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify CACHE...",
		Short: "Recompute every digest and check every span; exit 3 when something is damaged",
		Args:  arguments(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			w := cmd.OutOrStdout()
			all := mmapcache.Verification{Damages: []mmapcache.Damage{}, Notes: []string{}}
			for _, name := range args {
				root, key, err := findCache(cmd, name)
				if err != nil {
					return err
				}
				v, err := mmapcache.Verify(cmd.Context(), root, key)
				if err != nil {
					return err
				}
				all.Files += v.Files
				all.Bytes += v.Bytes
				all.Damages = append(all.Damages, v.Damages...)
				all.Notes = append(all.Notes, v.Notes...)
			}
			if asJSON {
				if err := printJSON(w, all); err != nil {
					return err
				}
			} else {
				for _, d := range all.Damages {
					fmt.Fprintf(w, "damaged %s: %s\n", d.File, d.Why)
				}
				for _, n := range all.Notes {
					fmt.Fprintf(w, "note: %s\n", n)
				}
				if len(all.Damages) == 0 {
					fmt.Fprintf(w, "whole: %d files, %s\n", all.Files, bytesText(all.Bytes))
				}
			}
			if n := len(all.Damages); n > 0 {
				return tryError{verdictError{fmt.Errorf("verify: %s: %w: %s (%d findings)", all.Damages[0].File, manifest.ErrDamaged, all.Damages[0].Why, n)}, "agentx convert INPUT --force, which builds damaged parts again"}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

func newCacheRemove() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "rm CACHE...",
		Short: "Remove caches, and those of their parts that no other cache names",
		Args:  arguments(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			freed := int64(0)
			keys := []string{}
			for _, name := range args {
				root, key, err := findCache(cmd, name)
				if err != nil {
					return err
				}
				n, err := mmapcache.Remove(root, key)
				freed += n
				if err != nil {
					return err
				}
				keys = append(keys, key)
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), map[string]any{"removed": keys, "bytes": freed})
			}
			fmt.Fprintf(cmd.OutOrStdout(), "removed %d, %s freed\n", len(keys), bytesText(freed))
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}
