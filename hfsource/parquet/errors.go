package parquet

import (
	"errors"
	"fmt"
)

// UnsupportedError says that a file uses something that this package does not read. The file may be intact.
type UnsupportedError struct {
	What string // what the file uses
	Hint string // how to write a file that this package reads
}

func (e *UnsupportedError) Error() string { return e.What + ": not read" }

// YieldError wraps an error that the callback of Rows returned.
type YieldError struct{ Err error }

func (e *YieldError) Error() string { return e.Err.Error() }

func (e *YieldError) Unwrap() error { return e.Err }

// Damage that is found in several places.
var (
	errThrift = errors.New("metadata is damaged")
	errLevels = errors.New("levels or indices are damaged")
	errValues = errors.New("values are damaged")
	errAmount = fmt.Errorf("%w: too few or too many", errValues)
	errSize   = errors.New("a page does not have the size that its header states")
	errArrow  = errors.New("the schema under " + arrowKey + " is damaged")
	errSpark  = errors.New("the schema under " + sparkKey + " is damaged")
)

var errEncrypted = &UnsupportedError{"it is encrypted", "write the file again without encryption, or as JSON lines"}

const (
	hintCompression = "write the file again with snappy, zstd or LZ4_RAW compression, or as JSON lines"
	hintEncoding    = "write the file again with plain or dictionary encoding, or as JSON lines"
)
