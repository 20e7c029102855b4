package hfsource

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/agentx/agentx/hfsource/hub"
)

// Dataset is a dataset of the hub, at a commit, from which files of a snapshot come.
type Dataset struct {
	Repo       string         `json:"repo"`                 // OWNER/NAME as asked for
	RenamedTo  string         `json:"renamed_to,omitempty"` // OWNER/NAME as the hub calls it now, if that differs
	Revision   string         `json:"revision"`             // as asked for; "main" by default
	Commit     string         `json:"commit"`               // 40 hex digits
	Paths      []string       `json:"paths"`                // of the files, in order
	ResolvedAt time.Time      `json:"resolved_at"`          // when the hub named the commit, or when the local reference was written
	Resolution hub.Resolution `json:"resolved"`             // how Revision led to Commit
}

// addDataset adds the data files of a dataset, or the one file that the reference names. Without o.Verify, LFS files in the
// cache are not read here: Rows compares their content with the digest that the hub names.
func (s *Snapshot) addDataset(ctx context.Context, in string, o Options) error {
	ref, err := hub.Parse(in)
	if err != nil {
		return err
	}
	got, err := hub.Fetch(ctx, ref, o.Hub)
	if err != nil {
		return err
	}
	s.hubSnapshots = append(s.hubSnapshots, got)
	d := Dataset{Repo: got.Repo, RenamedTo: got.RenamedTo, Revision: got.Revision, Commit: got.Commit, ResolvedAt: got.ResolvedAt, Resolution: got.Resolution}
	split := ""
	if len(got.Files) > 1 {
		split = in
	}
	for k := range got.Files {
		f := &got.Files[k]
		d.Paths = append(d.Paths, f.Path)
		format, _ := o.formatOf(f.Path) // detect decides
		s.Files = append(s.Files, File{Path: got.DisplayName(f.Path), Format: format, Size: f.Size, SHA256: f.SHA256, Split: split,
			open: func() (io.ReadCloser, error) { return f.Open() },
			changedErr: &mismatchError{fmt.Sprintf("the copy %s is not what the hub names, sha256 %s: agentx fetch %s downloads it again",
				f.LocalPath, f.SHA256, hub.Ref{Repo: got.Repo, Revision: got.Commit, Path: f.Path})}})
	}
	s.Datasets = append(s.Datasets, d)
	return nil
}
