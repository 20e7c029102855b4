package hfsource

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/agentx/agentx/hfsource/hub"
)

// Dataset is where files of a snapshot come from: a dataset of the hub, at a commit.
type Dataset struct {
	Repo       string         `json:"repo"`                 // as asked for
	RenamedTo  string         `json:"renamed_to,omitempty"` // what the hub calls it now, if that is another name
	Revision   string         `json:"revision"`             // as asked for; "main" where nothing was
	Commit     string         `json:"commit"`               // 40 hex digits
	Paths      []string       `json:"paths"`                // of the files, in order
	ResolvedAt time.Time      `json:"resolved_at"`          // when the hub named the commit, or the local reference was written
	Resolution hub.Resolution `json:"resolved"`
}

// ErrMismatch is wrapped, beside ErrChanged, by the error about a copy of a file of the hub that is not what the hub
// names. Resolve with Options.Verify finds that out beforehand, and downloads it again.
var ErrMismatch = errors.New("hash mismatch")

// addDataset adds the data files of a dataset of the hub, or the one that the reference names. What lies in LFS is not
// read, and where it is there not opened, unless o.Verify asks for it: the hub names its digest, and who reads it holds
// it against that.
func (s *Snapshot) addDataset(ctx context.Context, in string, o Options) error {
	ref, err := hub.Parse(in)
	if err != nil {
		return err
	}
	h := o.Hub
	h.TrustCached = !o.Verify
	got, err := hub.Fetch(ctx, ref, h)
	if err != nil {
		return err
	}
	s.hubSnapshots = append(s.hubSnapshots, got)
	d := Dataset{Repo: got.Repo, RenamedTo: got.RenamedTo, Revision: got.Revision, Commit: got.Commit, ResolvedAt: got.ResolvedAt, Resolution: got.Resolution}
	for k := range got.Files {
		f := &got.Files[k]
		d.Paths = append(d.Paths, f.Path)
		form, _ := formatOf(f.Path)
		s.Files = append(s.Files, File{Path: got.DisplayName(f.Path), Format: form, Size: f.Size, SHA256: f.SHA256,
			open: func() (io.ReadCloser, error) { return f.Open() },
			changedErr: &mismatch{fmt.Sprintf("the copy %s is not what the hub names, sha256 %s: agentx fetch %s downloads it again",
				f.LocalPath, f.SHA256, hub.Ref{Repo: got.Repo, Revision: got.Commit, Path: f.Path})}})
	}
	s.Datasets = append(s.Datasets, d)
	return nil
}

// mismatch is the error about a copy that is not what the hub names.
type mismatch struct{ text string }

func (m *mismatch) Error() string   { return ErrMismatch.Error() + ": " + m.text }
func (m *mismatch) Unwrap() []error { return []error{ErrMismatch, ErrChanged} }

// changedError is the error about a file that does not hold what its digest says.
func (f *File) changedError() error {
	why := f.changedErr
	if why == nil {
		why = ErrChanged
	}
	return fmt.Errorf("input %s: %w", f.Path, why)
}

// FromHub reports whether the file is one of the hub, and held to the digest that the hub names.
func (f *File) FromHub() bool { return f.changedErr != nil }
