package cachestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/internal/cachedir"
)

// collector removes directories of one root: one run of GC or Remove.
type collector struct {
	root      string
	disk      disk
	now       time.Time     // by the clock of the file system
	keep      time.Duration // after the last use
	force     bool          // also datasets in use
	requested bool          // by name: the last use does not count
	repair    bool          // parts that are damaged, although datasets name them
	dryRun    bool
	opts      durable.Options // with the lease, nil in a dry run and on a full disk
	removal   *durable.Removal
	renamed   []RemovedDirectory // away from their names: finish removes them

	items      []*item
	byName     map[string]*item           // by "kind/key"
	names      map[string]map[string]bool // by key of a dataset that was read: its parts, each "kind/key"
	unreadable map[string]bool            // by key of a dataset: its parts could not be told when it was last read
	naming     map[string][]string        // by part, "kind/key": keys of the datasets that were read and name it
	notes      *durable.Notes             // of use
	noted      bool                       // the notes were read
	total      int64                      // bytes of the items that are left
	report     *GCReport
	errors     []error // the first maxErrors
	more       int     // errors beyond those
}

// maxErrors bounds the errors of a run: a root that cannot be written gives one for each of thousands of parts.
const maxErrors = 10

// item is one directory.
type item struct {
	kind, key string
	number    int // in the order of the items
	bytes     int64
	made      time.Time // by the clock of the file system
	used      time.Time // of a dataset: last use
	damaged   bool      // of a dataset: it cannot be opened
	link      bool      // a symbolic link: a person made it, perhaps to a disk that is not mounted
	freed     bool
	kept      bool // and reported as such
}

func (it *item) name() string { return it.kind + "/" + it.key }

func newCollector(root string, dryRun bool) *collector {
	return &collector{
		root: root, disk: realDisk(), dryRun: dryRun, report: newReport(dryRun), notes: durable.NewNotes(useDirOf(root)),
		byName: map[string]*item{}, names: map[string]map[string]bool{}, unreadable: map[string]bool{}, naming: map[string][]string{},
	}
}

// setNow reads the clock of the file system. It uses the clock of this machine if the disk is full or, in a dry run,
// cannot be written.
func (c *collector) setNow() (err error) {
	if !c.now.IsZero() {
		return nil
	}
	c.now, err = durable.FilesystemTime(c.root)
	switch {
	case err == nil:
	case c.dryRun || durable.IsDiskFull(err):
		c.now = time.Now()
	default:
		return fmt.Errorf("cache root %s: %w", c.root, err)
	}
	return nil
}

// claim makes this process the only one that removes from the root, until release. On a full disk, which has no room for a
// lease, it goes on without. It waits for another process at most so long, 0: defaultRemovalWait, tells onWait, which may be nil, of whom it
// waits for and how long it has, and fails with ErrRemoving where that goes on. A dry run claims nothing.
func (c *collector) claim(ctx context.Context, wait time.Duration, onWait func(string, time.Duration)) error {
	defer func() { c.removal = c.opts.Removal(c.root) }()
	if c.dryRun {
		return nil
	}
	c.opts = durable.OptionsOf(ctx)
	if wait == 0 {
		wait = defaultRemovalWait
	}
	holder := ""
	lease, err := durable.Acquire(ctx, c.root, removalLease, func() (bool, error) { return false, nil }, durable.Waiting{
		Limit: wait,
		Report: func(who string, waited time.Duration) {
			if holder = ": " + who; onWait != nil {
				onWait(who, waited)
			}
		},
	})
	switch {
	case errors.Is(err, durable.ErrBusy):
		return fmt.Errorf("cache root %s: %w%s", c.root, ErrRemoving, holder)
	case durable.IsDiskFull(err):
		return nil
	}
	c.opts.Lease = lease
	return err
}

func (c *collector) release() {
	if c.opts.Lease != nil {
		c.addError(c.opts.Lease.Release())
	}
}

