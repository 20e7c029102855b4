package hub

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/internal/lazyregexp"
)

// maxAnswer limits a JSON answer, in bytes.
const maxAnswer = 64 << 20

const proxyHint = "look for a proxy or a sign-in page in between, and at HF_ENDPOINT"

// unexpected returns the error about a reply that no hub sends.
func (r *reply) unexpected(text string) *Error {
	return &Error{Class: ClassNotHub, Text: text, Status: r.status, RequestID: r.requestID()}
}

// notAHub returns the error about a reply whose server does not look like a hub. cause may be nil.
func (r *reply) notAHub(text string, cause error) error {
	err := r.unexpected(redactURL(r.url) + " is not a hub: " + text)
	err.Err, err.Hint = cause, proxyHint
	return err
}

// getJSON gets a JSON value from the hub. It retries when the body is truncated, up to attempts requests.
func (c *client) getJSON(ctx context.Context, at *url.URL, into any) (r *reply, err error) {
	for attempt := 1; ; attempt++ {
		r, err = c.getJSONOnce(ctx, at, into)
		if !errors.Is(err, errTruncated) || attempt == attempts {
			return r, err
		}
		if err := durable.Sleep(ctx, c.backoff(attempt)); err != nil {
			return nil, err
		}
	}
}

// getJSONOnce is getJSON with one attempt. The error about a truncated body wraps errTruncated.
func (c *client) getJSONOnce(ctx context.Context, at *url.URL, into any) (*reply, error) {
	r, _, err := c.follow(ctx, request{method: http.MethodGet, url: at, budget: apiBudget})
	if err != nil {
		return nil, err
	}
	defer r.discard()
	if r.status != http.StatusOK {
		return nil, c.refusal(r)
	}
	if r.encoding() != "" {
		return nil, r.encodedError()
	}
	data, err := io.ReadAll(io.LimitReader(r.body, maxAnswer+1))
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	switch {
	case err != nil:
		return nil, &Error{Class: ClassUnavailable, Text: "the answer of " + redactURL(r.url) + " did not arrive", Err: fmt.Errorf("%w: %w", errTruncated, err)}
	case len(data) > maxAnswer:
		return nil, &Error{Class: ClassNotHub, Text: fmt.Sprintf("the answer of %s has more than %d bytes", redactURL(r.url), maxAnswer)}
	}
	if err := json.Unmarshal(data, into); errors.Is(err, errLongListing) {
		return nil, longListing()
	} else if err != nil {
		return nil, r.notAHub("the answer is not the JSON of a hub", err)
	}
	return r, nil
}

// encodedError is the error about a body with a Content-Encoding, which no request asks for.
func (r *reply) encodedError() error {
	return r.notAHub("it sends the body as "+sanitize(r.encoding(), 40)+", although that was not asked for", nil)
}

// refusal explains a final reply without the content that was asked for. doc/spec/hub.md 4.
func (c *client) refusal(r *reply) error {
	code, message := r.header.Get("X-Error-Code"), r.errorMessage()
	fail := func(class Class, text, hint string) error {
		if message != "" {
			text += ": " + message
		}
		return &Error{Class: class, Text: text, Hint: hint, Status: r.status, RequestID: r.requestID()}
	}
	page := c.endpoint.String() + c.kind.page + "REPO" // explain fills in the repository
	switch {
	case message == "Access to this resource is disabled.":
		return fail(ClassDisabled, "the hub has disabled it", "")
	case code == "GatedRepo":
		return fail(ClassGated, "its terms must be accepted first", "accept the terms at "+page+", and set HF_TOKEN to a token of that account")
	case code == "RevisionNotFound":
		return fail(ClassNotFound, "there is no such revision", "leave @REVISION out for main, or see "+page+"/tree/main for branches and tags")
	case code == "EntryNotFound":
		return fail(ClassNotFound, "there is no such file", "see "+page+"/tree/main for its files")
	case code != "RepoNotFound" && r.status == 401 && mentionsCredentials(message):
		return fail(ClassCredentials, "the hub does not accept the token", "a valid HF_TOKEN, or none: public "+c.kind.word+"s need none")
	case code == "RepoNotFound" || r.status == 401: // the hub does not tell private from absent
		return fail(ClassNotFound, "there is no such repository, or it is private", "check the name; if it is private, "+c.tokenHint())
	case r.status == 403:
		return fail(ClassGated, "access is forbidden", "look at "+page+" for what it asks for, and "+c.tokenHint())
	case r.status == 404 || r.status == 410:
		return fail(ClassNotFound, "the hub does not have it", "check the name and the revision")
	}
	return r.notAHub("it answers with a status that a hub does not use", nil)
}

