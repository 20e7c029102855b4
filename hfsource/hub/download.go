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
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/agentx/agentx/internal/durable"
)

const (
	chunk      = 256 << 10 // bytes read at a time
	resumes    = 8         // attempts in a row that bring less than progress
	progressed = 1 << 20   // bytes
)

// sums are the digests of a content: always sha256, and git's for a file that git holds.
type sums struct {
	sha256 hash.Hash
	git    hash.Hash // nil for an LFS file
}

func newSums(e entry) sums {
	s := sums{sha256: sha256.New()}
	if e.SHA256 == "" {
		s.git = sha1.New()
		fmt.Fprintf(s.git, "blob %d\x00", e.Size)
	}
	return s
}

func (s sums) Write(p []byte) (int, error) {
	if s.git != nil {
		_, _ = s.git.Write(p) // a hash does not fail
	}
	return s.sha256.Write(p)
}

// etag is the digest under which the hub knows what was written.
func (s sums) etag() string {
	if s.git != nil {
		return hex.EncodeToString(s.git.Sum(nil))
	}
	return s.content()
}

func (s sums) content() string { return hex.EncodeToString(s.sha256.Sum(nil)) }

// download brings one blob to disk, under a lease. What it keeps belongs to one digest and size: that of want.
type download struct {
	c       *client
	s       *store
	repo    string
	commit  string
	path    string
	want    entry
	plain   bool // no HEAD before the GET: a small file whose digest the listing gives
	lease   *durable.Lease
	suspect bool // who wrote the partial file may still be alive
	arrived func(n int64)
	at      func(n int64) // how many bytes are there

	staged *durable.Dir // below the lease
	number int          // of the next file in it
	file   *os.File     // the partial one
	n      int64        // bytes in it
	sums   sums

	from      *source
	validator string // of the host that gave the first bytes
	host      string // its origin
	high      int64  // most bytes that were ever there
	failures  int    // attempts in a row without progress
	wrong     int    // whole bodies that were not the announced content
	encoded   int    // replies that were encoded
	last      string // request id of the last reply
}

// partial is the name under which it lies until it is whole.
func (d *download) partial() string { return d.s.in("blobs", d.want.etag()+incomplete) }

// run returns the blob, verified, published and open, and its sha256.
func (d *download) run(ctx context.Context) (f *os.File, sum string, err error) {
	if d.staged, err = durable.NewDir(d.s.locks(), durable.Options{Lease: d.lease, Sync: d.s.opts.Sync}); err != nil {
		return nil, "", local("a place for the download", err)
	}
	defer func() {
		err = errors.Join(err, d.staged.Discard())
		if err != nil && d.file != nil {
			err = errors.Join(err, d.file.Close())
		}
	}()
	if err := d.takeOver(ctx); err != nil {
		return nil, "", err
	}
	if err := d.space(); err != nil {
		return nil, "", err
	}
	for {
		if d.n == d.want.Size {
			if got := d.sums.etag(); got == d.want.etag() {
				break
			} else if err := d.again(fmt.Sprintf("hash mismatch: what arrived has the digest %s, the hub names %s", got, d.want.etag())); err != nil {
				return nil, "", err
			}
			continue
		}
		if err := d.attempt(ctx); err != nil {
			return nil, "", err
		}
	}
	if err := d.publish(); err != nil {
		return nil, "", local("publishing "+d.s.path("blobs", d.want.etag()), err)
	}
	return d.file, d.sums.content(), nil
}

