package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/agentx/agentx/internal/durable"
)

// fileJob obtains one file: from a cache, or from the hub.
type fileJob struct {
	*job
	path     string
	want     entry
	isCard   bool          // README.md, read for the selection: without progress, and without HEAD before its GET
	reported int64         // bytes that were passed to Progress
	damaged  []fs.FileInfo // copies in the caches whose content is wrong
}

// obtain returns a file whose content is verified, or trusted with Options.TrustCached. It uses a copy in a cache, and
// downloads the file if there is none. If another process downloads it, obtain waits and uses the result.
func (j *job) obtain(ctx context.Context, path string, isCard bool) (*File, error) {
	e, err := j.entry(path)
	if err != nil {
		return nil, err
	}
	f := &fileJob{job: j, path: path, want: e, isCard: isCard}
	for attempt := range 3 {
		file, err := f.find(ctx)
		if file != nil && attempt > 0 {
			file.Source = FromCache // another process downloaded it
		}
		if file != nil || err != nil {
			return file, err
		}
		if j.offline != "" || j.tree == nil {
			return nil, f.notFoundInCache()
		}
		if file, err = f.download(ctx); file != nil || err != nil {
			return file, err
		}
	}
	return nil, &Error{Class: ClassMismatch, Text: "other processes download it, and their files have another digest than the hub's, " + e.etag(), Hint: "again, when no other process downloads it"}
}

// notFoundInCache is the error where the file cannot be downloaded and the caches have no intact copy.
func (f *fileJob) notFoundInCache() error {
	text := notCached
	if len(f.damaged) > 0 {
		text = "the copy in the cache is damaged: its digest is not the one that the hub names"
	}
	return &Error{Class: ClassNotCached, Text: text}
}

// result returns a file that is in a cache.
func (f *fileJob) result(path, sha256 string, source Source) *File {
	return &File{Path: f.path, LocalPath: path, Size: f.want.Size, SHA256: sha256, ETag: f.want.etag(), Source: source}
}

// report passes the bytes of the file beyond those reported before to Progress. A download that restarts reports none twice.
func (f *fileJob) report(n int64) {
	if n = min(n, f.want.Size); n > f.reported && !f.isCard {
		f.Progress(n-f.reported, f.total)
		f.reported = n
	}
}

// find returns the first intact copy in a cache, nil if there is none. It adds the others to damaged.
func (f *fileJob) find(ctx context.Context) (*File, error) {
	for _, st := range f.stores {
		if file := f.findTrusted(st); file != nil {
			return file, nil
		}
		if file, err := f.findVerified(ctx, st); file != nil || err != nil {
			return file, err
		}
	}
	return nil, nil
}

// findTrusted returns an LFS file of the right size, if Options.TrustCached allows that.
func (f *fileJob) findTrusted(st *store) *File {
	if !f.TrustCached || f.want.SHA256 == "" || f.isCard {
		return nil
	}
	etag := f.want.etag()
	if info, ok := st.stat(etag); !ok || info.Size() != f.want.Size {
		return nil
	}
	f.report(f.want.Size)
	file := f.result(st.pathOf(f.snapshot.Commit, f.path, etag), f.want.SHA256, f.sourceIn(st))
	file.open = func() (*os.File, error) {
		content, _, err := st.open("blobs", etag)
		return content, err
	}
	return file
}

// findVerified returns the copy of a cache if its digest is right.
func (f *fileJob) findVerified(ctx context.Context, st *store) (*File, error) {
	content, at, err := st.openContent(f.snapshot.Commit, f.path, f.want.etag())
	if err != nil {
		if !isAbsent(err) {
			f.Logf("%s: the copy in %s is not used: %v", f.path, st.dir, err)
		}
		return nil, nil
	}
	sum, err := f.verify(ctx, content)
	if err == nil {
		file := f.result(at, sum, f.sourceIn(st))
		file.kept = content
		return file, nil
	}
	if info, err := content.Stat(); err == nil {
		f.damaged = append(f.damaged, info)
	}
	_ = content.Close()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	f.Logf("%s: the copy %s is not used: %v", f.path, at, err)
	return nil, nil
}

