package hfsource

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/alitto/pond/v2"

	"github.com/agentx/agentx/hfsource/hub"
	"github.com/agentx/agentx/internal/durable"
)

// Resolve lists the files of the inputs and hashes them. An input is a path, "-" for standard input, a name of
// Options.Embedded, or a reference to a dataset of the hub (hub.IsRef); a path that exists takes precedence. A directory
// gives its files with a known suffix, sorted by name, without those of subdirectories.
func Resolve(ctx context.Context, inputs []string, o Options) (*Snapshot, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	s := &Snapshot{}
	for _, in := range inputs {
		if err := s.add(ctx, in, o); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if err := s.hash(ctx, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Snapshot) add(ctx context.Context, in string, o Options) error {
	if in == "-" {
		return s.addStdin(ctx, o.Stdin)
	}
	info, err := os.Stat(in)
	if hub.IsRef(in) && err != nil {
		return s.addDataset(ctx, in, o)
	}
	if data, ok := o.Embedded[in]; ok && errors.Is(err, os.ErrNotExist) {
		s.Files = append(s.Files, File{Path: in, Format: FileFormat{Lines: true}, Size: int64(len(data)),
			open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }})
		return nil
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return &hub.Error{Class: hub.ClassInvalid, Text: fmt.Sprintf("input %s: there is no such file or directory", in), Hint: hub.Suggest(in)}
	case err != nil:
		return fmt.Errorf("input %s: %w", in, err)
	case info.IsDir():
		return s.addDirectory(in)
	case !info.Mode().IsRegular():
		return fmt.Errorf("input %s: neither a file nor a directory", in)
	}
	format, _ := formatOf(in) // an unknown suffix is one JSON value
	s.addFile(in, format, info.Size())
	return nil
}

func (s *Snapshot) addFile(path string, format FileFormat, size int64) {
	s.Files = append(s.Files, File{Path: path, Format: format, Size: size,
		open: func() (io.ReadCloser, error) { return os.Open(path) }})
}

func (s *Snapshot) addDirectory(dir string) error {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return fmt.Errorf("input %s: %w", dir, err)
	}
	first, found := len(s.Skipped), 0
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		format, ok := formatOf(e.Name())
		info, err := os.Stat(path) // follows links: the snapshots of the hub's cache are links
		if reason := skipReason(info, ok); reason != "" {
			s.Skipped = append(s.Skipped, SkippedEntry{path, reason})
			continue
		}
		if err != nil {
			return fmt.Errorf("input %s: its suffix is one that is read, and it cannot be opened; repair or remove it: %w", path, err)
		}
		s.addFile(path, format, info.Size())
		found++
	}
	if found == 0 {
		why := ": it is empty"
		if len(entries) > 0 {
			why = "; " + DescribeSkipped(s.Skipped[first:])
		}
		return fmt.Errorf("input %s: the directory has no .json, .jsonl, .zst or .gz of them, or .parquet%s", dir, why)
	}
	return nil
}

// addStdin copies standard input to a temporary file, because it is read twice: for its digest, and for its rows. The file
// has no name, so that a killed process leaves nothing.
func (s *Snapshot) addStdin(ctx context.Context, stdin io.Reader) error {
	if stdin == nil {
		return fmt.Errorf("input -: standard input is closed")
	}
	f, err := createTemp()
	if err != nil {
		return stdinError(err)
	}
	s.tempFiles = append(s.tempFiles, f)
	size, err := copyContext(ctx, f, stdin)
	if err != nil {
		return stdinError(err)
	}
	s.Files = append(s.Files, File{Path: "-", Format: FileFormat{Lines: true}, Size: size,
		open: func() (io.ReadCloser, error) { return io.NopCloser(io.NewSectionReader(f, 0, size)), nil }})
	return nil
}

// stdinError names the input, and the directory of its copy where that is full.
func stdinError(err error) error {
	if !durable.IsDiskFull(err) {
		return fmt.Errorf("input -: %w", err)
	}
	text := fmt.Sprintf("input -: standard input is copied to %s, and no space is left there", os.TempDir())
	return &durable.FullError{Text: text, Hint: "TMPDIR=DIR, on a disk with more room; or the path of a file instead of -", Err: err}
}

// copyContext is io.Copy that returns when the context is done, even while a read blocks. The read then continues in a
// goroutine, which ends when the read returns.
func copyContext(ctx context.Context, w io.Writer, r io.Reader) (int64, error) {
	from, to := io.Pipe()
	defer from.Close()
	stop := context.AfterFunc(ctx, func() { to.CloseWithError(ctx.Err()) })
	defer stop()
	go func() {
		_, err := io.Copy(to, r)
		to.CloseWithError(err)
	}()
	return io.Copy(w, from)
}

// hash hashes the files that have no digest yet. Files of the hub have one.
func (s *Snapshot) hash(ctx context.Context, o Options) error {
	pool := pond.NewPool(o.Workers, pond.WithQueueSize(2*o.Workers))
	defer pool.StopAndWait()
	group := pool.NewGroupContext(ctx)
	for k := range s.Files {
		if f := &s.Files[k]; f.SHA256 == "" {
			group.SubmitErr(func() error { return f.hash(ctx, o.Progress) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

func (f *File) hash(ctx context.Context, progress func(int64)) error {
	r, err := f.open()
	if err != nil {
		return fmt.Errorf("input %s: %w", f.Path, err)
	}
	defer r.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, progressReader{ctx, r, progress})
	if err != nil {
		return fmt.Errorf("input %s: %w", f.Path, err)
	}
	f.Size, f.SHA256 = n, hex.EncodeToString(sum.Sum(nil))
	return nil
}

// progressReader reports the bytes that it reads, and fails when its context is done.
type progressReader struct {
	ctx      context.Context
	r        io.Reader
	progress func(int64)
}

func (p progressReader) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := p.r.Read(b)
	p.progress(int64(n))
	return n, err
}
