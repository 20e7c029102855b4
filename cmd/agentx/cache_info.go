package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

func newCacheInfo() *cobra.Command {
	var asJSON, shards bool
	cmd := &cobra.Command{
		Use:   "info CACHE",
		Short: "Describe a cache: last use, pin, users, input, shards, files",
		Long: `Describe a cache: last use, pin, users, input, files. Of a cache with shards, say how many of them are
whole, missing or damaged, by manifests and sizes of files: agentx cache verify reads the files.

--shards lists the shards: the numbers of their traces, their turns, size and state.`,
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
			if info.Shards, err = cachestore.LookAtShards(cmd.Context(), root, info.Directories[0].Manifest); err != nil {
				return err
			}
			if info.Shards != nil && !shards {
				info.Shards.List = nil
			}
			w := cmd.OutOrStdout()
			if asJSON {
				return printJSON(w, info)
			}
			printInfo(sanitizer{w}, info)
			return nil
		},
	}
	cmd.Flags().BoolVar(&shards, "shards", false, "list the shards")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

// printInfo prints what is known of a dataset, then of each of its directories.
func printInfo(w io.Writer, info *cachestore.Info) {
	pin := "-"
	if info.Pin != nil {
		pin = "by " + info.Pin.String()
	}
	fmt.Fprintf(w, "last use   %s\npinned     %s\nin use     %s\n", dateText(info.LastUse), pin, cmp.Or(info.InUse, "-"))
	for _, d := range info.Directories {
		size, files, whose := d.Manifest.Size(), len(d.Manifest.Files), ""
		if d.Manifest.Kind == mmapcache.DatasetKind { // which has no files of its own
			whose = ", those of its parts"
			for _, part := range info.Directories[1:] {
				size, files = size+part.Manifest.Size(), files+len(part.Manifest.Files)
			}
			if s := info.Shards; s != nil {
				size, files = size+s.Bytes, files+s.Files
			}
		}
		fmt.Fprintf(w, "%s %s\n  path     %s\n  size     %s in %d files%s\n", d.Manifest.Kind, d.Manifest.Key, d.Path, bytefmt.Format(size), files, whose)
		if d.Provenance != nil {
			printProvenance(w, d.Provenance)
		}
		if d.Manifest.Kind == mmapcache.DatasetKind && info.Shards != nil {
			printShardsInfo(w, info.Shards)
		}
		printStarts(w, d.Manifest)
		fmt.Fprintf(w, "  made of  %s\n", shortInputs(d.Manifest.PreImage))
		for _, f := range d.Manifest.Files {
			fmt.Fprintf(w, "  %10s  %s\n", bytefmt.Format(f.Size), f.Name)
		}
	}
}

// printShardsInfo says how many shards of a dataset are there, what is wrong with the others, and of each what it holds if they are
// listed.
func printShardsInfo(w io.Writer, s *cachestore.Shards) {
	fmt.Fprintf(w, "  shards   %s, %s whole", groupDigits(s.Total), groupDigits(s.Whole))
	for _, n := range []struct {
		count int
		state string
	}{{s.Missing, cachestore.ShardMissing}, {s.Damaged, cachestore.ShardDamaged}, {s.Unreadable, cachestore.ShardUnreadable}} {
		if n.count > 0 {
			fmt.Fprintf(w, ", %s %s", groupDigits(n.count), n.state)
		}
	}
	fmt.Fprintln(w)
	for k, shard := range s.List {
		fmt.Fprintf(w, "  %6d   traces %d to %d, %s turns, %s, %s", k, shard.First, shard.First+shard.Traces-1, groupDigits(shard.Turns), bytefmt.Format(shard.Bytes), shard.State)
		if shard.Why != "" {
			fmt.Fprintf(w, ": %s", shard.Why)
		}
		fmt.Fprintln(w)
	}
}

// printStarts says of a structure, or of a dataset of shards, how many of its traces have a recorded start.
func printStarts(w io.Writer, m *manifest.Manifest) {
	if m.Kind != mmapcache.StructureKind && !mmapcache.HasShards(m) {
		return
	}
	f, err := mmapcache.StructureFactsOf(m)
	switch {
	case err != nil:
		fmt.Fprintf(w, "  arrivals unknown: %v\n", err)
	case f.Starts == 0 && f.Generations[weka.FormatMooncake] > 0:
		fmt.Fprintln(w, "  arrivals missing: an older agentx made this structure; convert again")
	case f.Starts == 0:
		fmt.Fprintln(w, "  arrivals not recorded")
	default:
		fmt.Fprintf(w, "  arrivals recorded of %s of %s traces\n", groupDigits(f.Starts), groupDigits(f.Traces))
	}
}

// shortInputs returns a pre-image with no more input files than are shown of a directory.
func shortInputs(preImage []byte) []byte {
	var members map[string]json.RawMessage
	var inputs []any
	if json.Unmarshal(preImage, &members) != nil || json.Unmarshal(members["inputs"], &inputs) != nil || len(inputs) <= sourcesShown {
		return preImage
	}
	members["inputs"], _ = json.Marshal(append(inputs[:sourcesShown], fmt.Sprintf("and %d more", len(inputs)-sourcesShown))) // JSON that was read
	short, _ := json.Marshal(members)
	return short
}

// sourcesShown is how many input files are shown of a directory.
const sourcesShown = 3

func printProvenance(w io.Writer, p *mmapcache.Provenance) {
	fmt.Fprintf(w, "  created  %s on %s by agentx %s\n", p.Created.Local().Format(time.DateTime), p.Host, p.Agentx)
	for k, s := range p.Sources {
		if k == sourcesShown {
			fmt.Fprintf(w, "  source   and %d more\n", len(p.Sources)-k)
			break
		}
		fmt.Fprintf(w, "  source   %s (%s, sha256 %s)\n", sanitize(s.Path), bytefmt.Format(s.Size), s.SHA256)
	}
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
