package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/durable"
)

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

var contentRange = regexp.MustCompile(`^bytes (\d{1,18})-(\d{1,18})/(\d{1,18})$`)

// startsAt reports whether a Content-Range begins at byte n of a file of size bytes.
func startsAt(text string, n, size int64) bool {
	m := contentRange.FindStringSubmatch(text)
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
