package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/cachestore"
)

func newCache() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "List, describe, verify, keep, copy and remove prepared caches",
		Long: `List, describe, verify, keep, copy and remove prepared caches.

A cache is a dataset and the parts that it names: structure (the traces), starts (where in the prompt
corpus each block begins) and arenas (the prompt corpus). A dataset of many traces names a number of
shards, a structure and its starts each. Datasets share parts. CACHE is the path that convert printed,
or 8 characters or more of its key in the cache root, which is --cache DIR, AGENTX_CACHE, or agentx in
the user cache directory.`,
		Example: "  agentx cache ls\n  agentx cache verify $(agentx convert demo | tail -n 1)\n  agentx cache gc --max-bytes 20G",
		Args:    refuseArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCacheList(), newCacheInfo(), newCachePath(), newCacheExplain(), newCacheVerify(), newCacheWarm(), newCachePull(), newCacheGC(), newCachePin(), newCacheUnpin(), newCacheRemove())
	return cmd
}

func newCacheList() *cobra.Command {
	var parts bool
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"},
		Short: "List what the cache root holds",
		Long: `List the datasets of the cache root: size with parts, creation, last use (to the hour), what holds
them (a pin, or a process that uses them), and the first input. A part that two datasets share
counts in the size of both, and once in the last line. A dataset of many traces has a number of
shards: a structure and its starts each.

--parts lists the parts too, those of shards among them, each with the size of its own files.`,
		Example: "  agentx convert demo\n  agentx cache ls",
	}
	cmd.Flags().BoolVar(&parts, "parts", false, "list the parts of datasets too")
	return answering(cmd, cobra.NoArgs, func(cmd *cobra.Command, _ []string) (any, func(io.Writer), error) {
		root, err := cacheRoot(cmd)
		if err != nil {
			return nil, nil, err
		}
		all, err := cachestore.Survey(root)
		if err != nil {
			return nil, nil, err
		}
		shown := all.Datasets
		if parts {
			if shown, err = cachestore.List(root); err != nil {
				return nil, nil, err
			}
		}
		return map[string]any{"entries": shown}, func(w io.Writer) {
			if len(all.Datasets)+all.Parts.Count > 0 {
				all.WriteTable(w, shown, parts, terminalWidth(w))
			} else {
				fmt.Fprintf(w, "%s holds nothing yet: agentx convert demo makes a first cache\n", root)
			}
		}, nil
	})
}

// cacheRoot returns the cache root of a command: --cache, AGENTX_CACHE, or agentx in the user cache directory. It refuses a file.
func cacheRoot(cmd *cobra.Command) (string, error) {
	dir, _ := cmd.Flags().GetString("cache") // every command has the flag
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", hintError{fmt.Errorf("cache root: no user cache directory: %w", err), "--cache DIR"}
		}
		dir = filepath.Join(user, "agentx")
	}
	if info, err := os.Stat(dir); err == nil && !info.IsDir() || errors.Is(err, syscall.ENOTDIR) {
		err := usageError{fmt.Errorf("%s is a file, or lies below one: name a directory", settings.FlagText("cache", dir))}
		return "", hintError{err, "--cache DIR, a directory, which agentx makes if it is missing"}
	}
	return filepath.Abs(dir)
}

// findCaches finds the caches that the arguments of a command name, without duplicates. A path needs no cache root.
func findCaches(cmd *cobra.Command, names []string, kinds ...string) (list []cachestore.Name, err error) {
	root, rootErr := cacheRoot(cmd)
	for _, name := range names {
		c, err := cachestore.Find(root, name, kinds...)
		if err != nil {
			if errors.Is(err, mmapcache.ErrNoCache) {
				err = hintError{err, "agentx cache ls"}
			}
			return nil, cmp.Or(rootErr, err)
		}
		if !slices.Contains(list, c) {
			list = append(list, c)
		}
	}
	return list, nil
}