// stopped returns why nothing more may be removed: the context has ended, or the lease is lost.
func (c *collector) stopped(ctx context.Context) error {
	if err := ctx.Err(); err != nil || c.opts.Lease == nil {
		return err
	}
	return context.Cause(c.opts.Lease.Context())
}

// addError keeps an error of one directory, up to maxErrors. The run goes on.
func (c *collector) addError(err error) {
	switch {
	case err == nil:
	case len(c.errors) < maxErrors:
		c.errors = append(c.errors, err)
	default:
		c.more++
	}
}

// joined returns the errors of the run, and the one that ended it.
func (c *collector) joined(last error) error {
	errs := append(c.errors, last)
	if c.more > 0 {
		errs = append(errs, fmt.Errorf("%d more errors", c.more))
	}
	return errors.Join(errs...)
}

// finish removes what was renamed away, after one sync of each directory above it, and reports it.
func (c *collector) finish() {
	failed := c.removal.Finish()
	for _, r := range c.renamed {
		it := c.byName[r.Kind+"/"+r.Key]
		if err := failed[it.name()]; err != nil {
			it.freed = false
			c.keepItem(it, "it cannot be removed: "+err.Error())
			c.addError(err)
			continue
		}
		c.total -= it.bytes
		c.report.Removed = append(c.report.Removed, r)
	}
	c.renamed = nil
}

func (c *collector) addRenamed(it *item, why string) {
	it.freed = true
	c.renamed = append(c.renamed, RemovedDirectory{c.path(it), it.kind, it.key, it.bytes, why})
}

func (c *collector) path(it *item) string { return filepath.Join(c.root, it.kind, it.key) }

// keepItem reports once that a directory stays.
func (c *collector) keepItem(it *item, why string) {
	if !it.kept {
		it.kept = true
		c.report.Kept = append(c.report.Kept, KeptDirectory{c.path(it), why})
	}
}

// scan lists the directories of the root.
func (c *collector) scan() error {
	for _, kind := range mmapcache.Kinds() {
		keys, err := c.disk.keysOf(c.root, kind)
		if err != nil {
			return err
		}
		for _, key := range keys {
			info, err := os.Lstat(filepath.Join(c.root, kind, key))
			if errors.Is(err, fs.ErrNotExist) {
				continue // removed since it was listed
			}
			if err != nil {
				return err
			}
			c.addItem(kind, key, info)
		}
	}
	c.report.BytesBefore = c.total
	return nil
}

// addItem notes size, age and last use of a directory.
func (c *collector) addItem(kind, key string, info fs.FileInfo) {
	it := &item{kind: kind, key: key, number: len(c.items), bytes: sizeOf(c.root, kind, key), made: info.ModTime(), link: info.Mode()&fs.ModeSymlink != 0}
	it.used = it.made
	if kind == mmapcache.DatasetKind {
		if used := lastUse(c.root, key); used != nil {
			it.used = *used
		}
		if it.used.After(c.now) { // a clock that was wrong for a while must not keep it for years
			it.used = c.now
			if !c.dryRun {
				recordUse(c.root, key)
			}
		}
		_, err := c.partsOf(key)
		it.damaged = err != nil && cachedir.IsDamage(err)
	}
	c.items = append(c.items, it)
	c.byName[it.name()] = it
	c.total += it.bytes
}

// parts returns the items that are no datasets.
func (c *collector) parts() []*item {
	return slices.DeleteFunc(slices.Clone(c.items), func(it *item) bool { return it.kind == mmapcache.DatasetKind })
}

// datasetsByUse returns the datasets, the least recently used first.
func (c *collector) datasetsByUse() []*item {
	list := slices.DeleteFunc(slices.Clone(c.items), func(it *item) bool { return it.kind != mmapcache.DatasetKind })
	slices.SortStableFunc(list, func(a, b *item) int { return a.used.Compare(b.used) })
	return list
}

