package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
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

// reportError prints an error and returns the exit status that it means.
func reportError(ctx context.Context, stderr io.Writer, err error) int {
	var usage usageError
	var verdict verdictError
	var interrupted interruptedError
	var ended endError
	var failed failedError
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil && !errors.As(err, &ended):
		if !errors.Is(err, context.Canceled) { // such as results that could not be written
			tellError(stderr, err)
		}
		fmt.Fprintln(stderr, "agentx: interrupted")
		return exitInterrupted
	}
	tellError(stderr, err)
	switch {
	case errors.As(err, &failed):
		return exitFailed
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &verdict):
		return exitVerdict
	case errors.As(err, &interrupted):
		return exitInterrupted
	}
	return exitFailed
}

// tellError prints an error on one line, and below it what to try; of several errors each.
func tellError(stderr io.Writer, err error) {
	var several errorList
	if errors.As(err, &several) {
		for _, one := range several {
			tellError(stderr, one)
		}
		return
	}
	printError(stderr, "agentx: "+strings.ReplaceAll(err.Error(), "\n", "; "))
	var try hintError
	if errors.As(err, &try) {
		printError(stderr, "try: "+try.hint)
	}
}
