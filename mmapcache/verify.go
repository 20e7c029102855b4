package mmapcache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/agentx/agentx/manifest"
)

// Damage is one thing that is wrong with a cache.
type Damage struct {
	File string `json:"file"`
	Why  string `json:"why"`
}

// Verification is what Verify found.
type Verification struct {
	Files   int      `json:"files"` // looked at
	Bytes   int64    `json:"bytes"`
	Damages []Damage `json:"damages"`
	Notes   []string `json:"notes"` // harmless: provenance that cannot be read, files nobody wrote
}

// Verify recomputes every digest of a dataset and its parts, and checks every index and span. The error is about what
// kept it from looking; damage is in the result.
func Verify(ctx context.Context, root, key string) (*Verification, error) {
	v := &Verification{Damages: []Damage{}, Notes: []string{}}
	dataset, err := readManifest(root, DatasetKind, key, "")
	if err != nil {
		return v, v.damage(filepath.Join(root, DatasetKind, key, manifest.FileName), err)
	}
	if err := v.directory(ctx, root, dataset); err != nil {
		return v, err
	}
	for _, kind := range []string{StructureKind, StartsKind, ArenasKind} {
		part := dataset.Parts[kind]
		m, err := readManifest(root, kind, part.Key, part.Digest)
		if err == nil {
			err = v.directory(ctx, root, m)
		} else {
			err = v.damage(filepath.Join(root, kind, part.Key, manifest.FileName), err)
		}
		if err != nil {
			return v, err
		}
	}
	if len(v.Damages) == 0 {
		return v, v.spans(ctx, root, key)
	}
	return v, nil
}

// damage notes an error that says a file is damaged, gone or no file, and returns any other.
func (v *Verification) damage(file string, err error) error {
	if errors.Is(err, manifest.ErrDamaged) || errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ENOTDIR) {
		v.Damages = append(v.Damages, Damage{file, err.Error()})
		return nil
	}
	return err
}

// directory recomputes the digests of one directory.
func (v *Verification) directory(ctx context.Context, root string, m *manifest.Manifest) error {
	dir := filepath.Join(root, m.Kind, m.Key)
	v.Files++ // the manifest itself
	known := map[string]bool{manifest.FileName: true, manifest.ProvenanceName: true}
	for _, f := range m.Files {
		known[f.Name] = true
		path := filepath.Join(dir, f.Name)
		n, sum, err := hashFile(ctx, path)
		v.Files++
		v.Bytes += n
		switch {
		case err != nil:
			if err := v.damage(path, err); err != nil {
				return err
			}
		case n != f.Size:
			v.Damages = append(v.Damages, Damage{path, fmt.Sprintf("%d bytes, the manifest says %d", n, f.Size)})
		case sum != f.SHA256:
			v.Damages = append(v.Damages, Damage{path, "content does not match its digest"})
		}
	}
	if _, err := ReadProvenance(dir); err != nil {
		v.Notes = append(v.Notes, "provenance cannot be read: "+err.Error())
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !known[e.Name()] {
			v.Notes = append(v.Notes, filepath.Join(dir, e.Name())+": not in the manifest")
		}
	}
	return nil
}

func hashFile(ctx context.Context, path string) (int64, string, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, readerFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return f.Read(p)
	}))
	return n, hex.EncodeToString(sum.Sum(nil)), err
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// spans opens the dataset, which checks the tables, and walks over every start and offset.
func (v *Verification) spans(ctx context.Context, root, key string) error {
	c, err := Open(root, key)
	if err != nil {
		return v.damage(filepath.Join(root, DatasetKind, key), err)
	}
	defer c.Close()
	return v.damage(c.Path(), c.Guard(func() error {
		for i := range c.Structure.Traces.Len() {
			if err := ctx.Err(); err != nil {
				return err
			}
			for _, form := range []Form{Text, IDs} {
				if _, err := c.tree(i, form); err != nil {
					return err
				}
			}
		}
		for f := range c.forms {
			offsets := c.forms[f].offsets
			for k := 1; k < len(offsets); k++ {
				if offsets[k-1] > offsets[k] {
					return fmt.Errorf("%s: %w: offset %d goes back", c.offsetsPath(Form(f)), manifest.ErrDamaged, k)
				}
			}
		}
		return nil
	}))
}
