package hub

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"
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
