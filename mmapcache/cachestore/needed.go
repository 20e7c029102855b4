package cachestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/internal/cachedir"
)

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

func (c *collector) checkPin(dataset *item) error {
	pin, err := readPin(c.root, dataset.key)
	if err == nil && pin != nil {
		err = neededError{fmt.Sprintf("%v by %v", ErrPinned, pin), ErrPinned}
	}
	return err
}

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
