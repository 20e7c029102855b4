package hfsource

import (
	"errors"
	"fmt"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/agentx/agentx/hfsource/parquet"
	"github.com/agentx/agentx/internal/foreign"
)

// Errors of Rows about files that have changed since Resolve. The caller must not use the rows of such a file.
var (
	// ErrChanged is wrapped by the error about a file whose content differs from its digest.
	ErrChanged = errors.New("the file has changed while it was being read: convert it again")
	// ErrMismatch is wrapped, beside ErrChanged, for a file of the hub: the copy in the cache is damaged. Resolve with
	// Options.Verify downloads it again.
	ErrMismatch = errors.New("hash mismatch")
)

// mismatchError is the error about a copy whose digest differs from the hub's.
type mismatchError struct{ text string }

func (m *mismatchError) Error() string   { return ErrMismatch.Error() + ": " + m.text }
func (m *mismatchError) Unwrap() []error { return []error{ErrMismatch, ErrChanged} }

// Causes of an UnreadableError.
var (
	errLongRow    = fmt.Errorf("a row of more than %d bytes", maxRow)
	errTruncated  = errors.New("cut off: the last line ends inside a JSON value")
	errZeros      = errors.New("cut off: it ends in bytes of zero, which were never written")
	errDictionary = &contentError{"it was compressed with a dictionary of zstd, which is not in it", func(path string) string {
		return "unpack it with that dictionary: zstd -d -D DICTIONARY " + path
	}}
	errEmpty = &contentError{"it is empty", func(string) string { return "fetch or copy it again" }}
)

// UnreadableError says that a file cannot be read, or not beyond some row: it is damaged, truncated, or in a format that is
// not read. It depends only on the content and the name of the file.
type UnreadableError struct {
	File string
	From int    // the first row or line that cannot be read, from 1; 0: none could be read
	Unit string // "row" or "line"; "" where the file is one value
	Err  error

	fromHub bool // the content is what the hub has
}

func (e *UnreadableError) Error() string {
	if e.From == 0 {
		return fmt.Sprintf("%s: it cannot be read: %v", e.File, e.Err)
	}
	return fmt.Sprintf("%s: from %s %d on it cannot be read: %v", e.File, e.Unit, e.From, e.Err)
}

func (e *UnreadableError) Unwrap() error { return e.Err }

// Hint returns what the user can do.
func (e *UnreadableError) Hint() string {
	var unsupported *parquet.UnsupportedError
	var content *contentError
	var format *foreign.Format
	switch {
	case errors.As(e.Err, &format) && e.fromHub && strings.Contains(format.Hint(), e.File):
		return "copy it out of the hub's cache, and there " + format.Hint()
	case errors.As(e.Err, &format):
		return format.Hint()
	case errors.As(e.Err, &unsupported):
		return unsupported.Hint
	case errors.As(e.Err, &content) && e.fromHub:
		return "copy it out of the hub's cache, and there " + content.hint(e.File)
	case errors.As(e.Err, &content):
		return content.hint(e.File)
	case errors.Is(e.Err, errLongRow) && e.Unit == "":
		return "write it as JSON lines, a trace a line"
	case errors.Is(e.Err, errLongRow):
		return "look for a newline that is missing: a row has one JSON value"
	case errors.Is(e.Err, zstd.ErrWindowSizeExceeded), errors.Is(e.Err, zstd.ErrDecoderSizeExceeded):
		return "compress the file again with zstd --long=27 or less"
	case e.fromHub:
		return "another revision or file of the dataset: this one is on the hub as it is"
	case e.From > 0 && (errors.Is(e.Err, errTruncated) || errors.Is(e.Err, errZeros)):
		return fmt.Sprintf("fetch or copy the file again; head -n %d keeps its whole lines", e.From-1)
	}
	return "fetch or copy the file again: it is damaged or truncated, or not what its name says"
}

// MemoryLimitError says that a row, or the retained data of all rows, needs more memory than the MemoryBudget allows.
type MemoryLimitError struct {
	Text string // what needs too much, and the limit
	Hint string // what the user can do
}

func (e *MemoryLimitError) Error() string { return e.Text }
