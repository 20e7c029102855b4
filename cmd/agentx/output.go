package main

import (
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/internal/terminal"
)

// resultWriter is standard output. It remembers the first error of writing.
type resultWriter struct {
	w   io.Writer
	err error
}

// Write writes to standard output and keeps the first error.
func (r *resultWriter) Write(p []byte) (int, error) {
	n, err := r.w.Write(p)
	if r.err == nil {
		r.err = err
	}
	return n, err
}

// printJSON prints a value as one line of JSON, printError a line to standard error.
var printJSON, printError = terminal.JSON, terminal.Say

// answering completes a verb whose run returns its result twice: a value for --json and a function that writes it for people. The result is
// printed also beside an error, unless the value is nil.
func answering(cmd *cobra.Command, args cobra.PositionalArgs, run func(*cobra.Command, []string) (any, func(io.Writer), error)) *cobra.Command {
	asJSON := cmd.Flags().Bool("json", false, "one JSON object")
	cmd.Args = checkArgs(args)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		value, text, err := run(cmd, args)
		switch {
		case value == nil:
		case *asJSON:
			if wrong := printJSON(cmd.OutOrStdout(), value); wrong != nil {
				err = errors.Join(wrong, err)
			}
		default:
			text(cmd.OutOrStdout())
		}
		return err
	}
	return cmd
}

// terminalWidth returns the columns of a terminal, 0 for another writer.
func terminalWidth(w io.Writer) int {
	if r, ok := w.(*resultWriter); ok {
		w = r.w
	}
	f, ok := w.(*os.File)
	if !ok {
		return 0
	}
	n, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return n
}

// groupDigits writes a number with a comma between groups of three digits.
var groupDigits = bytefmt.Digits

// helpColumns returns the width of help: that of the terminal, at most 100; 80 for another writer.
func helpColumns(w io.Writer) int {
	if n := terminalWidth(w); n > 0 {
		return min(n, 100)
	}
	return 80
}
