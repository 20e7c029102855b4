package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

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
