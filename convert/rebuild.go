package convert

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/cachestore"
)

// VerifyRebuild builds a dataset again from the input that its provenance names, and compares. A *RebuildMismatchError says
// what differs. Any other error says why it could not compare. It takes from o only options that do not change the dataset.
func VerifyRebuild(ctx context.Context, root, key string, o Options) error {
	info, err := cachestore.Describe(root, key)
	if err != nil {
		return err
	}
	if o, err = o.forRebuild(root, info); err != nil {
		return err
	}
	if mmapcache.HasTexts(info.Directories[0].Manifest) || slices.ContainsFunc(o.Inputs, hfsource.IsStream) {
		return fmt.Errorf("%s: %w", mmapcache.DatasetPath(root, key), ErrUnnamed)
	}
	if err := o.Validate(); err != nil {
		return err
	}
	c := newConversion(o.withDefaults())
	return c.withInput(ctx, func(ctx context.Context) error {
		if err := c.checkKeys(info, key); err != nil {
			return err
		}
		return c.compare(ctx)
	})
}

// forRebuild returns the options that a dataset was built with, and keeps those of o that do not change it.
func (o Options) forRebuild(root string, info *cachestore.Info) (_ Options, err error) {
	o.Root, o.Inputs = root, nil
	o.SkipInvalid, o.Strict = true, false // flags were enforced when the dataset was built
	for _, d := range info.Directories {
		switch d.Manifest.Kind {
		case mmapcache.DatasetKind:
			err = o.setShards(d)
		case mmapcache.StructureKind:
			if mmapcache.HasShards(info.Directories[0].Manifest) {
				continue
			}
			err = o.setStructure(d)
		case mmapcache.PlacementKind:
			var image placementImage
			err = readPreImage(d, &image)
			o.Placement = image.Placement
		case mmapcache.ArenasKind:
			err = o.setArenas(d)
		}
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

// setShards sets what a dataset of shards says. It leaves any other dataset to its parts.
func (o *Options) setShards(d cachestore.Directory) error {
	if !mmapcache.HasShards(d.Manifest) {
		return nil
	}
	var image shardedImage
	if err := readPreImage(d, &image); err != nil {
		return err
	}
	o.Rules, o.Placement = image.Rules, image.Placement
	return o.setInputs(d)
}

// setStructure sets the rules and inputs that a structure was built with.
func (o *Options) setStructure(d cachestore.Directory) error {
	var image structureImage
	if err := readPreImage(d, &image); err != nil {
		return err
	}
	o.Rules, o.recordings = image.Rules, image.Recordings
	return o.setInputs(d)
}

// setInputs sets the files that a directory was made from.
func (o *Options) setInputs(d cachestore.Directory) error {
	if d.Provenance == nil || len(d.Provenance.Sources) == 0 {
		return errNoSource(d)
	}
	for _, s := range d.Provenance.Sources {
		o.Inputs = append(o.Inputs, s.Path)
	}
	return nil
}

// setArenas sets the corpus and tokenizer that arenas were built with.
func (o *Options) setArenas(d cachestore.Directory) error {
	if d.Provenance == nil || d.Provenance.Corpus == "" {
		return errNoSource(d)
	}
	o.Corpus, o.Tokenizer = d.Provenance.Corpus, d.Provenance.Tokenizer
	return nil
}

// readPreImage decodes the pre-image of a directory's key. Its error wraps ErrDamaged.
func readPreImage(d cachestore.Directory, image any) error {
	if err := json.Unmarshal(d.Manifest.PreImage, image); err != nil {
		return fmt.Errorf("%s: %w: pre-image: %v", d.Path, manifest.ErrDamaged, err)
	}
	return nil
}

func errNoSource(d cachestore.Directory) error {
	return fmt.Errorf("%s: its provenance does not say what it was made from", d.Path)
}

// checkKeys fails if the input or this program has changed, so that a new build has other keys.
func (c *conversion) checkKeys(info *cachestore.Info, key string) error {
	if c.sharded != nil && mmapcache.HasShards(info.Directories[0].Manifest) {
		c.wanted[mmapcache.DatasetKind] = c.sharded
		return c.checkKey(info.Directories[0], c.sharded)
	}
	for _, d := range info.Directories {
		if d.Manifest.Kind == mmapcache.DatasetKind {
			continue
		}
		if err := c.checkKey(d, c.wanted[d.Manifest.Kind]); err != nil {
			return err
		}
	}
	if now := c.wanted[mmapcache.DatasetKind].Key; now != key {
		return fmt.Errorf("%s cannot be built again: its parts are those of dataset %s", mmapcache.DatasetPath(c.options.Root, key), now)
	}
	return nil
}

// checkKey fails where a directory would have another key now.
func (c *conversion) checkKey(d cachestore.Directory, now *manifest.Manifest) error {
	differ, err := manifest.Differences(now.PreImage, d.Manifest.PreImage)
	if err != nil {
		return err
	}
	differ = slices.DeleteFunc(differ, func(d manifest.Difference) bool { return d.Field == "structure" || d.Field == "arenas" }) // keys of parts
	if len(differ) > 0 {
		return fmt.Errorf("%s cannot be built again: its input, or this agentx, has changed: %s is %s now, was %s", d.Path, differ[0].Field, differ[0].Want, differ[0].Have)
	}
	return nil
}

// compare builds everything once more, in the staging directory of the root, and compares it with the dataset file by
// file. It fails with a *RebuildMismatchError where they differ.
func (c *conversion) compare(ctx context.Context) (err error) {
	root, key := c.options.Root, c.wanted[mmapcache.DatasetKind].Key
	path := mmapcache.DatasetPath(root, key)
	// The lease keeps the staging directory from being swept. Its name is random: comparisons do not wait for each other.
	never := func() (bool, error) { return false, nil }
	lease, err := durable.Acquire(ctx, root, "verify-"+key+"-"+rand.Text(), never, durable.Waiting{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	rebuilt, err := c.rebuild(lease.Context())
	if err != nil {
		return fmt.Errorf("build beside %s: %w", path, err)
	}
	damages, err := c.findDifferences(lease.Context(), rebuilt)
	if err != nil {
		return err
	}
	if m, err := mmapcache.Lookup(root, mmapcache.DatasetKind, key); err == nil && m == nil {
		return fmt.Errorf("%s: it was removed while it was being compared", path)
	}
	if len(damages) > 0 {
		return &RebuildMismatchError{path, damages}
	}
	return nil
}

// rebuild builds everything in a staging directory of the root, and returns its path. It does not sync: no file is kept.
func (c *conversion) rebuild(ctx context.Context) (root string, err error) {
	disk := durable.OptionsOf(ctx)
	dir, err := durable.NewDir(c.options.Root, disk)
	if err != nil {
		return "", err
	}
	disk.Sync = func(*os.File) error { return nil }
	beside := newConversion(c.options)
	beside.options.Root, beside.options.Force, beside.options.Warn = dir.Path(""), true, func(string, ...any) {}
	beside.snapshot, beside.recordings, beside.prompts, beside.wanted = c.snapshot, c.recordings, c.prompts, c.wanted
	beside.probes, beside.keyed, beside.logs = c.probes, c.keyed, c.logs
	build := beside.runOne
	switch {
	case c.logs:
		build = beside.runLogs
	case c.sharded != nil && c.wanted[mmapcache.DatasetKind].Key == c.sharded.Key:
		units, err := unitsOf(ctx, c.snapshot, c.options.shardRows)
		if err != nil {
			return "", err
		}
		s := newSharding(beside, units)
		defer s.close()
		build = s.run
	}
	return beside.options.Root, build(durable.WithOptions(ctx, disk))
}

// findDifferences verifies the digests of the dataset, and compares it with what was built in another root.
func (c *conversion) findDifferences(ctx context.Context, rebuilt string) ([]mmapcache.Damage, error) {
	v, err := mmapcache.Verify(ctx, c.options.Root, c.wanted[mmapcache.DatasetKind].Key)
	if err != nil {
		return nil, err
	}
	damages := v.Damages
	dataset, err := mmapcache.Lookup(rebuilt, mmapcache.DatasetKind, c.wanted[mmapcache.DatasetKind].Key)
	if err != nil {
		return nil, err
	}
	parts, err := mmapcache.PartsOf(dataset)
	if err != nil {
		return nil, err
	}
	parts = append(parts, mmapcache.Reference{Kind: mmapcache.DatasetKind, Part: manifest.Part{Key: dataset.Key}})
	for _, p := range parts {
		differ, err := comparePart(c.options.Root, rebuilt, p.Kind, p.Key)
		if err != nil {
			return nil, err
		}
		damages = append(damages, differ...)
	}
	return damages, nil
}

// comparePart compares what the manifests of two builds of one part say.
func comparePart(root, rebuilt, kind, key string) ([]mmapcache.Damage, error) {
	now, err := mmapcache.Lookup(rebuilt, kind, key)
	if err != nil {
		return nil, err
	}
	before, err := mmapcache.Lookup(root, kind, key)
	if errors.Is(err, manifest.ErrDamaged) {
		return nil, nil // Verify has found it
	}
	if err != nil || before == nil || before.Digest == now.Digest {
		return nil, err
	}
	return compareFiles(filepath.Join(root, kind, key), before, now), nil
}

// compareFiles lists the files of a part that differ from a new build, or the manifest if only that differs.
func compareFiles(dir string, before, now *manifest.Manifest) (damages []mmapcache.Damage) {
	for _, f := range now.Files {
		if old, ok := before.File(f.Name); !ok || old != f {
			damages = append(damages, mmapcache.Damage{File: filepath.Join(dir, f.Name), Reason: "a new build has other content"})
		}
	}
	if len(damages) == 0 {
		damages = append(damages, mmapcache.Damage{File: filepath.Join(dir, manifest.FileName), Reason: "a new build has another manifest"})
	}
	return damages
}
