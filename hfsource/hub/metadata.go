package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/agentx/agentx/internal/durable"
)

// maxPage bounds a reply that is read into memory, in bytes.
const maxPage = 64 << 20

// What the listing of one commit may have: files, pages, and bytes of all its pages and their addresses.
const (
	maxFiles   = 500_000
	maxPages   = 5000
	maxListing = 256 << 20
)

var errCut = errors.New("cut")

// api asks the hub for a JSON value.
func (c *client) api(ctx context.Context, at *url.URL, into any) (*reply, error) {
	r, _, err := c.follow(ctx, request{method: http.MethodGet, url: at, class: "api"}, false)
	if err != nil {
		return nil, err
	}
	defer r.drop()
	if r.status != http.StatusOK {
		return nil, c.refusal(r)
	}
	if err := identity(r); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(r.body, maxPage+1))
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	switch {
	case err != nil:
		return nil, &Error{Class: ClassUnavailable, Text: "the answer of " + shown(r.url) + " did not arrive", Err: fmt.Errorf("%w: %w", errCut, err)}
	case len(data) > maxPage:
		return nil, &Error{Class: ClassNotHub, Text: fmt.Sprintf("the answer of %s has more than %d bytes", shown(r.url), maxPage)}
	}
	if err := json.Unmarshal(data, into); err != nil {
		if errors.Is(err, errLongListing) {
			return nil, longListing()
		}
		return nil, notHub(r, "the answer is not the JSON of a hub", err)
	}
	return r, nil
}

// persistent is api until a body arrives whole: a cut body is a failed attempt like any other.
func (c *client) persistent(ctx context.Context, at *url.URL, into any) (r *reply, err error) {
	for attempt := 1; ; attempt++ {
		r, err = c.api(ctx, at, into)
		if !errors.Is(err, errCut) || attempt == attempts {
			return r, err
		}
		if err := durable.Sleep(ctx, c.backoff(attempt)); err != nil {
			return nil, err
		}
	}
}

func notHub(r *reply, text string, err error) error {
	return &Error{Class: ClassNotHub, Text: shown(r.url) + " is no hub: " + text, Status: r.status, RequestID: r.requestID(), Err: err, Hint: tryProxy}
}

const tryProxy = "look for a proxy or a sign-in page in between, and at HF_ENDPOINT"

// identity refuses a body that is encoded although it was asked for as it is.
func identity(r *reply) error {
	if e := r.header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return notHub(r, "it sends the body as "+printable(e, 40)+", although that was not asked for", nil)
	}
	return nil
}

// refusal explains a final reply that is not what was asked for.
func (c *client) refusal(r *reply) error {
	code, message := r.header.Get("X-Error-Code"), r.header.Get("X-Error-Message")
	if message == "" {
		var body struct {
			Error string `json:"error"`
		}
		if data, err := io.ReadAll(io.LimitReader(r.body, 4<<10)); err == nil && json.Unmarshal(data, &body) == nil {
			message = body.Error
		}
	}
	message = printable(message, 300)
	e := &Error{Status: r.status, RequestID: r.requestID()}
	say := func(class Class, text, try string) error {
		if e.Class, e.Text, e.Hint = class, text, try; message != "" {
			e.Text += ": " + message
		}
		return e
	}
	token := "set HF_TOKEN to a token that may read it"
	switch {
	case c.token != "":
		token = "a token that may read it: the present one cannot, if it exists"
	case c.tokenless:
		token = "unset HF_HUB_DISABLE_IMPLICIT_TOKEN: no token is sent with it"
	}
	switch {
	case message == "Access to this resource is disabled.":
		return say(ClassDisabled, "the hub has disabled it", "")
	case code == "GatedRepo":
		return say(ClassGated, "its terms must be accepted first", "accept the terms at "+c.endpoint.String()+"/datasets/REPO, and set HF_TOKEN to a token of that account")
	case code == "RepoNotFound":
		return say(ClassNotFound, "there is no such repository, or it is private", "check the name; if it is private, "+token)
	case code == "RevisionNotFound":
		return say(ClassNotFound, "there is no such revision", "leave @REVISION out for main, or see "+c.endpoint.String()+"/datasets/REPO/tree/main for branches and tags")
	case code == "EntryNotFound":
		return say(ClassNotFound, "there is no such file", "see "+c.endpoint.String()+"/datasets/REPO/tree/main for its files")
	case r.status == 401 && strings.Contains(strings.ToLower(message), "invalid credentials"),
		r.status == 401 && strings.Contains(strings.ToLower(message), "invalid username"):
		return say(ClassCredentials, "the hub does not accept the token", "a valid HF_TOKEN, or none: public datasets need none")
	case r.status == 401:
		return say(ClassNotFound, "there is no such repository, or it is private", "check the name; if it is private, "+token)
	case r.status == 403:
		return say(ClassGated, "access is forbidden", "look at "+c.endpoint.String()+"/datasets/REPO for what it asks for, and "+token)
	case r.status == 404 || r.status == 410:
		return say(ClassNotFound, "the hub does not have it", "check the name and the revision")
	}
	return notHub(r, "it answers with a status that no hub gives", nil)
}

