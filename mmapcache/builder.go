package mmapcache

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
)

// Builder writes one directory of a cache. The directory appears whole with Publish, or not at all.
type Builder struct {
	dir      *durable.Dir
	manifest *manifest.Manifest
	replace  bool
}

// NewBuilder begins a directory of a kind. The hash of preImage, any value that encodes to JSON, becomes its key. Under
// the context of a claim (package cachestore) it can be published only while the claim is held.
func NewBuilder(ctx context.Context, root, kind string, preImage any) (*Builder, error) {
	m, err := manifest.New(kind, preImage)
	if err != nil {
		return nil, err
	}
	m.Facts = json.RawMessage("{}")
	dir, err := durable.NewDir(root, durable.OptionsOf(ctx))
	if err != nil {
		return nil, fmt.Errorf("cache root %s: %w", root, err)
	}
	return &Builder{dir: dir, manifest: m}, nil
}

// Key returns the key of the directory.
func (b *Builder) Key() string { return b.manifest.Key }

// Kind returns the kind of the directory.
func (b *Builder) Kind() string { return b.manifest.Kind }

// Name returns "kind/key", the path of the directory below its root.
func (b *Builder) Name() string { return b.manifest.Kind + "/" + b.manifest.Key }

// Replace makes Publish replace a directory with the same key and other content, which it refuses otherwise.
func (b *Builder) Replace() { b.replace = true }

// Discard removes what has been written. After Publish it does nothing. What it cannot remove is swept later, like what a
// killed build leaves.
func (b *Builder) Discard() { _ = b.dir.Discard() }

// AddPart names a published part in the manifest of a dataset.
func (b *Builder) AddPart(part *manifest.Manifest) {
	if b.manifest.Parts == nil {
		b.manifest.Parts = map[string]manifest.Part{}
	}
	b.manifest.Parts[part.Kind] = manifest.Part{Key: part.Key, Digest: part.Digest}
}

// file is a file with a table or a list: how it is read from its bytes, and written.
type file struct {
	name  string
	read  func(data []byte) error
	write func(io.Writer) error
}

// writeFiles writes files and notes size and digest of each.
func (b *Builder) writeFiles(files []file) error {
	for _, f := range files {
		if err := b.writeFile(f.name, f.write); err != nil {
			return err
		}
	}
	return nil
}

// writeFile writes one file of the directory and lists it in the manifest.
func (b *Builder) writeFile(name string, write func(io.Writer) error) error {
	f, err := b.dir.Create(name)
	if err != nil {
		return err
	}
	sum := sha256.New()
	w := bufio.NewWriterSize(io.MultiWriter(f, sum), 1<<18)
	err = write(w)
	if err == nil {
		err = w.Flush()
	}
	var size int64
	info, statErr := f.Stat()
	if statErr == nil {
		size = info.Size()
	}
	if err := errors.Join(err, statErr, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", b.dir.Path(name), err)
	}
	b.addFile(name, size, sum.Sum(nil))
	return nil
}

// addFile lists a file in the manifest.
func (b *Builder) addFile(name string, size int64, sum []byte) {
	b.manifest.Files = append(b.manifest.Files, manifest.File{Name: name, Size: size, SHA256: hex.EncodeToString(sum)})
}

// setFacts sets the facts of the manifest.
func (b *Builder) setFacts(v any) (err error) {
	b.manifest.Facts, err = json.Marshal(v)
	return err
}

// Publish makes the directory appear under its key and returns its manifest. An existing directory is kept if its
// manifest is the same and its files match it; a damaged one is replaced. The context ends that check.
func (b *Builder) Publish(ctx context.Context, p Provenance) (*manifest.Manifest, error) {
	if err := b.writeManifest(p); err != nil {
		return nil, err
	}
	m := b.manifest
	name := b.Name()
	existed, err := b.dir.Publish(name)
	if err != nil || !existed {
		return m, err
	}
	old, err := b.existing(ctx)
	if err != nil {
		return nil, err
	}
	if old != nil {
		return old, b.dir.Discard()
	}
	return m, b.dir.Replace(name)
}

// writeManifest writes provenance and manifest.
func (b *Builder) writeManifest(p Provenance) error {
	provenance, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	if err := b.dir.Write(manifest.ProvenanceName, append(provenance, '\n')); err != nil {
		return err
	}
	data, err := b.manifest.Encode()
	if err != nil {
		return err
	}
	return b.dir.Write(manifest.FileName, data)
}

// existing returns the manifest of the directory that has the name already, nil where it is to be replaced. It refuses
// other content, unless Replace was called.
func (b *Builder) existing(ctx context.Context) (*manifest.Manifest, error) {
	m, root := b.manifest, b.dir.Root()
	old, err := LookupGuarded(root, m.Kind, m.Key, false)
	switch {
	case err != nil && !errors.Is(err, manifest.ErrDamaged): // its state is unknown
		return nil, err
	case err != nil || old == nil:
		return nil, nil
	case old.Digest != m.Digest && b.replace:
		return nil, nil
	case old.Digest != m.Digest:
		return nil, fmt.Errorf("%s: %w: a program with the same recipe and other results made it", filepath.Join(root, m.Kind, m.Key), ErrDiffers)
	}
	v := newVerifier(realDisk(), root)
	if err := v.directory(ctx, old); err != nil || len(v.Damages) > 0 {
		return nil, err
	}
	return old, nil
}
