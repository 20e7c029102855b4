package convert

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/agentx/agentx/cachestore"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// RebuildMismatchError is a prepared dataset that is not what comes out when it is made again.
type RebuildMismatchError struct {
	Path  string // of the dataset
	Found []mmapcache.Damage
}

func (e *RebuildMismatchError) Error() string {
	var all []string
	for _, d := range e.Found {
		all = append(all, d.File+": "+d.Reason)
	}
	return fmt.Sprintf("%s differs from what is built now: %s", e.Path, strings.Join(all, "; "))
}

// compare builds everything once more beside the dataset, in the staging directory of its root, and holds the one against
// the other, file by file. A *RebuildMismatchError says what differs.
func (c *conversion) compare(ctx context.Context) (err error) {
	key := c.wanted[mmapcache.DatasetKind].Key
	never := func() (bool, error) { return false, nil }
	// A lease of its own keeps what is built from being swept; comparisons of one key do not wait for each other.
	lease, err := durable.Acquire(durable.WithOptions(ctx, c.o.disk), c.o.Root, "verify-"+key+"-"+rand.Text(), never, durable.Waiting{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	ctx = lease.Context()
	dir, err := durable.NewDir(c.o.Root, durable.OptionsOf(ctx))
	if err != nil {
		return err
	}
	beside := newConversion(c.o)
	beside.o.Root, beside.o.Force, beside.o.Warn = dir.Path(""), true, func(string, ...any) {}
	beside.o.disk.Sync = func(*os.File) error { return nil } // it is thrown away
	beside.snapshot, beside.prompts, beside.wanted = c.snapshot, c.prompts, c.wanted
	if err := beside.run(ctx); err != nil {
		return fmt.Errorf("build beside %s: %w", mmapcache.DatasetPath(c.o.Root, key), err)
	}
	v, err := mmapcache.Verify(ctx, c.o.Root, key)
	if err != nil {
		return err
	}
	found := v.Damages
	for _, kind := range mmapcache.Kinds() {
		differ, err := compareKind(c.o.Root, beside.o.Root, kind, c.wanted[kind].Key)
		if err != nil {
			return err
		}
		found = append(found, differ...)
	}
	if there, err := mmapcache.Lookup(c.o.Root, mmapcache.DatasetKind, key); err == nil && there == nil {
		return fmt.Errorf("%s: it was removed while it was being compared", mmapcache.DatasetPath(c.o.Root, key))
	}
	if len(found) > 0 {
		return &RebuildMismatchError{mmapcache.DatasetPath(c.o.Root, key), found}
	}
	return nil
}

// compareKind holds what the manifests of two directories say of their files against each other.
func compareKind(root, beside, kind, key string) (found []mmapcache.Damage, err error) {
	now, err := mmapcache.Lookup(beside, kind, key)
	if err != nil {
		return nil, err
	}
	there, err := mmapcache.Lookup(root, kind, key)
	if errors.Is(err, manifest.ErrDamaged) {
		return nil, nil // Verify has said so
	}
	if err != nil || there == nil || there.Digest == now.Digest {
		return nil, err
	}
	dir := filepath.Join(root, kind, key)
	for _, f := range now.Files {
		if old, ok := there.File(f.Name); !ok || old != f {
			found = append(found, mmapcache.Damage{File: filepath.Join(dir, f.Name), Reason: "another content is built now"})
		}
	}
	if len(found) == 0 {
		found = append(found, mmapcache.Damage{File: filepath.Join(dir, manifest.FileName), Reason: "another one is built now"})
	}
	return found, nil
}

// VerifyRebuild builds a dataset again from the input that its provenance names, and compares. A *RebuildMismatchError says what
// differs; any other error, what kept it from looking.
func VerifyRebuild(ctx context.Context, root, key string, o Options) error {
	info, err := cachestore.Describe(root, key)
	if err != nil {
		return err
	}
	o.Root, o.Inputs = root, nil
	// What may be skipped, or is not in the schema, was judged when the dataset was made.
	o.SkipInvalid, o.Strict = true, false
	for _, d := range info.Directories {
		switch d.Manifest.Kind {
		case mmapcache.StructureKind:
			var image structureImage
			if err := json.Unmarshal(d.Manifest.PreImage, &image); err != nil {
				return fmt.Errorf("%s: %w: pre-image: %v", d.Path, manifest.ErrDamaged, err)
			}
			o.Rules = image.Rules
			if d.Provenance == nil || len(d.Provenance.Sources) == 0 {
				return fmt.Errorf("%s: its provenance does not say what it was made from", d.Path)
			}
			for _, s := range d.Provenance.Sources {
				o.Inputs = append(o.Inputs, s.Path)
			}
		case mmapcache.PlacementKind:
			var image startsImage
			if err := json.Unmarshal(d.Manifest.PreImage, &image); err != nil {
				return fmt.Errorf("%s: %w: pre-image: %v", d.Path, manifest.ErrDamaged, err)
			}
			o.Placement = image.Draws
		case mmapcache.ArenasKind:
			if d.Provenance == nil || d.Provenance.Corpus == "" {
				return fmt.Errorf("%s: its provenance does not say what it was made from", d.Path)
			}
			o.Corpus, o.Tokenizer = d.Provenance.Corpus, d.Provenance.Tokenizer
		}
	}
	for _, input := range o.Inputs {
		if input == "-" {
			return fmt.Errorf("%s was made from standard input, which cannot be read again: agentx convert --verify-hit compares with the same input", mmapcache.DatasetPath(root, key))
		}
	}
	c := newConversion(o)
	return c.resolved(ctx, func() error {
		for _, d := range info.Directories {
			differ, err := manifest.Differences(c.wanted[d.Manifest.Kind].PreImage, d.Manifest.PreImage)
			if err != nil {
				return err
			}
			if len(differ) > 0 && d.Manifest.Kind != mmapcache.DatasetKind {
				return fmt.Errorf("%s cannot be built again: what it was made from is no more, or this agentx makes something else: %s is %s now, was %s", d.Path, differ[0].Field, differ[0].Want, differ[0].Have)
			}
		}
		if now := c.wanted[mmapcache.DatasetKind].Key; now != key {
			return fmt.Errorf("%s cannot be built again: what its parts were made from makes dataset %s", mmapcache.DatasetPath(root, key), now)
		}
		return c.compare(ctx)
	})
}

// fileOf names the input file that a field of a structure's key is about; "" for another field.
func fileOf(field string, files []hfsource.File) string {
	var k int
	if n, err := fmt.Sscanf(field, "inputs[%d]", &k); n != 1 || err != nil || k >= len(files) {
		return ""
	}
	return files[k].Path
}
