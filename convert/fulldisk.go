package convert

import (
	"context"
	"slices"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/cachestore"
)

// explainFullDisk makes an error of a disk without room one line, and removes the parts that the conversion has published: no dataset
// names them yet, and they take the room that people look for. Shards stay, because the next run begins there. It returns any other
// error as it is.
func (c *conversion) explainFullDisk(ctx context.Context, err error) error {
	if !durable.IsDiskFull(err) {
		return err
	}
	var built []mmapcache.Reference
	for kind, p := range c.result.Parts {
		if !p.Hit {
			built = append(built, mmapcache.Reference{Kind: kind, Part: manifest.Part{Key: p.Key}})
		}
	}
	slices.SortFunc(built, func(a, b mmapcache.Reference) int {
		return slices.Index(mmapcache.Kinds(), a.Kind) - slices.Index(mmapcache.Kinds(), b.Kind)
	})
	if len(built) > 0 {
		_, _ = cachestore.RemoveUnnamed(ctx, c.options.Root, built, cachestore.RemoveOptions{Wait: -1}) // what stays, agentx cache gc frees
	}
	return cachestore.ExplainFullDisk(c.options.Root, err)
}
