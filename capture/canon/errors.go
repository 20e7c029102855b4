package canon

import (
	"errors"
	"fmt"

	"github.com/agentx/agentx/internal/jsonlex"
)

// Bounds of a prompt.
const (
	maxDepth       = 1000
	maxBody        = 1 << 30
	maxValues      = 1 << 20 // JSON values that decide about the stream
	maxMediaTokens = 1 << 24
)

// Why a prompt has no stream, as a trace's note says it.
const (
	ParseRequest = "parse_request"
	Unhashable   = "unhashable"
)

// Error is about a body without a canonical stream. It says nothing of what the body contains.
type Error struct {
	Reason  string // ParseRequest or Unhashable
	Problem string
}

var errNoObject = &Error{ParseRequest, "the body is no JSON object"}

func (e *Error) Error() string { return e.Reason + ": " + e.Problem }

func unhashable(format string, args ...any) error {
	return &Error{Unhashable, fmt.Sprintf(format, args...)}
}

// malformed returns the error about a body that is no JSON. The lexer's own text quotes a byte of the body, so it is left
// out.
func malformed(err error) error {
	if own := (*Error)(nil); errors.As(err, &own) {
		return err
	}
	if syntax := (*jsonlex.SyntaxError)(nil); errors.As(err, &syntax) {
		return &Error{ParseRequest, fmt.Sprintf("the body is malformed JSON at byte %d", syntax.Offset)}
	}
	return &Error{ParseRequest, "the body is malformed JSON"}
}
