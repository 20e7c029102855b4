package conductor

import "errors"

// ErrEmptyTrees is the error of a lane that has finished because maxEmptyTrees trees in a row sent nothing.
var ErrEmptyTrees = errors.New("too many trees in a row sent nothing")
