package mmapcache

import (
	"fmt"
	"path/filepath"

	"github.com/agentx/agentx/manifest"
)

// Shard is what the manifest of a dataset says about one of its shards: a structure and its starts. Traces are numbered
// through the shards in their order.
type Shard struct {
	Structure manifest.Part `json:"structure"`
	Starts    manifest.Part `json:"starts"`
	Traces    int           `json:"traces"` // may be 0: every row of the shard was skipped
	Sessions  int           `json:"sessions"`
	Turns     int           `json:"turns"`
	Blocks    int           `json:"blocks"`
}

// DatasetFacts is what the manifest of a dataset of shards says about it. The counts are those of all shards, and the numbers
// of files those of the whole input.
type DatasetFacts struct {
	StructureFacts
	Shards []Shard `json:"shards"`
}

// Reference names the directory of a part.
type Reference struct {
	Kind string
	manifest.Part
}

// Name returns "kind/key", the path of the directory below its root.
func (r Reference) Name() string { return r.Kind + "/" + r.Key }

// HasShards reports whether a dataset is a list of shards, by the version of its manifest, so that this is known in every format.
// Any other dataset is one structure and its starts.
func HasShards(dataset *manifest.Manifest) bool {
	return dataset.Kind == DatasetKind && dataset.Manifest == manifest.PartsInFacts
}

// PartsOf lists the directories that a dataset names, in the order in which they are published: structure and starts of each
// shard, and the arenas. It is empty for a manifest of another kind. Errors wrap ErrDamaged.
func PartsOf(dataset *manifest.Manifest) (list []Reference, err error) {
	if HasShards(dataset) {
		facts, err := DatasetFactsOf(dataset)
		if err != nil {
			return nil, err
		}
		for _, s := range facts.Shards {
			list = append(list, Reference{StructureKind, s.Structure}, Reference{PlacementKind, s.Starts})
		}
	}
	for _, kind := range PartKinds() {
		if part, ok := dataset.Parts[kind]; ok {
			list = append(list, Reference{kind, part})
		}
	}
	return list, nil
}

// DatasetFactsOf returns what the manifest of a dataset of shards says about it. Errors wrap ErrDamaged.
func DatasetFactsOf(m *manifest.Manifest) (f DatasetFacts, err error) {
	if err = decodeFacts(m, &f); err == nil {
		err = f.check(m)
	}
	if err != nil {
		return f, err
	}
	var sum Shard
	for k, s := range f.Shards {
		if !isName(s.Structure.Key) || !isName(s.Starts.Key) || min(s.Traces, s.Sessions, s.Turns, s.Blocks) < 0 {
			return f, fmt.Errorf("%s %s: %w: shard %d: a key is no plain name, or a count is negative", m.Kind, m.Key, manifest.ErrDamaged, k)
		}
		sum.Traces, sum.Sessions, sum.Turns, sum.Blocks = sum.Traces+s.Traces, sum.Sessions+s.Sessions, sum.Turns+s.Turns, sum.Blocks+s.Blocks
	}
	if f.Traces != sum.Traces || f.Sessions != sum.Sessions || f.Turns != sum.Turns || f.Blocks != sum.Blocks || sum.Traces == 0 {
		return f, fmt.Errorf("%s %s: %w: %d traces, %d sessions, %d turns, %d blocks, its shards have %d, %d, %d, %d", m.Kind, m.Key,
			manifest.ErrDamaged, f.Traces, f.Sessions, f.Turns, f.Blocks, sum.Traces, sum.Sessions, sum.Turns, sum.Blocks)
	}
	return f, nil
}

// isName reports whether a key is the name of a directory, which leads nowhere else.
func isName(key string) bool { return key != "" && key == filepath.Base(key) && key[0] != '.' }

// NameShards sets the facts of a dataset of shards. AddPart names its arenas.
func (b *Builder) NameShards(f DatasetFacts) error {
	b.manifest.Manifest = manifest.PartsInFacts
	return b.setFacts(f)
}

// namedKinds lists the kinds of part that a manifest names in its parts. Those of shards stand in the facts, which it checks.
// Errors wrap ErrDamaged.
func namedKinds(m *manifest.Manifest) (kinds []string, facts DatasetFacts, err error) {
	switch {
	case m.Kind != DatasetKind:
		return nil, facts, nil
	case HasShards(m):
		facts, err = DatasetFactsOf(m)
		return []string{ArenasKind}, facts, err
	}
	if HasTexts(m) {
		return []string{StructureKind, TextsKind, ArenasKind}, facts, nil
	}
	return []string{StructureKind, PlacementKind, ArenasKind}, facts, nil
}

// HasTexts reports whether a dataset has recorded messages with their text, by the parts that its manifest names.
func HasTexts(dataset *manifest.Manifest) bool {
	_, ok := dataset.Parts[TextsKind]
	return ok && dataset.Kind == DatasetKind
}

// SessionIDs returns the ids of the sessions of a structure, in order. It reads their table alone. Errors about damage wrap
// ErrDamaged.
func SessionIDs(root string, structure *manifest.Manifest) ([]string, error) {
	table := newTable[Session](sessionsFile)
	if err := realDisk().readTable(root, structure, table.asFile()); err != nil {
		return nil, err
	}
	ids := make([]string, table.Len())
	for k := range ids {
		ids[k] = table.At(k).ID
	}
	return ids, nil
}