// free renames a directory away unless something needs it, and reports that. finish removes it.
func (c *collector) free(it *item, why string) error {
	err := c.rename(it)
	if stays, ok := err.(neededError); ok {
		c.keepItem(it, stays.why)
		if foreign := (*durable.ForeignError)(nil); c.repair && errors.As(err, &foreign) {
			return foreign
		}
		return nil
	}
	var stays neededError
	switch {
	case errors.As(err, &stays): // joined with another error
		c.keepItem(it, err.Error())
		return fmt.Errorf("%s: %w", c.path(it), err)
	case err != nil:
		c.keepItem(it, "it cannot be removed: "+err.Error())
		return err
	}
	c.addRenamed(it, why)
	return nil
}

// freeWithParts frees a dataset, and then those of its parts that nothing else needs.
func (c *collector) freeWithParts(ctx context.Context, it *item, why string) error {
	if err := c.free(it, why); err != nil {
		return err
	}
	return c.freeParts(ctx, it)
}

// partsOfItem returns those parts of a dataset that were scanned, in the order of the items.
func (c *collector) partsOfItem(dataset *item) (parts []*item) {
	for name := range c.names[dataset.key] {
		if part := c.byName[name]; part != nil {
			parts = append(parts, part)
		}
	}
	slices.SortFunc(parts, func(a, b *item) int { return a.number - b.number })
	return parts
}

// freeParts removes a dataset that was renamed away, and then those of its parts that nothing else needs, until the context or the
// lease ends. Until the dataset is gone on disk no part may lose its name.
func (c *collector) freeParts(ctx context.Context, dataset *item) error {
	c.finish()
	if !dataset.freed {
		return nil
	}
	defer c.finish()
	for _, part := range c.partsOfItem(dataset) {
		if part.freed || part.link {
			continue
		}
		if err := c.stopped(ctx); err != nil {
			return err
		}
		named, maybe, err := c.namedBy(part, known)
		switch {
		case err != nil:
			return err
		case named:
		case maybe != "":
			c.keepItem(part, maybe)
		default:
			c.addError(c.free(part, "no dataset names it any more"))
		}
	}
	return nil
}

