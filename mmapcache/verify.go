package mmapcache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache/internal/cachedir"
)

// Damage is one damaged or missing file.
type Damage struct {
	File   string `json:"file"`
	Reason string `json:"why"`
}

// Verification is what Verify found.
type Verification struct {
	Files   int      `json:"files"` // checked
	Bytes   int64    `json:"bytes"` // hashed
	Damages []Damage `json:"damages"`
	Notes   []string `json:"notes"` // harmless: provenance that cannot be read, files that no manifest lists
}

// Verify recomputes every digest of a dataset and its parts, and checks every index, start and offset. It returns damage
// in the result. The error is about a check that could not be made: a file that cannot be read, or a cache in another
// format. It wraps ErrNoCache where the dataset does not exist or is removed meanwhile.
func Verify(ctx context.Context, root, key string) (*Verification, error) {
	return realDisk().verifyDirectory(ctx, root, DatasetKind, key)
}

// VerifyPart recomputes the digests of one part. Indices and offsets need a whole dataset to be checked.
func VerifyPart(ctx context.Context, root, kind, key string) (*Verification, error) {
	return realDisk().verifyDirectory(ctx, root, kind, key)
}

// verifyDirectory verifies a directory, and looks again while another process may be replacing it.
func (d disk) verifyDirectory(ctx context.Context, root, kind, key string) (*Verification, error) {
	var v *verifier
	good := map[string]bool{}
	dir := filepath.Join(root, kind, key)
	err := d.RetryMissing(ctx, dir, func() (err error) {
		v = newVerifier(d, root)
		v.good = good
		if kind == DatasetKind {
			err = v.dataset(ctx, key)
		} else {
			_, err = v.part(ctx, kind, manifest.Part{Key: key})
		}
		if err == nil && v.missing {
			err = cachedir.ErrMissing
		}
		return err
	})
	switch {
	case err == cachedir.ErrMissing: // it stays missing: that is damage
		err = nil
	case err == nil && len(v.Damages) > 0 && !d.Listed(dir):
		err = fmt.Errorf("cache %s: %w in %s: it has been removed", key, ErrNoCache, root)
	}
	if errors.Is(err, cachedir.ErrChanging) || errors.Is(err, ErrNoCache) {
		v.Damages = []Damage{} // what is being removed is not damaged
	}
	return v.Verification, err
}

// dataset checks a dataset and its parts, shard by shard: it goes on after damage.
func (v *verifier) dataset(ctx context.Context, key string) error {
	dataset, err := v.part(ctx, DatasetKind, manifest.Part{Key: key})
	if err != nil || dataset == nil {
		return err
	}
	c := newCache(v.root, v.disk)
	defer c.Close()
	whole := len(v.Damages) == 0
	c.Manifest, c.prompts = dataset, true
	shards := []Shard{{Structure: dataset.Parts[StructureKind], Starts: dataset.Parts[PlacementKind]}}
	if HasShards(dataset) {
		facts, err := DatasetFactsOf(dataset)
		if err != nil {
			return nil // noted as damage of the dataset
		}
		c.Facts, shards = facts.StructureFacts, facts.Shards
	}
	c.setShards(shards)
	damages := len(v.Damages)
	if err := v.named(ctx, ArenasKind, dataset.Parts[ArenasKind]); err != nil {
		return err
	}
	if whole && len(v.Damages) == damages {
		if err := v.follow(c, c.checkArenas); err != nil {
			return err
		}
	}
	if HasTexts(dataset) {
		if err := v.named(ctx, TextsKind, dataset.Parts[TextsKind]); err != nil {
			return err
		}
		if whole && len(v.Damages) == damages {
			if err := v.follow(c, c.checkTexts); err != nil {
				return err
			}
		}
	}
	whole = whole && len(v.Damages) == damages
	for _, s := range c.shards {
		if err := v.shard(ctx, c, s, whole); err != nil {
			return err
		}
	}
	return nil
}

// named checks a part that a dataset names. That it names none is noted as damage of the dataset.
func (v *verifier) named(ctx context.Context, kind string, p manifest.Part) error {
	if p.Key == "" {
		return nil
	}
	_, err := v.part(ctx, kind, p)
	return err
}

// shard checks a shard: its digests and, where that makes sense, every index and start.
func (v *verifier) shard(ctx context.Context, c *Cache, s *shard, whole bool) error {
	damages := len(v.Damages)
	err := v.named(ctx, StructureKind, s.Structure)
	if err == nil {
		err = v.named(ctx, PlacementKind, s.Starts)
	}
	good := s.Structure.Key + " " + s.Starts.Key
	if err != nil || !whole || len(v.Damages) > damages || v.good[good] {
		return err
	}
	defer s.drop()
	if err := v.follow(c, func() error { return c.checkStarts(ctx, s) }); err != nil {
		return err
	}
	v.good[good] = len(v.Damages) == damages
	return nil
}

// follow notes the damage that a check of the content finds.
func (v *verifier) follow(c *Cache, check func() error) error {
	return v.note(c.Path(), c.Guard(check))
}

