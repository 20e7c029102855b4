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
	"net/url"
	"regexp"
	"slices"
	"strings"
)

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

var nextLink = regexp.MustCompile(`<([^>]*)>\s*;[^,]*\brel="?next"?`)

// nextPage returns the address of the next page, which must be on the hub; nil after the last one.
func (c *client) nextPage(r *reply) (*url.URL, error) {
	m := nextLink.FindStringSubmatch(strings.Join(r.header.Values("Link"), ","))
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

func (e entry) check() error {
	switch {
	case e.Size < 0 || e.Size > maxFile:
		return fmt.Errorf("the size %d", e.Size)
	case e.SHA256 != "" && len(e.SHA256) != 64 || e.SHA256 == "" && len(e.BlobID) != 40 || !etagForm.MatchString(e.etag()):
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
