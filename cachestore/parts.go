package cachestore

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// partsOf lists the parts that a dataset names, each once, in the order in which they are published. It is empty for a manifest of
// another kind. Errors wrap manifest.ErrDamaged.
func partsOf(dataset *manifest.Manifest) (parts []mmapcache.Reference, err error) {
	all, err := mmapcache.PartsOf(dataset)
	if err != nil {
		return nil, err
	}
	seen := make(map[mmapcache.Reference]bool, len(all))
	for _, part := range all {
		if !seen[part] {
			seen[part] = true
			parts = append(parts, part)
		}
	}
	return parts, nil
}

// namesOf lists a dataset and its parts, each "kind/key". Of a dataset whose parts cannot be told it lists the dataset alone.
func namesOf(dataset *manifest.Manifest) []string {
	names := []string{mmapcache.DatasetKind + "/" + dataset.Key}
	parts, _ := partsOf(dataset)
	for _, part := range parts {
		names = append(names, part.Name())
	}
	return names
}

// partsAtOnce is how many parts of a dataset of shards are read or copied at once: most of the time passes in waiting for disks
// and other machines.
const partsAtOnce = 8

// each calls f for 0 to n-1, at most some at once. After an error it calls f for no more, and ends the context of those that run.
func each(ctx context.Context, n, atOnce int, f func(ctx context.Context, k int) error) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for k := range n {
		group.Go(func() error {
			if inner.Err() != nil {
				return nil // the context has ended, or another call has failed
			}
			return f(inner, k)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}
