package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/lazyregexp"
)

const (
	readSize    = 256 << 10 // bytes of one read of a body
	maxFailures = 8         // attempts in a row that receive less than minProgress
	minProgress = 1 << 20   // bytes
)

// partialSuffix ends the name of a blob that is being downloaded.
const partialSuffix = ".agentx.incomplete"

// download writes one blob, under a lease. Bytes go to a partial file, which the next download of the same digest and size
// continues. The blob gets its name after its digest matched.
type download struct {
	*fileJob
	store  *store
	lease  *durable.Lease
	shared bool // a process that held the lease before may still write to the partial file

	staged *durable.Dir // directory below the lease, for files that are renamed into the cache
	files  int          // created in staged
	file   *os.File     // the partial file
	n      int64        // bytes in it
	sums   digests      // of its bytes

	from          *url.URL // of the content; nil: not known, or expired
	validator     string   // ETag of the host that sent the first bytes, for If-Range
	validatorFrom *url.URL // that host
	most          int64    // largest number of bytes that the partial file has had
	failures      int      // attempts in a row without progress
	mismatches    int      // complete bodies whose digest or size is wrong
	encoded       int      // replies with a Content-Encoding
	lastID        string   // request id of the last reply
}

// run returns the blob, verified, published and open, and its sha256.
func (d *download) run(ctx context.Context) (f *os.File, sum string, err error) {
	if d.staged, err = durable.NewDir(d.store.leases(), durable.Options{Lease: d.lease, Sync: d.store.opts.Sync}); err != nil {
		return nil, "", diskError("a directory for the download", err)
	}
	defer func() {
		err = errors.Join(err, d.staged.Discard())
		if err != nil && d.file != nil {
			err = errors.Join(err, d.file.Close())
		}
	}()
	if err := d.resume(ctx); err != nil {
		return nil, "", err
	}
	if err := d.checkSpace(); err != nil {
		return nil, "", err
	}
	if err := d.fill(ctx); err != nil {
		return nil, "", err
	}
	if err := d.publish(); err != nil {
		return nil, "", diskError("publishing "+d.store.path("blobs", d.want.etag()), err)
	}
	return d.file, d.sums.sha256Hex(), nil
}

// fill makes requests until the partial file has the right size and digest.
func (d *download) fill(ctx context.Context) error {
	for {
		if d.n < d.want.Size {
			if err := d.attempt(ctx); err != nil {
				return err
			}
			continue
		}
		got := d.sums.etag()
		if got == d.want.etag() {
			return nil
		}
		if err := d.mismatch(fmt.Sprintf("hash mismatch: what arrived has the digest %s, the hub names %s", got, d.want.etag())); err != nil {
			return err
		}
	}
}

// partial returns the name of the partial file in the cache.
func (d *download) partial() string { return d.store.in("blobs", d.want.etag()+partialSuffix) }

// resume continues a partial file. If another process may still write to it, its bytes are copied to a new file.
func (d *download) resume(ctx context.Context) error {
	info, err := d.store.root().Lstat(d.partial())
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 || info.Size() > d.want.Size {
		return d.restart()
	}
	flag := os.O_RDWR
	if d.shared {
		flag = os.O_RDONLY
	}
	old, err := d.store.root().OpenFile(d.partial(), flag, 0)
	if err != nil {
		return d.restart() // perhaps it belongs to another user
	}
	d.sums = newDigests(d.want)
	if !d.shared {
		d.file = old
		if d.n, err = io.Copy(d.sums, contextReader{ctx, old}); err == nil {
			_, err = old.Seek(d.n, io.SeekStart)
		}
	} else {
		defer old.Close()
		if err = d.restart(); err == nil {
			d.n, err = io.Copy(io.MultiWriter(d.file, d.sums), io.LimitReader(contextReader{ctx, old}, info.Size()))
		}
	}
	if err != nil {
		return errors.Join(context.Cause(ctx), diskError("the partial download "+d.partial(), err))
	}
	d.most = d.n
	d.report(d.n)
	return nil
}

