package hub

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
)

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
