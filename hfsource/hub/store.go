package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/agentx/agentx/internal/durable"
)

// store is the directory of one repository in a cache, with the layout of huggingface_hub:
//
//	.locks/datasets--OWNER--NAME/                     leases, and files that are being written
//	datasets--OWNER--NAME/blobs/<etag>                content, named by its digest
//	datasets--OWNER--NAME/blobs/<etag>.agentx.incomplete
//	datasets--OWNER--NAME/refs/<revision>             a commit
//	datasets--OWNER--NAME/snapshots/<commit>/<path>   link to a blob
//	datasets--OWNER--NAME/trees/<commit>.json         listing
//
// The name of a file proves nothing: a blob counts after its content was hashed, and only a listing has all files of a
// commit. Every file appears by one rename. All access goes through one os.Root on the cache, so that no link leads out
// of it. Links within the cache are followed: the Python client makes a blob that came from Xet a link to
// blobs/<2 digits>/<Xet hash> of the cache, which repositories share. doc/spec/hub.md 8.
type store struct {
	dir      string // the cache
	repo     string // name of the repository's directory
	opts     durable.Options
	prepared bool // the directories exist and can be written

	handle atomic.Pointer[os.Root]
}

// root returns the handle on the cache, nil while that does not exist.
func (s *store) root() *os.Root { return s.handle.Load() }

// openStore opens the directory of a repository, which need not exist.
func openStore(dir string, k kind, repo string, opts durable.Options) *store {
	s := &store{dir: dir, repo: k.dir + strings.ReplaceAll(repo, "/", "--"), opts: opts}
	if root, err := os.OpenRoot(dir); err == nil { // if not, nothing is found in it, and prepare reports why
		s.handle.Store(root)
	}
	return s
}

func (s *store) close() {
	if s.root() != nil {
		_ = s.root().Close()
	}
}

// in returns a path inside the repository, relative to the cache.
func (s *store) in(parts ...string) string {
	return path.Join(append([]string{s.repo}, parts...)...)
}

// path returns a path inside the repository for the system, and for messages.
func (s *store) path(parts ...string) string {
	return filepath.Join(s.dir, filepath.FromSlash(s.in(parts...)))
}

// leases returns the root of the leases on blobs.
func (s *store) leases() string { return filepath.Join(s.dir, ".locks", s.repo) }

// step calls the hook of tests before a step that touches the disk.
func (s *store) step(name, what string) error {
	if s.opts.Step == nil {
		return nil
	}
	if err := s.opts.Step(name, filepath.Join(s.dir, filepath.FromSlash(what))); err != nil {
		return fmt.Errorf("%s %s: %w", name, what, err)
	}
	return nil
}

// open opens a regular file of the repository for reading.
func (s *store) open(parts ...string) (*os.File, fs.FileInfo, error) {
	if s.root() == nil {
		return nil, nil, fs.ErrNotExist
	}
	if err := s.step("open", s.in(parts...)); err != nil {
		return nil, nil, err
	}
	f, err := s.root().OpenFile(s.in(parts...), os.O_RDONLY|syscall.O_NONBLOCK, 0) // O_NONBLOCK: it may be a pipe
	if isEscape(err) {
		return nil, nil, fmt.Errorf("%s is a link that leads out of the cache", s.path(parts...))
	}
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", s.path(parts...))
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// read reads a file of the repository of at most limit bytes.
func (s *store) read(limit int64, parts ...string) ([]byte, fs.FileInfo, error) {
	f, info, err := s.open(parts...)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", f.Name(), limit)
	}
	return data, info, err
}

// ref returns the commit that a reference holds, and when the hub last confirmed it.
func (s *store) ref(revision string) (commit string, at time.Time, ok bool) {
	data, info, err := s.read(1<<10, "refs", revision)
	if commit = strings.TrimSpace(string(data)); err != nil || !commitForm().MatchString(commit) {
		return "", time.Time{}, false
	}
	return commit, info.ModTime(), true
}

// tree returns the listing of a commit.
func (s *store) tree(commit string) (*tree, bool) {
	data, _, err := s.read(1<<30, "trees", commit+".json")
	if err != nil {
		return nil, false
	}
	return parseTree(data)
}

// linked returns the digest of the blob to which a file of a snapshot links.
func (s *store) linked(commit, name string) (etag string, ok bool) {
	if s.root() == nil {
		return "", false
	}
	at := s.in("snapshots", commit, name)
	target, err := s.root().Readlink(at)
	if err != nil {
		return "", false
	}
	dir, etag := path.Split(path.Join(path.Dir(at), filepath.ToSlash(target)))
	return etag, dir == s.in("blobs")+"/" && etagForm().MatchString(etag)
}

// openContent opens what may be the content of a file: the blob, or a copy in the snapshot of a cache without links. It
// does not check the content.
func (s *store) openContent(commit, name, etag string) (f *os.File, at string, err error) {
	f, _, err = s.open("blobs", etag)
	if err == nil {
		return f, s.pathOf(commit, name, etag), nil
	}
	if s.root() == nil {
		return nil, "", err
	}
	info, statErr := s.root().Lstat(s.in("snapshots", commit, name))
	if statErr != nil || !info.Mode().IsRegular() {
		return nil, "", err
	}
	f, _, err = s.open("snapshots", commit, name)
	return f, s.path("snapshots", commit, name), err
}