// restart begins a new partial file. It is renamed from below the lease, which fails for a process that lost the lease.
// A process that still writes to the old file does not reach the new one.
func (d *download) restart() error {
	d.files++
	f, err := d.staged.Create(fmt.Sprintf("blob-%d", d.files))
	if err != nil {
		return diskError("the partial download", asLost(err))
	}
	if d.file != nil {
		_ = d.file.Close()
	}
	d.file, d.n, d.sums, d.validator, d.validatorFrom = f, 0, newDigests(d.want), "", nil
	if err := d.store.rename(f.Name(), d.partial()); err != nil {
		return diskError("the partial download", asLost(err))
	}
	return nil
}

// checkSpace refuses a file that the disk cannot hold, with 5 % to spare.
func (d *download) checkSpace() error {
	need := d.want.Size + d.want.Size/20 - d.n
	if free, ok := durable.FreeBytes(d.store.dir); ok && need > free {
		return &Error{Class: ClassLocalDisk, Text: fmt.Sprintf("no space in %s: %d bytes are needed, %d are free", d.store.dir, need, free), Hint: "HF_HUB_CACHE=DIR, or HF_HOME=DIR, on a larger disk"}
	}
	return nil
}

// mismatch handles a body whose digest or size is wrong. The first time it restarts the download, the second time it fails.
func (d *download) mismatch(why string) error {
	if d.mismatches++; d.mismatches > 1 {
		_ = d.store.root().Remove(d.partial())
		return &Error{Class: ClassMismatch, Text: why + ", twice: nothing is kept", RequestID: d.lastID, Hint: "again later; if it happens again, the file on the hub is damaged, or a proxy changes it"}
	}
	d.Logf("%s: %s: downloading it once more", d.path, why)
	return d.restart()
}

// write appends to the partial file.
func (d *download) write(p []byte) error {
	err := d.store.step("write", d.partial())
	if err == nil {
		_, err = d.file.Write(p)
	}
	if err != nil {
		if durable.IsDiskFull(err) {
			return &Error{Class: ClassLocalDisk, Text: fmt.Sprintf("no space in %s after %d of %d bytes", d.store.dir, d.n, d.want.Size), Err: err, Hint: "free some space, then " + resumeHint + "; or HF_HUB_CACHE=DIR on a larger disk"}
		}
		return diskError("writing "+d.store.path("blobs", d.want.etag()+partialSuffix), err)
	}
	_, _ = d.sums.Write(p)
	d.n += int64(len(p))
	d.report(d.n)
	return nil
}

// publish renames the partial file into the directory of the lease, and from there to the blob. Below the lease, no process
// that lost its own lease can touch the file.
func (d *download) publish() error {
	if err := d.store.step("sync", d.partial()); err != nil {
		return err
	}
	if err := d.store.syncFile(d.file); err != nil {
		return err
	}
	staged := d.staged.Path("blob")
	if err := d.store.step("rename", staged); err != nil {
		return err
	}
	err := os.Rename(d.store.path("blobs", d.want.etag()+partialSuffix), staged)
	if errors.Is(err, fs.ErrNotExist) {
		err = d.copyDescriptor()
	}
	if err != nil {
		return asLost(err)
	}
	if info, err := os.Lstat(staged); err != nil || !d.isFile(info) {
		return errors.Join(err, errors.New("another file took the place of the partial download"))
	}
	return asLost(d.store.rename(staged, d.store.in("blobs", d.want.etag())))
}

// copyDescriptor copies the download to a file below the lease. Another program removed the partial file, as "hf cache
// prune" does, and only the descriptor still has it.
func (d *download) copyDescriptor() error {
	f, err := d.staged.Create("blob")
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.NewSectionReader(d.file, 0, d.n))
	err = errors.Join(err, d.store.syncFile(f), d.file.Close())
	d.file = f
	return err
}

// isFile reports whether info is of the file that was written.
func (d *download) isFile(info fs.FileInfo) bool {
	own, err := d.file.Stat()
	return err == nil && os.SameFile(own, info)
}

// asLost marks a path below the lease that is missing: another process took the lease.
func asLost(err error) error {
	if err != nil && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", durable.ErrLost, err)
	}
	return err
}

