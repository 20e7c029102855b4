package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// waitFlags say how long to wait for another process that is making the same.
type waitFlags struct {
	wait   time.Duration
	noWait bool
}

func (f *waitFlags) register(cmd *cobra.Command) {
	durationVar(cmd.Flags(), &f.wait, "wait", 0, "how long to wait for another process that is making the same; 0: as long as it is at it")
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "fail at once when another process is making the same")
}

// limit returns how long to wait: 0 for as long as it takes, below 0 for not at all. Errors are usage errors.
func (f *waitFlags) limit() (time.Duration, error) {
	switch {
	case f.wait < 0:
		return 0, usageError{fmt.Errorf("--wait %s: want no negative value", f.wait)}
	case f.noWait && f.wait > 0:
		return 0, usageError{errors.New("--wait, --no-wait: choose one")}
	case f.noWait:
		return -1, nil
	}
	return f.wait, nil
}

func newCachePull() *cobra.Command {
	var from string
	var wait waitFlags
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "pull CACHE --from DIR",
		Short: "Copy a cache from a shared root to this node, verified",
		Long: `Copy a cache, with the parts that it names, from another cache root into the one of this node.

CACHE is a path in that root, or 8 characters or more of a key in it. What is here already is not
copied. Of many jobs on a node that pull the same, one copies and the others wait for it. Every
file is verified on arrival, and appears whole or not at all. The last line printed is the path.`,
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

func newCacheWarm() *cobra.Command {
	var f convertFlags
	var to string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "warm INPUT... --to DIR",
		Short: "Prepare traces in a shared cache root, for many nodes to read or to pull from",
		Long: `Prepare traces in a shared cache root, for many nodes to read or to pull from.

What is prepared in the cache root of this node is copied; anything else is built there, in
place. Either way all of it is verified there before the command says that it is done. Takes what
convert takes. In a directory that its owner has opened for a group, what is made is open for the
group, whatever the umask. The last line printed is the path.`,
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
	f.register(cmd)
	cmd.Flags().StringVar(&to, "to", "", "cache root to prepare them in, such as a shared mount")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object")
	return cmd
}

// shared is what warm or pull has done.
type shared struct {
	path, key     string
	hit, built    bool
	bytes, copied int64                                 // on disk, all parts; copied
	parts         map[string]cachestore.CopiedDirectory // by kind
}

// warm prepares a dataset in a root: by a copy if the cache root of this node has it.
func warm(cmd *cobra.Command, wait waitFlags, o convert.Options, to string) (*shared, error) {
	here, err := prepared(cmd, o, to)
	if err != nil {
		return nil, err
	}
	local := o.Root
	if !here {
		o.Root = to
	}
	r, err := runConvert(cmd, o) // a hit, where it is copied: it judges and warns like any
	if err != nil {
		return nil, err
	}
	s := &shared{path: r.Path, key: r.Key, hit: r.Hit, built: !r.Hit, bytes: r.Bytes, parts: map[string]cachestore.CopiedDirectory{}}
	for kind, p := range r.Parts {
		s.parts[kind] = cachestore.CopiedDirectory{Key: p.Key, Hit: p.Hit}
	}
	unverified := true // what a copy has copied it has verified
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

// prepared reports whether the cache root of this node, which is not the one to be warmed, has a dataset.
func prepared(cmd *cobra.Command, o convert.Options, to string) (bool, error) {
	if slices.Contains(o.Inputs, "-") || cachestore.SameDirectory(o.Root, to) { // standard input can be read once
		return false, nil
	}
	var e *convert.Explanation
	err := withProgress(cmd, &o, func() (err error) {
		e, err = convert.Explain(cmd.Context(), o)
		return err
	})
	return err == nil && e.Hit, err
}

// runCopy copies with progress, waiting and warnings on standard error.
func runCopy(cmd *cobra.Command, wait waitFlags, from, to, key string) (*shared, error) {
	p := newProgress(cmd)
	defer p.close()
	limit, err := wait.limit()
	if err != nil {
		return nil, err
	}
	last := int64(0)
	c, err := cachestore.Copy(cmd.Context(), from, to, key, cachestore.CopyOptions{
		Wait:   limit,
		OnWait: func(holder string, waited time.Duration) { p.waiting("cache", holder, waited) },
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
	s := &shared{path: c.Path, key: key, hit: c.Hit(), bytes: bytes, copied: c.Bytes, parts: c.Directories}
	delete(s.parts, mmapcache.DatasetKind)
	return s, nil
}

// print prints the result; the hint is for people.
func (s *shared) print(w io.Writer, wall time.Duration, asJSON bool, hint string) error {
	if asJSON {
		return printJSON(w, map[string]any{
			"path": s.path, "key": s.key, "hit": s.hit, "built": s.built, "bytes": s.bytes, "bytes_copied": s.copied,
			"parts": s.parts, "wall": wall.Seconds(),
		})
	}
	what := "copied and verified"
	switch {
	case s.hit:
		what = "hit: there before, nothing copied"
	case s.built:
		what = "built and verified"
	}
	var found []string
	for _, kind := range mmapcache.Kinds() {
		if s.parts[kind].Hit && !s.hit {
			found = append(found, kind)
		}
	}
	if len(found) > 0 {
		what += " (found: " + strings.Join(found, ", ") + ")"
	}
	fmt.Fprintf(w, "%s\n%s on disk, %s copied\n%s\n", what, bytefmt.Format(s.bytes), bytefmt.Format(s.copied), secondsText(wall))
	if hint != "" {
		fmt.Fprintln(w, hint)
	}
	fmt.Fprintln(w, s.path)
	return nil
}
