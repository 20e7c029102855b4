package mmapcache

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache/internal/cachedir"
)

// Kinds lists the kinds of directory, parts first.
func Kinds() []string { return append(AllPartKinds(), DatasetKind) }

// AllPartKinds lists the kinds of the parts of any dataset, in the order in which they are published.
func AllPartKinds() []string { return []string{StructureKind, TextsKind, PlacementKind, ArenasKind} }

// PartKinds lists the kinds of the parts of a dataset of traces.
func PartKinds() []string { return []string{StructureKind, PlacementKind, ArenasKind} }

// DatasetPath returns the directory of a dataset.
func DatasetPath(root, key string) string { return filepath.Join(root, DatasetKind, key) }

// contents lists the files of a directory of each kind, without its manifest and provenance.
var contents = map[string][]string{
	StructureKind: {"blocks.arrow", "segments.arrow", "sessions.arrow", "tools.arrow", "traces.arrow", "turns.arrow"},
	TextsKind:     {messagesFile, piecesFile, recordedTextFile},
	PlacementKind: {placementFile},
	ArenasKind:    {idOffsetsFile, idsFile, illFormedFile, splitsFile, textFile, textOffsetsFile, tokensFile},
	DatasetKind:   {},
}

// CheckContents checks that a manifest lists the files and parts that a directory of its kind has, and no others. Errors
// wrap ErrDamaged.
func CheckContents(root string, m *manifest.Manifest) error {
	_, err := checkContents(root, m)
	return err
}

// checkContents checks the files and parts that a manifest lists, as CheckContents does, and returns the facts of a dataset of shards,
// which it has read; the facts of other kinds are empty.
func checkContents(root string, m *manifest.Manifest) (facts DatasetFacts, err error) {
	dir := filepath.Join(root, m.Kind, m.Key)
	wanted := contents[m.Kind]
	for _, f := range m.Files {
		if !slices.Contains(wanted, f.Name) {
			return facts, fmt.Errorf("%s: %w: a %s has no such file", filepath.Join(dir, f.Name), manifest.ErrDamaged, m.Kind)
		}
	}
	for _, name := range wanted {
		if _, ok := m.File(name); !ok {
			return facts, fmt.Errorf("%s: %w: not in the manifest", filepath.Join(dir, name), manifest.ErrDamaged)
		}
	}
	parts, facts, err := namedKinds(m)
	if err != nil {
		return facts, fmt.Errorf("%s: %w", filepath.Join(dir, manifest.FileName), err)
	}
	for _, kind := range parts {
		if _, ok := m.Parts[kind]; !ok {
			return facts, fmt.Errorf("%s: %w: names no %s", dir, manifest.ErrDamaged, kind)
		}
	}
	if len(m.Parts) != len(parts) {
		return facts, fmt.Errorf("%s: %w: names %d parts, want %d", dir, manifest.ErrDamaged, len(m.Parts), len(parts))
	}
	return facts, checkParts(dir, m)
}

// checkParts checks that a dataset names the parts that its key is made of. Errors wrap ErrDamaged.
func checkParts(dir string, m *manifest.Manifest) error {
	if m.Kind != DatasetKind {
		return nil
	}
	for kind, part := range m.Parts {
		if key := memberOf(m.PreImage, kind); key != "" && key != strconv.Quote(part.Key) {
			return fmt.Errorf("%s: %w: names %s %s, but its key is made of %s", dir, manifest.ErrDamaged, kind, part.Key, key)
		}
	}
	return nil
}

// disk reads the directories of a cache, in the format that this program reads.
type disk struct{ cachedir.Disk }

func realDisk() disk { return disk{cachedir.NewDisk()} }

