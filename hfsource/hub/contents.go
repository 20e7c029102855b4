package hub

import (
	"context"
	"fmt"
	"io"
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
