package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

func newCacheWarm() *cobra.Command {
	var f convertFlags
	var to string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "warm INPUT... --to DIR",
		Short: "Prepare traces in a shared cache root, for many nodes to read or to pull from",
		Long: `Prepare traces in a shared cache root, for many nodes to read or to pull from.

It copies what is prepared in the cache root of this node, and builds anything else in place. Either
way it verifies everything in the shared root. It takes what convert takes. What it makes has the
group permissions of the shared root, whatever the umask. The last line printed is the path.`,
		Example: "  agentx cache warm demo --to /shared/agentx\n  agentx cache warm traces/ --seed 7 --to /shared/agentx",
		Args:    checkArgs(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.options(cmd, args)
			if err != nil {
				return err
			}
			if to == "" {
				return usageError{errors.New("--to: say which cache root to prepare them in")}
			}
			if to, err = filepath.Abs(to); err != nil {
				return err
			}
			begin := time.Now()
			s, err := warm(cmd, f.waitFlags, o, to)
			if err != nil {
				return err
			}
			cachestore.MarkShared(to)
			hint := fmt.Sprintf("nodes: agentx cache pull %s --from %s\n   or: agentx replay %s", s.key, to, s.path)
			return s.print(cmd.OutOrStdout(), time.Since(begin), asJSON, hint)
		},
	}
	f.registerForInput(cmd)
	cmd.Flags().StringVar(&to, "to", "", "cache root to prepare the traces in, such as a shared mount")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

// warm prepares a dataset in a root: by a copy if the cache root of this node has it, else by a build.
func warm(cmd *cobra.Command, wait waitFlags, o convert.Options, to string) (*copyReport, error) {
	here, err := isPrepared(cmd, o, to)
	if err != nil {
		return nil, err
	}
	local := o.Root
	if !here {
		o.Root = to
	}
	r, err := runConvert(cmd, o) // a hit where it is copied, with the same checks and warnings
	if err != nil {
		return nil, err
	}
	s := &copyReport{path: r.Path, key: r.Key, hit: r.Hit, built: !r.Hit, bytes: r.Bytes, parts: map[string]cachestore.CopiedDirectory{}}
	for kind, p := range r.Parts {
		s.parts[kind] = cachestore.CopiedDirectory{Key: p.Key, Hit: p.Hit}
	}
	if r.Shards != nil {
		s.shards = &cachestore.ShardCount{Total: r.Shards.Total, Found: r.Shards.Found}
	}
	unverified := true // a copy verifies what it copies
	if here {
		if s, err = runCopy(cmd, wait, local, to, r.Key); err != nil {
			return nil, err
		}
		unverified = s.hit
		for _, p := range s.parts {
			unverified = unverified || p.Hit
		}
	}
	if !unverified {
		return s, nil
	}
	v, err := mmapcache.Verify(cmd.Context(), to, s.key)
	if err != nil {
		return nil, err
	}
	if n := len(v.Damages); n > 0 {
		err := fmt.Errorf("warm: %s: %w: %s (%d findings)", v.Damages[0].File, manifest.ErrDamaged, v.Damages[0].Reason, n)
		return nil, hintError{verdictError{err}, "again with --force, which builds damaged parts again"}
	}
	return s, nil
}

// isPrepared reports whether the cache root of this node has the dataset, and is another root than the one to warm.
func isPrepared(cmd *cobra.Command, o convert.Options, to string) (bool, error) {
	if slices.ContainsFunc(o.Inputs, hfsource.IsStream) || cachestore.SameDirectory(o.Root, to) {
		return false, nil
	}
	var e *convert.Explanation
	err := withProgress(cmd, &o, func() (err error) {
		e, err = convert.Explain(cmd.Context(), o)
		return err
	})
	return err == nil && e.Hit, err
}
