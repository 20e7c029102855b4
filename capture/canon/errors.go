package canon

import (
	"errors"
	"fmt"

	"github.com/agentx/agentx/capture/journal"
	"github.com/agentx/agentx/internal/jsonlex"
)

// Bounds of a prompt.
const (
	maxDepth       = 1000
	maxBody        = 1 << 30
	maxValues      = 1 << 20 // JSON values that decide about the stream
	maxMediaTokens = 1 << 24
)

// Error is about a body without a canonical stream. It says nothing of what the body contains.
type Error struct {
	Reason  journal.Reason // HoleParse, HoleUnhashable or HoleOversize
	Problem string
}

var errNoObject = &Error{journal.HoleParse, "the body is no JSON object"}

func (e *Error) Error() string { return string(e.Reason) + ": " + e.Problem }

func oversize(format string, args ...any) error {
	return &Error{journal.HoleOversize, fmt.Sprintf(format, args...)}
}

func unhashable(format string, args ...any) error {
	return &Error{journal.HoleUnhashable, fmt.Sprintf(format, args...)}
}

// malformed returns the error about a body that is no JSON. The lexer's own text quotes a byte of the body, so it is left
// out.
func malformed(err error) error {
	if own := (*Error)(nil); errors.As(err, &own) {
		return err
	}
	if syntax := (*jsonlex.SyntaxError)(nil); errors.As(err, &syntax) {
		return &Error{journal.HoleParse, fmt.Sprintf("the body is malformed JSON at byte %d", syntax.Offset)}
	}
	return &Error{journal.HoleParse, "the body is malformed JSON"}
}
