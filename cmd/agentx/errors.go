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

// usageError is a wrong command line.
type usageError struct{ error }

// verdictError is a command that ran to its end and whose answer is no.
type verdictError struct{ error }

// hintError carries what to try.
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
		if !errors.Is(err, context.Canceled) { // what could not be written, say
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
