package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/mmapcache"
)

func newCache() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "List, describe, verify, keep, copy and remove prepared caches",
		Long: `List, describe, verify, keep, copy and remove prepared caches.

A cache is a dataset and the three parts it names: structure, starts and arenas. CACHE is the
path that convert printed, or 8 characters or more of its key.`,
		Example: "  agentx cache ls\n  agentx cache verify $(agentx convert demo | tail -n 1)\n  agentx cache gc --max-bytes 20G",
		Args:    refuseArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCacheList(), newCacheInfo(), newCachePath(), newCacheExplain(), newCacheVerify(), newCacheWarm(), newCachePull(), newCacheGC(), newCachePin(), newCacheUnpin(), newCacheRemove())
	return cmd
}

func newCacheList() *cobra.Command {
	var asJSON, parts bool
	cmd := &cobra.Command{
		Use:   "ls",
		Short: "List what the cache root holds",
		Long: `List the datasets of the cache root: their size with the parts that they name, when they were made,
when they were last used (to the hour), and what holds them: a pin, or a process that uses them. A
part that two datasets name is in the size of both; the last line counts it once.

--parts lists the parts, too, each with the size of its own files.`,
		Example: "  agentx convert demo\n  agentx cache ls",
		Args:    checkArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, err := cacheRoot(cmd)
			if err != nil {
				return err
			}
			entries, err := cachestore.List(root)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			shown := slices.DeleteFunc(slices.Clone(entries), func(e cachestore.Entry) bool {
				return !parts && e.Kind != mmapcache.DatasetKind
			})
			if asJSON {
				return printJSON(w, map[string]any{"entries": shown})
			}
			if len(entries) > 0 {
				return printEntries(w, shown, entries, parts)
			}
			fmt.Fprintf(w, "%s holds nothing yet: agentx convert demo makes a first cache\n", root)
			return nil
		},
	}
	cmd.Flags().BoolVar(&parts, "parts", false, "list the parts of datasets, too")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

// keyShown is how much of a key is shown: more than enough to name it by.
const keyShown = 12

// printEntries prints a table of directories, and how much all take. With parts every size is that of a directory alone.
func printEntries(w io.Writer, entries, all []cachestore.Entry, parts bool) error {
	t := tabwriter.NewWriter(sanitizer{w}, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "KIND\tKEY\tSIZE\tCREATED\tLAST USE\tHELD\tSOURCE")
	for _, e := range entries {
		source := e.Source
		if e.Unreadable != "" {
			source = "cannot be read: " + e.Unreadable
		}
		if e.Damaged != "" {
			source = "damaged: " + e.Damaged
		}
		size := e.TotalBytes
		if parts {
			size = e.Bytes
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", e.Kind, e.Key[:keyShown], bytefmt.Format(size), dateText(e.Created), dateText(e.LastUse), heldText(e.Pinned, e.InUse), sanitize(cmp.Or(source, "-")))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	total, datasets := int64(0), 0
	for _, e := range all {
		total += e.Bytes
		if e.Kind == mmapcache.DatasetKind {
			datasets++
		}
	}
	_, err := fmt.Fprintf(w, "%d datasets, %d parts, %s\n", datasets, len(all)-datasets, bytefmt.Format(total))
	return err
}

// dateText writes a time for people.
func dateText(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04")
}

func newCacheInfo() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "info CACHE",
		Short:   "Say all about a cache: last use, pin, users, what it was made from, its files",
		Example: "  agentx cache info $(agentx convert demo | tail -n 1)",
		Args:    checkArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, key, err := findCache(cmd, args[0])
			if err != nil {
				return err
			}
			info, err := cachestore.Describe(root, key)
			if err != nil {
				return err
			}
			w := cmd.OutOrStdout()
			if asJSON {
				return printJSON(w, info)
			}
			w = sanitizer{w}
			pin := "-"
			if info.Pin != nil {
				pin = "by " + info.Pin.String()
			}
			fmt.Fprintf(w, "last use   %s\npinned     %s\nin use     %s\n", dateText(info.LastUse), pin, cmp.Or(info.InUse, "-"))
			for _, d := range info.Directories {
				size, files, whose := d.Manifest.Size(), len(d.Manifest.Files), ""
				if d.Manifest.Kind == mmapcache.DatasetKind { // which has none of its own
					whose = ", those of its parts"
					for _, part := range info.Directories {
						if part.Manifest.Kind != mmapcache.DatasetKind {
							size, files = size+part.Manifest.Size(), files+len(part.Manifest.Files)
						}
					}
				}
				fmt.Fprintf(w, "%s %s\n  path     %s\n  size     %s in %d files%s\n", d.Manifest.Kind, d.Manifest.Key, d.Path, bytefmt.Format(size), files, whose)
				if p := d.Provenance; p != nil {
					fmt.Fprintf(w, "  created  %s on %s by agentx %s\n", p.Created.Local().Format(time.DateTime), p.Host, p.Agentx)
					for k, s := range p.Sources {
						if k == 3 {
							fmt.Fprintf(w, "  source   and %d more\n", len(p.Sources)-k)
							break
						}
						fmt.Fprintf(w, "  source   %s (%s, sha256 %s)\n", sanitize(s.Path), bytefmt.Format(s.Size), s.SHA256)
					}
				}
				fmt.Fprintf(w, "  made of  %s\n", d.Manifest.PreImage)
				for _, f := range d.Manifest.Files {
					fmt.Fprintf(w, "  %10s  %s\n", bytefmt.Format(f.Size), f.Name)
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
		Use:     "path CACHE",
		Short:   "Print the directory of a cache",
		Example: "  agentx cache path $(agentx convert demo | tail -n 1)",
		Args:    checkArgs(cobra.ExactArgs(1)),
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