// errorMessage returns the hub's explanation: a header, or a field of the body.
func (r *reply) errorMessage() string {
	message := r.header.Get("X-Error-Message")
	if message == "" {
		var body struct {
			Error string `json:"error"`
		}
		if data, err := io.ReadAll(io.LimitReader(r.body, 4<<10)); err == nil && json.Unmarshal(data, &body) == nil {
			message = body.Error
		}
	}
	return sanitize(message, 300)
}

func mentionsCredentials(message string) bool {
	message = strings.ToLower(message)
	return strings.Contains(message, "invalid credentials") || strings.Contains(message, "invalid username")
}

// tokenHint says which token would help.
func (c *client) tokenHint() string {
	switch {
	case c.token != "":
		return "a token that may read it: the present one cannot, if it exists"
	case c.tokenDisabled:
		return "unset HF_HUB_DISABLE_IMPLICIT_TOKEN: no token is sent with it"
	}
	return "set HF_TOKEN to a token that may read it"
}

// revision asks for the commit of a branch, a tag or another reference, and the current name of the repository.
func (c *client) revision(ctx context.Context, repo, revision string) (commit, currentRepo string, err error) {
	var info struct {
		SHA string `json:"sha"`
	}
	r, err := c.getJSON(ctx, c.address(c.kind.api+repo+"/revision/"+escape(revision)), &info)
	if err != nil {
		return "", "", err
	}
	if !commitForm().MatchString(info.SHA) {
		return "", "", r.notAHub("the commit that it names is "+strconv.Quote(sanitize(info.SHA, 60)), nil)
	}
	if err := checkCommit(r, info.SHA, false); err != nil {
		return "", "", err
	}
	if hexForm().MatchString(revision) && strings.HasPrefix(info.SHA, strings.ToLower(revision)) {
		return "", "", &Error{Class: ClassInvalid, Text: "a shortened commit is not accepted as a revision", Hint: "@" + info.SHA}
	}
	return info.SHA, c.repoOf(r.url, repo), nil
}

// repoOf returns the repository in the address that answered. After a rename it differs from asked.
func (c *client) repoOf(at *url.URL, asked string) string {
	path := strings.TrimPrefix(at.Path, strings.TrimRight(c.endpoint.Path, "/"))
	if rest, ok := strings.CutPrefix(path, c.kind.api); ok {
		if parts := strings.SplitN(rest, "/", 3); len(parts) == 3 && checkRepo(parts[0]+"/"+parts[1]) == nil {
			return parts[0] + "/" + parts[1]
		}
	}
	return asked
}

// checkCommit compares the commit that a reply names with the requested one. Without required, a reply may name none.
func checkCommit(r *reply, commit string, required bool) error {
	got := r.header.Get("X-Repo-Commit")
	switch {
	case got == "" && !required || got == commit:
		return nil
	case !commitForm().MatchString(got):
		return r.notAHub("the answer names no commit", nil)
	}
	return r.unexpected(fmt.Sprintf("revision mismatch: %s answers for commit %s, asked was %s", redactURL(r.url), got, commit))
}

// resolveURL returns the hub's address of a file at a commit.
func (c *client) resolveURL(repo, commit, path string) *url.URL {
	return c.address(c.kind.page + repo + "/resolve/" + commit + "/" + escapePath(path))
}

// head returns the address of the content of a file, on the hub or elsewhere. It compares the headers of the reply with the
// listing.
func (c *client) head(ctx context.Context, repo, commit, path string, want entry) (*url.URL, error) {
	r, away, err := c.follow(ctx, request{method: http.MethodHead, url: c.resolveURL(repo, commit, path), budget: resolveBudget})
	if err != nil {
		return nil, err
	}
	defer r.discard()
	if away == nil && r.status != http.StatusOK {
		return nil, c.refusal(r)
	}
	return cmp.Or(away, r.url), checkMetadata(r, commit, want)
}

// checkMetadata compares the headers of a resolve reply with the listing: commit, digest and size.
func checkMetadata(r *reply, commit string, want entry) error {
	if err := checkCommit(r, commit, true); err != nil {
		return err
	}
	etag := cmp.Or(r.header.Get("X-Linked-Etag"), r.header.Get("ETag"))
	etag = strings.Trim(strings.TrimPrefix(etag, "W/"), `"`)
	if !etagForm().MatchString(etag) {
		return r.notAHub("the etag of the file is "+strconv.Quote(sanitize(etag, 80))+", which is no digest", nil)
	}
	if etag != want.etag() {
		return r.notAHub(fmt.Sprintf("the file is %s here and %s in the listing of the same commit", etag, want.etag()), nil)
	}
	text := r.header.Get("X-Linked-Size")
	if text == "" && !isRedirect(r.status) { // the length of a redirect is that of its own body
		text = r.header.Get("Content-Length")
	}
	if text == "" {
		return nil // the listing has it
	}
	if size, err := strconv.ParseInt(text, 10, 64); err != nil || size != want.Size {
		return r.notAHub(fmt.Sprintf("the file has %s bytes here and %d in the listing of the same commit", sanitize(text, 30), want.Size), nil)
	}
	return nil
}

