package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

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

func (r *resultWriter) Write(p []byte) (int, error) {
	n, err := r.w.Write(p)
	if r.err == nil {
		r.err = err
	}
	return n, err
}

// printJSON prints a value as one line of JSON, printError a line to standard error.
var printJSON, printError = terminal.JSON, terminal.Say

// answering completes a verb whose run returns what it came to as a value for --json, and as a text for people: also beside an error, unless
// the value is nil.
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

// cutLine shortens a line to the columns of a terminal; 0: there is none.
func cutLine(line string, columns int) string {
	if runes := []rune(line); columns > 0 && len(runes) > columns {
		return string(runes[:columns-1]) + "…"
	}
	return line
}

// secondsText writes a duration for people.
func secondsText(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%.1f ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// groupDigits writes a number with a comma between groups of three digits.
var groupDigits = bytefmt.Digits

// countText writes how many things there are, such as "1 part" and "2,001 parts".
func countText(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return groupDigits(n) + " " + thing
}

// dateText writes a time for people.
func dateText(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04")
}