func newCacheInfo() *cobra.Command {
	var shards bool
	cmd := &cobra.Command{
		Use:   "info CACHE",
		Short: "Describe a cache: last use, pin, users, input, shards, files",
		Long: `Describe a cache: last use, pin, users, input, files. Of a cache with shards, say how many of them are
whole, missing or damaged, by manifests and sizes of files: agentx cache verify reads the files.

--shards lists the shards: the numbers of their traces, their turns, size and state.`,
		Example: "  agentx cache info $(agentx convert demo | tail -n 1)",
	}
	cmd.Flags().BoolVar(&shards, "shards", false, "list the shards")
	return answering(cmd, cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) (any, func(io.Writer), error) {
		caches, err := findCaches(cmd, args)
		if err != nil {
			return nil, nil, err
		}
		info, err := cachestore.Describe(caches[0].Root, caches[0].Key)
		if err == nil {
			info.Shards, err = cachestore.LookAtShards(cmd.Context(), caches[0].Root, info.Directories[0].Manifest)
		}
		if err != nil {
			return nil, nil, err
		}
		if info.Shards != nil && !shards {
			info.Shards.List = nil
		}
		return info, info.Write, nil
	})
}

func newCachePath() *cobra.Command {
	return answering(&cobra.Command{
		Use:     "path CACHE",
		Short:   "Print the directory of a cache",
		Example: "  agentx cache path $(agentx convert demo | tail -n 1)",
	}, cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) (any, func(io.Writer), error) {
		caches, err := findCaches(cmd, args)
		if err != nil {
			return nil, nil, err
		}
		path := mmapcache.DatasetPath(caches[0].Root, caches[0].Key)
		return map[string]string{"path": path, "key": caches[0].Key}, func(w io.Writer) { fmt.Fprintln(w, path) }, nil
	})
}

func newCacheExplain() *cobra.Command {
	var f inputFlags
	cmd := &cobra.Command{
		Use:   "explain INPUT...",
		Short: "Say why a conversion would hit or miss, field by field",
		Long: `Say why a conversion would hit or miss, field by field against the most similar caches.

It takes what convert takes, and builds nothing. A key is the hash of everything that could change a
byte: the content of each input file in order, rules, seed, corpus, tokenizer, and the digests of a
small probe that this program converts. File names, places, times and the number of workers are no
part of it.`,
		Example: "  agentx cache explain demo --seed 7\n  agentx cache explain traces/ --profile aiperf --json",
	}
	f.register(cmd)
	return answering(cmd, cobra.MinimumNArgs(1), func(cmd *cobra.Command, args []string) (any, func(io.Writer), error) {
		o, err := f.options(cmd, args)
		if err != nil {
			return nil, nil, err
		}
		e, err := explain(cmd, o)
		if err != nil {
			return nil, nil, err
		}
		return e, e.Write, nil
	})
}

// explain looks up why a conversion would find its cache prepared, or not.
func explain(cmd *cobra.Command, o convert.Options) (e *convert.Explanation, err error) {
	err = withProgress(cmd, &o, func() (err error) {
		e, err = convert.Explain(cmd.Context(), o)
		return err
	})
	return e, err
}

