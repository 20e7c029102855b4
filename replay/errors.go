package replay

import (
	"cmp"
	"errors"
)

// Errors that callers of Run may want to tell apart. A server that cannot serve the run is a *PreflightError. A cache that
// cannot be read wraps manifest.ErrDamaged, and too few traces for the lanes is resume.ErrNoTraces or says what to change.
var (
	// ErrResultsExist is wrapped by the error about a directory that holds results of another run.
	ErrResultsExist = errors.New("results exist already")
)

// PreflightError says that a server cannot serve the run. It is known before the first lane begins.
type PreflightError struct {
	Step   string // that found it: measure.PreparationWait, measure.PreparationReset; "": the preflight
	Reason string // in one line
	Hint   string // what may help: flags of the command, or an action
}

func (e *PreflightError) Error() string { return cmp.Or(e.Step, "preflight") + ": " + e.Reason }
