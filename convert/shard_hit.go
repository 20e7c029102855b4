package convert

import (
	"context"
	"errors"
	"slices"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// findShards completes the result from a dataset of shards that exists, if all its parts do. It reads no row.
func (c *conversion) findShards(ctx context.Context, dataset *manifest.Manifest) (found bool, err error) {
	facts, err := mmapcache.DatasetFactsOf(dataset)
	if err != nil {
		return false, nil // it is published again
	}
	parts, err := mmapcache.PartsOf(dataset)
	if err != nil {
		return false, err
	}
	defer cachestore.NoteDataset(ctx, c.options.Root, dataset.Key).Close()
	for _, p := range parts {
		m, err := c.find(p.Kind, p.Key)
		if err != nil && !errors.Is(err, manifest.ErrDamaged) {
			return false, err
		}
		if m == nil || m.Digest != p.Digest {
			return false, nil // the shards are looked up one by one, and the missing ones built
		}
		if p.Kind == mmapcache.ArenasKind {
			c.notePart(m, true)
		}
	}
	c.notePart(dataset, true)
	c.result.Shards = &cachestore.ShardCount{Total: len(facts.Shards), Found: len(facts.Shards)}
	c.result.Facts = facts.StructureFacts
	c.result.Facts.Skipped = slices.Clone(facts.Skipped)
	c.locateSkipped(&c.result.Facts)
	if err := c.enforceFlags(c.result.Facts); err != nil {
		return false, err
	}
	c.warnWithoutChecksum()
	return true, c.complete(dataset, false)
}