// takeOver goes on from what an earlier download has left. Where its writer may still be alive the bytes are copied: what
// that one writes reaches only the old file.
func (d *download) takeOver(ctx context.Context) error {
	info, err := d.s.root().Lstat(d.partial())
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 || info.Size() > d.want.Size {
		return d.fresh()
	}
	flag := os.O_RDWR
	if d.suspect {
		flag = os.O_RDONLY
	}
	old, err := d.s.root().OpenFile(d.partial(), flag, 0)
	if err != nil {
		return d.fresh() // another user's, perhaps
	}
	d.sums = newSums(d.want)
	if !d.suspect {
		d.file = old
		if d.n, err = io.Copy(d.sums, ended{ctx, old}); err == nil {
			_, err = old.Seek(d.n, io.SeekStart)
		}
	} else {
		defer old.Close()
		if err = d.fresh(); err == nil {
			d.n, err = io.Copy(io.MultiWriter(d.file, d.sums), io.LimitReader(ended{ctx, old}, info.Size()))
		}
	}
	if err != nil {
		return errors.Join(context.Cause(ctx), local("the partial download "+d.partial(), err))
	}
	d.high = d.n
	d.at(d.n)
	return nil
}

// ended is a reader that ends with its context.
type ended struct {
	ctx context.Context
	r   io.Reader
}

func (e ended) Read(p []byte) (int, error) {
	if e.ctx.Err() != nil {
		return 0, context.Cause(e.ctx)
	}
	return e.r.Read(p)
}

// fresh begins a new file under the partial name, by a rename from below the lease: who has lost that cannot. The old
// one, if somebody still writes to it, is out of the way.
func (d *download) fresh() error {
	d.number++
	f, err := d.staged.Create(fmt.Sprintf("blob-%d", d.number))
	if err != nil {
		return local("the partial download", d.lost(err))
	}
	if d.file != nil {
		_ = d.file.Close()
	}
	d.file, d.n, d.sums, d.validator, d.host = f, 0, newSums(d.want), "", ""
	if err := d.s.rename(f.Name(), d.partial()); err != nil {
		return local("the partial download", d.lost(err))
	}
	return nil
}

// space refuses a file that the disk cannot hold.
func (d *download) space() error {
	need := d.want.Size + d.want.Size/20 - d.n
	if free, ok := freeBytes(d.s.dir); ok && need > free {
		return &Error{Class: ClassLocalDisk, Text: fmt.Sprintf("no space in %s: %d bytes are needed, %d are free", d.s.dir, need, free), Hint: "HF_HUB_CACHE=DIR, or HF_HOME=DIR, on a larger disk"}
	}
	return nil
}

// again begins anew after a body that was not what it should be: once.
func (d *download) again(why string) error {
	if d.wrong++; d.wrong > 1 {
		_ = d.s.root().Remove(d.partial())
		return &Error{Class: ClassMismatch, Text: why + ", and so a second time: nothing is kept", RequestID: d.last, Hint: "again later; if it stays, the file on the hub is damaged, or a proxy changes it"}
	}
	d.c.notice("%s: %s: downloading it once more", d.path, why)
	return d.fresh()
}

// failed counts an attempt that ended early, and waits.
func (d *download) failed(ctx context.Context, why error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d.n-d.high >= progressed {
		d.failures = 0
	}
	d.high = max(d.high, d.n)
	if d.failures++; d.failures >= resumes {
		return &Error{Class: ClassUnavailable, Text: fmt.Sprintf("%d attempts in a row brought less than %d bytes each: %d of %d bytes are there", resumes, progressed, d.n, d.want.Size),
			Err: why, RequestID: d.last, Hint: "the same again: it goes on from there"}
	}
	return durable.Sleep(ctx, d.c.backoff(d.failures))
}

