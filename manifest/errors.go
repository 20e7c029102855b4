package manifest

import "errors"

// ErrDamaged is wrapped by errors about a manifest or file that is not what it was when it was written.
var ErrDamaged = errors.New("damaged")
