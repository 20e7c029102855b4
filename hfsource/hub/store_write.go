package hub

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agentx/agentx/internal/durable"
)

// cacheTag is the content of CACHEDIR.TAG, which tells backup programs to leave the directory out.
const cacheTag = "Signature: 8a477f597d28d172789f06886806bc55\n# This directory is a cache of the Hugging Face hub.\n"

// prepare creates the directories of the repository, or returns why nothing can be written there.
func (s *store) prepare() error {
	if s.prepared {
		return nil
	}
	if err := s.createCache(); err != nil {
		return err
	}
	for _, dir := range []string{path.Join(".locks", s.repo), s.in("blobs"), s.in("refs"), s.in("snapshots"), s.in("trees")} {
		if err := s.mkdir(dir); err != nil {
			return err
		}
		at := filepath.Join(s.dir, filepath.FromSlash(dir))
		if err := checkWritable(at); err != nil {
			return &fs.PathError{Op: "write", Path: at, Err: err}
		}
	}
	d, err := durable.NewDir(s.leases(), durable.Options{Sync: s.opts.Sync}) // permissions can promise more than a write shows
	if err != nil {
		return err
	}
	if err := d.Discard(); err != nil {
		return err
	}
	s.prepared = true
	return nil
}

// createCache creates the cache directory with its tag.
func (s *store) createCache() error {
	if err := s.step("mkdir", ""); err != nil {
		return err
	}
	if err := durable.MkdirAll(filepath.Dir(s.dir), s.dir); err != nil {
		return err
	}
	if s.root() == nil {
		root, err := os.OpenRoot(s.dir)
		if err != nil {
			return err
		}
		s.handle.Store(root)
	}
	if f, err := s.root().OpenFile("CACHEDIR.TAG", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); err == nil {
		_, err = f.WriteString(cacheTag)
		return errors.Join(err, f.Close())
	}
	return nil
}

// mkdir creates a directory and those above it, each with the permissions for group and others of the one above, and
// syncs them.
func (s *store) mkdir(dir string) error {
	if err := s.step("mkdir", dir); err != nil {
		return err
	}
	if info, err := s.root().Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if above := path.Dir(dir); above != "." {
		if err := s.mkdir(above); err != nil {
			return err
		}
	}
	if err := s.root().Mkdir(dir, 0o777); err != nil {
		if errors.Is(err, fs.ErrExist) {
			if info, err := s.root().Stat(dir); err != nil || info.IsDir() {
				return err // another process created it at this moment
			}
		}
		return err
	}
	if above, err := s.root().Stat(path.Dir(dir)); err == nil {
		if info, err := s.root().Stat(dir); err == nil {
			_ = s.root().Chmod(dir, durable.ModeBelow(above.Mode(), info.Mode())) // best effort, like package durable
		}
	}
	return s.syncDir(path.Dir(dir))
}

func (s *store) syncDir(dir string) error {
	if err := s.step("sync", dir); err != nil {
		return err
	}
	f, err := s.root().Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(s.syncFile(f), f.Close())
}

func (s *store) syncFile(f *os.File) error {
	if s.opts.Sync != nil {
		return s.opts.Sync(f)
	}
	return f.Sync()
}

// rename moves a file from a staging directory, or from below a lease, to its path in the cache, and syncs that directory.
// It creates the directory if it is missing.
func (s *store) rename(staged, final string) error {
	if err := s.mkdir(path.Dir(final)); err != nil {
		return err
	}
	from, err := filepath.Rel(s.dir, staged)
	if err != nil {
		return err
	}
	if err := s.step("rename", final); err != nil {
		return err
	}
	if err := s.root().Rename(filepath.ToSlash(from), final); err != nil {
		return err
	}
	return s.syncDir(path.Dir(final))
}

// withStaging calls f with a new staging directory, and removes it afterwards.
func (s *store) withStaging(f func(*durable.Dir) error) error {
	d, err := durable.NewDir(s.leases(), durable.Options{Sync: s.opts.Sync})
	if err != nil {
		return err
	}
	return errors.Join(f(d), d.Discard())
}

// write writes a small file, which appears whole.
func (s *store) write(data []byte, parts ...string) error {
	return s.withStaging(func(d *durable.Dir) error {
		f, err := d.Create("file")
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		if err := errors.Join(err, s.syncFile(f), f.Close()); err != nil {
			return err
		}
		return s.rename(d.Path("file"), s.in(parts...))
	})
}

// setRef writes the commit of a revision, or only the time if it is the same.
func (s *store) setRef(revision, commit string) error {
	if was, _, ok := s.ref(revision); ok && was == commit && s.touch(revision) {
		return nil
	}
	return s.write([]byte(commit), "refs", revision)
}

// touch sets the time of a reference to now, and reports whether it could.
func (s *store) touch(revision string) bool {
	if s.step("touch", s.in("refs", revision)) != nil {
		return false
	}
	now := time.Now()
	return s.root().Chtimes(s.in("refs", revision), now, now) == nil
}

// link makes a file of a snapshot a symbolic link to its blob, or a hard link where there are no symbolic ones.
func (s *store) link(commit, name, etag string) error {
	final := s.in("snapshots", commit, name)
	if linked, ok := s.linked(commit, name); ok && linked == etag {
		return nil
	}
	if err := s.mkdir(path.Dir(final)); err != nil {
		return err
	}
	target := strings.Repeat("../", strings.Count(name, "/")+2) + "blobs/" + etag
	if err := s.step("link", final); err != nil {
		return err
	}
	if err := s.root().Symlink(target, final); err == nil {
		return s.syncDir(path.Dir(final))
	}
	return s.withStaging(func(d *durable.Dir) error { // another file has the name, or there are no symbolic links
		if err := os.Symlink(target, d.Path("link")); err != nil {
			if err := os.Link(s.path("blobs", etag), d.Path("link")); err != nil {
				return err
			}
		}
		return s.rename(d.Path("link"), final)
	})
}

// partialMaxAge is the age at which the partial file of a killed download is removed. Until then it can be resumed.
const partialMaxAge = 7 * 24 * time.Hour

// sweep removes files that killed processes left in this repository: staging directories at once, partial files by age. It
// is best effort.
func (s *store) sweep() {
	staging := s.list(path.Join(".locks", s.repo, durable.StagingDir))
	partial := slices.DeleteFunc(s.list(s.in("blobs")), func(name string) bool { return !strings.HasSuffix(name, partialSuffix) })
	if len(staging)+len(partial) == 0 {
		return
	}
	now, err := durable.FilesystemTime(s.leases())
	if err != nil {
		return
	}
	_, _ = durable.Sweep(s.leases(), now, false)
	for _, name := range partial {
		etag := strings.TrimSuffix(name, partialSuffix)
		info, err := s.root().Lstat(s.in("blobs", name))
		if err == nil && etagForm.MatchString(etag) && now.Sub(info.ModTime()) >= partialMaxAge {
			s.removePartial(etag)
		}
	}
}

// removePartial removes a partial file, unless another process has the lease on its blob.
func (s *store) removePartial(etag string) {
	notMade := func() (bool, error) { return false, nil }
	lease, err := durable.Acquire(context.Background(), s.leases(), etag, notMade, durable.Waiting{Limit: -1})
	if err == nil {
		_ = s.root().Remove(s.in("blobs", etag+partialSuffix))
		_ = lease.Release()
	}
}
