package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

func newCacheVerify() *cobra.Command {
	var asJSON, rebuild, remove bool
	cmd := &cobra.Command{
		Use:   "verify CACHE...",
		Short: "Recompute every digest and check every span; exit 3 when something is damaged",
		Long: `Recompute every digest of a cache and its parts, and check every index, span and offset. CACHE may
also be a part (agentx cache ls --parts), of which it recomputes the digests.

Exit 0: everything is whole. 3: damage, a line for each file. 1: something could not be read, and
the rest is whole. Verifying does not count as a use. After damage it goes on.

--remove also removes the parts that are damaged, unless a process uses them. agentx convert then
builds these alone, such as two shards of a thousand. The exit status stays 3.

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
			all := verification{Verification: mmapcache.Verification{Damages: []mmapcache.Damage{}, Notes: []string{}}}
			var failed error // what could not be read
			for _, c := range caches {
				failed = errors.Join(failed, verify(cmd, c, rebuild, remove, &all))
			}
			if asJSON {
				if err := printJSON(cmd.OutOrStdout(), all); err != nil {
					return err
				}
			} else {
				printVerified(cmd.OutOrStdout(), &all, rebuild, failed == nil)
			}
			return verdict(&all, remove, failed)
		},
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the parts that are damaged, so that convert builds them alone")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	cmd.Flags().BoolVar(&rebuild, "rebuild", false, "build it a second time from its input, and compare")
	return cmd
}

// verification is what verify has found and removed.
type verification struct {
	mmapcache.Verification
	Removed []cachestore.RemovedDirectory `json:"removed,omitempty"`
	Kept    []cachestore.KeptDirectory    `json:"kept,omitempty"`
}

// printVerified prints what was found: damage and notes, a line each, or that all is whole.
func printVerified(w io.Writer, all *verification, rebuilt, complete bool) {
	w = sanitizer{w}
	for _, d := range all.Damages {
		fmt.Fprintf(w, "damaged %s: %s\n", d.File, d.Reason)
	}
	for _, r := range all.Removed {
		fmt.Fprintf(w, "removed %s\n", r.Path)
	}
	for _, k := range all.Kept {
		fmt.Fprintf(w, "kept %s: %s\n", k.Path, k.Why)
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
func verdict(all *verification, removed bool, failed error) error {
	n := len(all.Damages)
	if n == 0 {
		return failed
	}
	first := all.Damages[0]
	err := verdictError{fmt.Errorf("verify: %s: %w: %s (%d findings)", first.File, manifest.ErrDamaged, first.Reason, n)}
	var foreign *durable.ForeignError
	hint := "agentx convert INPUT --force, which builds all parts again, or agentx cache verify --remove and agentx convert INPUT, for the damaged ones alone"
	switch {
	case errors.As(failed, &foreign):
		hint = hintForeign
	case len(all.Kept) > 0:
		hint = "agentx cache verify --remove again, when no process uses what was kept"
	case removed:
		hint = "agentx convert INPUT, which builds what is missing"
	}
	return hintError{errors.Join(err, failed), hint}
}

// verify verifies one cache and adds what it finds.
func verify(cmd *cobra.Command, c cacheName, rebuild, remove bool, all *verification) error {
	v, err := verifyDigests(cmd.Context(), c)
	if v != nil {
		all.Files += v.Files
		all.Bytes += v.Bytes
		all.Damages = append(all.Damages, v.Damages...)
		all.Notes = append(all.Notes, v.Notes...)
	}
	if remove && v != nil && len(v.Damages) > 0 {
		return errors.Join(err, removeDamaged(cmd, c.root, v.Damages, all))
	}
	if err != nil || !rebuild || len(v.Damages) > 0 {
		return err
	}
	damages, err := verifyRebuild(cmd, c.root, c.key)
	all.Damages = append(all.Damages, damages...)
	return err
}

// verifyDigests verifies one cache. It notes the cache as in use, so that gc does not remove it meanwhile, but does not record a
// use.
func verifyDigests(ctx context.Context, c cacheName) (*mmapcache.Verification, error) {
	if c.kind != mmapcache.DatasetKind {
		return mmapcache.VerifyPart(ctx, c.root, c.kind, c.key)
	}
	defer cachestore.NoteDataset(ctx, c.root, c.key).Close()
	return mmapcache.Verify(ctx, c.root, c.key)
}

// removeDamaged removes the parts of a root that damaged files belong to.
func removeDamaged(cmd *cobra.Command, root string, damages []mmapcache.Damage, all *verification) error {
	var parts []mmapcache.Reference
	for _, d := range damages {
		below, err := filepath.Rel(root, d.File) // kind/key, and mostly a file
		if err != nil {
			return err
		}
		if names := strings.Split(below, string(filepath.Separator)); len(names) > 1 {
			parts = append(parts, mmapcache.Reference{Kind: names[0], Part: manifest.Part{Key: names[1]}})
		}
	}
	r, err := cachestore.RemoveDamaged(cmd.Context(), root, parts, cachestore.RemoveOptions{OnWait: reportRemovalWait(cmd)})
	all.Removed = append(all.Removed, r.Removed...)
	all.Kept = append(all.Kept, r.Kept...)
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
