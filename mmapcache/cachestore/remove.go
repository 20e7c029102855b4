package cachestore

import (
	"context"
	"fmt"
	"time"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/internal/cachedir"
)

// RemoveOptions say how to remove a dataset. The zero value refuses a dataset that is in use.
type RemoveOptions struct {
	Force bool // remove it although it is in use

	Wait   time.Duration                             // for another process that removes from the root; 0: a minute; below 0: not at all
	OnWait func(holder string, waited time.Duration) // called about twice a second while Remove waits; may be nil
}

// Remove removes a dataset, and then those of its parts that no other dataset names and no process uses. It refuses a
// pinned dataset with an error that wraps ErrPinned, and, unless forced, one in use with an error that wraps ErrInUse.
func Remove(ctx context.Context, root, key string, o RemoveOptions) (*GCReport, error) {
	c := newCollector(root, false)
	c.force, c.requested = o.Force, true
	if err := checkExists(root, key); err != nil {
		return c.report, err
	}
	return c.report, c.removing(ctx, o, func() error { return c.removeDataset(ctx, key) })
}

// removing scans the root and calls remove, while no other process removes any directory.
func (c *collector) removing(ctx context.Context, o RemoveOptions, remove func() error) error {
	if err := checkNoLinks(c.root); err != nil {
		return err
	}
	if err := c.setNow(); err != nil {
		return err
	}
	if err := c.claim(ctx, o.Wait, o.OnWait); err != nil {
		return err
	}
	err := c.scan()
	if err == nil {
		err = remove()
		c.finish()
	}
	c.release()
	c.report.sum()
	return c.joined(err)
}

// removeDataset removes a dataset and its parts.
func (c *collector) removeDataset(ctx context.Context, key string) error {
	if _, err := c.partsOf(key); err != nil && !cachedir.IsDamage(err) {
		return err
	}
	it := c.byName[mmapcache.DatasetKind+"/"+key]
	if it == nil {
		return nil // removed since
	}
	if err := c.rename(it); err != nil {
		return fmt.Errorf("dataset %s: %w", mmapcache.DatasetPath(c.root, key), err)
	}
	c.addRenamed(it, "asked for")
	return c.freeParts(ctx, it)
}

// RemoveUnnamed removes parts that no dataset names and no process uses, such as those of a build that has failed. It keeps the others.
func RemoveUnnamed(ctx context.Context, root string, parts []mmapcache.Reference, o RemoveOptions) (*GCReport, error) {
	c := newCollector(root, false)
	return c.report, c.removeParts(ctx, parts, o, func(part *item) error { return c.free(part, "no dataset names it") })
}

// removeDamaged removes parts that are damaged, although datasets name them, so that a conversion builds these parts alone. It
// verifies each once more. It keeps what is whole and, also if forced, what a process uses; the report says so.
func removeDamaged(ctx context.Context, root string, parts []mmapcache.Reference, o RemoveOptions) (*GCReport, error) {
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
