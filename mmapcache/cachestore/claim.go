package cachestore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// ClaimOptions say how to claim a directory. The zero value waits without limit for another process that makes
// the same directory.
type ClaimOptions struct {
	Rebuild bool          // make the directory although it exists
	Trust   bool          // take a directory although everybody may write it, which counts as damaged otherwise
	Wait    time.Duration // for another process that makes the same; 0: as long as it takes; below 0: not at all

	// OnWait is called about twice a second while Claim waits, with the process that makes the directory. It may be nil.
	OnWait func(holder string, waited time.Duration)
}

// Lease is the right of this process to make one directory of a root.
type Lease struct{ lease *durable.Lease }

// Context ends when the context given to Claim does, or when another process has taken the lease over: its cause then
// wraps ErrLost. A mmapcache.NewBuilder under this context can publish only while the lease is held.
func (l *Lease) Context() context.Context { return l.lease.Context() }

// Release ends the lease and removes unpublished files. After an error other processes wait until the lease expires.
func (l *Lease) Release() error { return l.lease.Release() }

// Claim returns a lease to make a directory, or the manifest of the directory if it exists and its files have their full
// size. Another process may have made it while Claim waited. A damaged directory counts as missing, unless another user alone may
// replace it: then Claim fails. kind is one of mmapcache.Kinds, and key is one name of a directory.
func Claim(ctx context.Context, root, kind, key string, o ClaimOptions) (*Lease, *manifest.Manifest, error) {
	if !slices.Contains(mmapcache.Kinds(), kind) || key == "" || key != filepath.Base(key) || key[0] == '.' {
		return nil, nil, fmt.Errorf("cachestore: claim %q of kind %q: want the name of a directory, and a kind of %s", key, kind, strings.Join(mmapcache.Kinds(), ", "))
	}
	var found *manifest.Manifest
	lease, err := claimName(ctx, root, kind+"-"+key, func() (_ bool, err error) {
		if o.Rebuild {
			return false, nil
		}
		found, err = mmapcache.LookupGuarded(root, kind, key, o.Trust)
		if errors.Is(err, manifest.ErrDamaged) {
			return false, nil
		}
		return found != nil, err
	}, o)
	return lease, found, err
}

// ShardsKind begins the name of a lease to make shards. No directory has this kind.
const ShardsKind = "shards"

// ClaimShards returns a lease to make the shards of some files, or nil where made reports that all exist. It calls made before
// each look at the lease, which is named by the key of the first structure. Another process may have made them while it
// waited; o.Wait below 0 gives an error that wraps ErrBusy while another process holds the lease. Under the lease any
// directory can be published.
func ClaimShards(ctx context.Context, root, key string, made func() (bool, error), o ClaimOptions) (*Lease, error) {
	return claimName(ctx, root, ShardsKind+"-"+key, made, o)
}

func claimName(ctx context.Context, root, name string, made func() (bool, error), o ClaimOptions) (*Lease, error) {
	lease, err := durable.Acquire(ctx, root, name, made, durable.Waiting{Limit: o.Wait, Report: o.OnWait})
	if lease == nil {
		return nil, err
	}
	writeReadme(root)
	return &Lease{lease}, err
}