// rename renames a directory away. It checks that the directory is unneeded before it marks it, so that no process waits for a
// mark in vain, and again after that, when a process that begins to use the directory waits.
func (c *collector) rename(it *item) error {
	if err := c.checkUnneeded(it, known); err != nil || c.dryRun {
		return err
	}
	err := c.removal.Remove(it.name(), func() error { return c.checkUnneeded(it, fresh) })
	if foreign := (*durable.ForeignError)(nil); errors.As(err, &foreign) {
		return neededError{why: "it belongs to " + foreign.Owner + ", who alone may remove it", is: foreign}
	}
	var stays neededError
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, durable.ErrLost) && !errors.As(err, &stays) { // another process was faster
		if _, err = os.Lstat(c.path(it)); err == nil {
			return neededError{why: "another process has made it again"}
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil && it.kind == mmapcache.DatasetKind {
		_ = os.Remove(usePath(c.root, it.key, usedSuffix)) // a later sweep removes it if this cannot
	}
	return err
}

// neededError says why a directory is not removed.
type neededError struct {
	why string
	is  error // ErrPinned, ErrInUse or nil
}

func (e neededError) Error() string { return e.why }
func (e neededError) Unwrap() error { return e.is }

// view says by which notes of use, and which list of datasets, the collector checks.
type view int

const (
	known view = iota // those that were read last: nothing is removed for what they say
	fresh             // the collector reads them again
)

// checkUnneeded returns a neededError if a directory must not be removed now. Another error says that it could not check.
func (c *collector) checkUnneeded(it *item, read view) error {
	if it.kind != mmapcache.DatasetKind {
		return c.checkPart(it, read)
	}
	if err := c.checkPin(it); err != nil {
		return err
	}
	parts, err := c.partsOf(it.key)
	if err != nil && !cachedir.IsDamage(err) {
		return neededError{why: fmt.Sprintf("what it names cannot be read: %v", err)}
	}
	if it.damaged && parts != nil {
		return neededError{why: "it is whole again"}
	}
	if err := c.checkUsers(it, read); err != nil || it.damaged || c.requested {
		return err
	}
	return c.checkAge(it)
}

// checkPin returns a neededError for a pinned dataset.
func (c *collector) checkPin(dataset *item) error {
	pin, err := readPin(c.root, dataset.key)
	if err == nil && pin != nil {
		err = neededError{fmt.Sprintf("%v by %v", ErrPinned, pin), ErrPinned}
	}
	return err
}

// checkUsers returns a neededError for a directory that a process uses.
func (c *collector) checkUsers(it *item, read view) error {
	if read == fresh || !c.noted {
		if _, err := c.notes.Read(c.now); err != nil {
			return err
		}
		c.noted = true
	}
	forced := c.force && it.kind == mmapcache.DatasetKind
	if who := c.notes.Users(it.name()); who != "" && !forced {
		return neededError{fmt.Sprintf("%v by %s", ErrInUse, who), ErrInUse}
	}
	return nil
}

// checkAge refuses a dataset that was used within the time to keep, or since it was scanned.
func (c *collector) checkAge(dataset *item) error {
	if ago := c.now.Sub(dataset.used); c.keep > 0 && ago < c.keep {
		return neededError{why: fmt.Sprintf("used %s ago, less than %s", ageText(ago), ageText(c.keep))}
	}
	if last := lastUse(c.root, dataset.key); last != nil && last.After(dataset.used) && dataset.used.Before(c.now) {
		return neededError{why: "used meanwhile"}
	}
	return nil
}

// checkPart returns a neededError for a part that a process uses or a dataset names.
func (c *collector) checkPart(part *item, read view) error {
	if err := c.checkUsers(part, read); err != nil || c.repair {
		return err
	}
	named, maybe, err := c.namedBy(part, read)
	switch {
	case named:
		return neededError{why: "a dataset names it"}
	case maybe != "":
		return neededError{why: maybe}
	}
	return err
}

// namedBy reports whether a dataset names a part, or why one may that cannot be read. A fresh view has the datasets that exist now,
// for others may be published at any time; the known one has those that were read and not removed since.
func (c *collector) namedBy(part *item, read view) (named bool, maybe string, err error) {
	exists := func(key string) bool {
		it := c.byName[mmapcache.DatasetKind+"/"+key]
		return it == nil || !it.freed // a dry run leaves out the datasets that it would have removed
	}
	if read == fresh {
		keys, err := c.disk.keysOf(c.root, mmapcache.DatasetKind)
		if err != nil {
			return false, "", err
		}
		exists = func(key string) bool { return slices.Contains(keys, key) }
		for _, key := range keys {
			if c.names[key] == nil && !c.unreadable[key] { // one that is repaired meanwhile keeps its parts
				_, _ = c.partsOf(key) // which notes an error
			}
		}
	}
	if slices.ContainsFunc(c.naming[part.name()], exists) {
		return true, "", nil
	}
	last := ""
	for key := range c.unreadable {
		if exists(key) {
			last = max(last, key)
		}
	}
	if last != "" {
		maybe = fmt.Sprintf("dataset %s, which cannot be read, may name it", last)
	}
	return false, maybe, nil
}

// partsOf returns the parts that a dataset names, each "kind/key", nil for a dataset that does not exist any more. A key means
// content, so partsOf reads each manifest once.
func (c *collector) partsOf(key string) (names map[string]bool, err error) {
	if names, ok := c.names[key]; ok {
		return names, nil
	}
	defer func() {
		if delete(c.unreadable, key); err != nil {
			c.unreadable[key] = true
		}
	}()
	m, err := c.disk.ReadManifest(c.root, mmapcache.DatasetKind, key, "")
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(mmapcache.DatasetPath(c.root, key)); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
	}
	if err != nil {
		return nil, err
	}
	parts, err := partsOf(m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", mmapcache.DatasetPath(c.root, key), err)
	}
	names = make(map[string]bool, len(parts))
	for _, part := range parts {
		name := part.Name()
		if !names[name] {
			c.naming[name] = append(c.naming[name], key)
		}
		names[name] = true
	}
	c.names[key] = names
	return names, nil
}
