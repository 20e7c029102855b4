package hub

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

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