func newCacheVerify() *cobra.Command {
	var rebuild, remove bool
	cmd := &cobra.Command{
		Use:   "verify CACHE...",
		Short: "Recompute every digest and check every span; exit 3 when something is damaged",
		Long: `Recompute every digest of a cache and its parts, and check every index, span and offset. CACHE may
also be a part (agentx cache ls --parts), of which it recomputes the digests.

Exit 0: everything is whole. 3: damage, a line for each file. 1: something could not be read, and
the rest is whole. Verifying does not count as a use. It goes on after damage.

--remove also removes the parts that are damaged, unless a process uses them. agentx convert then
builds these alone, such as two shards of a thousand. The exit status stays 3.

--rebuild also builds the cache a second time, from the input that its provenance names, and
compares byte for byte. That finds a conversion that has changed, which digests cannot.

verify looks for a missing file again, for up to a minute on a network file system: its clients may
remember for that long that a file did not exist.`,
		Example: "  agentx cache verify $(agentx convert demo | tail -n 1) --rebuild",
	}
	cmd.Flags().BoolVar(&remove, "remove", false, "remove the parts that are damaged, so that convert builds them alone")
	cmd.Flags().BoolVar(&rebuild, "rebuild", false, "build it a second time from its input, and compare")
	return answering(cmd, cobra.MinimumNArgs(1), func(cmd *cobra.Command, args []string) (any, func(io.Writer), error) {
		caches, err := findCaches(cmd, args, mmapcache.Kinds()...)
		if err != nil {
			return nil, nil, err
		}
		for _, c := range caches {
			if rebuild && c.Kind != mmapcache.DatasetKind {
				return nil, nil, usageError{fmt.Errorf("--rebuild: %s is a part, and only whole datasets are rebuilt: name a dataset that uses it", c.Key)}
			}
		}
		all := cachestore.Verification{Verification: mmapcache.Verification{Damages: []mmapcache.Damage{}, Notes: []string{}}}
		var failed error // what could not be read
		for _, c := range caches {
			whole, err := all.Add(cmd.Context(), c.Root, c.Kind, c.Key, remove, cachestore.RemoveOptions{OnWait: reportRemovalWait(cmd)})
			if whole && rebuild {
				var differs []mmapcache.Damage
				differs, err = verifyRebuild(cmd, c.Root, c.Key)
				all.Damages = append(all.Damages, differs...)
			}
			failed = errors.Join(failed, err)
		}
		return all, func(w io.Writer) { all.Write(w, rebuild, failed == nil) }, verdict(&all, remove, failed)
	})
}

// verdict returns the error of verify: damage if there is any, else failed, which is about files that could not be read.
func verdict(all *cachestore.Verification, removed bool, failed error) error {
	n := len(all.Damages)
	if n == 0 {
		return failed
	}
	first := all.Damages[0]
	err := verdictError{fmt.Errorf("verify: %s: %w: %s (%d findings)", first.File, manifest.ErrDamaged, first.Reason, n)}
	hint := "agentx convert INPUT --force, which builds all parts again, or agentx cache verify --remove and agentx convert INPUT, for the damaged ones alone"
	switch {
	case is[*durable.ForeignError](failed):
		hint = hintForeign
	case len(all.Kept) > 0:
		hint = "agentx cache verify --remove again, when no process uses what was kept"
	case removed:
		hint = "agentx convert INPUT, which builds what is missing"
	}
	return hintError{errors.Join(err, failed), hint}
}

// verifyRebuild builds a cache a second time and returns the files that differ.
func verifyRebuild(cmd *cobra.Command, root, key string) ([]mmapcache.Damage, error) {
	o := convert.Options{Version: version, Source: inputSources(cmd)}
	err := withProgress(cmd, &o, func() error { return convert.VerifyRebuild(cmd.Context(), root, key, o) })
	var differs *convert.RebuildMismatchError
	if errors.As(err, &differs) {
		return differs.Found, nil
	}
	return nil, hintConvert(err)
}

func newCacheWarm() *cobra.Command {
	var f inputFlags
	var to string
	var text bool
	cmd := &cobra.Command{
		Use:   "warm INPUT... --to DIR",
		Short: "Prepare traces in a shared cache root, for many nodes to read or to pull from",
		Long: `Prepare traces in a shared cache root, for many nodes to read or to pull from.

It copies what is prepared in the cache root of this node, and builds anything else in place. Either
way it verifies everything in the shared root. It takes what convert takes. What it makes has the
group permissions of the shared root, whatever the umask. The last line printed is the path.`,
		Example: "  agentx cache warm demo --to /shared/agentx\n  agentx cache warm traces/ --seed 7 --to /shared/agentx",
	}
	f.register(cmd)
	cmd.Flags().StringVar(&to, "to", "", "cache root to prepare the traces in, such as a shared mount")
	withText(cmd, &text)
	return answering(cmd, cobra.MinimumNArgs(1), func(cmd *cobra.Command, args []string) (any, func(io.Writer), error) {
		o, err := f.options(cmd, args)
		if err == nil && to == "" {
			err = usageError{errors.New("--to is missing: name the cache root to prepare them in")}
		}
		if err == nil {
			to, err = filepath.Abs(to)
		}
		if err != nil {
			return nil, nil, err
		}
		begin := time.Now()
		o.RefuseText = !text
		s, err := warm(cmd, f.waitFlags, o, to)
		if err != nil {
			return nil, nil, err
		}
		cachestore.MarkShared(to)
		s.Wall = time.Since(begin).Seconds()
		return s, func(w io.Writer) {
			s.Write(w, fmt.Sprintf("nodes: agentx cache pull %s --from %s\n   or: agentx replay %s\n", s.Key, to, s.Path))
		}, nil
	})
}

