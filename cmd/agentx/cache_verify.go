package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

func newCacheVerify() *cobra.Command {
	var asJSON, rebuild bool
	cmd := &cobra.Command{
		Use:   "verify CACHE...",
		Short: "Recompute every digest and check every span; exit 3 when something is damaged",
		Long: `Recompute every digest of a cache and its parts, and check every index, span and offset. CACHE may
also be a part (agentx cache ls --parts), of which it recomputes the digests.

Exit 0: everything is whole. 3: damage, a line for each file. 1: something could not be read, and
the rest is whole. Verifying does not count as a use.

--rebuild also builds the cache a second time, from the input that its provenance names, and
compares byte for byte. That finds a conversion that has changed, which digests cannot.

verify looks for a missing file again, for up to a minute on a network file system: its clients may
remember for that long that a file did not exist.`,
		Example: "  agentx cache verify $(agentx convert demo | tail -n 1) --rebuild",
		Args:    checkArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			caches, err := findDirectories(cmd, args)
			if err != nil {
				return err
			}
			for _, c := range caches {
				if rebuild && c.kind != mmapcache.DatasetKind {
					return usageError{fmt.Errorf("--rebuild: %s is a part: name a dataset that has it", c.key)}
				}
			}
			all := mmapcache.Verification{Damages: []mmapcache.Damage{}, Notes: []string{}}
			var failed error // what could not be read
			for _, c := range caches {
				failed = errors.Join(failed, verify(cmd, c, rebuild, &all))
			}
			if asJSON {
				if err := printJSON(cmd.OutOrStdout(), all); err != nil {
					return err
				}
			} else {
				printVerified(cmd.OutOrStdout(), &all, rebuild, failed == nil)
			}
			return verdict(&all, failed)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	cmd.Flags().BoolVar(&rebuild, "rebuild", false, "build it a second time from its input, and compare")
	return cmd
}

// printVerified prints what was found: damage and notes, a line each, or that all is whole.
func printVerified(w io.Writer, all *mmapcache.Verification, rebuilt, complete bool) {
	w = sanitizer{w}
	for _, d := range all.Damages {
		fmt.Fprintf(w, "damaged %s: %s\n", d.File, d.Reason)
	}
	for _, n := range all.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	if len(all.Damages) > 0 || !complete {
		return
	}
	fmt.Fprintf(w, "whole: %d files, %s", all.Files, bytefmt.Format(all.Bytes))
	if rebuilt {
		fmt.Fprint(w, "; built once more, it is the same")
	}
	fmt.Fprintln(w)
}

// verdict returns the error of verify: damage if there is any, else what could not be read.
func verdict(all *mmapcache.Verification, failed error) error {
	n := len(all.Damages)
	if n == 0 {
		return failed
	}
	first := all.Damages[0]
	err := verdictError{fmt.Errorf("verify: %s: %w: %s (%d findings)", first.File, manifest.ErrDamaged, first.Reason, n)}
	return hintError{errors.Join(err, failed), "agentx convert INPUT --force, which builds damaged parts again"}
}

// verify verifies one cache and adds what it finds. It notes the cache as in use, so that gc does not remove it meanwhile,
// but does not record a use.
func verify(cmd *cobra.Command, c cacheName, rebuild bool, all *mmapcache.Verification) error {
	look := mmapcache.Verify
	if c.kind == mmapcache.DatasetKind {
		defer cachestore.NoteDataset(cmd.Context(), c.root, c.key).Close()
	} else {
		look = func(ctx context.Context, root, key string) (*mmapcache.Verification, error) {
			return mmapcache.VerifyPart(ctx, root, c.kind, key)
		}
	}
	v, err := look(cmd.Context(), c.root, c.key)
	if v != nil {
		all.Files += v.Files
		all.Bytes += v.Bytes
		all.Damages = append(all.Damages, v.Damages...)
		all.Notes = append(all.Notes, v.Notes...)
	}
	if err != nil || !rebuild || len(v.Damages) > 0 {
		return err
	}
	damages, err := verifyRebuild(cmd, c.root, c.key)
	all.Damages = append(all.Damages, damages...)
	return err
}

// verifyRebuild builds a cache a second time and returns what differs.
func verifyRebuild(cmd *cobra.Command, root, key string) ([]mmapcache.Damage, error) {
	o := convert.Options{Version: version, Source: inputSources(cmd)}
	err := withProgress(cmd, &o, func() error { return convert.VerifyRebuild(cmd.Context(), root, key, o) })
	var differs *convert.RebuildMismatchError
	if errors.As(err, &differs) {
		return differs.Found, nil
	}
	return nil, err
}
