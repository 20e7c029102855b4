package cachestore

import (
	"errors"

	"github.com/agentx/agentx/internal/durable"
)

// Errors that callers tell apart with errors.Is. An error about a dataset or part that does not exist wraps
// mmapcache.ErrNoCache; one about damage wraps manifest.ErrDamaged.
var (
	// ErrPinned: Remove was asked to remove a pinned dataset.
	ErrPinned = errors.New("pinned")

	// ErrInUse: Remove was asked to remove a dataset that a process uses.
	ErrInUse = errors.New("in use")

	// ErrRemoving: another process is removing directories of the same root, for longer than GC or Remove may wait.
	ErrRemoving = errors.New("another process is removing from this root")

	// ErrSameRoot: source and target of a Copy are one directory.
	ErrSameRoot = errors.New("source and target are one directory")

	// ErrBusy: another process makes the same directory, for longer than Claim or Copy may wait.
	ErrBusy = durable.ErrBusy

	// ErrLost: another process has taken a Lease over, because this one was silent for too long.
	ErrLost = durable.ErrLost
)
