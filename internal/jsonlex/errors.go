package jsonlex

import (
	"errors"
	"fmt"
)

// What Whole reports about a number that is valid JSON.
var (
	// ErrNotWhole is about a number with a fraction, such as 1.5 or 1e-3.
	ErrNotWhole = errors.New("not a whole number")
	// errOutOfRange is about a whole number that does not fit into 64 bits with a sign.
	errOutOfRange = errors.New("outside the signed 64-bit range")
)

// SyntaxError is about a text that is not JSON, or is not what the caller expects.
type SyntaxError struct {
	Offset  int    // of the byte at which it was noticed
	cutOff  bool   // the text ends there, too early
	problem string // such as "want a value, found 'x'"
}

func (e *SyntaxError) Error() string {
	if e.cutOff {
		return fmt.Sprintf("cut off after %d bytes, %s", e.Offset, e.problem)
	}
	return fmt.Sprintf("byte %d: %s", e.Offset, e.problem)
}

// Expected returns the error about unexpected text at the lexer's position. what completes "want ...".
func (l *Lexer) Expected(what string) error {
	if l.Pos >= len(l.Data) {
		return &SyntaxError{Offset: len(l.Data), cutOff: true, problem: "want " + what}
	}
	return l.problem("want %s, found %q", what, l.Data[l.Pos])
}

// problem returns an error at the lexer's position.
func (l *Lexer) problem(format string, args ...any) error {
	return &SyntaxError{Offset: l.Pos, problem: fmt.Sprintf(format, args...)}
}
