package cachestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/internal/cachedir"
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
	c.free(ctx, datasets, c.whyDamaged)
	c.free(ctx, c.parts(), c.whyUnnamed)
	c.free(ctx, datasets, func(it *item) string {
		unused := c.now.Sub(it.used)
		if it.damaged || o.MaxAge <= 0 || unused <= o.MaxAge {
			return ""
		}
		return "not used for " + ageText(unused)
	})
	for c.free(ctx, datasets, func(it *item) string { // again where less could go than was planned
		if it.damaged || o.MaxBytes == nil || c.total-c.leaving <= *o.MaxBytes {
			return ""
		}
		return fmt.Sprintf("least recently used, %s ago", ageText(c.now.Sub(it.used)))
	}) {
	}
	return c.stopped(ctx)
}

// minAge is how old a directory must be before it counts as garbage: a build publishes the parts before the dataset that
// names them.
const minAge = time.Hour

// whyDamaged says why a dataset that cannot be opened goes, unless it is too young to count as garbage.
func (c *collector) whyDamaged(dataset *item) string {
	if !dataset.damaged {
		return ""
	}
	if c.now.Sub(dataset.made) < minAge {
		c.keepItem(dataset, "damaged, but made less than an hour ago")
		return ""
	}
	return "damaged: it cannot be opened"
}

// whyUnnamed says why a part that no dataset names goes, unless it is too young to count as garbage.
func (c *collector) whyUnnamed(part *item) string {
	if c.whyLeft(part) == "" {
		return ""
	}
	if c.now.Sub(part.made) < minAge {
		c.keepItem(part, "no dataset names it, but it was made less than an hour ago")
		return ""
	}
	return "no dataset names it"
}

// whyLeft says why a part goes whose dataset has gone.
func (c *collector) whyLeft(part *item) string {
	switch named, maybe := c.namedBy(part, known); {
	case named:
		return ""
	case maybe != "":
		c.keepItem(part, maybe)
		return ""
	}
	return "no dataset names it any more"
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
	err := c.checkUnneeded(it, known)
	if err == nil {
		it.why, it.freed = "asked for", true
		c.take(ctx, []*item{it}, func(_ *item, why error) { err = why })
	}
	if err != nil {
		return fmt.Errorf("dataset %s: %w", mmapcache.DatasetPath(c.root, key), err)
	}
	if it.freed {
		c.free(ctx, c.partsOfItem(it), c.whyLeft)
	}
	return c.stopped(ctx)
}

// RemoveUnnamed removes parts that no dataset names and no process uses, such as those of a build that has failed. It keeps the others.
func RemoveUnnamed(ctx context.Context, root string, parts []mmapcache.Reference, o RemoveOptions) (*GCReport, error) {
	c := newCollector(root, false)
	return c.report, c.removeParts(ctx, parts, o, func(*item) string { return "no dataset names it" })
}

// removeDamaged removes parts that are damaged, although datasets name them, so that a conversion builds these parts alone. It
// verifies each once more. It keeps what is whole and, also if forced, what a process uses; the report says so.
func removeDamaged(ctx context.Context, root string, parts []mmapcache.Reference, o RemoveOptions) (*GCReport, error) {
	c := newCollector(root, false)
	c.repair = true
	return c.report, c.removeParts(ctx, parts, o, func(part *item) string { return c.whyFoundDamaged(ctx, part) })
}

// removeParts removes those of some parts that exist and for which reason gives one.
func (c *collector) removeParts(ctx context.Context, parts []mmapcache.Reference, o RemoveOptions, reason func(*item) string) error {
	return c.removing(ctx, o, func() error {
		var list []*item
		for _, part := range parts {
			if it := c.byName[part.Name()]; it != nil && part.Kind != mmapcache.DatasetKind {
				list = append(list, it)
			}
		}
		c.free(ctx, list, reason)
		return c.stopped(ctx)
	})
}

// whyFoundDamaged verifies a part, and says why it goes.
func (c *collector) whyFoundDamaged(ctx context.Context, part *item) string {
	v, err := mmapcache.VerifyPart(ctx, c.root, part.kind, part.key)
	switch {
	case err != nil:
		c.addError(err)
		return ""
	case len(v.Damages) == 0:
		c.keepItem(part, "it is whole")
		return ""
	}
	return "damaged: " + v.Damages[0].Reason
}

// sweep removes what killed processes have left, and the last uses and pins of datasets that do not exist any more.
func (c *collector) sweep() error {
	staged, err := durable.Sweep(c.root, c.now, c.dryRun)
	c.report.Swept = append(c.report.Swept, leftovers(staged)...)
	notes, useErr := c.notes.Read(c.now)
	records, listErr := c.orphanedRecords()
	errs := []error{err, useErr, listErr}
	for _, l := range append(leftovers(notes), records...) {
		if !c.dryRun {
			if err := os.Remove(l.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
				continue
			}
		}
		c.report.Swept = append(c.report.Swept, l)
	}
	return errors.Join(errs...)
}

// orphanedRecords lists last uses and pins, older than minAge, that are of no dataset or half written.
func (c *collector) orphanedRecords() (list []Leftover, err error) {
	entries, err := os.ReadDir(useDirOf(c.root))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		info, err := e.Info()
		key, whole := keyOfRecord(e.Name())
		if err != nil || key == "" || c.now.Sub(info.ModTime()) < minAge {
			continue
		}
		owner := "an unfinished pin"
		if whole {
			if _, err := os.Lstat(mmapcache.DatasetPath(c.root, key)); !errors.Is(err, fs.ErrNotExist) {
				continue
			}
			owner = "dataset " + key + ", which does not exist any more"
		}
		list = append(list, Leftover{Path: filepath.Join(useDirOf(c.root), e.Name()), Bytes: info.Size(), Owner: owner})
	}
	return list, nil
}

// keyOfRecord returns the dataset key in the name of a record of last use or of a pin, and whether the file is whole.
// Other names give "".
func keyOfRecord(name string) (key string, whole bool) {
	for _, suffix := range []string{usedSuffix, pinSuffix} {
		if key, ok := strings.CutSuffix(name, suffix); ok && isKey(key) {
			return key, true
		}
	}
	// the temporary name that durable.WriteFile gives it
	if key, _, ok := strings.Cut(strings.TrimPrefix(name, "."), pinSuffix+"."); ok && isKey(key) && name[0] == '.' {
		return key, false
	}
	return "", false
}

// holdsCache reports whether a directory holds anything that is named like the contents of a cache root. GC changes no
// other directory.
func holdsCache(root string) (bool, error) {
	for _, kind := range mmapcache.Kinds() {
		if keys, err := realDisk().keysOf(root, kind); err != nil || len(keys) > 0 {
			return err == nil, err
		}
	}
	late := time.Now().AddDate(100, 0, 0) // when everything of a cache counts as left behind
	staged, err := durable.Sweep(root, late, true)
	if err != nil || len(staged) > 0 {
		return err == nil, err
	}
	notes, err := durable.NewNotes(useDirOf(root)).Read(late)
	if err != nil || len(notes) > 0 {
		return err == nil, err
	}
	entries, err := os.ReadDir(useDirOf(root))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { key, _ := keyOfRecord(e.Name()); return key != "" }), err
}
