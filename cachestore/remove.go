package cachestore

import (
	"context"
	"fmt"
	"time"

	"github.com/agentx/agentx/internal/cachedir"
	"github.com/agentx/agentx/mmapcache"
)

// RemoveOptions say how to remove a dataset. The zero value refuses a dataset that is in use.
type RemoveOptions struct {
	Force bool // remove it although it is in use

	Wait   time.Duration                             // for another process that removes from the root; 0: DefaultRemovalWait; below 0: not at all
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
