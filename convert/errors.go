package convert

import (
	"fmt"
	"strings"

	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/cachestore"
)

// Errors that callers match with errors.Is. They match InvalidTraceError and RebuildMismatchError with errors.As.
var (
	// ErrBusy: another process has been building the same part for longer than Options.Wait.
	ErrBusy = cachestore.ErrBusy

	// ErrDamaged: a file of the cache has changed since it was written. Convert builds damaged parts again; VerifyRebuild
	// does not.
	ErrDamaged = mmapcache.ErrDamaged

	// ErrChanged: an input file has changed since it was hashed.
	ErrChanged = hfsource.ErrChanged
)

// InvalidTraceError is a trace that cannot be converted.
type InvalidTraceError struct {
	Where  string // file, and line or row
	Err    error
	Others bool // the input is known to have valid traces beside it
}

func (e *InvalidTraceError) Error() string { return e.Where + ": " + e.Err.Error() }

func (e *InvalidTraceError) Unwrap() error { return e.Err }

// RebuildMismatchError reports a dataset that differs from a new build of the same input.
type RebuildMismatchError struct {
	Path  string // of the dataset
	Found []mmapcache.Damage
}

func (e *RebuildMismatchError) Error() string {
	var all []string
	for _, d := range e.Found {
		all = append(all, d.File+": "+d.Reason)
	}
	return fmt.Sprintf("%s differs from a new build of the same input: %s", e.Path, strings.Join(all, "; "))
}
