package cachestore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/internal/cachedir"
)

// Shards says what a root has of the shards of a dataset.
type Shards struct {
	Total      int   `json:"total"`
	Whole      int   `json:"whole"`
	Missing    int   `json:"missing"`
	Damaged    int   `json:"damaged"`
	Unreadable int   `json:"unreadable,omitempty"`
	Files      int   `json:"files"` // of the directories that are whole
	Bytes      int64 `json:"bytes"` // of these files, without manifests

	List []ShardInfo `json:"list,omitempty"` // in their order
}

// States of a shard. The worse one of its two directories counts.
const (
	ShardWhole      = "whole"      // both directories exist, and their files have their full size
	ShardMissing    = "missing"    // a directory does not exist
	ShardDamaged    = "damaged"    // a file is damaged or missing, or the dataset names another manifest
	ShardUnreadable = "unreadable" // a file cannot be reached: damaged or not is unknown
)

// ShardInfo says what a root has of one shard.
type ShardInfo struct {
	mmapcache.Shard
	Path  string `json:"path"`        // of the structure
	First int    `json:"first_trace"` // number of its first trace in the dataset
	State string `json:"state"`       // ShardWhole, ...
	Why   string `json:"why"`         // of a shard that is not whole, else ""
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
}

// LookAtShards looks up the shards of a dataset, whose manifest it is given, and returns nil for a dataset that is no list of shards.
// It reads manifests and sizes, as an opening does, and none of the files. Errors about the manifest wrap manifest.ErrDamaged.
func LookAtShards(ctx context.Context, root string, dataset *manifest.Manifest) (*Shards, error) {
	if !mmapcache.HasShards(dataset) {
		return nil, nil
	}
	facts, err := mmapcache.DatasetFactsOf(dataset)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(mmapcache.DatasetPath(root, dataset.Key), manifest.FileName), err)
	}
	s := &Shards{Total: len(facts.Shards), List: make([]ShardInfo, len(facts.Shards))}
	first := 0
	for k, shard := range facts.Shards {
		s.List[k] = ShardInfo{Shard: shard, Path: filepath.Join(root, mmapcache.StructureKind, shard.Structure.Key), First: first, State: ShardWhole}
		first += shard.Traces
	}
	err = each(ctx, len(s.List), partsAtOnce, func(_ context.Context, k int) error {
		s.List[k].look(root)
		return nil
	})
	s.sum()
	return s, err
}

// sum counts the shards. One that the dataset names twice has its files once.
func (s *Shards) sum() {
	seen := map[mmapcache.Shard]bool{}
	for _, shard := range s.List {
		switch shard.State {
		case ShardWhole:
			s.Whole++
		case ShardMissing:
			s.Missing++
		case ShardDamaged:
			s.Damaged++
		case ShardUnreadable:
			s.Unreadable++
		}
		if !seen[shard.Shard] {
			seen[shard.Shard] = true
			s.Files += shard.Files
			s.Bytes += shard.Bytes
		}
	}
}

// look looks up the two directories of a shard.
func (s *ShardInfo) look(root string) {
	for _, part := range []mmapcache.Reference{{Kind: mmapcache.StructureKind, Part: s.Structure}, {Kind: mmapcache.PlacementKind, Part: s.Starts}} {
		m, err := mmapcache.Lookup(root, part.Kind, part.Key)
		if err == nil && m == nil {
			err = fmt.Errorf("%s: %w", filepath.Join(root, part.Kind, part.Key), mmapcache.ErrNoCache)
		} else if err == nil && m.Digest != part.Digest {
			err = fmt.Errorf("%s: %w: not the manifest that the dataset names", filepath.Join(root, part.Kind, part.Key, manifest.FileName), manifest.ErrDamaged)
		}
		if err == nil {
			s.Files += len(m.Files)
			s.Bytes += m.Size()
			continue
		}
		if s.State != ShardWhole && errors.Is(err, mmapcache.ErrNoCache) {
			continue // what is known of the structure is worse
		}
		s.Why = err.Error()
		switch {
		case errors.Is(err, mmapcache.ErrNoCache):
			s.State = ShardMissing
		case cachedir.IsDamage(err):
			s.State = ShardDamaged
		default:
			s.State = ShardUnreadable
		}
	}
}
