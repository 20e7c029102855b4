package durable

import (
	"errors"
	"fmt"
	"io/fs"
)

// ForeignError says that something belongs to another user, who alone may replace or remove it.
type ForeignError struct {
	Path  string
	Owner string // in words
	Err   error  // what the system says; nil where nothing was tried
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s belongs to %s, who alone may replace or remove it", e.Path, e.Owner)
}

func (e *ForeignError) Unwrap() error { return e.Err }

// asForeign makes an error about permission that hit something of another user a *ForeignError. It returns any other error as it is.
func asForeign(path string, err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if owner := foreignOwner(path); owner != "" {
		return &ForeignError{path, owner, err}
	}
	return err
}

// CheckReplaceable returns a *ForeignError where this process may not take a directory away from its name, because it belongs to
// another user.
func CheckReplaceable(path string) error {
	if owner := foreignOwner(path); owner != "" && !mayTakeAway(path) {
		return &ForeignError{Path: path, Owner: owner}
	}
	return nil
}