// warm prepares a dataset in a root: by a copy if the cache root of this node has it, else by a build.
func warm(cmd *cobra.Command, wait waitFlags, o convert.Options, to string) (*cachestore.CopyReport, error) {
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
	s := &cachestore.CopyReport{Path: r.Path, Key: r.Key, Hit: r.Hit, Built: !r.Hit, Bytes: r.Bytes, Parts: r.Parts, Shards: r.Shards}
	unverified := true // a copy verifies what it copies
	if here {
		if s, err = runCopy(cmd, wait, local, to, r.Key, !o.RefuseText); err != nil {
			return nil, err
		}
		unverified = s.Hit
		for _, p := range s.Parts {
			unverified = unverified || p.Hit
		}
	}
	if !unverified {
		return s, nil
	}
	v, err := mmapcache.Verify(cmd.Context(), to, s.Key)
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
	e, err := explain(cmd, o)
	return err == nil && e.Hit, hintConvert(err)
}

func newCachePull() *cobra.Command {
	var from string
	var wait waitFlags
	var text bool
	cmd := &cobra.Command{
		Use:   "pull CACHE --from DIR",
		Short: "Copy a cache from a shared root to this node, verified",
		Long: `Copy a cache, with the parts that it names, from another cache root into the one of this node.

CACHE is a path in that root, or 8 characters or more of a key. It copies only what this node lacks; of a
cache with shards it copies several missing ones at once. An interrupted pull goes on where it was. If
many jobs on a node pull the same cache, one copies it and the others wait. Every file is verified on
arrival, and a cache appears whole or not at all. The last line printed is the path.`,
		Example: "  agentx cache warm demo --to /shared/agentx\n  agentx cache pull KEY --from /shared/agentx\n  CACHE=$(agentx cache pull KEY --from /shared/agentx | tail -n 1)",
	}
	cmd.Flags().StringVar(&from, "from", "", "cache root to copy from, such as a shared mount; it may be read-only")
	wait.register(cmd)
	withText(cmd, &text)
	return answering(cmd, cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) (any, func(io.Writer), error) {
		if from == "" {
			return nil, nil, usageError{errors.New("--from is missing: name the cache root to copy from")}
		}
		to, err := cacheRoot(cmd)
		if err != nil {
			return nil, nil, err
		}
		found, err := cachestore.Find(from, args[0])
		if err != nil {
			return nil, nil, err
		}
		if !cachestore.SameDirectory(found.Root, from) {
			return nil, nil, usageError{fmt.Errorf("%s does not lie in --from %s", args[0], from)}
		}
		begin := time.Now()
		s, err := runCopy(cmd, wait, from, to, found.Key, text)
		if err != nil {
			return nil, nil, err
		}
		s.Wall = time.Since(begin).Seconds()
		return s, func(w io.Writer) { s.Write(w, "") }, nil
	})
}

// withText registers the flag without which recorded text stays where it is.
func withText(cmd *cobra.Command, text *bool) {
	cmd.Flags().BoolVar(text, "with-text", false, "copy a text cache, too: the recorded messages of logs, which only you can read there as well")
}

