package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/hfsource/hub"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/cachestore"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/trace"
)

// Exit statuses.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitVerdict     = 3
	exitInterrupted = 130
)

// usageError says that the command line is wrong.
type usageError struct{ error }

// verdictError says that a command ran to its end and its verdict is no.
type verdictError struct{ error }

// interruptedError says that the load was interrupted, in another process.
type interruptedError struct{ error }

// failedError says that a command has failed, whatever else its error says.
type failedError struct{ error }

// endError says that a command has failed which runs until a signal: its end by one is no interrupt.
type endError struct{ error }

// hintError is an error with what to try.
type hintError struct {
	error
	hint string
}

// errorList is several errors, each of which is told on a line of its own.
type errorList []error

func (l errorList) Error() string { return errors.Join(l...).Error() }

func (l errorList) Unwrap() []error { return l }

func (e usageError) Unwrap() error { return e.error }

func (e verdictError) Unwrap() error { return e.error }

func (e interruptedError) Unwrap() error { return e.error }

func (e failedError) Unwrap() error { return e.error }

func (e endError) Unwrap() error { return e.error }

func (e hintError) Unwrap() error { return e.error }

// is reports whether an error is one of a type, or wraps one.
func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// reportError prints an error and returns the exit status that it means.
func reportError(ctx context.Context, stderr io.Writer, err error) int {
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil && !is[endError](err):
		if !errors.Is(err, context.Canceled) { // such as results that could not be written
			tellError(stderr, err)
		}
		fmt.Fprintln(stderr, "agentx: interrupted")
		return exitInterrupted
	}
	tellError(stderr, err)
	switch {
	case is[failedError](err):
		return exitFailed
	case is[usageError](err):
		return exitUsage
	case is[verdictError](err):
		return exitVerdict
	case is[interruptedError](err):
		return exitInterrupted
	}
	return exitFailed
}

// tellError prints an error on one line, and below it what to try; of several errors each.
func tellError(stderr io.Writer, err error) {
	if several, ok := errors.AsType[errorList](err); ok {
		for _, one := range several {
			tellError(stderr, one)
		}
		return
	}
	printError(stderr, "agentx: "+strings.ReplaceAll(err.Error(), "\n", "; "))
	if try, ok := errors.AsType[hintError](err); ok {
		printError(stderr, "try: "+try.hint)
	}
}

// hintConvert adds what to try to an error of a conversion.
func hintConvert(err error) error {
	fault, faulty := errors.AsType[*trace.Error](err)
	invalid, bad := errors.AsType[*convert.InvalidTraceError](err)
	memory, large := errors.AsType[*hfsource.MemoryLimitError](err)
	full, noRoom := errors.AsType[*durable.FullError](err)
	switch {
	case faulty && fault.Kind == trace.Contradiction:
		return hintError{usageError{err}, withFlags(fault.Hint)}
	case faulty && fault.Hint != "":
		return hintError{err, withFlags(fault.Hint)}
	case bad && !invalid.Others:
		return hintError{err, "another file: doc/traces.md says what a trace looks like, and agentx fetch --list names public ones"}
	case bad:
		return hintError{err, "--skip-invalid leaves such traces out and lists them"}
	case large:
		return hintError{err, memory.Hint}
	case is[*convert.RebuildMismatchError](err):
		return hintError{verdictError{err}, "agentx convert INPUT --force, or agentx cache rm; and find out which of the two is wrong"}
	case is[*durable.ForeignError](err):
		return hintError{err, hintForeign}
	case noRoom:
		return hintError{err, cmp.Or(full.Hint, "--cache DIR (of cache warm --to DIR), on a disk with more room; or agentx cache gc --max-bytes SIZE, which frees some here")}
	case errors.Is(err, cachestore.ErrText):
		return hintError{err, "--with-text, where that cache root may have it"}
	case errors.Is(err, convert.ErrStrict):
		return hintError{err, "leave out --strict, which makes errors of these warnings"}
	case errors.Is(err, convert.ErrNoBlocks):
		return hintError{err, "agentx import INPUT --out DIR, which makes traces of the log, then DIR"}
	case errors.Is(err, convert.ErrUnnamed):
		return hintError{err, "agentx convert --verify-hit compares with the same input"}
	case errors.Is(err, mmapcache.ErrDiffers):
		return hintError{err, "agentx convert --force replaces it"}
	case errors.Is(err, cachestore.ErrBusy):
		return hintError{err, "again without --no-wait, or with a longer --wait"}
	}
	return hintHub(err)
}

// hintForeign says what to try where another user's directory is in the way.
const hintForeign = "--cache DIR, a directory of your own; or ask that user to run agentx cache rm"

