package cachestore

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// Directory is one directory of a described dataset.
type Directory struct {
	Path       string                `json:"path"`
	Manifest   *manifest.Manifest    `json:"manifest"`
	Provenance *mmapcache.Provenance `json:"provenance"` // nil where it cannot be read
}

// Info describes a dataset and its parts.
type Info struct {
	Key         string      `json:"key"`
	LastUse     *time.Time  `json:"used"`             // to the hour; nil: not recorded
	Pin         *PinInfo    `json:"pin"`              // nil: not pinned
	InUse       string      `json:"in_use"`           // the processes that left a note of use; "": none
	Directories []Directory `json:"directories"`      // the dataset, then its parts; of a dataset of shards the dataset and the arenas
	Shards      *Shards     `json:"shards,omitempty"` // nil, unless the caller has set it to what LookAtShards returns
}

// Describe reads the manifests of a dataset and its parts, without those of shards. It waits for a dataset that another process is
// replacing.
func Describe(root, key string) (*Info, error) {
	info := &Info{Key: key, LastUse: lastUse(root, key)}
	var err error
	if info.Pin, err = readPin(root, key); err != nil {
		return nil, err
	}
	info.InUse = readNotes(root).Users(mmapcache.DatasetKind + "/" + key)
	d := realDisk()
	return info, d.RetryMissing(context.Background(), mmapcache.DatasetPath(root, key), func() (err error) {
		info.Directories, err = d.directories(root, key)
		return err
	})
}

// directories reads the manifest and the provenance of a dataset and of its parts.
func (d disk) directories(root, key string) ([]Directory, error) {
	dataset, err := d.directory(root, mmapcache.DatasetKind, manifest.Part{Key: key})
	if err != nil {
		return nil, err
	}
	list := []Directory{dataset}
	for _, kind := range mmapcache.PartKinds() {
		named, ok := dataset.Manifest.Parts[kind]
		if !ok && mmapcache.HasShards(dataset.Manifest) {
			continue
		}
		part, err := d.directory(root, kind, named)
		if err != nil {
			return list, err
		}
		list = append(list, part)
	}
	return list, nil
}

func (d disk) directory(root, kind string, part manifest.Part) (Directory, error) {
	m, err := d.readManifest(root, kind, part.Key, part.Digest)
	if err != nil {
		return Directory{}, err
	}
	dir := Directory{Path: filepath.Join(root, kind, part.Key), Manifest: m}
	if p, err := mmapcache.ReadProvenance(dir.Path); err == nil {
		dir.Provenance = &p
	}
	return dir, nil
}

// Size returns the bytes on disk of a dataset and its parts, manifests included.
func Size(root, key string) (n int64, err error) {
	m, err := realDisk().readManifest(root, mmapcache.DatasetKind, key, "")
	if err != nil {
		return 0, err
	}
	parts, err := partsOf(m)
	if err != nil {
		return 0, err
	}
	var sum atomic.Int64
	sum.Add(sizeOf(root, mmapcache.DatasetKind, key))
	err = each(context.Background(), len(parts), partsAtOnce, func(_ context.Context, k int) error {
		sum.Add(sizeOf(root, parts[k].Kind, parts[k].Key))
		return nil
	})
	return sum.Load(), err
}
