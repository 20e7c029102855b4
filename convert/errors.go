package convert

import (
	"fmt"
	"strings"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/mmapcache"
)

// Errors that callers tell apart with errors.Is. InvalidTraceError and RebuildMismatchError are told apart with errors.As.
var (
	// ErrBusy: another process builds the same part, for longer than Options.Wait.
	ErrBusy = cachestore.ErrBusy

	// ErrDamaged: a file of the cache is not what was written. Convert builds damaged parts again; VerifyRebuild does not.
	ErrDamaged = mmapcache.ErrDamaged

	// ErrChanged: an input file is not what it was when it was hashed.
	ErrChanged = hfsource.ErrChanged
)

// InvalidTraceError is a trace that cannot be converted.
type InvalidTraceError struct {
	Where string // file, and line or row
	Err   error
}

func (e *InvalidTraceError) Error() string { return e.Where + ": " + e.Err.Error() }

func (e *InvalidTraceError) Unwrap() error { return e.Err }

// RebuildMismatchError is a dataset that differs from what is built from the same input now.
type RebuildMismatchError struct {
	Path  string // of the dataset
	Found []mmapcache.Damage
}

func (e *RebuildMismatchError) Error() string {
	var all []string
	for _, d := range e.Found {
		all = append(all, d.File+": "+d.Reason)
	}
	return fmt.Sprintf("%s differs from what is built now: %s", e.Path, strings.Join(all, "; "))
}