// revision asks for the commit that a branch, a tag or another reference is at, and how the hub calls the repository now.
func (c *client) revision(ctx context.Context, repo, revision string) (commit, now string, err error) {
	var info struct {
		SHA string `json:"sha"`
	}
	r, err := c.persistent(ctx, c.address("/api/datasets/"+repo+"/revision/"+escape(revision)), &info)
	if err != nil {
		return "", "", err
	}
	if !commitForm.MatchString(info.SHA) {
		return "", "", notHub(r, "the commit that it names is "+strconv.Quote(printable(info.SHA, 60)), nil)
	}
	if err := sameCommit(r, info.SHA, false); err != nil {
		return "", "", err
	}
	if hexForm.MatchString(revision) && strings.HasPrefix(info.SHA, strings.ToLower(revision)) {
		return "", "", &Error{Class: ClassInvalid, Text: "a part of a commit's name is no revision", Hint: "@" + info.SHA}
	}
	return info.SHA, c.repoOf(r.url, repo), nil
}

// repoOf finds the repository in the address that answered in the end: after a rename it is another than was asked.
func (c *client) repoOf(at *url.URL, asked string) string {
	path := strings.TrimPrefix(at.Path, strings.TrimRight(c.endpoint.Path, "/"))
	for _, lead := range []string{"/api/datasets/", "/datasets/"} {
		if rest, ok := strings.CutPrefix(path, lead); ok {
			if parts := strings.SplitN(rest, "/", 3); len(parts) == 3 && checkRepo(parts[0]+"/"+parts[1]) == nil {
				return parts[0] + "/" + parts[1]
			}
		}
	}
	return asked
}

// sameCommit holds the commit that a reply names against the one that was asked.
func sameCommit(r *reply, commit string, required bool) error {
	got := r.header.Get("X-Repo-Commit")
	switch {
	case got == "" && !required || got == commit:
		return nil
	case !commitForm.MatchString(got):
		return notHub(r, "the answer names no commit", nil)
	}
	return &Error{Class: ClassNotHub, Text: fmt.Sprintf("revision mismatch: %s answers for commit %s, asked was %s", shown(r.url), got, commit), Status: r.status, RequestID: r.requestID()}
}

// pages takes the pages of a listing, entry by entry: what a page claims is memory only once it is within the bounds.
type pages struct {
	files map[string]entry
	bytes int
}

var errLongListing = fmt.Errorf("the listing of the commit is too long: more than %d files, %d pages or %d MiB", maxFiles, maxPages, maxListing>>20)

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
	return &Error{Class: ClassInvalid, Text: errLongListing.Error(), Hint: "the path of a local copy of the files that are meant"}
}