// attempt makes one request for the missing bytes and writes what arrives. An error ends the download. doc/spec/hub.md 5.
func (d *download) attempt(ctx context.Context) error {
	if err := d.locate(ctx); err != nil {
		return err
	}
	r, err := d.get(ctx)
	if err != nil {
		return err
	}
	defer r.body.Close()
	d.lastID = r.requestID()
	if r.encoding() != "" && r.status/100 == 2 {
		if d.encoded++; d.encoded > 1 {
			return r.encodedError()
		}
		return d.restart()
	}
	if ok, err := d.accept(ctx, r); err != nil || !ok {
		return err
	}
	if d.isOnHub(r.url) {
		if err := checkCommit(r, d.snapshot.Commit, true); err != nil {
			return err
		}
	}
	if d.n == 0 && d.validator == "" {
		if v := r.header.Get("ETag"); strings.HasPrefix(v, `"`) { // a weak one does not identify bytes
			d.validator, d.validatorFrom = v, r.url
		}
	}
	return d.receive(ctx, r)
}

// locate asks the hub where the content is, unless that is known. For the card that would be one request more than its GET.
func (d *download) locate(ctx context.Context) (err error) {
	switch {
	case d.from != nil:
	case d.isCard:
		d.from = d.client.resolveURL(d.currentRepo(), d.snapshot.Commit, d.path)
	default:
		d.from, err = d.client.head(ctx, d.currentRepo(), d.snapshot.Commit, d.path, d.want)
	}
	return err
}

// get requests the missing bytes, from the hub or, after its redirect, from the CDN.
func (d *download) get(ctx context.Context) (*reply, error) {
	if d.isOnHub(d.from) {
		r, away, err := d.client.follow(ctx, request{method: http.MethodGet, url: d.from, budget: resolveBudget, header: d.rangeHeader})
		if err != nil || away == nil {
			return r, err
		}
		r.discard()
		if err := checkMetadata(r, d.snapshot.Commit, d.want); err != nil {
			return nil, err
		}
		d.from = away
	}
	r, _, err := d.client.follow(ctx, request{cdn: true, method: http.MethodGet, url: d.from, header: d.rangeHeader})
	return r, err
}

// rangeHeader returns the headers that ask for the bytes from d.n. If-Range goes only to the host whose validator it is.
func (d *download) rangeHeader(at *url.URL) map[string]string {
	if d.n == 0 {
		return nil
	}
	h := map[string]string{"Range": fmt.Sprintf("bytes=%d-", d.n)}
	if d.validator != "" && origin(d.validatorFrom) == origin(at) {
		h["If-Range"] = d.validator
	}
	return h
}

func (d *download) isOnHub(u *url.URL) bool { return origin(u) == origin(d.endpoint) }

// accept reports whether the body of a reply is to be appended to the partial file. If not, and err is nil, the next
// attempt follows.
func (d *download) accept(ctx context.Context, r *reply) (ok bool, err error) {
	from := redactURL(r.url)
	switch {
	case r.status == http.StatusOK && d.n > 0: // the range was ignored: this is the whole file
		return true, d.restart()
	case r.status == http.StatusOK:
		return true, nil
	case r.status == http.StatusPartialContent && d.n == 0:
		return false, d.failed(ctx, fmt.Errorf("%s answers with a range that was not asked for", from))
	case r.status == http.StatusPartialContent && startsAt(r.header.Get("Content-Range"), d.n, d.want.Size):
		return true, nil
	case r.status == http.StatusPartialContent:
		return false, d.restartAfter(ctx, fmt.Errorf("%s answers with another range than was asked", from))
	case r.status == http.StatusRequestedRangeNotSatisfiable:
		return false, d.restartAfter(ctx, fmt.Errorf("%s does not serve the range", from))
	case d.isOnHub(r.url):
		return false, d.client.refusal(r)
	}
	return false, d.refusedByCDN(ctx, r)
}