// pathOf returns the path of a file for the user: in the snapshot if that links to the blob, else the blob.
func (s *store) pathOf(commit, name, etag string) string {
	if linked, ok := s.linked(commit, name); ok && linked == etag {
		return s.path("snapshots", commit, name)
	}
	return s.path("blobs", etag)
}

// stat returns size and identity of a blob.
func (s *store) stat(etag string) (fs.FileInfo, bool) {
	if s.root() == nil {
		return nil, false
	}
	info, err := s.root().Stat(s.in("blobs", etag))
	return info, err == nil && info.Mode().IsRegular()
}

// list returns the names in a directory, none if it cannot be read.
func (s *store) list(dir string) []string {
	f, err := s.root().Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	return names
}

// isAbsent reports whether an error says that a file does not exist, or cannot.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ESTALE)
}

// isReadOnly reports whether an error says that this process may not write in a directory.
func isReadOnly(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOTDIR) || isEscape(err)
}

// isEscape reports whether an error of an os.Root says that a link leads out of it.
func isEscape(err error) bool {
	return err != nil && strings.Contains(err.Error(), "path escapes from parent")
}

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

// syncDir forces to disk which names a directory of the cache has.
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

// syncFile forces an open file to disk, by the function of tests where there is one.
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
		if err == nil && etagForm().MatchString(etag) && now.Sub(info.ModTime()) >= partialMaxAge {
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

// writable returns the cache for downloads: the hub's, or if that cannot be written the one below the cache root.
func (j *job) writable() (*store, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.writeTo != nil {
		return j.writeTo, nil
	}
	var errs []error
	for k, st := range j.stores {
		err := st.prepare()
		if err == nil {
			if k > 0 {
				j.Logf("nothing can be written in %s (%v): downloads go to %s", j.stores[0].dir, errs[0], st.dir)
			}
			j.writeTo = st
			st.sweep()
			return st, j.recordCommit(st)
		}
		errs = append(errs, fmt.Errorf("%s cannot be written: %w", st.dir, err))
		if !isReadOnly(err) {
			break
		}
	}
	return nil, &Error{Class: ClassLocalDisk, Text: "no cache for the download", Err: errors.Join(errs...), Hint: "HF_HUB_CACHE=DIR, or another cache root: a directory that you may write to"}
}

// recordCommit writes the reference, the snapshot directory and the listing, in this order and before the first file:
// "hf cache prune" removes commits to which no reference points, at any time.
func (j *job) recordCommit(st *store) error {
	s := j.snapshot
	if s.Resolution == ResolvedByHub {
		if err := st.setRef(s.Revision, s.Commit); err != nil { // only offline work needs it
			j.Logf("%s: the commit of %s cannot be recorded: %v", st.dir, s.Revision, err)
		}
	}
	if err := st.mkdir(st.in("snapshots", s.Commit)); err != nil {
		return diskError("the snapshot", err)
	}
	if _, ok := st.tree(s.Commit); ok {
		return nil
	}
	if data, ok := j.tree.encode(); ok {
		if err := st.write(data, "trees", s.Commit+".json"); err != nil {
			return diskError("the listing", err)
		}
	}
	return nil
}

// record links files that were already in the cache into the snapshot directory, unless a cache has recorded all of them.
func (j *job) record() error {
	if j.offline != "" || j.tree == nil || j.writeTo == nil && slices.ContainsFunc(j.stores, j.isRecorded) {
		return nil
	}
	st, err := j.writable()
	if err != nil {
		j.Logf("the files cannot be recorded in the cache: %v", err)
		return nil // all of them are there and verified
	}
	for _, f := range j.usedFiles() {
		if info, ok := st.stat(f.ETag); ok && info.Size() == f.Size {
			if err := st.link(j.snapshot.Commit, f.Path, f.ETag); err != nil {
				return diskError("the snapshot", err)
			}
			f.LocalPath = st.pathOf(j.snapshot.Commit, f.Path, f.ETag)
		}
	}
	return nil
}

// usedFiles returns the files of the snapshot, and the card.
func (j *job) usedFiles() (list []*File) {
	if j.card != nil {
		list = append(list, j.card)
	}
	for k := range j.snapshot.Files {
		list = append(list, &j.snapshot.Files[k])
	}
	return list
}

// isRecorded reports whether a cache has the listing, the links of all files, and a reference to the commit. It marks the
// reference as still correct.
func (j *job) isRecorded(st *store) bool {
	s := j.snapshot
	if _, ok := st.tree(s.Commit); !ok {
		return false
	}
	for _, f := range j.usedFiles() {
		etag, ok := st.linked(s.Commit, f.Path)
		isCopy := strings.HasPrefix(f.LocalPath, st.path("snapshots")+string(filepath.Separator)) // in place of a link
		if !isCopy && (!ok || etag != f.ETag) {
			return false
		}
	}
	if s.Resolution != ResolvedByHub {
		return true
	}
	commit, _, ok := st.ref(s.Revision)
	if !ok || commit != s.Commit {
		return false
	}
	st.touch(s.Revision) // best effort
	return true
}
