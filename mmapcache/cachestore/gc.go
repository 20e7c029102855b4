package cachestore

import (
	"context"
	"fmt"
	"time"

	"github.com/agentx/agentx/internal/durable"
)

// Defaults of the options.
const (
	// defaultSharedKeep is for how long GC keeps a dataset after its last use in a root that other machines may read: a
	// reader on a read-only mount can leave no note.
	defaultSharedKeep = 7 * 24 * time.Hour

	// defaultRemovalWait is for how long GC and Remove wait for another process that removes from the same root.
	defaultRemovalWait = time.Minute
)

// GCOptions say what GC frees besides garbage. The zero value frees garbage alone.
type GCOptions struct {
	MaxBytes *int64         // free the least recently used datasets until all directories take no more bytes; nil: no limit
	MaxAge   time.Duration  // free datasets whose last use is longer ago; 0: no limit
	Keep     *time.Duration // keep what was used within this time; nil: a week in a root that other machines may read, else 0
	DryRun   bool           // report only

	Wait   time.Duration                             // for another process that removes from the root; 0: a minute; below 0: not at all
	OnWait func(holder string, waited time.Duration) // called about twice a second while GC waits; may be nil

	now time.Time // of tests; zero: the time of the file system
}

// Validate reports the option that is out of range.
func (o GCOptions) Validate() error {
	switch {
	case o.MaxBytes != nil && *o.MaxBytes < 0:
		return fmt.Errorf("max bytes %d: want 0 or more", *o.MaxBytes)
	case o.MaxAge < 0:
		return fmt.Errorf("max age %s: want 0 or more", o.MaxAge)
	case o.Keep != nil && *o.Keep < 0:
		return fmt.Errorf("keep %s: want 0 or more", *o.Keep)
	}
	return nil
}

// RemovedDirectory is a directory that GC or Remove removed.
type RemovedDirectory struct {
	Path  string `json:"path"`
	Kind  string `json:"kind"`
	Key   string `json:"key"`
	Bytes int64  `json:"bytes"`
	Why   string `json:"why"`
}

// KeptDirectory is a directory that was to be removed and stays.
type KeptDirectory struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Leftover is a file or directory that a killed process or a removed dataset left.
type Leftover struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	Owner string `json:"owner"`
}

// GCReport is what GC or Remove did.
type GCReport struct {
	Removed     []RemovedDirectory `json:"removed"` // in this order
	Kept        []KeptDirectory    `json:"kept"`
	Swept       []Leftover         `json:"swept"`
	BytesBefore int64              `json:"bytes_before"` // of all directories, and of what was swept
	BytesAfter  int64              `json:"bytes_after"`
	Freed       int64              `json:"freed"`
	DryRun      bool               `json:"dry_run"`
}

func newReport(dryRun bool) *GCReport {
	return &GCReport{Removed: []RemovedDirectory{}, Kept: []KeptDirectory{}, Swept: []Leftover{}, DryRun: dryRun}
}

// sum adds up what was freed. BytesBefore is that of the directories so far.
func (r *GCReport) sum() {
	for _, l := range r.Swept {
		r.BytesBefore += l.Bytes
		r.Freed += l.Bytes
	}
	for _, m := range r.Removed {
		r.Freed += m.Bytes
	}
	r.BytesAfter = r.BytesBefore - r.Freed
}

// GC frees garbage: what killed processes have left, datasets that cannot be opened, parts that no dataset names. Then it
// frees datasets that were not used for MaxAge, and the least recently used ones until the rest takes MaxBytes, each with
// those of its parts that no other dataset names. What is pinned, in use or was used within Keep stays.
//
// One process at a time removes from a root; the others wait. GC marks a directory before it removes it, and then looks
// once more whether a process has begun to use it. That process waits until the directory, or the mark, is gone
// (internal/durable). A dataset goes before its parts: wherever GC is stopped, no dataset names a part that is gone.
//
// GC goes on after a directory that cannot be removed; the error, beside the report, says which. Without a report nothing
// was done.
func GC(ctx context.Context, root string, o GCOptions) (*GCReport, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	c := newCollector(root, o.DryRun)
	c.now = o.now
	if holds, err := holdsCache(root); err != nil {
		return nil, err
	} else if !holds {
		return c.report, nil
	}
	if err := checkNoLinks(root); err != nil {
		return nil, err
	}
	if err := c.setNow(); err != nil {
		return nil, err
	}
	return c.report, c.collect(ctx, o)
}

// collect sweeps, and frees directories while no other process removes any.
func (c *collector) collect(ctx context.Context, o GCOptions) error {
	switch {
	case o.Keep != nil:
		c.keep = *o.Keep
	case isShared(c.root):
		c.keep = defaultSharedKeep
	}
	c.addError(c.sweep())
	err := c.claim(ctx, o.Wait, o.OnWait)
	if err == nil {
		err = c.freeAll(ctx, o)
		c.release()
	}
	c.report.sum()
	return c.joined(err)
}

// freeAll frees directories step by step. It frees parts that no dataset names before datasets that can be opened: those
// parts may be enough.
func (c *collector) freeAll(ctx context.Context, o GCOptions) error {
	if err := c.scan(); err != nil {
		return err
	}
	datasets := c.datasetsByUse()
	c.each(ctx, datasets, c.freeDamaged)
	c.each(ctx, c.parts(), c.freeUnnamed)
	c.each(ctx, datasets, func(it *item) error {
		unused := c.now.Sub(it.used)
		if it.damaged || o.MaxAge <= 0 || unused <= o.MaxAge {
			return nil
		}
		return c.freeWithParts(ctx, it, "not used for "+ageText(unused))
	})
	c.each(ctx, datasets, func(it *item) error {
		if it.damaged || o.MaxBytes == nil || c.total <= *o.MaxBytes {
			return nil
		}
		return c.freeWithParts(ctx, it, fmt.Sprintf("least recently used, %s ago", ageText(c.now.Sub(it.used))))
	})
	return c.stopped(ctx)
}

// each calls free for the items that are left, until the context or the lease ends. It removes what they have renamed away.
func (c *collector) each(ctx context.Context, list []*item, free func(*item) error) {
	for _, it := range list {
		if c.stopped(ctx) == nil && !it.freed && !it.link {
			c.addError(free(it))
		}
	}
	c.finish()
}

// minAge is how old a directory must be before it counts as garbage: a build publishes the parts before the dataset that
// names them.
const minAge = time.Hour

func (c *collector) freeDamaged(dataset *item) error {
	if !dataset.damaged {
		return nil
	}
	if c.now.Sub(dataset.made) < minAge {
		c.keepItem(dataset, "damaged, but made less than an hour ago")
		return nil
	}
	return c.free(dataset, "damaged: it cannot be opened")
}

func (c *collector) freeUnnamed(part *item) error {
	switch named, maybe, err := c.namedBy(part, known); {
	case err != nil || named:
		return err
	case maybe != "":
		c.keepItem(part, maybe)
		return nil
	case c.now.Sub(part.made) < minAge:
		c.keepItem(part, "no dataset names it, but it was made less than an hour ago")
		return nil
	}
	return c.free(part, "no dataset names it")
}

// ageText writes a duration for people.
func ageText(d time.Duration) string {
	switch day := 24 * time.Hour; {
	case d >= 2*day:
		return fmt.Sprintf("%dd", d/day)
	case d >= time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d >= time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return fmt.Sprintf("%ds", max(0, d/time.Second))
}

// leftovers turns leftovers of internal/durable into those of a report.
func leftovers(list []durable.Leftover) (report []Leftover) {
	for _, l := range list {
		report = append(report, Leftover(l))
	}
	return report
}
