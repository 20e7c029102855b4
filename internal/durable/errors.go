package durable

import "errors"

// Errors that a caller may act on. They are wrapped: use errors.Is.
var (
	// ErrLost is wrapped by errors of a process whose lease another process has taken over.
	ErrLost = errors.New("taken over by another process, which saw no heartbeat of this one")

	// ErrBusy is wrapped by the error of Acquire when the wait is over, or not allowed.
	ErrBusy = errors.New("being made by another process")
)

// FullError says in one line that a disk has no room left, and what to try.
type FullError struct {
	Text, Hint string
	Err        error
}

func (e *FullError) Error() string { return e.Text }

func (e *FullError) Unwrap() error { return e.Err }
