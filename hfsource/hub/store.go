package hub

import (
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

// store is the place of one repository in a cache laid out as the Python client does:
//
//	.locks/datasets--OWNER--NAME/                 leases, and what is being made
//	datasets--OWNER--NAME/blobs/<etag>            content; the name is its digest
//	datasets--OWNER--NAME/blobs/<etag>.agentx.incomplete
//	datasets--OWNER--NAME/refs/<revision>         a commit
//	datasets--OWNER--NAME/snapshots/<commit>/<path>   link to a blob
//	datasets--OWNER--NAME/trees/<commit>.json     listing
//
// Nothing of that says that all of it is there, or whole: a blob counts when its content was hashed, a listing names all
// files of a commit. Everything appears by one rename, and all is reached through one handle on the cache, so that no link
// leads out of it. Inside it links are followed: the Python client makes a blob that came from Xet a link to
// blobs/<2 digits>/<Xet hash> of the cache, which repositories share.
type store struct {
	dir  string // the cache
	repo string // name of the directory of the repository
	opts durable.Options
	made bool // the directories are there and can be written

	handle atomic.Pointer[os.Root]
}

// root is the handle on the cache; nil as long as that is not there.
func (s *store) root() *os.Root { return s.handle.Load() }

// incomplete ends the name of a blob that is on its way.
const incomplete = ".agentx.incomplete"

// openStore opens the place of a repository, which need not be there.
func openStore(dir, repo string, opts durable.Options) *store {
	s := &store{dir: dir, repo: "datasets--" + strings.ReplaceAll(repo, "/", "--"), opts: opts}
	if root, err := os.OpenRoot(dir); err == nil { // else nothing is found in it, and who wants to write is told why
		s.handle.Store(root)
	}
	return s
}

// absent reports whether an error says that something is not there, or cannot be.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ESTALE)
}

func (s *store) close() {
	if s.root() != nil {
		_ = s.root().Close()
	}
}

// in is a path inside the repository, from the cache.
func (s *store) in(parts ...string) string {
	return path.Join(append([]string{s.repo}, parts...)...)
}

// path is where something inside the repository lies, for people and other programs.
func (s *store) path(parts ...string) string {
	return filepath.Join(s.dir, filepath.FromSlash(s.in(parts...)))
}

// locks is the root of the leases of the repository.
func (s *store) locks() string { return filepath.Join(s.dir, ".locks", s.repo) }