// runCopy copies a dataset. Progress, waiting and warnings go to standard error.
func runCopy(cmd *cobra.Command, wait waitFlags, from, to, key string, text bool) (*cachestore.CopyReport, error) {
	p := newProgress(cmd)
	defer p.close()
	limit, err := wait.limit()
	if err != nil {
		return nil, err
	}
	last, waited := int64(0), false
	c, err := cachestore.Copy(cmd.Context(), from, to, key, cachestore.CopyOptions{
		Wait: limit, Text: text,
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
	s := &cachestore.CopyReport{Path: c.Path, Key: key, Hit: c.Hit(), Bytes: bytes, Copied: c.Bytes, Parts: c.Directories, Shards: c.Shards}
	delete(s.Parts, mmapcache.DatasetKind)
	return s, nil
}

func newCacheGC() *cobra.Command {
	var o cachestore.GCOptions
	var keep time.Duration
	maxBytes := int64(-1)
	cmd := &cobra.Command{
		Use:   "gc",
		Short: "Free space: garbage, then what was not used for long",
		Long: `Free space in the cache root.

Without flags it removes garbage alone: what killed processes have left, damaged datasets, parts that
no dataset names. --max-age also removes datasets that were not used for longer. --max-bytes also
removes the least recently used datasets until the rest is small enough. The parts of a removed
dataset go with it, unless another dataset names them.

It never removes what is pinned or in use. In a root that other machines may read (on a network file
system, or marked by cache warm with a file .shared) it also keeps what was used within 7 days: a
reader that may not write there can leave no note of its use. --keep sets that time.

It may run at any time, beside conversions and replays on any machine. If another process is removing
from the same root it waits for a minute, then fails and names that process.`,
		Example: "  agentx cache gc --max-bytes 20G --max-age 30d --dry-run\n  agentx cache gc --max-bytes 20G\n  agentx cache gc --max-bytes 0 --keep 0    # everything that is neither pinned nor in use",
	}
	flags := cmd.Flags()
	flags.Var(size(&maxBytes), "max-bytes", "remove the least recently used datasets until all take no more, such as 20G or 500Mi")
	flags.Var(age(&o.MaxAge), "max-age", "remove datasets that were not used for longer, such as 30d or 12h")
	flags.Var(age(&keep), "keep", "keep what was used within this time (default: 7d in a root that other machines may read, else 0)")
	flags.BoolVar(&o.DryRun, "dry-run", false, "print what would be removed, and remove nothing")
	return answering(cmd, cobra.NoArgs, func(cmd *cobra.Command, _ []string) (any, func(io.Writer), error) {
		root, err := cacheRoot(cmd)
		if err != nil {
			return nil, nil, err
		}
		if cmd.Flags().Changed("max-age") {
			o.MaxAge = max(o.MaxAge, 1) // 0 means any age
		}
		if cmd.Flags().Changed("keep") {
			o.Keep = &keep
		}
		if maxBytes >= 0 {
			o.MaxBytes = &maxBytes
		}
		o.OnWait = reportRemovalWait(cmd)
		r, err := cachestore.GC(cmd.Context(), root, o)
		if r == nil {
			return nil, nil, err
		}
		return r, func(w io.Writer) { r.Write(w, maxBytes) }, err
	})
}

// reportRemovalWait returns a function that says once, after two seconds, which process gc or rm waits for.
func reportRemovalWait(cmd *cobra.Command) func(holder string, waited time.Duration) {
	quiet, _ := cmd.Flags().GetBool("quiet")
	return func(holder string, waited time.Duration) {
		if waited > 2*time.Second && !quiet {
			quiet = true
			printError(cmd.ErrOrStderr(), fmt.Sprintf("agentx: waiting for %s, which is removing from the same root", holder))
		}
	}
}

func newCachePin() *cobra.Command {
	return pinning(&cobra.Command{
		Use:   "pin CACHE...",
		Short: "Keep caches from being removed by gc and rm",
		Long: `Keep caches from being removed by gc and rm, until agentx cache unpin. Their parts stay with them.
agentx cache info says who pinned a cache.`,
		Example: "  agentx cache pin $(agentx convert demo | tail -n 1)\n  agentx cache gc --max-bytes 0             # keeps it",
	}, "pinned", func(ctx context.Context, c cachestore.Name) (bool, error) {
		return true, cachestore.Pin(ctx, c.Root, c.Key, userName())
	})
}

func newCacheUnpin() *cobra.Command {
	return pinning(&cobra.Command{
		Use:     "unpin CACHE...",
		Short:   "Let gc and rm remove pinned caches again, also those that other users pinned",
		Example: "  agentx cache pin $(agentx convert demo | tail -n 1)\n  agentx cache unpin $(agentx convert demo | tail -n 1)",
	}, "unpinned", func(_ context.Context, c cachestore.Name) (bool, error) { return cachestore.Unpin(c.Root, c.Key) })
}

// pinning completes the verbs pin and unpin: do handles one cache and reports whether that changed something. word names the change.
func pinning(cmd *cobra.Command, word string, do func(context.Context, cachestore.Name) (bool, error)) *cobra.Command {
	return answering(cmd, cobra.MinimumNArgs(1), func(cmd *cobra.Command, args []string) (any, func(io.Writer), error) {
		caches, err := findCaches(cmd, args)
		keys, lines, done := []string{}, "", false
		for k := 0; k < len(caches) && err == nil; k++ {
			key := caches[k].Key
			switch done, err = do(cmd.Context(), caches[k]); {
			case err != nil:
			case done:
				keys, lines = append(keys, key), lines+word+" "+key+"\n"
			default:
				lines += "was not pinned " + key + "\n"
			}
		}
		if err == nil {
			return map[string]any{word: keys}, func(w io.Writer) { fmt.Fprint(w, lines) }, nil
		}
		if asJSON, _ := cmd.Flags().GetBool("json"); !asJSON {
			fmt.Fprint(cmd.OutOrStdout(), lines)
		}
		return nil, nil, err
	})
}

// userName returns the name of the user who runs the command.
func userName() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return fmt.Sprintf("user %d", os.Getuid())
}

func newCacheRemove() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "rm CACHE...",
		Short: "Remove caches, and those of their parts that nothing else needs",
		Long: `Remove caches, and those of their parts that no other cache names and no process uses.

It refuses a cache that a process is using, and names that process. --force removes it all the same;
its parts then stay until a later agentx cache gc. AGENTX_FORCE in the environment means --force here
too. It refuses a pinned cache until agentx cache unpin.`,
		Example: "  agentx cache rm $(agentx convert demo | tail -n 1)",
	}
	cmd.Flags().BoolVar(&force, "force", false, "remove caches although they are in use")
	return answering(cmd, cobra.MinimumNArgs(1), func(cmd *cobra.Command, args []string) (any, func(io.Writer), error) {
		caches, err := findCaches(cmd, args)
		if err != nil {
			return nil, nil, err
		}
		freed, shards := int64(0), 0
		keys, kept := []string{}, []cachestore.KeptDirectory{}
		for _, c := range caches {
			r, err := cachestore.Remove(cmd.Context(), c.Root, c.Key, cachestore.RemoveOptions{Force: force, OnWait: reportRemovalWait(cmd)})
			freed += r.Freed
			for _, d := range r.Removed {
				if d.Kind == mmapcache.StructureKind {
					shards++
				}
			}
			kept = append(kept, r.Kept...)
			if err != nil {
				return nil, nil, hintRemove(err, c.Key)
			}
			keys = append(keys, c.Key)
		}
		return map[string]any{"removed": keys, "shards": shards, "bytes": freed, "kept": kept}, func(w io.Writer) {
			cachestore.WriteKept(w, kept)
			with := ""
			if shards > len(keys) {
				with = fmt.Sprintf(" with %s shards", groupDigits(shards))
			}
			fmt.Fprintf(w, "removed %d%s, %s freed\n", len(keys), with, bytefmt.Format(freed))
		}, nil
	})
}