// refusedByCDN handles an error status of the CDN. Most say that the signed address expired: the hub is asked for a new
// one, the first time without a wait.
func (d *download) refusedByCDN(ctx context.Context, r *reply) error {
	switch r.status {
	case 400, 401, 403, 410:
	default:
		return &Error{Class: ClassUnavailable, Text: redactURL(r.url) + " answers " + statusText(r.status), Status: r.status, RequestID: r.requestID(), Hint: "again later"}
	}
	d.from = nil
	if d.failures == 0 || d.n-d.most >= minProgress {
		d.failures, d.most = 1, max(d.most, d.n)
		return nil
	}
	return d.failed(ctx, fmt.Errorf("%s answers %s", redactURL(r.url), statusText(r.status)))
}

var contentRange = lazyregexp.New(`^bytes (\d{1,18})-(\d{1,18})/(\d{1,18})$`)

// startsAt reports whether a Content-Range begins at byte n of a file of size bytes.
func startsAt(text string, n, size int64) bool {
	m := contentRange().FindStringSubmatch(text)
	if m == nil {
		return false
	}
	start, _ := strconv.ParseInt(m[1], 10, 64)
	total, _ := strconv.ParseInt(m[3], 10, 64)
	return start == n && total == size
}

// receive appends a body to the partial file. It reads one byte beyond the end of the file, to notice a body that is too
// long.
func (d *download) receive(ctx context.Context, r *reply) error {
	buf := make([]byte, readSize)
	for {
		n, err := r.body.Read(buf[:min(readSize, d.want.Size-d.n+1)])
		if n > 0 {
			d.countReceived(int64(n))
			if d.n+int64(n) > d.want.Size {
				return d.mismatch(fmt.Sprintf("%s sends more than the %d bytes that the hub names", redactURL(r.url), d.want.Size))
			}
			if err := d.write(buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case d.n == d.want.Size:
			return nil // the digest decides
		case err == io.EOF:
			return d.failed(ctx, fmt.Errorf("%s ends early", redactURL(r.url)))
		default:
			return d.failed(ctx, fmt.Errorf("%s: %w", redactURL(r.url), err))
		}
	}
}

// countReceived counts bytes from the network for the snapshot; those of the card do not count.
func (d *download) countReceived(n int64) {
	if d.isCard {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.snapshot.BytesNetwork += n
}

// restartAfter restarts the download after a failed attempt.
func (d *download) restartAfter(ctx context.Context, why error) error {
	if err := d.restart(); err != nil {
		return err
	}
	return d.failed(ctx, why)
}

// failed counts an attempt that ended early, and waits before the next. After maxFailures without progress it is an error.
func (d *download) failed(ctx context.Context, why error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d.n-d.most >= minProgress {
		d.failures = 0
	}
	d.most = max(d.most, d.n)
	if d.failures++; d.failures >= maxFailures {
		return &Error{Class: ClassUnavailable, Err: why, RequestID: d.lastID, Hint: resumeHint,
			Text: fmt.Sprintf("%d attempts in a row brought less than %d bytes each: %d of %d bytes are there", maxFailures, minProgress, d.n, d.want.Size)}
	}
	return durable.Sleep(ctx, d.client.backoff(d.failures))
}

// digests computes the digests of a content while it is written: sha256, and for a file outside LFS also git's sha1.
type digests struct {
	sha256 hash.Hash
	git    hash.Hash // nil for an LFS file
}

// newDigests begins the digests of a file that the listing describes.
func newDigests(e entry) digests {
	d := digests{sha256: sha256.New()}
	if e.SHA256 == "" {
		d.git = sha1.New()
		fmt.Fprintf(d.git, "blob %d\x00", e.Size)
	}
	return d
}

func (d digests) Write(p []byte) (int, error) {
	if d.git != nil {
		_, _ = d.git.Write(p) // a hash does not fail
	}
	return d.sha256.Write(p)
}

// etag returns the digest that the hub uses for what was written.
func (d digests) etag() string {
	if d.git != nil {
		return hex.EncodeToString(d.git.Sum(nil))
	}
	return d.sha256Hex()
}

func (d digests) sha256Hex() string { return hex.EncodeToString(d.sha256.Sum(nil)) }
