package hub

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
	"time"

	"github.com/agentx/agentx/internal/lazyregexp"
)

// Snapshot is a dataset, or the tokenizer of a model, at one commit, on disk.
type Snapshot struct {
	Model        bool       // a repository of a model
	Repo         string     // OWNER/NAME as asked for
	RenamedTo    string     // OWNER/NAME as the hub calls it now, if that differs; else ""
	Revision     string     // as asked for; "main" by default
	Commit       string     // 40 hex digits
	ResolvedAt   time.Time  // when the hub named the commit, or when the local reference was written
	Resolution   Resolution // how Revision led to Commit
	Files        []File     // the data files, in order
	BytesNetwork int64      // bytes of Files that were received, those received twice counted twice

	stores []*store
}

// ref returns the reference to the repository at its commit.
func (s *Snapshot) ref() Ref { return Ref{Model: s.Model, Repo: s.Repo, Revision: s.Commit} }

// Resolution says how a revision was resolved to a commit.
type Resolution string

// The ways to resolve a revision.
const (
	ResolvedByHub      Resolution = "resolved now"
	ResolvedByLocalRef Resolution = "from the local ref"
	ResolvedByCommit   Resolution = "pinned" // the revision is a commit
)

// Source says where a file came from.
type Source string

// The sources of a file.
const (
	FromNetwork      Source = "network" // downloaded by this call
	FromCache        Source = "cache"   // in the cache, downloaded by agentx
	FromOtherProgram Source = "adopted" // in the cache, downloaded by another program
)

// File is one file of a snapshot.
type File struct {
	Path      string // in the repository
	LocalPath string // on disk
	Size      int64  // bytes
	SHA256    string // of the content, 64 hex digits
	ETag      string // the digest that the hub uses: SHA256, or for files outside LFS git's sha1 in 40 hex digits
	Source    Source

	open func() (*os.File, error)
	kept *os.File // the descriptor whose content was hashed; nil if it was not read
}

// FileReader reads the content of a file, in any order.
type FileReader interface {
	io.ReadCloser
	io.ReaderAt
}

// sharedReader reads a descriptor that Close leaves open.
type sharedReader struct{ *io.SectionReader }

func (sharedReader) Close() error { return nil }

// Open opens the content. Where Fetch hashed the file, the reader uses the descriptor that was hashed. It is valid until
// Snapshot.Close.
func (f *File) Open() (FileReader, error) {
	if f.kept != nil {
		return sharedReader{io.NewSectionReader(f.kept, 0, f.Size)}, nil
	}
	return f.open()
}

// DisplayName returns the name of a file for messages: hf://datasets/OWNER/NAME@<12 hex digits>/PATH.
func (s *Snapshot) DisplayName(path string) string {
	return s.ref().kind().scheme + s.Repo + "@" + s.Commit[:12] + "/" + path
}

// Summary describes the snapshot in one line: dataset, revision, commit, and how the commit was found.
func (s *Snapshot) Summary() string {
	how := string(s.Resolution)
	if s.Resolution == ResolvedByLocalRef {
		how += ", age " + formatAge(time.Since(s.ResolvedAt))
	}
	name := s.Repo
	if s.RenamedTo != "" {
		name += " (now " + s.RenamedTo + ")"
	}
	return fmt.Sprintf("%s %s @ %s -> %s (%s)", s.ref().kind().word, name, s.Revision, s.Commit[:12], how)
}

// formatAge writes a duration for people, in its largest unit.
func formatAge(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d d", int(d.Hours()/24))
}

// Close closes the files of the snapshot.
func (s *Snapshot) Close() error {
	var errs []error
	for k := range s.Files {
		if f := s.Files[k].kept; f != nil {
			errs = append(errs, f.Close())
			s.Files[k].kept = nil
		}
	}
	for _, st := range s.stores {
		st.close()
	}
	s.stores = nil
	return errors.Join(errs...)
}

// Export copies the files of the snapshot to a directory, under their paths in the repository, and returns the paths of
// the copies in order. Copies are files of their own: editing them does not change the cache. An existing file with the
// same content stays, one with other content is replaced. Links in the directory that lead out of it are refused.
//
// progress is called with the number of bytes written or found since the last call, and the size of all files; may be nil.
func (s *Snapshot) Export(ctx context.Context, dir string, progress func(n, total int64)) (list []string, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	total := int64(0)
	for k := range s.Files {
		total += s.Files[k].Size
	}
	e := exporter{ctx, root, func(n int64) {
		if progress != nil {
			progress(n, total)
		}
	}, map[string]bool{}}
	for k := range s.Files {
		f := &s.Files[k]
		if err := e.export(f); err != nil {
			return nil, fmt.Errorf("%s in %s: %w", f.Path, dir, err)
		}
		list = append(list, filepath.Join(dir, filepath.FromSlash(f.Path)))
	}
	return list, nil
}