// verifier checks the directories of a root.
type verifier struct {
	*Verification
	disk
	root    string
	missing bool            // some of the damage is a missing file
	good    map[string]bool // what was checked when something else was missing: it is not read again
	cachedir.Hasher
}

func newVerifier(d disk, root string) *verifier {
	return &verifier{Verification: &Verification{Damages: []Damage{}, Notes: []string{}}, disk: d, root: root, good: map[string]bool{}}
}

// note adds an error about damage to the result, and returns any other.
func (v *verifier) note(file string, err error) error {
	if err != nil && cachedir.IsDamage(err) {
		v.Damages = append(v.Damages, Damage{file, reasonOf(file, err)})
		v.missing = v.missing || errors.Is(err, fs.ErrNotExist)
		return nil
	}
	var p *fs.PathError
	if errors.As(err, &p) {
		return fmt.Errorf("could not check: %w", err)
	}
	return err
}

// reasonOf returns what an error says of a damaged file, without its path, or that of its directory, and the word in front.
func reasonOf(file string, err error) string {
	reason := strings.TrimPrefix(strings.TrimPrefix(err.Error(), file+": "), filepath.Dir(file)+": ")
	return strings.TrimPrefix(reason, manifest.ErrDamaged.Error()+": ")
}

// part checks the directory of a dataset or part. It returns the manifest, nil where that is damaged.
func (v *verifier) part(ctx context.Context, kind string, p manifest.Part) (*manifest.Manifest, error) {
	m, err := v.readManifest(v.root, kind, p.Key, p.Digest)
	if err != nil {
		return nil, v.note(filepath.Join(v.root, kind, p.Key, manifest.FileName), err)
	}
	return m, v.directory(ctx, m)
}

// directory checks contents and digests of one directory.
func (v *verifier) directory(ctx context.Context, m *manifest.Manifest) error {
	dir := filepath.Join(v.root, m.Kind, m.Key)
	v.Files++ // the manifest itself
	if err := CheckContents(v.root, m); err != nil {
		return v.note(filepath.Join(dir, manifest.FileName), err)
	}
	for _, f := range m.Files {
		if err := v.file(ctx, filepath.Join(dir, f.Name), f); err != nil {
			return err
		}
	}
	return v.surplus(dir, m)
}

// file checks size and digest of one file.
func (v *verifier) file(ctx context.Context, path string, want manifest.File) error {
	v.Files++
	good := path + " " + want.SHA256
	if v.good[good] {
		v.Bytes += want.Size
		return nil
	}
	n, sum, err := v.digest(ctx, path, want.Size)
	v.Bytes += n
	switch {
	case err != nil:
		return v.note(path, err)
	case n != want.Size:
		v.Damages = append(v.Damages, Damage{path, fmt.Sprintf("%d bytes, the manifest says %d", n, want.Size)})
	case sum != want.SHA256:
		v.Damages = append(v.Damages, Damage{path, "content does not match its digest"})
	default:
		v.good[good] = true
	}
	return nil
}

// surplus notes what a directory holds that harms nothing.
func (v *verifier) surplus(dir string, m *manifest.Manifest) error {
	if _, err := v.readProvenance(dir); err != nil {
		v.Notes = append(v.Notes, "provenance cannot be read: "+err.Error())
	}
	var entries []fs.DirEntry
	err := cachedir.RetryStale(func() (err error) { entries, err = v.ReadDir(dir); return err })
	if err != nil {
		return v.note(dir, err)
	}
	for _, e := range entries {
		if _, ok := m.File(e.Name()); !ok && e.Name() != manifest.FileName && e.Name() != manifest.ProvenanceName {
			v.Notes = append(v.Notes, filepath.Join(dir, e.Name())+": not in the manifest")
		}
	}
	return nil
}

// digest returns size and digest of a file. It does not read a file that is not of the size want.
func (v *verifier) digest(ctx context.Context, path string, want int64) (n int64, sum string, err error) {
	err = v.Reopen(path, func() error {
		f, size, err := v.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if n = size; size != want {
			return nil
		}
		n, sum, err = v.Hash(ctx, f)
		return err
	})
	return n, sum, err
}

// checkStarts checks every start of a shard, by rendering every trace.
func (c *Cache) checkStarts(ctx context.Context, s *shard) error {
	tables, err := c.take(s)
	if err != nil {
		return err
	}
	for i := range tables.Traces.Len() {
		if err := ctx.Err(); err != nil {
			return err
		}
		encodings := []Encoding{Text, IDs}
		if c.HasTexts() {
			encodings = []Encoding{ChatMessages, AnthropicMessages}
		}
		for _, encoding := range encodings {
			if _, err := c.render(s.firstTrace+i, encoding); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkArenas opens the arenas and checks that their offsets ascend.
func (c *Cache) checkArenas() error {
	if err := c.openArenas(); err != nil {
		return err
	}
	for encoding, r := range c.renderings {
		for k := 1; k < len(r.offsets); k++ {
			if r.offsets[k-1] > r.offsets[k] {
				return fmt.Errorf("%s: %w: offset %d is %d, below %d before it", c.offsetsPath(Encoding(encoding)), manifest.ErrDamaged, k, r.offsets[k], r.offsets[k-1])
			}
		}
	}
	return nil
}
