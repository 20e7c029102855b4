package cachestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/agentx/agentx/internal/cachedir"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/mmapcache"
)

// GCOptions say what GC frees beyond what is of no use to anybody.
type GCOptions struct {
	MaxBytes int64          // the least recently used datasets go until all directories are no larger; below 0: no limit
	MaxAge   time.Duration  // datasets that were not used for longer go; 0: no limit
	Keep     *time.Duration // what was used since stays; nil: a week in a root that other machines may read, else nothing
	DryRun   bool           // only report
	Now      time.Time      // zero: the time by the clock of the file system
	Waiting  durable.Waiting
}

// sharedKeep is for how long a dataset of a shared root stays after its last use: who reads it through a read-only mount
// can leave no note.
const sharedKeep = 7 * 24 * time.Hour

// young is the age up to which a directory that seems to be of no use may just be becoming so: the parts of a dataset
// are published before it.
const young = time.Hour

// SharedName is a file of a cache root which says that other machines read it.
const SharedName = ".shared"

// defaultKeep returns for how long GC keeps a dataset after its last use if nobody says otherwise: a week in a root that
// other machines may read, which is one with a file .shared or on no local file system, and else not at all.
func defaultKeep(root string) time.Duration {
	if _, err := os.Lstat(filepath.Join(root, SharedName)); errors.Is(err, fs.ErrNotExist) && cachedir.IsLocal(root) {
		return 0
	}
	return sharedKeep
}

// Removed is a directory that was removed.
type Removed struct {
	Path  string `json:"path"`
	Kind  string `json:"kind"`
	Key   string `json:"key"`
	Bytes int64  `json:"bytes"`
	Why   string `json:"why"`
}

// Kept is a directory that would have been removed if nothing spoke against it.
type Kept struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// GCReport is what GC, or Remove, did.
type GCReport struct {
	Removed     []Removed          `json:"removed"` // in this order
	Kept        []Kept             `json:"kept"`
	Swept       []durable.Leftover `json:"swept"`        // what killed processes and removed datasets have left
	BytesBefore int64              `json:"bytes_before"` // of all directories, and of what was swept
	BytesAfter  int64              `json:"bytes_after"`
	Freed       int64              `json:"freed"`
	DryRun      bool               `json:"dry_run"`
}

// ErrInUse is wrapped by the error of who would remove a dataset that somebody uses.
var ErrInUse = errors.New("in use")

// GC frees what is of no use to anybody: what killed processes have left, datasets that cannot be opened, parts that no
// dataset names. Then datasets that were not used for long, and the least recently used ones until the rest is small
// enough, each with those of its parts that nothing else needs. What is pinned, in use or was used within Keep stays.
//
// Others who remove something wait for it. Whatever it removes it marks first, and then looks once more whether that has
// come into use meanwhile: who begins to use it waits until it is gone, or the marker is (internal/durable). A dataset goes
// before its parts: whenever it is stopped, no dataset names a part that is gone.
//
// What cannot be removed does not keep it from the rest; the error says so at the end, beside the report. Without a report
// nothing was done.
func GC(ctx context.Context, root string, o GCOptions) (*GCReport, error) {
	h := &house{root: root, now: o.Now, dry: o.DryRun, report: newReport(o.DryRun)}
	if is, err := isCache(root); err != nil {
		return nil, err
	} else if !is {
		return h.report, nil
	}
	if err := plainDirectories(root); err != nil {
		return nil, err
	}
	if h.now.IsZero() {
		if err := h.setNow(); err != nil {
			return nil, err
		}
	}
	if o.Keep != nil {
		h.keep = *o.Keep
	} else {
		h.keep = defaultKeep(root)
	}
	err := h.gc(ctx, o)
	h.report.sum()
	return h.report, err
}

// isCache reports whether a directory holds anything that is called like something of a cache: in others nothing is
// touched, whatever folders they have.
func isCache(root string) (bool, error) {
	for _, kind := range mmapcache.Kinds() {
		if keys, err := keysIn(root, kind); err != nil || len(keys) > 0 {
			return err == nil, err
		}
	}
	late := time.Now().AddDate(100, 0, 0) // when all that is ours is left behind
	staged, err := durable.Sweep(root, late, true)
	if err != nil || len(staged) > 0 {
		return err == nil, err
	}
	_, notes, err := durable.InUse(usesIn(root), late)
	if err != nil || len(notes) > 0 {
		return err == nil, err
	}
	entries, err := os.ReadDir(usesIn(root))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { key, _ := keyOfUse(e.Name()); return key != "" }), err
}