// exporter is one call of Export.
type exporter struct {
	ctx      context.Context
	root     *os.Root
	progress func(int64)
	swept    map[string]bool // directories
}

// export copies one file, unless the directory has it with the same content.
func (e *exporter) export(f *File) error {
	if err := e.ctx.Err(); err != nil {
		return err
	}
	from := f.kept
	if from == nil {
		own, err := f.open()
		if err != nil {
			return err
		}
		defer own.Close()
		from = own
	}
	above := path.Dir(f.Path)
	if err := e.root.MkdirAll(above, 0o777); err != nil {
		return err
	}
	e.sweep(above)
	if e.exists(f, from) {
		e.progress(f.Size)
		return e.ctx.Err()
	}
	temp := path.Join(above, tempPrefix+rand.Text())
	err := e.copy(f, from, temp)
	if err == nil {
		err = e.root.Rename(temp, f.Path)
	}
	if err != nil {
		return errors.Join(err, e.root.Remove(temp))
	}
	return nil
}

// exists reports whether the directory has the file with the same content, and not as a link to the blob.
func (e *exporter) exists(f *File, from *os.File) bool {
	if info, err := e.root.Lstat(f.Path); err != nil || !info.Mode().IsRegular() || info.Size() != f.Size {
		return false
	}
	file, err := e.root.OpenFile(f.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	info, err := file.Stat()
	blob, blobErr := from.Stat()
	if errors.Join(err, blobErr) != nil || !info.Mode().IsRegular() || os.SameFile(info, blob) {
		return false
	}
	sums := newDigests(entry{SHA256: f.SHA256})
	_, err = io.Copy(sums, contextReader{e.ctx, file})
	return err == nil && f.SHA256 == sums.sha256Hex()
}

// copy writes the content of a file to a new one, checks its digest on the way, and syncs it.
func (e *exporter) copy(f *File, from *os.File, to string) error {
	out, err := e.root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	sums := newDigests(entry{SHA256: f.SHA256})
	_, err = io.Copy(io.MultiWriter(out, sums, writeFunc(e.progress)), contextReader{e.ctx, io.NewSectionReader(from, 0, f.Size)})
	if err == nil && sums.sha256Hex() != f.SHA256 {
		err = fmt.Errorf("hash mismatch: its digest is %s, the hub names %s", sums.sha256Hex(), f.SHA256)
	}
	if err == nil {
		err = e.ctx.Err()
	}
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// Copies are written under temporary names. sweep removes those of killed runs after a day.
const (
	tempPrefix = ".agentx-"
	tempMaxAge = 24 * time.Hour
)

var tempForm = lazyregexp.New(`^\.agentx-[A-Z2-7]{26}$`)

// sweep removes what killed runs left in a directory. It is best effort.
func (e *exporter) sweep(dir string) {
	if e.swept[dir] {
		return
	}
	e.swept[dir] = true
	entries, _ := fs.ReadDir(e.root.FS(), dir)
	for _, entry := range entries {
		if !tempForm().MatchString(entry.Name()) {
			continue
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) >= tempMaxAge {
			_ = e.root.Remove(path.Join(dir, entry.Name()))
		}
	}
}

// checkExportDir refuses a directory to which files of these paths cannot be written, as far as it can tell without writing.
// It accepts "" and a directory that does not exist.
func checkExportDir(dir string, paths []string) error {
	fail := func(text string, err error) error {
		return &Error{Class: ClassLocalDisk, Text: text, Err: err, Hint: "choose a different directory"}
	}
	switch info, err := os.Stat(dir); {
	case dir == "" || errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fail("the directory to copy to", err)
	case !info.IsDir():
		return &Error{Class: ClassLocalDisk, Text: dir + ", the directory to copy to, is a file", Hint: "choose a different directory: one that exists, or one that is to be made"}
	}
	if err := checkWritable(dir); err != nil {
		return fail("in "+dir+" nothing can be written", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fail("the directory to copy to", err)
	}
	defer root.Close()
	for _, p := range paths {
		if err := checkExportPath(root, dir, p); err != nil {
			return err
		}
	}
	return nil
}

// checkExportPath refuses a path that is a directory, or that has a file for a directory.
func checkExportPath(root *os.Root, dir, p string) error {
	refuse := func(what, path, text string) error {
		return &Error{Class: ClassLocalDisk, Text: fmt.Sprintf("%s is a %s, and in the way of %s", filepath.Join(dir, path), what, text), Hint: "choose a different directory, or remove that " + what}
	}
	if info, err := root.Lstat(p); err == nil && info.IsDir() {
		return refuse("directory", p, "the file "+p)
	}
	for above := path.Dir(p); above != "."; above = path.Dir(above) {
		if info, err := root.Stat(above); err == nil && !info.IsDir() {
			return refuse("file", above, "the directory of "+p)
		}
	}
	return nil
}
