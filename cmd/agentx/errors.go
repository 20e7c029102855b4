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

// hintError is an error with what to try.
type hintError struct {
	error
	hint string
}

func (e usageError) Unwrap() error { return e.error }

func (e verdictError) Unwrap() error { return e.error }

func (e hintError) Unwrap() error { return e.error }

// reportError prints an error and returns the exit status that it means.
func reportError(ctx context.Context, stderr io.Writer, err error) int {
	var try hintError
	var usage usageError
	var verdict verdictError
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil:
		if !errors.Is(err, context.Canceled) { // such as results that could not be written
			printError(stderr, "agentx: "+strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		fmt.Fprintln(stderr, "agentx: interrupted")
		return exitInterrupted
	}
	printError(stderr, "agentx: "+strings.ReplaceAll(err.Error(), "\n", "; "))
	if errors.As(err, &try) {
		printError(stderr, "try: "+try.hint)
	}
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &verdict):
		return exitVerdict
	}
	return exitFailed
}