func newReport(dry bool) *GCReport {
	return &GCReport{Removed: []Removed{}, Kept: []Kept{}, Swept: []durable.Leftover{}, DryRun: dry}
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

// house is a cache root in which one is tidying up.
type house struct {
	root  string
	now   time.Time
	keep  time.Duration
	force bool // datasets in use too
	named bool // it was asked for by name, whenever it was used
	dry   bool
	opts  durable.Options

	meanwhile func() // for tests: after something was marked

	items   []*item
	names   map[string][]string // parts of datasets that could be read, by key of the dataset
	total   int64               // bytes of the items that are left
	report  *GCReport
	failure []error
}

// setNow takes the time from the file system; where a full disk, or a root that one may only look at, does not tell it,
// from this machine.
func (h *house) setNow() (err error) {
	h.now, err = durable.FilesystemTime(h.root)
	switch {
	case err == nil:
	case h.dry || durable.IsDiskFull(err):
		h.now = time.Now()
	default:
		return fmt.Errorf("cache root %s: %w", h.root, err)
	}
	return nil
}

// item is one directory.
type item struct {
	kind, key string
	bytes     int64
	made      time.Time // by the clock of the file system
	used      time.Time // of a dataset: last use
	damaged   bool      // of a dataset: nobody can open it
	link      bool      // a symbolic link, which somebody has put there, perhaps to a disk that is not mounted
	freed     bool
	spared    bool // and reported as such
}

func (it *item) name() string { return it.kind + "/" + it.key }

// ErrTidying is wrapped by the error of who would remove something while another process does.
var ErrTidying = errors.New("another process is removing things there")

// claim makes this process the only one that removes things from the root, until release. On a full disk, where no lease
// can be had, room is made without.
func (h *house) claim(ctx context.Context, w durable.Waiting) error {
	if h.dry {
		return nil
	}
	holder, report := "", w.Report
	w.Report = func(who string, waited time.Duration) {
		if holder = ": " + who; report != nil {
			report(who, waited)
		}
	}
	lease, err := durable.Acquire(durable.WithOptions(ctx, h.opts), h.root, removing, func() (bool, error) { return false, nil }, w)
	switch {
	case errors.Is(err, durable.ErrBusy):
		return fmt.Errorf("cache root %s: %w%s", h.root, ErrTidying, holder)
	case durable.IsDiskFull(err):
		return nil
	}
	h.opts.Lease = lease
	return err
}

func (h *house) release() {
	if h.opts.Lease != nil {
		h.failed(h.opts.Lease.Release())
	}
}

// stopped says why no more is to be removed: the end of the context, or of the lease.
func (h *house) stopped(ctx context.Context) error {
	if err := ctx.Err(); err != nil || h.opts.Lease == nil {
		return err
	}
	return context.Cause(h.opts.Lease.Context())
}

// gc sweeps, and frees what is to go while no other process removes anything.
func (h *house) gc(ctx context.Context, o GCOptions) error {
	h.failed(h.sweep())
	err := h.claim(ctx, o.Waiting)
	if err == nil {
		err = h.freeAll(ctx, o)
		h.release()
	}
	return errors.Join(append(h.failure, err)...)
}

// freeAll runs the steps. Parts without a dataset go before any dataset does: they may be all there is to free.
func (h *house) freeAll(ctx context.Context, o GCOptions) error {
	if err := h.look(); err != nil {
		return err
	}
	step := func(list []*item, free func(*item) error) {
		for _, it := range list {
			if h.stopped(ctx) == nil && !it.freed && !it.link {
				h.failed(free(it))
			}
		}
	}
	datasets, parts := h.of(mmapcache.DatasetKind), h.of(mmapcache.PartKinds()...)
	sort.SliceStable(datasets, func(i, j int) bool { return datasets[i].used.Before(datasets[j].used) })
	step(datasets, func(it *item) error {
		if !it.damaged {
			return nil
		}
		if h.now.Sub(it.made) < young {
			return h.spare(it, "damaged, but made less than an hour ago")
		}
		return h.free(it, "damaged: nobody can open it")
	})
	named := map[string]bool{} // which spares looking again for each of them
	for _, names := range h.names {
		for _, name := range names {
			named[name] = true
		}
	}
	step(parts, func(it *item) error {
		if named[it.name()] {
			return nil
		}
		switch named, maybe, err := h.namedBy(it); {
		case err != nil || named:
			return err
		case maybe != "":
			return h.spare(it, maybe)
		case h.now.Sub(it.made) < young:
			return h.spare(it, "no dataset names it, but it was made less than an hour ago")
		}
		return h.free(it, "no dataset names it")
	})
	step(datasets, func(it *item) error {
		unused := h.now.Sub(it.used)
		if it.damaged || o.MaxAge <= 0 || unused <= o.MaxAge {
			return nil
		}
		return h.freeWithParts(it, "not used for "+ageText(unused))
	})
	step(datasets, func(it *item) error {
		if it.damaged || o.MaxBytes < 0 || h.total <= o.MaxBytes {
			return nil
		}
		return h.freeWithParts(it, fmt.Sprintf("least recently used, %s ago", ageText(h.now.Sub(it.used))))
	})
	return h.stopped(ctx)
}

func (h *house) failed(err error) {
	if err != nil {
		h.failure = append(h.failure, err)
	}
}

func (h *house) of(kinds ...string) (list []*item) {
	for _, it := range h.items {
		if slices.Contains(kinds, it.kind) {
			list = append(list, it)
		}
	}
	return list
}

// look lists what there is.
func (h *house) look() error {
	for _, kind := range mmapcache.Kinds() {
		keys, err := keysIn(h.root, kind)
		if err != nil {
			return err
		}
		for _, key := range keys {
			info, err := os.Lstat(filepath.Join(h.root, kind, key))
			if errors.Is(err, fs.ErrNotExist) {
				continue // it went away
			}
			if err != nil {
				return err
			}
			it := &item{kind: kind, key: key, bytes: sizeOf(h.root, kind, key), made: info.ModTime(), link: info.Mode()&fs.ModeSymlink != 0}
			if it.used = it.made; kind == mmapcache.DatasetKind {
				if used := usedAt(h.root, key); used != nil {
					it.used = *used
				}
				_, err := h.partsOf(key)
				it.damaged = err != nil && cachedir.IsDamage(err)
			}
			h.items = append(h.items, it)
			h.total += it.bytes
		}
	}
	h.report.BytesBefore = h.total
	return nil
}

// reason says why something is not removed.
type reason struct {
	why string
	is  error // ErrPinned, ErrInUse or nil
}

func (r reason) Error() string { return r.why }
func (r reason) Unwrap() error { return r.is }

// spare reports that something stays.
func (h *house) spare(it *item, why string) error {
	if it.spared {
		return nil
	}
	it.spared = true
	h.report.Kept = append(h.report.Kept, Kept{filepath.Join(h.root, it.kind, it.key), why})
	return nil
}

// free removes a directory unless something speaks against it, and reports either.
func (h *house) free(it *item, why string) error {
	err := h.remove(it)
	if stays, ok := err.(reason); ok {
		return h.spare(it, stays.why)
	}
	var stays reason
	switch {
	case errors.As(err, &stays): // beside it something went wrong
		return errors.Join(h.spare(it, err.Error()), fmt.Errorf("%s: %w", filepath.Join(h.root, it.kind, it.key), err))
	case err != nil:
		return errors.Join(h.spare(it, "it cannot be removed: "+err.Error()), err)
	}
	h.gone(it, why)
	return nil
}

// gone books a directory as removed.
func (h *house) gone(it *item, why string) {
	it.freed = true
	h.total -= it.bytes
	h.report.Removed = append(h.report.Removed, Removed{filepath.Join(h.root, it.kind, it.key), it.kind, it.key, it.bytes, why})
}

// freeWithParts frees a dataset and then those of its parts that nothing else needs.
func (h *house) freeWithParts(it *item, why string) error {
	if err := h.free(it, why); err != nil || !it.freed {
		return err
	}
	return h.freeParts(it)
}

// freeParts frees those parts of a removed dataset that nothing else needs.
func (h *house) freeParts(dataset *item) error {
	for _, part := range h.of(mmapcache.PartKinds()...) {
		if part.freed || part.link || !slices.Contains(h.names[dataset.key], part.name()) {
			continue
		}
		named, maybe, err := h.namedBy(part)
		switch {
		case err != nil:
			return err
		case named:
		case maybe != "":
			_ = h.spare(part, maybe)
		default:
			h.failed(h.free(part, "no dataset names it any more"))
		}
	}
	return nil
}

// remove removes a directory. A reason not to is looked for before it is marked, so that nobody waits for nothing, and
// after that, when who begins to use it waits.
func (h *house) remove(it *item) error {
	if err := h.needed(it); err != nil || h.dry {
		return err
	}
	err := h.opts.Remove(h.root, it.name(), func() error {
		if h.meanwhile != nil {
			h.meanwhile()
		}
		return h.needed(it)
	})
	var stays reason
	if errors.Is(err, fs.ErrNotExist) && !errors.Is(err, durable.ErrLost) && !errors.As(err, &stays) { // another one was faster
		if _, err = os.Lstat(filepath.Join(h.root, it.kind, it.key)); err == nil {
			return reason{why: "another process has made it anew"}
		} else if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil && it.kind == mmapcache.DatasetKind {
		_ = os.Remove(usePath(h.root, it.key, usedSuffix)) // swept some day if not
	}
	return err
}

// needed returns a reason why a directory must not be removed now, or an error.
func (h *house) needed(it *item) error {
	if it.kind == mmapcache.DatasetKind {
		pin, err := pinOf(h.root, it.key)
		if err != nil {
			return err
		}
		if pin != nil {
			return reason{fmt.Sprintf("%v by %v", ErrPinned, pin), ErrPinned}
		}
		parts, err := h.partsOf(it.key)
		if err != nil && !cachedir.IsDamage(err) {
			return reason{why: fmt.Sprintf("what it names cannot be read: %v", err)}
		}
		if it.damaged && parts != nil {
			return reason{why: "it is whole again"}
		}
	}
	users, _, err := durable.InUse(usesIn(h.root), h.now)
	if err != nil {
		return err
	}
	if who, ok := users[it.name()]; ok && !(h.force && it.kind == mmapcache.DatasetKind) {
		return reason{fmt.Sprintf("%v by %s", ErrInUse, who), ErrInUse}
	}
	if it.kind != mmapcache.DatasetKind {
		named, maybe, err := h.namedBy(it)
		if named {
			return reason{why: "a dataset names it"}
		} else if maybe != "" {
			return reason{why: maybe}
		}
		return err
	}
	if it.damaged || h.named {
		return nil
	}
	if ago := h.now.Sub(it.used); h.keep > 0 && ago < h.keep {
		return reason{why: fmt.Sprintf("used %s ago, less than %s", ageText(ago), ageText(h.keep))}
	}
	if now := usedAt(h.root, it.key); now != nil && now.After(it.used) { // it went by an older use
		return reason{why: "used meanwhile"}
	}
	return nil
}

// namedBy reports whether a dataset names a part, or why one may that this program cannot read. It looks at what is there
// now, for datasets may come. In a dry run those that would be gone do not count.
func (h *house) namedBy(part *item) (named bool, maybe string, err error) {
	keys, err := keysIn(h.root, mmapcache.DatasetKind)
	if err != nil {
		return false, "", err
	}
	for _, key := range keys {
		if h.dry && slices.ContainsFunc(h.items, func(it *item) bool { return it.freed && it.kind == mmapcache.DatasetKind && it.key == key }) {
			continue
		}
		names, err := h.partsOf(key)
		if err != nil {
			maybe = fmt.Sprintf("dataset %s, which cannot be read, may name it", key)
		} else if slices.Contains(names, part.name()) {
			return true, "", nil
		}
	}
	return false, maybe, nil
}

// partsOf returns the parts that a dataset names. A key means content: what was read once need not be read again.
func (h *house) partsOf(key string) ([]string, error) {
	if names, ok := h.names[key]; ok {
		return names, nil
	}
	m, err := realDisk().ReadManifest(h.root, mmapcache.DatasetKind, key, "")
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(mmapcache.DatasetPath(h.root, key)); errors.Is(err, fs.ErrNotExist) {
			return nil, nil // it was removed since it was listed
		}
	}
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, kind := range mmapcache.PartKinds() {
		if part, ok := m.Parts[kind]; ok {
			names = append(names, kind+"/"+part.Key)
		}
	}
	if h.names == nil {
		h.names = map[string][]string{}
	}
	h.names[key] = names
	return names, nil
}

// sweep removes what killed processes have left, and the last uses and pins of datasets that are no more.
func (h *house) sweep() error {
	left, err := durable.Sweep(h.root, h.now, h.dry)
	h.report.Swept = append(h.report.Swept, left...)
	_, notes, useErr := durable.InUse(usesIn(h.root), h.now)
	entries, listErr := os.ReadDir(usesIn(h.root))
	if errors.Is(listErr, fs.ErrNotExist) {
		listErr = nil
	}
	errs := []error{err, useErr, listErr}
	for _, e := range entries {
		info, err := e.Info()
		key, whole := keyOfUse(e.Name())
		if err != nil || key == "" || h.now.Sub(info.ModTime()) < young {
			continue
		}
		owner := "an unfinished pin"
		if whole {
			if _, err := os.Lstat(mmapcache.DatasetPath(h.root, key)); !errors.Is(err, fs.ErrNotExist) {
				continue
			}
			owner = "dataset " + key + ", which is no more"
		}
		notes = append(notes, durable.Leftover{Path: filepath.Join(usesIn(h.root), e.Name()), Bytes: info.Size(), Owner: owner})
	}
	for _, l := range notes {
		if !h.dry {
			if err := os.Remove(l.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
				continue
			}
		}
		h.report.Swept = append(h.report.Swept, l)
	}
	return errors.Join(errs...)
}

// keyOfUse returns the key of a dataset from the name of a file that says something of it, whole or half written. It is
// "" for what is not ours.
func keyOfUse(name string) (key string, whole bool) {
	for _, suffix := range []string{usedSuffix, pinSuffix} {
		if key, ok := strings.CutSuffix(name, suffix); ok && isKey(key) {
			return key, true
		}
	}
	// as durable.WriteFile calls it until it is whole
	if key, _, ok := strings.Cut(strings.TrimPrefix(name, "."), pinSuffix+"."); ok && isKey(key) && name[0] == '.' {
		return key, false
	}
	return "", false
}

// RemoveOptions say how to remove a dataset.
type RemoveOptions struct {
	Force   bool // although it is in use
	Waiting durable.Waiting
}

// Remove removes a dataset, and then those of its parts that no other dataset names and nobody uses. One that is pinned
// is refused with an error that wraps ErrPinned; one in use, unless forced, with one that wraps ErrInUse.
func Remove(ctx context.Context, root, key string, o RemoveOptions) (*GCReport, error) {
	h := &house{root: root, force: o.Force, named: true, report: newReport(false)}
	if err := there(root, key); err != nil {
		return h.report, err
	}
	if err := plainDirectories(root); err != nil {
		return h.report, err
	}
	if err := h.setNow(); err != nil {
		return h.report, err
	}
	if err := h.claim(ctx, o.Waiting); err != nil {
		return h.report, err
	}
	err := h.removeNamed(key)
	h.release()
	h.report.sum()
	return h.report, errors.Join(append([]error{err}, h.failure...)...)
}

// removeNamed removes a dataset and its parts.
func (h *house) removeNamed(key string) error {
	if err := h.look(); err != nil {
		return err
	}
	if _, err := h.partsOf(key); err != nil && !cachedir.IsDamage(err) {
		return err
	}
	for _, it := range h.of(mmapcache.DatasetKind) {
		if it.key != key {
			continue
		}
		if err := h.remove(it); err != nil {
			return fmt.Errorf("dataset %s: %w", mmapcache.DatasetPath(h.root, key), err)
		}
		h.gone(it, "asked for")
		h.failed(h.freeParts(it))
	}
	return nil
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