// hintCorpusSeed says that a corpus is that of another seed, and what gives one of the seed of the conversion.
func hintCorpusSeed(cmd *cobra.Command, err error, o *convert.Options) error {
	var other *convert.CorpusSeedError
	if !errors.As(err, &other) {
		return usageError{fmt.Errorf("--%w", err)}
	}
	corpus, seed := settings.Named(cmd.Flags().Lookup("corpus")), "--seed"
	if launchOf(cmd.Context()) != nil { // the command line is one of AIPerf
		seed = "--random-seed"
	}
	return hintError{
		usageError{fmt.Errorf("%s %s", corpus, strings.TrimPrefix(other.Error(), "corpus "))},
		fmt.Sprintf("agentx corpus aiperf --seed %d --tokenizer %s FILE.u32le, where AIPerf or its harness is installed, and %s with that file; or %s %d",
			other.Seed, o.Tokenizer, corpus, seed, other.Corpus),
	}
}

// hintRoot adds what to try to an error about a cache root that this user may not write in, or that cannot be made.
func hintRoot(cmd *cobra.Command, err error) error {
	at, file := errors.AsType[*fs.PathError](err)
	if is[hintError](err) || !file || !readOnly(err) && !(at.Op == "mkdir" && errors.Is(err, fs.ErrNotExist)) {
		return err
	}
	root, rootErr := cacheRoot(cmd)
	within := func(dir, path string) bool {
		rest, ok := strings.CutPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator)))
		return ok && (rest == "" || os.IsPathSeparator(rest[0]))
	}
	if rootErr != nil || !within(root, at.Path) && !within(at.Path, root) { // the root, or a directory that the root would be made in
		return err
	}
	if at.Op == "mkdir" && within(at.Path, root) {
		err = fmt.Errorf("cache root %s cannot be made: %w", root, at)
	}
	return hintError{err, "--cache DIR or AGENTX_CACHE=DIR, a directory that you may write in"}
}

// readOnly reports whether an error says that this user may not write.
func readOnly(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}

// hintDamage adds what to try to an error about a damaged cache, unless it says that already.
func hintDamage(err error) error {
	if !errors.Is(err, manifest.ErrDamaged) || is[hintError](err) {
		return err
	}
	return hintError{err, "agentx cache verify CACHE --remove, and agentx convert INPUT, which builds again what that removes"}
}

// hintHub adds what to try to an error of the hub, or of a file that was read.
func hintHub(err error) error {
	var of interface {
		error
		Hint() string
	}
	if errors.As(err, &of) {
		return hintError{err, withFlags(of.Hint())}
	}
	if try := hub.Hint(err); try != "" {
		return hintError{err, withFlags(try)}
	}
	return err
}

// withFlags replaces the words of the libraries' hints for which the command has a flag.
var withFlags = strings.NewReplacer(
	"the rule ", "--set ",
	"the profile default", "--profile default",
	"skip invalid traces", "--skip-invalid, which leaves such traces out",
	"copy it out of the hub's cache", "agentx fetch with --dest DIR",
	"choose a different directory", "choose a different --dest",
	"wait longer for that process", "wait for that one: without --no-wait, or with a longer --wait",
	"another cache root", "--cache DIR",
	"a name that agentx fetch lists", "a name of agentx fetch --list",
	"agentx fetch lists all names", "agentx fetch --list has all names",
	"agentx fetch lists", "agentx fetch --list names",
	"agentx report, which compares", "agentx report DIR --compare, which reads",
).Replace

// hintReplay adds what to try to an error of a replay.
func hintReplay(err error) error {
	refused, early := errors.AsType[*replay.PreflightError](err)
	switch {
	case early:
		return hintError{err, refused.Hint}
	case errors.Is(err, replay.ErrResultsExist):
		return hintError{usageError{fmt.Errorf("--out %w", err)}, "--overwrite removes them; or another --out"}
	case errors.Is(err, syscall.ENOSPC):
		where := ""
		if at, file := errors.AsType[*fs.PathError](err); file {
			where = filepath.Dir(at.Path) + ": "
		}
		return hintError{fmt.Errorf("results: %s%w", where, syscall.ENOSPC), "again with free space there, or with --out DIR on another file system; agentx report DIR shows what was written"}
	case err != nil && strings.HasPrefix(err.Error(), "results: mkdir "):
		return hintError{err, "--out DIR, a directory that can be made and that you may write in"}
	}
	return err
}

// hintRemove adds what to try to an error of rm.
func hintRemove(err error, key string) error {
	switch {
	case errors.Is(err, cachestore.ErrPinned):
		return hintError{err, "agentx cache unpin " + key}
	case errors.Is(err, cachestore.ErrInUse):
		return hintError{err, "again when that has ended, or --force"}
	}
	return err
}