// open opens a regular file of the repository for reading.
func (s *store) open(parts ...string) (*os.File, fs.FileInfo, error) {
	if s.root() == nil {
		return nil, nil, fs.ErrNotExist
	}
	if err := s.at("open", s.in(parts...)); err != nil {
		return nil, nil, err
	}
	f, err := s.root().OpenFile(s.in(parts...), os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe is not waited for
	if escapes(err) {
		return nil, nil, fmt.Errorf("%s is a link that leads out of the cache", s.path(parts...))
	}
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", s.path(parts...))
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

// read reads a small file of the repository.
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

// ref reads which commit a revision was at, and when that was last asked.
func (s *store) ref(revision string) (commit string, at time.Time, ok bool) {
	data, info, err := s.read(1<<10, "refs", revision)
	if commit = strings.TrimSpace(string(data)); err != nil || !commitForm.MatchString(commit) {
		return "", time.Time{}, false
	}
	return commit, info.ModTime(), true
}

// tree reads the listing of a commit.
func (s *store) tree(commit string) (*tree, bool) {
	data, _, err := s.read(1<<30, "trees", commit+".json")
	if err != nil {
		return nil, false
	}
	return parseTree(data)
}

// linked returns the blob that a file of a snapshot is, by the text of its link.
func (s *store) linked(commit, name string) (etag string, ok bool) {
	if s.root() == nil {
		return "", false
	}
	at := s.in("snapshots", commit, name)
	text, err := s.root().Readlink(at)
	if err != nil {
		return "", false
	}
	dir, etag := path.Split(path.Join(path.Dir(at), filepath.ToSlash(text)))
	return etag, dir == s.in("blobs")+"/" && etagForm.MatchString(etag)
}

// blob opens what may be the content of a file: the blob of its digest, or a copy in the snapshot of one that has no links.
// What it holds is not looked at.
func (s *store) blob(commit, name, etag string) (f *os.File, at string, err error) {
	f, _, err = s.open("blobs", etag)
	if err == nil {
		return f, s.place(commit, name, etag), nil
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

// place is where a file is shown to lie: in the snapshot if that has it, else the blob.
func (s *store) place(commit, name, etag string) string {
	if linked, ok := s.linked(commit, name); ok && linked == etag {
		return s.path("snapshots", commit, name)
	}
	return s.path("blobs", etag)
}

// size returns the size of a blob as it lies, and what file it is.
func (s *store) size(etag string) (fs.FileInfo, bool) {
	if s.root() == nil {
		return nil, false
	}
	info, err := s.root().Stat(s.in("blobs", etag))
	return info, err == nil && info.Mode().IsRegular()
}

// at calls the hook of tests before a step that touches the disk.
func (s *store) at(name, what string) error {
	if s.opts.Step == nil {
		return nil
	}
	if err := s.opts.Step(name, filepath.Join(s.dir, filepath.FromSlash(what))); err != nil {
		return fmt.Errorf("%s %s: %w", name, what, err)
	}
	return nil
}

// tag marks the directory for programs that make backups.
const tag = "Signature: 8a477f597d28d172789f06886806bc55\n# This directory is a cache of the Hugging Face hub.\n"

// prepare makes the directories of the repository, or says why nothing can be written there.
func (s *store) prepare() error {
	if s.made {
		return nil
	}
	if err := s.at("mkdir", ""); err != nil {
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
		_, err = f.WriteString(tag)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	for _, dir := range []string{path.Join(".locks", s.repo), s.in("blobs"), s.in("refs"), s.in("snapshots"), s.in("trees")} {
		if err := s.mkdir(dir); err != nil {
			return err
		}
		if err := writable(filepath.Join(s.dir, filepath.FromSlash(dir))); err != nil {
			return &fs.PathError{Op: "write", Path: filepath.Join(s.dir, filepath.FromSlash(dir)), Err: err}
		}
	}
	d, err := durable.NewDir(s.locks(), durable.Options{Sync: s.opts.Sync}) // what access says and what happens can differ
	if err != nil {
		return err
	}
	if err := d.Discard(); err != nil {
		return err
	}
	s.made = true
	return nil
}

// unwritable reports whether an error says that a directory is not for us to write in.
func unwritable(err error) bool {
	for _, e := range []error{fs.ErrPermission, syscall.EROFS, syscall.ENOTDIR, syscall.EPERM, syscall.EACCES} {
		if errors.Is(err, e) {
			return true
		}
	}
	return escapes(err)
}

// escapes reports whether an error of an os.Root says that a link leads out of it.
func escapes(err error) bool {
	return err != nil && strings.Contains(err.Error(), "path escapes from parent")
}

// mkdir makes a directory and those above it, each as open to group and others as the one it is in, and puts them on disk.
func (s *store) mkdir(dir string) error {
	if err := s.at("mkdir", dir); err != nil {
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
				return err // somebody else's, at this moment
			}
		}
		return err
	}
	if like, err := s.root().Stat(path.Dir(dir)); err == nil {
		if info, err := s.root().Stat(dir); err == nil {
			_ = s.root().Chmod(dir, info.Mode()&^0o077|like.Mode().Perm()&0o077) // best effort, as durable does it
		}
	}
	return s.sync(path.Dir(dir))
}

// sync forces a directory to disk.
func (s *store) sync(dir string) error {
	if err := s.at("sync", dir); err != nil {
		return err
	}
	f, err := s.root().Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(s.force(f), f.Close())
}

// force forces an open file to disk.
func (s *store) force(f *os.File) error {
	if s.opts.Sync != nil {
		return s.opts.Sync(f)
	}
	return f.Sync()
}

// rename puts something that was made under a lease, or in a staging directory, in its place, and on disk. The directory of
// that is made where it is not, or is no more.
func (s *store) rename(staged, final string) error {
	if err := s.mkdir(path.Dir(final)); err != nil {
		return err
	}
	from, err := filepath.Rel(s.dir, staged)
	if err != nil {
		return err
	}
	if err := s.at("rename", final); err != nil {
		return err
	}
	if err := s.root().Rename(filepath.ToSlash(from), final); err != nil {
		return err
	}
	return s.sync(path.Dir(final))
}

// staged runs f with a directory of its own, from which it renames.
func (s *store) staged(f func(*durable.Dir) error) error {
	d, err := durable.NewDir(s.locks(), durable.Options{Sync: s.opts.Sync})
	if err != nil {
		return err
	}
	return errors.Join(f(d), d.Discard())
}

// write makes a small file appear whole.
func (s *store) write(data []byte, parts ...string) error {
	return s.staged(func(d *durable.Dir) error {
		f, err := d.Create("file")
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		if err := errors.Join(err, s.force(f), f.Close()); err != nil {
			return err
		}
		return s.rename(d.Path("file"), s.in(parts...))
	})
}

// setRef notes which commit a revision is at, or that it still is.
func (s *store) setRef(revision, commit string) error {
	if was, _, ok := s.ref(revision); ok && was == commit && s.touch(revision) {
		return nil
	}
	return s.write([]byte(commit), "refs", revision)
}

// touch notes that a revision is still where it was.
func (s *store) touch(revision string) bool {
	if s.at("touch", s.in("refs", revision)) != nil {
		return false
	}
	now := time.Now()
	return s.root().Chtimes(s.in("refs", revision), now, now) == nil
}

// link makes a file of a snapshot a link to its blob. One that is right stays; where links cannot be made it is another
// name of the blob.
func (s *store) link(commit, name, etag string) error {
	final := s.in("snapshots", commit, name)
	if linked, ok := s.linked(commit, name); ok && linked == etag {
		return nil
	}
	if err := s.mkdir(path.Dir(final)); err != nil {
		return err
	}
	target := strings.Repeat("../", strings.Count(name, "/")+2) + "blobs/" + etag
	if err := s.at("link", final); err != nil {
		return err
	}
	if err := s.root().Symlink(target, final); err == nil {
		return s.sync(path.Dir(final))
	}
	return s.staged(func(d *durable.Dir) error { // something else is there, or there are no symbolic links
		if err := os.Symlink(target, d.Path("link")); err != nil {
			if err := os.Link(s.path("blobs", etag), d.Path("link")); err != nil {
				return err
			}
		}
		return s.rename(d.Path("link"), final)
	})
}

// stale is the age at which what a killed download left is removed. Until then the next run may go on from it.
const stale = 7 * 24 * time.Hour

// sweep removes what killed processes left in this repository: their staging at once, their partial blobs by age. It is
// best effort.
func (s *store) sweep() {
	staging := s.names(path.Join(".locks", s.repo, durable.StagingDir))
	blobs := slices.DeleteFunc(s.names(s.in("blobs")), func(name string) bool { return !strings.HasSuffix(name, incomplete) })
	if len(staging)+len(blobs) == 0 {
		return
	}
	now, err := durable.FilesystemTime(s.locks())
	if err != nil {
		return
	}
	_, _ = durable.Sweep(s.locks(), now, false)
	for _, name := range blobs {
		etag := strings.TrimSuffix(name, incomplete)
		info, err := s.root().Lstat(s.in("blobs", name))
		if err == nil && etagForm.MatchString(etag) && now.Sub(info.ModTime()) >= stale {
			s.unlessHeld(etag, func() { _ = s.root().Remove(s.in("blobs", name)) })
		}
	}
}

// names lists a directory, as far as it can be seen.
func (s *store) names(dir string) []string {
	f, err := s.root().Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	return names
}
