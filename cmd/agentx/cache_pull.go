package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

func newCachePull() *cobra.Command {
	var from string
	var wait waitFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "pull CACHE --from DIR",
		Short: "Copy a cache from a shared root to this node, verified",
		Long: `Copy a cache, with the parts that it names, from another cache root into the one of this node.

CACHE is a path in that root, or 8 characters or more of a key. It copies only what this node lacks:
of a cache with shards those that are missing, several at once. An interrupted pull goes on where it
was. If many jobs on a node pull the same cache, one copies it and the others wait. Every file is
verified on arrival, and a cache appears whole or not at all. The last line printed is the path.`,
		Example: "  agentx cache warm demo --to /shared/agentx\n  agentx cache pull KEY --from /shared/agentx\n  CACHE=$(agentx cache pull KEY --from /shared/agentx | tail -n 1)",
		Args:    checkArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if from == "" {
				return usageError{errors.New("--from: say which cache root to copy from")}
			}
			to, err := cacheRoot(cmd)
			if err != nil {
				return err
			}
			root, key, err := cachestore.Find(from, args[0])
			if err != nil {
				return err
			}
			if !cachestore.SameDirectory(root, from) {
				return usageError{fmt.Errorf("%s does not lie in --from %s", args[0], from)}
			}
			begin := time.Now()
			s, err := runCopy(cmd, wait, from, to, key)
			if err != nil {
				return err
			}
			return s.print(cmd.OutOrStdout(), time.Since(begin), asJSON, "")
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "cache root to copy from, such as a shared mount; it may be read-only")
	wait.register(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

// copyReport is what warm or pull did.
type copyReport struct {
	path, key     string
	hit, built    bool
	bytes, copied int64                                 // on disk, all parts; copied
	parts         map[string]cachestore.CopiedDirectory // by kind; of shards see below
	shards        *cachestore.ShardCount                // nil for a dataset that is no list of shards
}

// runCopy copies a dataset. Progress, waiting and warnings go to standard error.
func runCopy(cmd *cobra.Command, wait waitFlags, from, to, key string) (*copyReport, error) {
	p := newProgress(cmd)
	defer p.close()
	limit, err := wait.limit()
	if err != nil {
		return nil, err
	}
	last, waited := int64(0), false
	c, err := cachestore.Copy(cmd.Context(), from, to, key, cachestore.CopyOptions{
		Wait: limit,
		OnWait: func(holder string, since time.Duration) {
			if since > 0 || !waited { // of thousands of parts that are waited for the first one is told at once
				waited = true
				p.waiting("cache", holder, since)
			}
		},
		Progress: func(done, total int64) {
			if done > last {
				p.update("copy", done-last, total)
				last = done
			}
		},
		Warn: func(format string, a ...any) { p.println("agentx: warning: " + fmt.Sprintf(format, a...)) },
	})
	switch {
	case errors.Is(err, cachestore.ErrSameRoot):
		return nil, usageError{err}
	case errors.Is(err, manifest.ErrDamaged):
		return nil, hintError{err, "agentx cache verify " + mmapcache.DatasetPath(from, key)}
	case err != nil:
		return nil, hintConvert(err)
	}
	bytes, err := cachestore.Size(to, key)
	if err != nil {
		return nil, err
	}
	s := &copyReport{path: c.Path, key: key, hit: c.Hit(), bytes: bytes, copied: c.Bytes, parts: c.Directories, shards: c.Shards}
	delete(s.parts, mmapcache.DatasetKind)
	return s, nil
}

// print prints the result, with a hint in the form for people.
func (s *copyReport) print(w io.Writer, wall time.Duration, asJSON bool, hint string) error {
	if asJSON {
		members := map[string]any{
			"path": s.path, "key": s.key, "hit": s.hit, "built": s.built, "bytes": s.bytes, "bytes_copied": s.copied,
			"parts": s.parts, "wall": wall.Seconds(),
		}
		if s.shards != nil {
			members["shards"] = s.shards
		}
		return printJSON(w, members)
	}
	what := "copied and verified"
	switch {
	case s.hit:
		what = "hit: there before, nothing copied"
	case s.built:
		what = "built and verified"
	}
	what += foundText(func(kind string) bool { return s.parts[kind].Hit && !s.hit })
	shards := ""
	if n := s.shards; n != nil {
		shards = fmt.Sprintf(", %s shards (%s found)", groupDigits(n.Total), groupDigits(n.Found))
	}
	fmt.Fprintf(w, "%s\n%s on disk, %s copied%s\n%s\n", what, bytefmt.Format(s.bytes), bytefmt.Format(s.copied), shards, secondsText(wall))
	if hint != "" {
		fmt.Fprintln(w, hint)
	}
	fmt.Fprintln(w, s.path)
	return nil
}