// jobContents gives selectFiles the listing of the commit of a job or, without a listing, the links in the caches.
type jobContents struct {
	ctx context.Context
	*job
}

func (c *jobContents) complete() (*tree, bool) { return c.tree, c.tree != nil }

func (c *jobContents) has(path string) bool {
	if c.tree != nil {
		_, ok := c.tree.Files[path]
		return ok
	}
	if checkPath(path) != nil {
		return false
	}
	_, err := c.entry(path)
	return err == nil
}

func (c *jobContents) say(format string, args ...any) {
	c.Logf("%s: %s", c.ref.Repo, fmt.Sprintf(format, args...))
}

func (c *jobContents) card() ([]byte, bool, error) {
	if !c.has(cardName) {
		return nil, false, nil
	}
	text, err := c.readCard()
	if err != nil {
		return nil, false, c.explain(err, cardName)
	}
	return text, true, nil
}

// readCard obtains README.md like a file of the dataset, and reads it.
func (c *jobContents) readCard() ([]byte, error) {
	e, err := c.entry(cardName)
	if err != nil {
		return nil, err
	}
	if e.Size > maxCard {
		return nil, &Error{Class: ClassInvalid, Text: fmt.Sprintf("it has %d bytes, more than %d", e.Size, maxCard), Hint: nameFileHint}
	}
	f, err := c.obtain(c.ctx, cardName, true)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.kept.Close() }()
	c.job.card = f
	r, err := f.Open()
	if err != nil {
		return nil, diskError("the card", err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, diskError("the card", err)
	}
	return text, nil
}

const notCached = "it is not in the cache"

// entry returns digest and size of a file: from the listing, or without one from the link and the blob in a cache.
func (j *job) entry(path string) (entry, error) {
	if j.tree != nil {
		e := j.tree.Files[path]
		if err := e.check(); err != nil {
			return e, &Error{Class: ClassNotHub, File: path, Text: "the listing gives it " + err.Error(), Hint: "look for a proxy in between, and at HF_ENDPOINT"}
		}
		return e, nil
	}
	for _, st := range j.stores {
		etag, ok := st.linked(j.snapshot.Commit, path)
		if !ok {
			continue
		}
		if info, ok := st.stat(etag); ok {
			if len(etag) == 64 {
				return entry{SHA256: etag, Size: info.Size()}, nil
			}
			return entry{BlobID: etag, Size: info.Size()}, nil
		}
	}
	return entry{}, &Error{Class: ClassNotCached, File: path, Text: notCached}
}

// Limits of the listing of one commit.
const (
	maxFiles   = 500_000
	maxPages   = 5000
	maxListing = 256 << 20 // bytes of all pages and their addresses
)

// listTree asks for the listing of a commit, page by page, and the current name of the repository.
func (c *client) listTree(ctx context.Context, repo, commit string) (t *tree, currentRepo string, err error) {
	l := pages{files: map[string]entry{}}
	at := c.address(c.kind.api + repo + "/tree/" + commit + "?recursive=true&expand=false")
	for seen := map[string]bool{}; at != nil; {
		if l.bytes += len(at.String()); len(seen) == maxPages || l.bytes > maxListing {
			return nil, "", longListing()
		}
		seen[at.String()] = true
		r, err := c.getJSON(ctx, at, &l)
		if err != nil {
			return nil, "", err
		}
		if err := checkCommit(r, commit, false); err != nil {
			return nil, "", err
		}
		repo = c.repoOf(r.url, repo)
		if at, err = c.nextPage(r); err != nil {
			return nil, "", err
		}
		if at != nil && seen[at.String()] {
			return nil, "", r.notAHub("the pages of the listing form a loop", nil)
		}
	}
	return &tree{Files: l.files}, repo, nil
}

var nextLink = lazyregexp.New(`<([^>]*)>\s*;[^,]*\brel="?next"?`)

// nextPage returns the address of the next page, which must be on the hub; nil after the last one.
func (c *client) nextPage(r *reply) (*url.URL, error) {
	m := nextLink().FindStringSubmatch(strings.Join(r.header.Values("Link"), ","))
	if m == nil {
		return nil, nil
	}
	u, err := r.url.Parse(m[1])
	if err != nil {
		return nil, r.notAHub("the address of the next page cannot be parsed", nil)
	}
	if u = c.rewrite(u); origin(u) != origin(c.endpoint) || u.User != nil {
		return nil, r.unexpected(fmt.Sprintf("%s names %s for the next page, which is not asked", origin(r.url), origin(u)))
	}
	return u, nil
}

