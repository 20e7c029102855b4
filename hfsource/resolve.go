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
	"github.com/agentx/agentx/internal/durable"
)

// Resolve lists the files of the inputs and hashes them. An input is a path, "-" for standard input, a name of
// Options.Embedded, or a reference to a dataset of the hub (hub.IsRef); a path that exists takes precedence. A directory
// gives its files with a known suffix, sorted by name, without hidden ones and those of subdirectories; that of a capture gives
// its finished traces.
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
	if in == "-" || in == "/dev/stdin" {
		if o.Stdin == nil {
			return fmt.Errorf("input %s: standard input is closed", in)
		}
		return s.addStream(ctx, in, o.Stdin)
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
		return s.addDirectory(in, o)
	case info.Mode()&os.ModeNamedPipe != 0 || strings.HasPrefix(in, "/dev/fd/"): // <(...) of a shell
		return s.addStream(ctx, in, &pipe{path: in})
	case !info.Mode().IsRegular():
		return fmt.Errorf("input %s: neither a file nor a directory", in)
	}
	format, _ := o.formatOf(in)
	s.addFile(in, format, info.Size())
	return nil
}

func (s *Snapshot) addFile(path string, format FileFormat, size int64) {
	s.Files = append(s.Files, File{Path: path, Format: format, Size: size,
		open: func() (io.ReadCloser, error) { return os.Open(path) }})
}

func (s *Snapshot) addDirectory(dir string, o Options) error {
	traces := filepath.Join(dir, "traces")
	captured := isDir(traces) && (isDir(filepath.Join(dir, "journal")) || isDir(filepath.Join(dir, "notes"))) // doc/spec/capture.md 9
	if captured {
		dir = traces
	}
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return fmt.Errorf("input %s: %w", dir, err)
	}
	first, found := len(s.Skipped), 0
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		format, ok := o.formatOf(e.Name())
		info, err := os.Stat(path) // follows links: the snapshots of the hub's cache are links
		if reason := skipReason(e.Name(), info, ok); reason != "" {
			s.Skipped = append(s.Skipped, SkippedEntry{path, reason})
			continue
		}
		if err != nil {
			return fmt.Errorf("input %s: the suffix says that it holds traces, but it cannot be opened: repair or remove it: %w", path, err)
		}
		s.addFile(path, format, info.Size())
		found++
	}
	if found == 0 && captured {
		return &hub.Error{Class: hub.ClassInvalid, Text: fmt.Sprintf("input %s: this capture has no finished trace", dir), Hint: "agentx capture finish " + filepath.Dir(dir)}
	}
	if found == 0 {
		why := ": it is empty"
		if len(entries) > 0 {
			why = "; " + DescribeSkipped(s.Skipped[first:])
		}
		return fmt.Errorf("input %s: the directory has no .json, .jsonl, .ndjson, .zst or .gz of them, or .parquet%s", dir, why)
	}
	return nil
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// IsStream reports whether an input can be read only once: standard input, or a pipe.
func IsStream(in string) bool {
	if in == "-" || in == "/dev/stdin" || strings.HasPrefix(in, "/dev/fd/") {
		return true
	}
	info, err := os.Stat(in)
	return err == nil && info.Mode()&os.ModeNamedPipe != 0
}

// addStream copies a stream to a temporary file, because an input is read twice: for its digest, and for its rows. The file
// has no name, so that a killed process leaves nothing.
func (s *Snapshot) addStream(ctx context.Context, in string, from io.Reader) error {
	f, err := createTemp()
	if err != nil {
		return streamError(in, err)
	}
	s.tempFiles = append(s.tempFiles, f)
	size, err := copyContext(ctx, f, from)
	if err != nil {
		return streamError(in, err)
	}
	s.Files = append(s.Files, File{Path: in, Format: FileFormat{Lines: true}, Size: size,
		open: func() (io.ReadCloser, error) { return section{io.NewSectionReader(f, 0, size)}, nil }})
	return nil
}

// pipe is a named pipe. The first read opens it, which waits until a program opens it for writing.
type pipe struct {
	path string
	file *os.File
}

func (p *pipe) Read(b []byte) (n int, err error) {
	if p.file == nil {
		if p.file, err = os.Open(p.path); err != nil {
			return 0, err
		}
	}
	if n, err = p.file.Read(b); err != nil {
		_ = p.file.Close() // it was only read
	}
	return n, err
}

// streamError names the input, and the directory of its copy where that is full.
func streamError(in string, err error) error {
	if !durable.IsDiskFull(err) {
		return fmt.Errorf("input %s: %w", in, err)
	}
	text := fmt.Sprintf("input %s: it is copied to %s, and no space is left there", in, os.TempDir())
	return &durable.FullError{Text: text, Hint: "TMPDIR=DIR, on a disk with more room; or the path of a file in its place", Err: err}
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

// hash finds the formats of the files, and hashes those that have no digest yet. Files of the hub have one.
func (s *Snapshot) hash(ctx context.Context, o Options) error {
	pool := pond.NewPool(o.Workers, pond.WithQueueSize(2*o.Workers))
	defer pool.StopAndWait()
	group := pool.NewGroupContext(ctx)
	for k := range s.Files {
		f := &s.Files[k]
		f.texts = o.Texts
		group.SubmitErr(func() error {
			if err := f.detect(ctx); err != nil || f.SHA256 != "" {
				return err
			}
			return f.hash(ctx, o.Progress)
		})
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
	from := progressReader{ctx, r, progress}
	n := int64(0)
	if find := f.lines; find != nil {
		n, err = io.Copy(io.MultiWriter(sum, find), from)
		f.Format.Lines, f.lines = find.found, nil
	}
	if err == nil || errors.Is(err, errEnough) {
		var more int64
		more, err = io.Copy(sum, from)
		n += more
	}
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
