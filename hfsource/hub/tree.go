package hub

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
)

// entry is one file of a listing, under the names that the Python client gives the fields on disk.
type entry struct {
	Size    int64  `json:"size"`                 // bytes of the content
	BlobID  string `json:"blob_id"`              // git's name: of the content, or of an LFS pointer
	SHA256  string `json:"lfs_sha256,omitempty"` // of the content; "" for a file that git itself holds
	LFSSize int64  `json:"lfs_size,omitempty"`
	XetHash string `json:"xet_hash,omitempty"`
}

// etag is the digest of the content by which the hub calls it: sha256, or for a file that git holds git's own.
func (e entry) etag() string {
	if e.SHA256 != "" {
		return e.SHA256
	}
	return e.BlobID
}

// maxFile bounds the size of one file, in bytes: more is nonsense, and sums of such sizes do not overflow.
const maxFile = 1 << 50

func (e entry) check() error {
	switch {
	case e.Size < 0 || e.Size > maxFile:
		return fmt.Errorf("a size of %d", e.Size)
	case e.SHA256 != "" && len(e.SHA256) != 64 || e.SHA256 == "" && len(e.BlobID) != 40 || !etagForm.MatchString(e.etag()):
		return fmt.Errorf("the digest %q", printable(e.etag(), 80))
	}
	return nil
}

// tree is the listing of one commit, as it lies in trees/<commit>.json.
type tree struct {
	Version int              `json:"format_version"` // 1
	Files   map[string]entry `json:"files"`
	Writer  string           `json:"written_by,omitempty"` // of ours only: tells what we fetched from what we adopt
}

const (
	treeVersion = 1
	treeWriter  = "agentx"
)

// parseTree reads a listing from disk. One that is not as it should be counts as absent.
func parseTree(data []byte) (*tree, bool) {
	var t tree
	if json.Unmarshal(data, &t) != nil || t.Version != treeVersion || t.Files == nil {
		return nil, false
	}
	for path, e := range t.Files {
		if checkPath(path) != nil || e.check() != nil {
			return nil, false
		}
	}
	return &t, true
}

// encode writes a listing as the Python client does. A listing with names or digests that are refused is not kept.
func (t *tree) encode() ([]byte, bool) {
	for path, e := range t.Files {
		if checkPath(path) != nil || e.check() != nil {
			return nil, false
		}
	}
	data, err := json.MarshalIndent(tree{treeVersion, t.Files, treeWriter}, "", " ")
	return data, err == nil
}

// paths lists the files by name, in byte order.
func (t *tree) paths() []string {
	list := make([]string, 0, len(t.Files))
	for path := range t.Files {
		list = append(list, path)
	}
	slices.Sort(list)
	return list
}

// checkWanted refuses names that cannot be laid out side by side: hostile ones, twins that some file systems hold for one
// name, and a file that would have to be a directory as well.
func checkWanted(paths []string) error {
	refuse := func(path, text string) error {
		return &Error{Class: ClassInvalid, File: printable(fmt.Sprintf("%q", path), 300), Text: text}
	}
	twins := map[string]string{}
	for _, path := range paths {
		if err := checkPath(path); err != nil {
			return refuse(path, "a name that is not followed: "+err.Error())
		}
		key := norm.NFC.String(strings.ToLower(norm.NFC.String(path)))
		if twin, ok := twins[key]; ok && twin != path {
			return refuse(path, fmt.Sprintf("%q is the same name on some file systems: neither is taken", twin))
		}
		twins[key] = path
	}
	for key, path := range twins {
		for k, c := range key {
			if twin, ok := twins[key[:k]]; ok && c == '/' {
				return refuse(path, fmt.Sprintf("%q is a file and a directory", twin))
			}
		}
	}
	return nil
}
