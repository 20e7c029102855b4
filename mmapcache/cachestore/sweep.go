package cachestore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/mmapcache"
)

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
