package cachestore

import (
	"context"

	"github.com/agentx/agentx/mmapcache"
)

// RemoveUnnamed removes parts that no dataset names and no process uses, such as those of a build that has failed. It keeps the others.
func RemoveUnnamed(ctx context.Context, root string, parts []mmapcache.Reference, o RemoveOptions) (*GCReport, error) {
	c := newCollector(root, false)
	return c.report, c.removeParts(ctx, parts, o, func(part *item) error { return c.free(part, "no dataset names it") })
}

// RemoveDamaged removes parts that are damaged, although datasets name them, so that a conversion builds these parts alone. It
// verifies each once more. It keeps what is whole and, also if forced, what a process uses; the report says so.
func RemoveDamaged(ctx context.Context, root string, parts []mmapcache.Reference, o RemoveOptions) (*GCReport, error) {
	c := newCollector(root, false)
	c.repair = true
	return c.report, c.removeParts(ctx, parts, o, func(part *item) error { return c.removeDamaged(ctx, part) })
}

// removeParts calls remove for those of some parts that exist.
func (c *collector) removeParts(ctx context.Context, parts []mmapcache.Reference, o RemoveOptions, remove func(*item) error) error {
	return c.removing(ctx, o, func() error {
		for _, part := range parts {
			if err := c.stopped(ctx); err != nil {
				return err
			}
			if it := c.byName[part.Name()]; it != nil && part.Kind != mmapcache.DatasetKind && !it.freed && !it.link {
				c.addError(remove(it))
			}
		}
		return nil
	})
}

func (c *collector) removeDamaged(ctx context.Context, part *item) error {
	v, err := mmapcache.VerifyPart(ctx, c.root, part.kind, part.key)
	switch {
	case err != nil:
		return err
	case len(v.Damages) == 0:
		c.keepItem(part, "it is whole")
		return nil
	}
	return c.free(part, "damaged: "+v.Damages[0].Reason)
}
