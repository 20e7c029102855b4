// Package hfsource delivers the rows of datasets: bytes and places, with no idea of what a row means.
//
// An input is a file, a directory of files, standard input, data embedded in the program, or a dataset of the Hugging Face
// hub (package hub). Resolve lists the files and hashes them as they lie, unless the hub names their digests; Rows streams what they hold, in order, and fails if a file is no longer what was hashed.
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
	"strings"

	"github.com/alitto/pond/v2"

	"github.com/agentx/agentx/hfsource/hub"
)

// FileFormat is how rows stand in a file.
type FileFormat struct {
	Lines       bool   // one JSON value a line; else the file is one value
	Compression string // "", "zst" or "gz"
	Parquet     bool   // rows are columns
}

// suffixes lists the file names that are read.
var suffixes = []struct {
	suffix string
	format FileFormat
}{
	{".jsonl.zst", FileFormat{Lines: true, Compression: "zst"}}, {".jsonl.gz", FileFormat{Lines: true, Compression: "gz"}}, {".jsonl", FileFormat{Lines: true}},
	{".json.zst", FileFormat{Compression: "zst"}}, {".json.gz", FileFormat{Compression: "gz"}}, {".json", FileFormat{}},
	{".parquet", FileFormat{Parquet: true}},
}

// formatOf returns the form that a file name stands for.
func formatOf(name string) (FileFormat, bool) {
	for _, s := range suffixes {
		if strings.HasSuffix(name, s.suffix) {
			return s.format, true
		}
	}
	return FileFormat{}, false
}

// File is one resolved input file.
type File struct {
	Path   string // as shown to the user
	Format FileFormat
	Size   int64  // bytes, as it lies
	SHA256 string // hex, of the file as it lies

	// LacksChecksums says, once Rows has read it, that some of it carries no checksum: damage from before it was hashed may
	// have gone unnoticed.
	LacksChecksums bool

	open       func() (io.ReadCloser, error)
	changedErr error // in the place of ErrChanged; may be nil
}

// Snapshot is a resolved input: files in order, with what they hold fixed by their digests.
type Snapshot struct {
	Files    []File
	Skipped  []SkippedEntry // what directories hold besides files with a suffix that is read
	Datasets []Dataset
	Memory   *MemoryBudget // of rows in flight; nil: Rows makes one

	tempFiles    []*os.File // temporary files, without a name
	hubSnapshots []*hub.Snapshot
}

// Options are what Resolve needs besides the inputs.
type Options struct {
	Stdin    io.Reader         // read for the input "-"; nil: there is none
	Embedded map[string][]byte // JSON lines by the name that stands for them, unless a path of that name exists
	Workers  int               // files hashed at a time, at least 1
	Progress func(bytes int64) // called with bytes hashed, from several goroutines; may be nil

	Hub    hub.Options // for datasets of the hub; Lazy is set from Verify
	Verify bool        // read what is there of datasets of the hub, and download again what is not what the hub names
}

// Resolve lists the files of the inputs and hashes them. Directories give the files directly inside them that have a
// known suffix, sorted by name.
func Resolve(ctx context.Context, inputs []string, o Options) (*Snapshot, error) {
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

// Close gives temporary files back.
func (s *Snapshot) Close() error {
	var errs []error
	for _, h := range s.hubSnapshots {
		errs = append(errs, h.Close())
	}
	s.hubSnapshots = nil
	for _, f := range s.tempFiles {
		errs = append(errs, f.Close())
	}
	s.tempFiles = nil
	return errors.Join(errs...)
}

func (s *Snapshot) add(ctx context.Context, in string, o Options) error {
	if in == "-" {
		return s.addStdin(ctx, o.Stdin)
	}
	info, err := os.Stat(in)
	if hub.IsRef(in) && err != nil { // a path that exists wins
		return s.addDataset(ctx, in, o)
	}
	if data, ok := o.Embedded[in]; ok && errors.Is(err, os.ErrNotExist) {
		s.Files = append(s.Files, File{Path: in, Format: FileFormat{Lines: true}, Size: int64(len(data)),
			open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }})
		return nil
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return hub.InputNotFound(in)
	case err != nil:
		return fmt.Errorf("input %s: %w", in, err)
	case info.IsDir():
		return s.addDirectory(in)
	case !info.Mode().IsRegular():
		return fmt.Errorf("input %s: neither a file nor a directory", in)
	}
	form, _ := formatOf(in) // a file named outright is one JSON value unless its suffix says otherwise
	s.addFile(in, form, info.Size())
	return nil
}

