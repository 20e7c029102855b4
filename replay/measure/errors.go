package measure

import "errors"

// ErrClosed is returned by Writer.Write after Close.
var ErrClosed = errors.New("record writer is closed")