// sourceIn tells who downloaded a file of a cache.
func (f *fileJob) sourceIn(st *store) Source {
	if f.ownTree || st != f.stores[0] { // only agentx writes to the second cache
		return FromCache
	}
	return FromOtherProgram
}

// verify compares size and digest of a copy with those that the hub names, and returns its sha256.
func (f *fileJob) verify(ctx context.Context, content *os.File) (sum string, err error) {
	info, err := content.Stat()
	if err != nil {
		return "", err
	}
	if info.Size() != f.want.Size {
		return "", fmt.Errorf("hash mismatch: it has %d bytes, the hub names %d", info.Size(), f.want.Size)
	}
	sums, done := newDigests(f.want), int64(0)
	count := writeFunc(func(n int64) { done += n; f.report(done) })
	_, err = io.CopyBuffer(io.MultiWriter(sums, count), contextReader{ctx, io.NewSectionReader(content, 0, f.want.Size)}, make([]byte, 1<<20))
	if err == nil && sums.etag() != f.want.etag() {
		err = fmt.Errorf("hash mismatch: its digest is %s, the hub names %s", sums.etag(), f.want.etag())
	}
	return sums.sha256Hex(), err
}

// download downloads the file. It returns nil if another process downloaded it or took over the lease.
func (f *fileJob) download(ctx context.Context) (*File, error) {
	st, err := f.writable()
	if err != nil {
		return nil, err
	}
	file, err := f.downloadLeased(ctx, st)
	if errors.Is(err, durable.ErrLost) {
		f.Logf("%s: another process took the download over", f.path)
		return nil, nil
	}
	return file, err
}

// downloadLeased downloads the file under the lease on its blob. It returns nil if the blob appeared while it waited for
// the lease.
func (f *fileJob) downloadLeased(ctx context.Context, st *store) (file *File, err error) {
	etag := f.want.etag()
	waited := false
	waiting := durable.Waiting{Limit: f.Wait, Report: func(holder string, d time.Duration) {
		waited = true
		f.reportPartial(st)
		f.OnWait(holder, d)
	}}
	lease, err := durable.Acquire(ctx, st.leases(), etag, func() (bool, error) { return f.isDownloaded(st), nil }, waiting)
	if err != nil || lease == nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	if _, ok := st.stat(etag); ok {
		f.Logf("%s: %s is replaced by what the hub has", f.path, st.path("blobs", etag))
	}
	d := &download{fileJob: f, store: st, lease: lease, shared: waited}
	content, sum, err := d.run(lease.Context())
	if err != nil {
		if cause := context.Cause(lease.Context()); cause != nil && ctx.Err() == nil {
			err = cause // the lease was lost
		}
		return nil, err
	}
	if err := st.link(f.snapshot.Commit, f.path, etag); err != nil {
		return nil, errors.Join(diskError("the snapshot", err), content.Close())
	}
	file = f.result(st.pathOf(f.snapshot.Commit, f.path, etag), sum, FromNetwork)
	file.kept = content
	return file, nil
}

// isDownloaded reports whether the blob exists and is not one of the damaged copies.
func (f *fileJob) isDownloaded(st *store) bool {
	info, ok := st.stat(f.want.etag())
	return ok && info.Size() == f.want.Size && !slices.ContainsFunc(f.damaged, func(d fs.FileInfo) bool { return os.SameFile(info, d) })
}

// reportPartial reports the progress of another process, by the size of its partial file.
func (f *fileJob) reportPartial(st *store) {
	if info, err := st.root().Lstat(st.in("blobs", f.want.etag()+partialSuffix)); err == nil {
		f.report(min(info.Size(), f.want.Size-1))
	}
}

// writeFunc is called with the number of bytes of each write.
type writeFunc func(int64)

func (w writeFunc) Write(p []byte) (int, error) {
	w(int64(len(p)))
	return len(p), nil
}

// contextReader is a reader that fails when its context is done.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.r.Read(p)
}
