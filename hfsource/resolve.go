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
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/alitto/pond/v2"
	"github.com/zeebo/xxh3"

	"github.com/agentx/agentx/hfsource/hub"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/foreign"
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
	for k := range s.Files {
		s.Files[k].found = &findings{}
	}
	if err := s.hash(ctx, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// add adds the files of one input, whatever it is.
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
	data := o.Embedded[in]
	if data == nil && o.Make != nil && errors.Is(err, os.ErrNotExist) {
		var wrong error
		if data, wrong = o.Make(in); wrong != nil {
			return fmt.Errorf("input %s: %w", in, wrong)
		}
	}
	if data != nil && errors.Is(err, os.ErrNotExist) {
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

// addDirectory adds the files of a directory whose names tell a format, and notes the entries that it skips.
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
		ok = ok && o.knowsText(path)
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

// knowsText reports whether a file of a directory, if its name is one of texts that are no JSON, begins as one of them: other programs
// write tables, too.
func (o Options) knowsText(path string) bool {
	name, packed := unpacked(path)
	for packed {
		name, packed = unpacked(name)
	}
	if suffix := filepath.Ext(name); !slices.ContainsFunc(o.Texts, func(t TextFormat) bool { return t.Suffix == suffix }) {
		return true
	}
	first, _, _ := bytes.Cut(BeginningOf(path, foreign.HeadBytes, o.Texts...), []byte("\n"))
	return slices.ContainsFunc(o.Texts, func(t TextFormat) bool { return t.Is(first) })
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
			if err := f.detect(ctx, o.Rows); err != nil || f.SHA256 != "" {
				return err
			}
			return f.hash(ctx, o.Progress, !o.Unkeyed)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// hash computes size and digests of a file, SHA256 if it is keyed, and, where detect has asked for it, whether it has several lines.
func (f *File) hash(ctx context.Context, progress func(int64), keyed bool) error {
	r, err := f.open()
	if err != nil {
		return fmt.Errorf("input %s: %w", f.Path, err)
	}
	defer r.Close()
	sum, fast := sha256.New(), xxh3.New()
	sums := io.Writer(fast)
	if keyed {
		sums = io.MultiWriter(sum, fast)
	}
	from := progressReader{ctx, r, progress}
	n := int64(0)
	if find := f.lines; find != nil {
		n, err = io.Copy(io.MultiWriter(sums, find), from)
		f.Format.Lines, f.lines = find.found, nil
	}
	if err == nil || errors.Is(err, errEnough) {
		var more int64
		more, err = io.Copy(sums, from)
		n += more
	}
	if err != nil {
		return fmt.Errorf("input %s: %w", f.Path, err)
	}
	digest := fast.Sum128()
	if f.Size, f.fast = n, &digest; keyed {
		f.SHA256 = hex.EncodeToString(sum.Sum(nil))
	}
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

// Options configure Resolve. The zero value works, for inputs other than standard input.
type Options struct {
	Stdin    io.Reader         // for the input "-"; nil: that input is refused
	Embedded map[string][]byte // JSON lines by name, for inputs of such a name that are not a path

	// Make makes the JSON lines of an input that is not a path and not in Embedded, nil for a name that it does not know; may be nil.
	Make func(name string) ([]byte, error)

	Workers  int               // files that are hashed at a time; 0: one per CPU
	Progress func(bytes int64) // called with the bytes hashed since the last call, by several goroutines; may be nil
	Texts    []TextFormat      // whose files are read besides those of JSON and Parquet

	// Rows says by the first bytes of a text what File.Rows is, "" where they do not tell; may be nil. Several goroutines call it.
	Rows func(first []byte) string

	Unkeyed bool // the caller keys nothing by the files: SHA256 stays "", but of the hub's

	Hub    hub.Options // for datasets of the hub; Resolve sets TrustCached from Verify
	Verify bool        // read the files of datasets that are in the cache, and download damaged ones again
}

// Validate reports the first option that Resolve refuses.
func (o Options) Validate() error {
	if o.Workers < 0 {
		return fmt.Errorf("option Workers: %d: want 0 (one per CPU) or more", o.Workers)
	}
	if err := o.Hub.Validate(); err != nil {
		return fmt.Errorf("option Hub: %w", err)
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Progress == nil {
		o.Progress = func(int64) {}
	}
	o.Hub.TrustCached = !o.Verify
	return o
}

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

// SkippedEntry is an entry of a directory that is not read.
type SkippedEntry struct{ Path, Reason string }

// Reasons to skip an entry.
const (
	notATrace  = "not a trace format"
	notAFile   = "not a file"
	aDirectory = "a directory: name it as an input"
	hidden     = "hidden"
	secret     = "credentials and settings of a client"
)

// skipReason returns why an entry of a directory is not read, "" if it is. info is nil if the entry cannot be examined.
func skipReason(name string, info os.FileInfo, knownFormat bool) string {
	switch {
	case strings.HasPrefix(name, "."):
		return hidden
	case name == "auth.json" || name == "settings.json":
		return secret
	case info != nil && info.IsDir():
		return aDirectory
	case !knownFormat:
		return notATrace
	case info != nil && !info.Mode().IsRegular():
		return notAFile
	}
	return ""
}

// maxNamed is how many skipped entries DescribeSkipped names.
const maxNamed = 10

// DescribeSkipped returns one line that names skipped entries, at most ten, by reason.
func DescribeSkipped(list []SkippedEntry) string {
	named := list[:min(len(list), maxNamed)]
	var groups []string
	for _, reason := range []string{notATrace, notAFile, aDirectory, hidden, secret} {
		var names []string
		for _, e := range named {
			if e.Reason == reason {
				names = append(names, e.name(list[0]))
			}
		}
		if names != nil {
			groups = append(groups, fmt.Sprintf("%s (%s)", strings.Join(names, ", "), reason))
		}
	}
	if n := len(list) - len(named); n > 0 {
		groups = append(groups, fmt.Sprintf("and %d more", n))
	}
	return fmt.Sprintf("skipped %d: %s", len(list), strings.Join(groups, ", "))
}

// name returns the name of an entry, or its path if it is not in the directory of the first.
func (e SkippedEntry) name(first SkippedEntry) string {
	if filepath.Dir(e.Path) == filepath.Dir(first.Path) {
		return filepath.Base(e.Path)
	}
	return e.Path
}