// readManifest reads the manifest of a directory. It checks kind and key against the directory's name, the format, and
// the digest unless that is "". A missing manifest gives an error that matches fs.ErrNotExist.
func (d disk) readManifest(root, kind, key, digest string) (*manifest.Manifest, error) {
	m, err := d.ReadManifest(root, kind, key, digest)
	if err == nil {
		err = CheckFormat(filepath.Join(root, kind, key), m)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// CheckFormat refuses the directory of another format, which is not damage. It accepts a pre-image that names none.
func CheckFormat(dir string, m *manifest.Manifest) error {
	switch f := formatOf(m.PreImage); f {
	case "", strconv.Itoa(FormatNoStarts), strconv.Itoa(FormatStarts), strconv.Itoa(FormatShards), strconv.Itoa(FormatTexts):
		return nil
	default:
		return fmt.Errorf("%s: made in cache format %s: this agentx reads formats %d to %d: convert again, or use the agentx that made it", dir, f, FormatNoStarts, Format)
	}
}

// formatOf returns the format in a pre-image, "" where there is none.
func formatOf(preImage []byte) string { return memberOf(preImage, "format") }

// memberOf returns a member of a pre-image as it is written, "" where there is none. It reads no further, because a long list of inputs
// may follow.
func memberOf(preImage []byte, wanted string) string {
	d := json.NewDecoder(bytes.NewReader(preImage))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return ""
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return ""
		}
		if name == wanted {
			return string(value)
		}
	}
	return ""
}

// Lookup returns the manifest of a directory whose files exist in full size, nil where there is no such directory. It
// does not read the files. An error about damage wraps ErrDamaged.
func Lookup(root, kind, key string) (*manifest.Manifest, error) {
	return realDisk().lookup(root, kind, key, true)
}

// LookupGuarded is Lookup for a directory that is to be used or, where it is damaged, made again. One that everybody may write counts
// as damaged, unless trust. The error about a damaged one that another user alone may replace is a *durable.ForeignError, and does
// not wrap ErrDamaged.
func LookupGuarded(root, kind, key string, trust bool) (*manifest.Manifest, error) {
	m, err := realDisk().lookup(root, kind, key, trust)
	if !errors.Is(err, manifest.ErrDamaged) {
		return m, err
	}
	if foreign := durable.CheckReplaceable(filepath.Join(root, kind, key)); foreign != nil {
		err = fmt.Errorf("%v: %w", err, foreign)
	}
	return nil, err
}

// lookup is Lookup. Without trust it refuses what everybody may write.
func (d disk) lookup(root, kind, key string, trust bool) (*manifest.Manifest, error) {
	dir := filepath.Join(root, kind, key)
	m, err := d.readManifest(root, kind, key, "")
	switch {
	case errors.Is(err, fs.ErrNotExist) && d.Listed(dir):
		return nil, fmt.Errorf("%s: %w: no manifest", dir, manifest.ErrDamaged)
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, syscall.ENOTDIR):
		return nil, fmt.Errorf("%s: %w: no directory", dir, manifest.ErrDamaged)
	case err != nil:
		return nil, err
	}
	if err := checkParts(dir, m); err != nil {
		return nil, err
	}
	for _, path := range []string{dir, filepath.Join(dir, manifest.FileName)} {
		if trust {
			break
		}
		if info, err := d.Stat(path); err == nil && durable.IsOpen(info) {
			return nil, openError(path, info)
		}
	}
	for _, f := range m.Files {
		path := filepath.Join(dir, f.Name)
		var info fs.FileInfo
		err := cachedir.RetryStale(func() (err error) { info, err = d.Stat(path); return err })
		switch {
		case errors.Is(err, fs.ErrNotExist) && !d.Listed(dir): // removed since
			return nil, nil
		case err != nil && !cachedir.IsDamage(err):
			return nil, err
		case err != nil || !info.Mode().IsRegular() || info.Size() != f.Size:
			return nil, fmt.Errorf("%s: %w: missing, or not of %d bytes", path, manifest.ErrDamaged, f.Size)
		case !trust && durable.IsOpen(info):
			return nil, openError(path, info)
		}
	}
	return m, nil
}

// openError says that everybody may write a directory or file.
func openError(path string, info fs.FileInfo) error {
	return fmt.Errorf("%s: %w: every user of this machine may write it (mode %04o; only a trusted root may hold it)", path, manifest.ErrDamaged, info.Mode().Perm())
}