func (s *Snapshot) addFile(path string, form FileFormat, size int64) {
	s.Files = append(s.Files, File{Path: path, Format: form, Size: size,
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
		form, ok := formatOf(e.Name())
		info, err := os.Stat(path) // follows links, as the caches of the hub are made of
		if why := skipReason(info, ok); why != "" {
			s.Skipped = append(s.Skipped, SkippedEntry{path, why})
			continue
		}
		if err != nil {
			return fmt.Errorf("input %s: its name says that it is to be read, and it cannot be: repair or remove it: %w", path, err)
		}
		s.addFile(path, form, info.Size())
		found++
	}
	if found == 0 {
		why := ": it is empty"
		if len(entries) > 0 {
			why = "; " + DescribeSkipped(s.Skipped[first:])
		}
		return fmt.Errorf("input %s: the directory holds no .json, .jsonl, .zst or .gz of them, or .parquet%s", dir, why)
	}
	return nil
}

// addStdin keeps standard input in a temporary file: it is read twice, once for its digest. Nothing stays of the file
// however the program ends.
func (s *Snapshot) addStdin(ctx context.Context, stdin io.Reader) error {
	if stdin == nil {
		return fmt.Errorf("input -: standard input is closed")
	}
	f, err := createTemp()
	if err != nil {
		return fmt.Errorf("input -: %w", err)
	}
	s.tempFiles = append(s.tempFiles, f)
	size, err := copyUntil(ctx, f, stdin)
	if err != nil {
		return fmt.Errorf("input -: %w", err)
	}
	s.Files = append(s.Files, File{Path: "-", Format: FileFormat{Lines: true}, Size: size,
		open: func() (io.ReadCloser, error) { return io.NopCloser(io.NewSectionReader(f, 0, size)), nil }})
	return nil
}

// copyUntil is io.Copy that ends with its context, even while a read blocks: reads have a goroutine of their own, which
// ends with the read that it is in.
func copyUntil(ctx context.Context, w io.Writer, r io.Reader) (int64, error) {
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

func (s *Snapshot) hash(ctx context.Context, o Options) error {
	pool := pond.NewPool(max(1, o.Workers), pond.WithQueueSize(2*max(1, o.Workers)))
	defer pool.StopAndWait()
	group := pool.NewGroupContext(ctx)
	for k := range s.Files {
		f := &s.Files[k]
		if f.SHA256 != "" {
			continue // the hub has named it
		}
		group.SubmitErr(func() error { return f.hash(ctx, o.Progress) })
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
	n, err := io.Copy(sum, meter{ctx, r, progress})
	if err != nil {
		return fmt.Errorf("input %s: %w", f.Path, err)
	}
	f.Size, f.SHA256 = n, hex.EncodeToString(sum.Sum(nil))
	return nil
}

// meter reports what is read and ends when its context does.
type meter struct {
	ctx      context.Context
	r        io.Reader
	progress func(int64)
}

func (m meter) Read(p []byte) (int, error) {
	if err := m.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := m.r.Read(p)
	if m.progress != nil {
		m.progress(int64(n))
	}
	return n, err
}

// Bytes returns the size of all files, as they lie.
func (s *Snapshot) Bytes() (n int64) {
	for _, f := range s.Files {
		n += f.Size
	}
	return n
}
