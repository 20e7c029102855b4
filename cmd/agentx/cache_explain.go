package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/convert"
)

func newCacheExplain() *cobra.Command {
	var f convertFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain INPUT...",
		Short: "Say why a conversion would hit or miss, field by field",
		Long: `Say why a conversion would hit or miss, field by field against the most similar caches.

It takes what convert takes, and builds nothing. A key is the hash of everything that could change a
byte: the content of each input file in order, rules, seed, corpus, tokenizer, and the digests of a
small probe that this program converts. File names, places, times and the number of workers are no
part of it.`,
		Example: "  agentx cache explain demo --seed 7\n  agentx cache explain traces/ --profile aiperf --json",
		Args:    checkArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.options(cmd, args)
			if err != nil {
				return err
			}
			var e *convert.Explanation
			err = withProgress(cmd, &o, func() (err error) {
				e, err = convert.Explain(cmd.Context(), o)
				return err
			})
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), e)
			}
			printExplanation(cmd.OutOrStdout(), e)
			return nil
		},
	}
	f.registerForInput(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

func printExplanation(w io.Writer, e *convert.Explanation) {
	w = sanitizer{w}
	if e.Shards != nil {
		printShards(w, e.Shards)
	}
	for _, p := range e.Parts {
		what := "miss"
		if p.Hit {
			what = "hit"
		}
		fmt.Fprintf(w, "%-4s  %-9s  %s  %s\n", what, p.Kind, p.Key[:12], p.Why)
		printNearest(w, p.Nearest)
	}
	switch {
	case e.Refused != "":
		fmt.Fprintf(w, "convert would be refused: %s\n", e.Refused)
	case e.Hit:
		fmt.Fprintf(w, "convert would hit: %s\n", e.Path)
	default:
		fmt.Fprintf(w, "convert would build: %s\n", e.Path)
	}
}

func printNearest(w io.Writer, list []convert.SimilarPart) {
	for _, n := range list {
		fmt.Fprintf(w, "      nearest    %s  %s\n", n.Key[:12], n.Source)
		for _, d := range n.Differences {
			fmt.Fprintf(w, "        %-20s here %s, there %s\n", d.Field, d.Want, d.Have)
		}
	}
}

// maxMissing is how many files explain prints of which shards are missing.
const maxMissing = 10

// printShards prints which shards exist, and why the others do not.
func printShards(w io.Writer, s *convert.ShardsExplanation) {
	what := "miss"
	if s.Complete == s.Files {
		what = "hit"
	}
	exist := groupDigits(s.Found)
	if s.Total > 0 {
		exist += " of " + groupDigits(s.Total)
	}
	fmt.Fprintf(w, "%-4s  %-9s  %s shards exist; %s of %s files have all of theirs\n", what, "shards", exist, groupDigits(s.Complete), groupDigits(s.Files))
	left := s.Files - s.Complete
	for k, m := range s.Missing {
		if k == maxMissing {
			fmt.Fprintf(w, "      and %s more files: --json lists them\n", groupDigits(left))
			break
		}
		left -= m.Files
		fmt.Fprintf(w, "      %s, shard %d: %s\n", m.File, m.Found, m.Why)
	}
	printNearest(w, s.Nearest)
}