// pages collects the pages of a listing. It decodes entry by entry, so that a page beyond the limits takes no memory.
type pages struct {
	files map[string]entry
	bytes int
}

// pageEntry is one entry of a page.
type pageEntry struct {
	Type string `json:"type"`
	OID  string `json:"oid"`
	Size int64  `json:"size"`
	Path string `json:"path"`
	LFS  *struct {
		OID  string `json:"oid"`
		Size int64  `json:"size"`
	} `json:"lfs"`
	Xet string `json:"xetHash"`
}

func longListing() error {
	return &Error{Class: ClassInvalid, Text: errLongListing.Error(), Hint: "download the files another way, and give the path of the local copy"}
}

// UnmarshalJSON adds the entries of a page of the listing.
func (l *pages) UnmarshalJSON(page []byte) error {
	if l.bytes += len(page); l.bytes > maxListing {
		return errLongListing
	}
	if len(page) == 0 || page[0] != '[' {
		return errors.New("a page is not a list")
	}
	d := json.NewDecoder(bytes.NewReader(page))
	_, err := d.Token()
	for err == nil && d.More() {
		var f pageEntry
		if err = d.Decode(&f); err == nil {
			err = l.add(f)
		}
	}
	return err
}

// add adds the entry of a file, and passes over a directory.
func (l *pages) add(f pageEntry) error {
	if f.Type == "directory" {
		return nil
	}
	e := entry{Size: f.Size, BlobID: f.OID, XetHash: f.Xet}
	if f.LFS != nil {
		e.SHA256, e.LFSSize, e.Size = f.LFS.OID, f.LFS.Size, f.LFS.Size
	}
	if _, twice := l.files[f.Path]; twice {
		return fmt.Errorf("the listing names a file twice: %q", sanitize(f.Path, 100))
	}
	if len(l.files) == maxFiles {
		return errLongListing
	}
	l.files[f.Path] = e
	return nil
}

// tree is the listing of one commit. On disk it is trees/<commit>.json, in the format of huggingface_hub.
type tree struct {
	Version int              `json:"format_version"` // treeVersion
	Files   map[string]entry `json:"files"`
	Writer  string           `json:"written_by,omitempty"` // treeWriter if agentx wrote it; the Python client writes none
}

const (
	treeVersion = 1
	treeWriter  = "agentx"
)

// entry is one file of a listing, with the field names of huggingface_hub.
type entry struct {
	Size    int64  `json:"size"`                 // bytes of the content
	BlobID  string `json:"blob_id"`              // git's sha1: of the content, or of the LFS pointer
	SHA256  string `json:"lfs_sha256,omitempty"` // of the content; "" for a file outside LFS
	LFSSize int64  `json:"lfs_size,omitempty"`
	XetHash string `json:"xet_hash,omitempty"`
}

// etag returns the digest that the hub uses for the content: sha256, or git's sha1 for a file outside LFS.
func (e entry) etag() string { return cmp.Or(e.SHA256, e.BlobID) }

// maxFile limits the size of one file, in bytes, so that sums of sizes do not overflow.
const maxFile = 1 << 50

// check refuses a size or digest that no file has; the error completes "the listing gives it ...".
func (e entry) check() error {
	switch {
	case e.Size < 0 || e.Size > maxFile:
		return fmt.Errorf("the size %d", e.Size)
	case e.SHA256 != "" && len(e.SHA256) != 64 || e.SHA256 == "" && len(e.BlobID) != 40 || !etagForm().MatchString(e.etag()):
		return fmt.Errorf("the digest %q", sanitize(e.etag(), 80))
	}
	return nil
}

// parseTree reads a listing from disk; ok is false for one that is damaged or has invalid entries.
func parseTree(data []byte) (t *tree, ok bool) {
	t = &tree{}
	if json.Unmarshal(data, t) != nil || t.Version != treeVersion || t.Files == nil || !t.valid() {
		return nil, false
	}
	return t, true
}

// encode returns the listing for the disk; ok is false for one with invalid entries, which is not kept.
func (t *tree) encode() (data []byte, ok bool) {
	if !t.valid() {
		return nil, false
	}
	data, err := json.MarshalIndent(tree{treeVersion, t.Files, treeWriter}, "", " ")
	return data, err == nil
}

// valid reports whether all paths, sizes and digests are usable.
func (t *tree) valid() bool {
	for path, e := range t.Files {
		if checkPath(path) != nil || e.check() != nil {
			return false
		}
	}
	return true
}

// paths lists the files in byte order of their names.
func (t *tree) paths() []string { return slices.Sorted(maps.Keys(t.Files)) }