// attempt makes one request for what is missing and writes what it brings. An error ends the download.
func (d *download) attempt(ctx context.Context) error {
	if d.from == nil && !d.plain {
		from, err := d.c.head(ctx, d.repo, d.commit, d.path, &d.want)
		if err != nil {
			return err
		}
		d.from = &from
	}
	r, err := d.get(ctx)
	if err != nil {
		return err
	}
	defer r.body.Close()
	d.last = r.requestID()
	if e := r.header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") && r.status/100 == 2 {
		if d.encoded++; d.encoded > 1 {
			return identity(r)
		}
		return d.fresh()
	}
	onHub := origin(r.url) == origin(d.c.endpoint)
	switch {
	case r.status == http.StatusOK:
		if d.n > 0 { // the range was not served: this is the whole
			if err := d.fresh(); err != nil {
				return err
			}
		}
	case r.status == http.StatusPartialContent && d.n > 0:
		if !continues(r.header.Get("Content-Range"), d.n, d.want.Size) {
			if err := d.fresh(); err != nil {
				return err
			}
			return d.failed(ctx, fmt.Errorf("%s answers with another range than was asked", shown(r.url)))
		}
	case r.status == http.StatusPartialContent:
		return d.failed(ctx, fmt.Errorf("%s answers with a range that was not asked for", shown(r.url)))
	case r.status == http.StatusRequestedRangeNotSatisfiable:
		if err := d.fresh(); err != nil {
			return err
		}
		return d.failed(ctx, fmt.Errorf("%s does not serve the range", shown(r.url)))
	case !onHub && (r.status == 400 || r.status == 401 || r.status == 403 || r.status == 410):
		d.from = nil // the signed address ran out: nothing to wait for, the first time
		if d.failures == 0 || d.n-d.high >= progressed {
			d.failures, d.high = 1, max(d.high, d.n)
			return nil
		}
		return d.failed(ctx, fmt.Errorf("%s answers %s", shown(r.url), statusText(r.status)))
	case onHub:
		return d.c.refusal(r)
	default:
		return &Error{Class: ClassUnavailable, Text: shown(r.url) + " answers " + statusText(r.status), Status: r.status, RequestID: r.requestID(), Hint: "again later"}
	}
	if onHub {
		if err := sameCommit(r, d.commit, true); err != nil {
			return err
		}
	}
	if d.validator == "" && d.n == 0 {
		if v := r.header.Get("ETag"); strings.HasPrefix(v, `"`) { // a weak one does not speak for bytes
			d.validator, d.host = v, origin(r.url)
		}
	}
	return d.receive(ctx, r)
}

// get asks for the bytes that are missing. A redirect of the hub ends on another origin, which is asked without the token.
func (d *download) get(ctx context.Context) (*reply, error) {
	header := func(at *url.URL) map[string]string {
		if d.n == 0 {
			return nil
		}
		h := map[string]string{"Range": fmt.Sprintf("bytes=%d-", d.n)}
		if d.validator != "" && d.host == origin(at) {
			h["If-Range"] = d.validator
		}
		return h
	}
	if d.from == nil || !d.from.away {
		at := d.c.address("/datasets/" + d.repo + "/resolve/" + d.commit + "/" + escapePath(d.path))
		if d.from != nil {
			at = d.from.url
		}
		r, away, err := d.c.follow(ctx, request{method: http.MethodGet, url: at, class: "resolvers", header: header(at)}, true)
		if err != nil || away == nil {
			return r, err
		}
		r.drop()
		if err := metadata(r, true, d.commit, &d.want); err != nil {
			return nil, err
		}
		d.from = &source{away, true}
	}
	at := d.from.url
	for hop := 0; ; hop++ {
		r, err := d.c.exchange(ctx, request{cdn: true, method: http.MethodGet, url: at, header: header(at)})
		if err != nil || !redirect(r.status) {
			return r, err
		}
		r.drop()
		to, err := d.c.location(r)
		if err != nil {
			return nil, err
		}
		if hop == hops {
			return nil, &Error{Class: ClassNotHub, Text: fmt.Sprintf("more than %d redirects in a row, the last from %s", hops, shown(at))}
		}
		at = to
	}
}

var contentRange = regexp.MustCompile(`^bytes (\d{1,18})-(\d{1,18})/(\d{1,18})$`)

