package mmapcache

import (
	"github.com/agentx/agentx/internal/cachedir"
	"github.com/agentx/agentx/manifest"
)

// Errors that a caller may act on. They are wrapped: use errors.Is.
var (
	// ErrDamaged is wrapped by errors about a file that has changed since it was written, or is missing. They name the
	// file. Convert again, or copy the dataset again.
	ErrDamaged = manifest.ErrDamaged

	// ErrNoCache is wrapped by errors about a dataset or part that does not exist.
	ErrNoCache = cachedir.ErrNoCache
)