func (l *pages) UnmarshalJSON(page []byte) error {
	if l.bytes += len(page); l.bytes > maxListing {
		return errLongListing
	}
	if len(page) == 0 || page[0] != '[' {
		return errors.New("a page is no list")
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

func (l *pages) add(f pageEntry) error {
	if f.Type == "directory" {
		return nil
	}
	e := entry{Size: f.Size, BlobID: f.OID, XetHash: f.Xet}
	if f.LFS != nil {
		e.SHA256, e.LFSSize, e.Size = f.LFS.OID, f.LFS.Size, f.LFS.Size
	}
	if _, twice := l.files[f.Path]; twice {
		return fmt.Errorf("the listing names a file twice: %q", printable(f.Path, 100))
	}
	if len(l.files) == maxFiles {
		return errLongListing
	}
	l.files[f.Path] = e
	return nil
}

// tree lists a commit, page by page. It returns the repository as the hub calls it now.
func (c *client) tree(ctx context.Context, repo, commit string) (*tree, string, error) {
	l := pages{files: map[string]entry{}}
	at := c.address("/api/datasets/" + repo + "/tree/" + commit + "?recursive=true&expand=false")
	for seen := map[string]bool{}; at != nil; {
		if l.bytes += len(at.String()); len(seen) == maxPages || l.bytes > maxListing {
			return nil, "", longListing()
		}
		seen[at.String()] = true
		r, err := c.persistent(ctx, at, &l)
		if err != nil {
			return nil, "", err
		}
		if err := sameCommit(r, commit, false); err != nil {
			return nil, "", err
		}
		repo = c.repoOf(r.url, repo)
		next, err := c.next(r)
		if err != nil {
			return nil, "", err
		}
		if next != nil && seen[next.String()] {
			return nil, "", notHub(r, "the pages of the listing go round in a circle", nil)
		}
		at = next
	}
	return &tree{Files: l.files}, repo, nil
}

var nextLink = regexp.MustCompile(`<([^>]*)>\s*;[^,]*\brel="?next"?`)

// next finds the address of the next page, which must be of the hub.
func (c *client) next(r *reply) (*url.URL, error) {
	m := nextLink.FindStringSubmatch(strings.Join(r.header.Values("Link"), ","))
	if m == nil {
		return nil, nil
	}
	u, err := r.url.Parse(m[1])
	if err != nil {
		return nil, notHub(r, "the address of the next page cannot be read", nil)
	}
	if u = c.rewrite(u); origin(u) != origin(c.endpoint) || u.User != nil {
		return nil, &Error{Class: ClassNotHub, Text: fmt.Sprintf("%s names %s for the next page, which is not asked", origin(r.url), origin(u)), Status: r.status, RequestID: r.requestID()}
	}
	return u, nil
}

// source is where the bytes of a file come from, and what the hub says of them.
type source struct {
	url  *url.URL
	away bool // not on the hub: a signed address
}

// head asks where a file is to be had, and holds what the hub says of it against the listing. The entry of a file that
// no listing names is filled in from the reply.
func (c *client) head(ctx context.Context, repo, commit, path string, want *entry) (source, error) {
	at := c.address("/datasets/" + repo + "/resolve/" + commit + "/" + escapePath(path))
	r, away, err := c.follow(ctx, request{method: http.MethodHead, url: at, class: "resolvers"}, true)
	if err != nil {
		return source{}, err
	}
	defer r.drop()
	if away == nil && r.status != http.StatusOK {
		return source{}, c.refusal(r)
	}
	if err := metadata(r, away != nil, commit, want); err != nil {
		return source{}, err
	}
	if away != nil {
		return source{away, true}, nil
	}
	return source{r.url, false}, nil
}

// metadata checks the headers of a reply on resolve: those of the file itself, or of the redirect that leads to it.
func metadata(r *reply, redirected bool, commit string, want *entry) error {
	if err := sameCommit(r, commit, true); err != nil {
		return err
	}
	etag := r.header.Get("X-Linked-Etag")
	if etag == "" {
		etag = r.header.Get("ETag")
	}
	etag = strings.Trim(strings.TrimPrefix(etag, "W/"), `"`)
	if !etagForm.MatchString(etag) {
		return notHub(r, "the etag of the file is "+strconv.Quote(printable(etag, 80))+", which is no digest", nil)
	}
	if etag != want.etag() {
		return notHub(r, fmt.Sprintf("the file is %s here and %s in the listing of the same commit", etag, want.etag()), nil)
	}
	text := r.header.Get("X-Linked-Size")
	if text == "" && !redirected { // the length of a redirect is that of the redirect
		text = r.header.Get("Content-Length")
	}
	if text == "" {
		return nil // the listing has it
	}
	if size, err := strconv.ParseInt(text, 10, 64); err != nil || size != want.Size {
		return notHub(r, fmt.Sprintf("the file has %s bytes here and %d in the listing of the same commit", printable(text, 30), want.Size), nil)
	}
	return nil
}
