package cachestore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/agentx/agentx/internal/cachedir"
	"github.com/agentx/agentx/mmapcache"
)

// Dataset is an open dataset that is noted as in use until Close.
type Dataset struct {
	*mmapcache.Cache
	use *Use
}

// Close closes the dataset and removes the note.
func (d *Dataset) Close() error {
	defer d.use.Close()
	return d.Cache.Close()
}

// Open opens a dataset, notes it as in use until Close, and records the use. It waits for a dataset that another process
// is replacing. An error about a dataset that does not exist wraps mmapcache.ErrNoCache.
func Open(ctx context.Context, root, key string) (*Dataset, error) {
	return realDisk().openDataset(ctx, root, key, mmapcache.Open)
}

// OpenTables is Open for the tables of a dataset alone; mmapcache.OpenTables says what that leaves out.
func OpenTables(ctx context.Context, root, key string) (*Dataset, error) {
	return realDisk().openDataset(ctx, root, key, mmapcache.OpenTables)
}

// OpenStructure opens a structure, which no dataset need name, and notes it as in use until Close.
func OpenStructure(ctx context.Context, root, key string) (dataset *Dataset, err error) {
	path := filepath.Join(root, mmapcache.StructureKind, key)
	err = realDisk().RetryMissing(ctx, path, func() error {
		use := NoteUse(ctx, root, mmapcache.StructureKind+"/"+key)
		cache, err := mmapcache.OpenStructure(root, key)
		if err != nil {
			use.Close()
			return err
		}
		dataset = &Dataset{cache, use}
		return nil
	})
	return dataset, err
}

// openDataset opens a dataset with open. If the dataset was replaced between the note and the opening, openDataset notes
// its new parts and opens it again.
func (d disk) openDataset(ctx context.Context, root, key string, open func(root, key string) (*mmapcache.Cache, error)) (dataset *Dataset, err error) {
	Touch(root, key)
	path := mmapcache.DatasetPath(root, key)
	err = d.RetryMissing(ctx, path, func() error {
		use, noted := d.noteDataset(ctx, root, key)
		cache, err := open(root, key)
		if err == nil && noted == cache.Manifest.Digest {
			dataset = &Dataset{cache, use}
			return nil
		}
		if err == nil {
			err = errors.Join(fmt.Errorf("%s: %w: missing when it was noted as in use", path, cachedir.ErrMissing), cache.Close())
		}
		use.Close()
		return err
	})
	return dataset, err
}