// continues reports whether a Content-Range begins where we are, and is of a file of our size.
func continues(text string, n, size int64) bool {
	m := contentRange.FindStringSubmatch(text)
	if m == nil {
		return false
	}
	start, _ := strconv.ParseInt(m[1], 10, 64)
	total, _ := strconv.ParseInt(m[3], 10, 64)
	return start == n && total == size
}

// receive writes a body. It reads one byte beyond the end, so that it knows of bytes that should not be there.
func (d *download) receive(ctx context.Context, r *reply) error {
	buf := make([]byte, chunk)
	for {
		n, err := r.body.Read(buf[:min(chunk, d.want.Size-d.n+1)])
		if n > 0 {
			d.arrived(int64(n))
			if d.n+int64(n) > d.want.Size {
				return d.again(fmt.Sprintf("%s sends more than the %d bytes that the hub names", shown(r.url), d.want.Size))
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
			return nil // whole: the digest decides
		case err == io.EOF:
			return d.failed(ctx, fmt.Errorf("%s ends early", shown(r.url)))
		default:
			return d.failed(ctx, fmt.Errorf("%s: %w", shown(r.url), err))
		}
	}
}

func (d *download) write(p []byte) error {
	err := d.s.at("write", d.partial())
	if err == nil {
		_, err = d.file.Write(p)
	}
	if err != nil {
		if durable.IsDiskFull(err) {
			return &Error{Class: ClassLocalDisk, Text: fmt.Sprintf("no space in %s after %d of %d bytes", d.s.dir, d.n, d.want.Size), Err: err, Hint: "the same again when there is: it goes on from there; or HF_HUB_CACHE=DIR on a larger disk"}
		}
		return local("writing "+d.s.path("blobs", d.want.etag()+incomplete), err)
	}
	_, _ = d.sums.Write(p)
	d.n += int64(len(p))
	d.at(d.n)
	return nil
}

// publish puts the blob under its name. It goes by way of the lease: once it has been renamed to there, it is ours, for
// the claim of one who was taken over is gone before the new holder begins.
func (d *download) publish() error {
	if err := d.s.at("sync", d.partial()); err != nil {
		return err
	}
	if err := d.s.force(d.file); err != nil {
		return err
	}
	staged := d.staged.Path("blob")
	if err := d.s.at("rename", staged); err != nil {
		return err
	}
	err := os.Rename(d.s.path("blobs", d.want.etag()+incomplete), staged)
	if errors.Is(err, fs.ErrNotExist) {
		err = d.rescue()
	}
	if err != nil {
		return d.lost(err)
	}
	if info, err := os.Lstat(staged); err != nil || !d.is(info) {
		return errors.Join(err, errors.New("the partial download was replaced by another one"))
	}
	return d.lost(d.s.rename(staged, d.s.in("blobs", d.want.etag())))
}

// rescue writes what was downloaded once more, below the lease: another program has removed the partial file, as
// "hf cache prune" does, and only the descriptor has it.
func (d *download) rescue() error {
	f, err := d.staged.Create("blob")
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.NewSectionReader(d.file, 0, d.n))
	err = errors.Join(err, d.s.force(f), d.file.Close())
	d.file = f
	return err
}

// is reports whether a file is the one that was written.
func (d *download) is(info fs.FileInfo) bool {
	own, err := d.file.Stat()
	return err == nil && os.SameFile(own, info)
}

// lost says for an error of a path below the lease that the lease is the reason, if it is.
func (d *download) lost(err error) error {
	if err != nil && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", durable.ErrLost, err)
	}
	return err
}

// unlessHeld runs f under the lease on a blob, if nobody has it.
func (s *store) unlessHeld(etag string, f func()) {
	lease, err := durable.Acquire(context.Background(), s.locks(), etag, func() (bool, error) { return false, nil }, durable.Waiting{Limit: -1})
	if err == nil {
		f()
		_ = lease.Release()
	}
}

// ago writes an age for people.
func ago(d time.Duration) string {
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
