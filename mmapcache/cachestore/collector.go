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
	most      int                // mostMarked
	renamed   []RemovedDirectory // away from their names: finish removes them

	items      []*item
	byName     map[string]*item           // by "kind/key"
	names      map[string]map[string]bool // by key of a dataset that was read: its parts, each "kind/key"
	unreadable map[string]bool            // by key of a dataset: its parts could not be told when it was last read
	naming     map[string][]string        // by part, "kind/key": keys of the datasets that were read and name it
	notes      *durable.Notes             // of use
	noted      bool                       // the notes were read
	present    map[string]bool            // by key: the datasets of the last look
	total      int64                      // bytes of the items that are left
	leaving    int64                      // bytes of those of them that a batch is to free
	report     *GCReport
	lost       bool    // the lease, and that is among the errors
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
	why       string    // it goes
	freed     bool      // or about to be
	kept      bool      // and reported as such
}

func (it *item) name() string { return it.kind + "/" + it.key }

func newCollector(root string, dryRun bool) *collector {
	return &collector{
		root: root, disk: realDisk(), dryRun: dryRun, most: mostMarked, report: newReport(dryRun), notes: durable.NewNotes(useDirOf(root)),
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

// mostMarked is how many directories one look at the notes of use, and at the list of datasets, decides about. A process that begins to
// use one of them waits until all are marked and looked at.
const mostMarked = 256

// free frees the items for which reason gives one and which nothing needs, datasets with those of their parts that nothing else needs,
// until the context or the lease ends. It reports whether any item has gone.
func (c *collector) free(ctx context.Context, list []*item, reason func(*item) string) (freed bool) {
	var batch []*item
	end := func() {
		c.take(ctx, batch, c.stays)
		var parts []*item // until a dataset is gone on disk none of its parts may lose its name
		for _, it := range batch {
			if freed = freed || it.freed; it.freed && it.kind == mmapcache.DatasetKind {
				parts = append(parts, c.partsOfItem(it)...)
			}
		}
		if batch = nil; len(parts) > 0 {
			c.free(ctx, parts, c.whyLeft)
		}
	}
	for _, it := range list {
		if c.stopped(ctx) != nil {
			break
		}
		if it.freed || it.link || it.kept {
			continue
		}
		if it.why = reason(it); it.why == "" {
			continue
		}
		if err := c.checkUnneeded(it, known); err != nil {
			c.stays(it, err)
			continue
		}
		c.leave(it)
		if batch = append(batch, it); len(batch) == c.most || c.repair { // a part that was found damaged may be built again while others are verified
			end()
		}
	}
	end()
	return freed
}

// leave counts the bytes of a directory that is about to go, and of the parts that only it still names.
func (c *collector) leave(it *item) {
	it.freed = true
	c.leaving += it.bytes
	if it.kind != mmapcache.DatasetKind {
		return
	}
	for _, part := range c.partsOfItem(it) {
		if named, maybe := c.namedBy(part, known); !named && maybe == "" && !part.freed && !part.link {
			c.leaving += part.bytes
		}
	}
}

// stays reports that a directory stays, and why.
func (c *collector) stays(it *item, err error) {
	needed, only := err.(neededError)
	switch {
	case only:
		c.keepItem(it, needed.why)
		if foreign := (*durable.ForeignError)(nil); c.repair && errors.As(err, &foreign) {
			c.addError(foreign)
		}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded): // the run ends with it
	case errors.Is(err, durable.ErrLost):
		if !c.lost {
			c.lost = true
			c.addError(err)
		}
	case errors.As(err, &needed): // joined with another error
		c.keepItem(it, err.Error())
		c.addError(fmt.Errorf("%s: %w", c.path(it), err))
	default:
		c.keepItem(it, "it cannot be removed: "+err.Error())
		c.addError(err)
	}
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

// take removes directories that were unneeded when last looked at: so no process waits for a mark in vain. It looks again once all are
// marked, when a process that begins to use one waits. It tells stays why a directory is left.
func (c *collector) take(ctx context.Context, batch []*item, stays func(*item, error)) {
	c.leaving = 0
	failed := map[string]error{}
	if !c.dryRun && len(batch) > 0 {
		var names []string
		for _, it := range batch {
			names = append(names, it.name())
		}
		failed = c.removal.Remove(ctx, names, c.needed)
	}
	for _, it := range batch {
		if err := c.outcome(it, failed[it.name()]); err != nil {
			it.freed = false
			stays(it, err)
			continue
		}
		c.renamed = append(c.renamed, RemovedDirectory{c.path(it), it.kind, it.key, it.bytes, it.why})
	}
	c.finish()
}

// needed looks at the notes of use and at the list of datasets, and returns by name why directories stay.
func (c *collector) needed(names []string) map[string]error {
	stay := map[string]error{}
	err := c.look()
	for _, name := range names {
		if stay[name] = err; err == nil {
			stay[name] = c.checkUnneeded(c.byName[name], fresh)
		}
	}
	return stay
}

// look reads the notes of use, and which datasets there are.
func (c *collector) look() error {
	if _, err := c.notes.Read(c.now); err != nil {
		return err
	}
	keys, err := c.disk.keysOf(c.root, mmapcache.DatasetKind)
	if err != nil {
		return err
	}
	c.noted, c.present = true, map[string]bool{}
	for _, key := range keys {
		c.present[key] = true
		if c.names[key] == nil && !c.unreadable[key] { // one that is repaired meanwhile keeps its parts
			_, _ = c.partsOf(key) // which notes an error
		}
	}
	return nil
}

// outcome returns why a directory was left that was to be renamed away with an error; nil where it is gone.
func (c *collector) outcome(it *item, err error) error {
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
	if err == nil && it.kind == mmapcache.DatasetKind && !c.dryRun {
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
	fresh             // those of a look after the directory was marked
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
	if err := c.checkUsers(it); err != nil || it.damaged || c.requested {
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
func (c *collector) checkUsers(it *item) error {
	if !c.noted {
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
	if err := c.checkUsers(part); err != nil || c.repair {
		return err
	}
	switch named, maybe := c.namedBy(part, read); {
	case named:
		return neededError{why: "a dataset names it"}
	case maybe != "":
		return neededError{why: maybe}
	}
	return nil
}

// namedBy reports whether a dataset names a part, or why one may that cannot be read. The fresh view has the datasets that there were
// at the last look, for others may be published at any time; the known one has those that were read and not removed since.
func (c *collector) namedBy(part *item, read view) (named bool, maybe string) {
	exists := func(key string) bool { return c.present[key] }
	if read == known {
		exists = func(key string) bool {
			it := c.byName[mmapcache.DatasetKind+"/"+key]
			return it == nil || !it.freed // a dry run leaves out the datasets that it would have removed
		}
	}
	if slices.ContainsFunc(c.naming[part.name()], exists) {
		return true, ""
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
	return false, maybe
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
