package cachestore

import (
	"context"
	"errors"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// Claim returns a lease to make the directory of a kind and key, or its manifest when it is there in full size: before,
// or made by another process that this one has waited for. With again it is to be made although it is there. One that is
// damaged is to be made again.
//
// What is made under the lease, which goes into the options of NewBuilder, cannot be published once the lease is lost.
func Claim(ctx context.Context, root, kind, key string, again bool, w durable.Waiting, opts durable.Options) (*durable.Lease, *manifest.Manifest, error) {
	var there *manifest.Manifest
	lease, err := durable.Acquire(durable.WithOptions(ctx, opts), root, kind+"-"+key, func() (_ bool, err error) {
		if again {
			return false, nil
		}
		there, err = mmapcache.Lookup(root, kind, key)
		if errors.Is(err, manifest.ErrDamaged) {
			return false, nil
		}
		return there != nil, err
	}, w)
	if lease != nil {
		dropReadme(root)
	}
	return lease, there, err
}
