package cachestore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/internal/terminal"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// KeyShown is how much of a key is shown, in characters: more than enough to name the cache.
const KeyShown = 12

// WriteTable writes a table of directories for so many columns of a terminal, and the size of all. With parts every size is that of a
// directory alone. There is a column of shards where a dataset has some.
func (all *Overview) WriteTable(w io.Writer, entries []Entry, parts bool, columns int) {
	var table strings.Builder
	t := tabwriter.NewWriter(terminal.Writer(&table), 0, 0, 2, ' ', 0)
	sharded := slices.ContainsFunc(entries, func(e Entry) bool { return e.Shards > 0 })
	column := func(text string) string {
		if !sharded {
			return ""
		}
		return text + "\t"
	}
	fmt.Fprintf(t, "KIND\tKEY\tSIZE\t%sCREATED\tLAST USE\tHELD\tSOURCE\n", column("SHARDS"))
	for _, e := range entries {
		source := e.Source
		if e.Unreadable != "" {
			source = "cannot be read: " + e.Unreadable
		}
		if e.Damaged != "" {
			source = "damaged: " + e.Damaged
		}
		size := e.TotalBytes
		if parts {
			size = e.Bytes
		}
		shards := "-"
		if e.Shards > 0 {
			shards = bytefmt.Digits(e.Shards)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s%s\t%s\t%s\t%s\n", e.Kind, e.Key[:KeyShown], bytefmt.Format(size), column(shards), dateText(e.Created), dateText(e.LastUse), heldText(e.Pinned, e.InUse), terminal.Sanitize(cmp.Or(source, "-")))
	}
	_ = t.Flush()
	for line := range strings.Lines(table.String()) {
		fmt.Fprintln(w, terminal.Cut(strings.TrimSuffix(line, "\n"), columns)) // standard output remembers its errors
	}
	total := all.Parts.Bytes
	for _, e := range all.Datasets {
		total += e.Bytes
	}
	fmt.Fprintf(w, "%s, %s, %s\n", bytefmt.Count(len(all.Datasets), "dataset"), bytefmt.Count(all.Parts.Count, "part"), bytefmt.Format(total))
	if n := all.Unnamed; n.Count > 0 {
		fmt.Fprintf(w, "no dataset names %s of the parts, %s: they are being built, or agentx cache gc frees them\n", bytefmt.Digits(n.Count), bytefmt.Format(n.Bytes))
	}
}

// heldText says in a word or two what keeps gc from a directory.
func heldText(pinned bool, inUse string) string {
	var held []string
	if pinned {
		held = append(held, "pinned")
	}
	if inUse != "" {
		held = append(held, "in use")
	}
	return cmp.Or(strings.Join(held, ", "), "-")
}

// Write writes what is known of a dataset, then of each of its directories, for people.
func (info *Info) Write(w io.Writer) {
	w = terminal.Writer(w)
	pin := "-"
	if info.Pin != nil {
		pin = "by " + info.Pin.String()
	}
	fmt.Fprintf(w, "last use   %s\npinned     %s\nin use     %s\n", dateText(info.LastUse), pin, cmp.Or(info.InUse, "-"))
	for _, d := range info.Directories {
		size, files, whose := d.Manifest.Size(), len(d.Manifest.Files), ""
		if d.Manifest.Kind == mmapcache.DatasetKind { // which has no files of its own
			whose = ", those of its parts"
			for _, part := range info.Directories[1:] {
				size, files = size+part.Manifest.Size(), files+len(part.Manifest.Files)
			}
			if s := info.Shards; s != nil {
				size, files = size+s.Bytes, files+s.Files
			}
		}
		fmt.Fprintf(w, "%s %s\n  path     %s\n  size     %s in %d files%s\n", d.Manifest.Kind, d.Manifest.Key, d.Path, bytefmt.Format(size), files, whose)
		if d.Provenance != nil {
			writeProvenance(w, d.Provenance)
		}
		if d.Manifest.Kind == mmapcache.DatasetKind && info.Shards != nil {
			info.Shards.write(w)
		}
		writeStarts(w, d.Manifest)
		fmt.Fprintf(w, "  made of  %s\n", shortInputs(d.Manifest.PreImage))
		for _, f := range d.Manifest.Files {
			fmt.Fprintf(w, "  %10s  %s\n", bytefmt.Format(f.Size), f.Name)
		}
	}
}

// write says how many shards of a dataset are there, what is wrong with the others, and of each what it holds if they are
// listed.
func (s *Shards) write(w io.Writer) {
	fmt.Fprintf(w, "  shards   %s, %s whole", bytefmt.Digits(s.Total), bytefmt.Digits(s.Whole))
	for _, n := range []struct {
		count int
		state string
	}{{s.Missing, ShardMissing}, {s.Damaged, ShardDamaged}, {s.Unreadable, ShardUnreadable}} {
		if n.count > 0 {
			fmt.Fprintf(w, ", %s %s", bytefmt.Digits(n.count), n.state)
		}
	}
	fmt.Fprintln(w)
	for k, shard := range s.List {
		fmt.Fprintf(w, "  %6d   traces %d to %d, %s turns, %s, %s", k, shard.First, shard.First+shard.Traces-1, bytefmt.Digits(shard.Turns), bytefmt.Format(shard.Bytes), shard.State)
		if shard.Why != "" {
			fmt.Fprintf(w, ": %s", shard.Why)
		}
		fmt.Fprintln(w)
	}
}

// writeStarts says of a structure, or of a dataset of shards, how many of its traces have a recorded start.
func writeStarts(w io.Writer, m *manifest.Manifest) {
	if m.Kind != mmapcache.StructureKind && !mmapcache.HasShards(m) {
		return
	}
	f, err := mmapcache.StructureFactsOf(m)
	switch {
	case err != nil:
		fmt.Fprintf(w, "  arrivals unknown: %v\n", err)
	case f.Starts == 0 && f.Generations[mmapcache.FormatMooncake] > 0:
		fmt.Fprintln(w, "  arrivals missing: an older agentx made this structure; convert again")
	case f.Starts == 0:
		fmt.Fprintln(w, "  arrivals not recorded")
	default:
		fmt.Fprintf(w, "  arrivals recorded of %s of %s traces\n", bytefmt.Digits(f.Starts), bytefmt.Digits(f.Traces))
	}
}

// shortInputs returns a pre-image with no more input files than are shown of a directory.
func shortInputs(preImage []byte) []byte {
	var members map[string]json.RawMessage
	var inputs []any
	if json.Unmarshal(preImage, &members) != nil || json.Unmarshal(members["inputs"], &inputs) != nil || len(inputs) <= sourcesShown {
		return preImage
	}
	members["inputs"], _ = json.Marshal(append(inputs[:sourcesShown], fmt.Sprintf("and %d more", len(inputs)-sourcesShown))) // JSON that was read
	short, _ := json.Marshal(members)
	return short
}

// sourcesShown is how many input files are shown of a directory.
const sourcesShown = 3

func writeProvenance(w io.Writer, p *mmapcache.Provenance) {
	fmt.Fprintf(w, "  created  %s on %s by agentx %s\n", p.Created.Local().Format(time.DateTime), p.Host, p.Agentx)
	for k, s := range p.Sources {
		if k == sourcesShown {
			fmt.Fprintf(w, "  source   and %d more\n", len(p.Sources)-k)
			break
		}
		fmt.Fprintf(w, "  source   %s (%s, sha256 %s)\n", terminal.Sanitize(s.Path), bytefmt.Format(s.Size), s.SHA256)
	}
}

// Write writes a report for people: a line for each thing, but one for all parts of a kind where there are many, then the sum. maxBytes is
// how much was to stay; below 0: any.
func (r *GCReport) Write(w io.Writer, maxBytes int64) {
	removed, swept, freed := "removed", "swept", "freed"
	if r.DryRun {
		removed, swept, freed = "would remove", "would sweep", "would free"
	}
	w = terminal.Writer(w)
	for _, l := range r.Swept {
		fmt.Fprintf(w, "%s  %s  %s, left by %s\n", swept, l.Path, bytefmt.Format(l.Bytes), l.Owner)
	}
	for _, g := range groupsOf(r.Removed, func(m RemovedDirectory) [2]string { return [2]string{m.Kind, m.Why} }) {
		bytes := int64(0)
		for _, m := range g {
			bytes += m.Bytes
		}
		fmt.Fprintf(w, "%s  %-9s  %-*s  %9s  %s\n", removed, g[0].Kind, KeyShown, keysText(len(g), g[0].Key), bytefmt.Format(bytes), g[0].Why)
	}
	for _, g := range groupsOf(r.Kept, KeptDirectory.alike) {
		fmt.Fprintf(w, "kept  %-9s  %-*s  %s\n", filepath.Base(filepath.Dir(g[0].Path)), KeyShown, keysText(len(g), filepath.Base(g[0].Path)), g[0].Why)
	}
	fmt.Fprintf(w, "%s %s, %s stay\n", freed, bytefmt.Format(r.Freed), bytefmt.Format(r.BytesAfter))
	if maxBytes >= 0 && r.BytesAfter > maxBytes {
		fmt.Fprintf(w, "that is more than the limit of %s, but nothing else can be removed\n", bytefmt.Format(maxBytes))
	}
}

// groupedAbove is how many directories that differ in their key alone get a line each.
const groupedAbove = 10

// groupsOf divides a list into groups of one, in its order. Those of one kind and reason, where they are many, are one group, in the
// place of the first.
func groupsOf[T any](list []T, kind func(T) [2]string) (groups [][]T) {
	alike := map[[2]string][]T{}
	for _, x := range list {
		alike[kind(x)] = append(alike[kind(x)], x)
	}
	for k, x := range list {
		switch all := alike[kind(x)]; {
		case len(all) > groupedAbove:
			groups = append(groups, all)
			alike[kind(x)] = nil
		case len(all) > 0:
			groups = append(groups, list[k:k+1])
		}
	}
	return groups
}

func (k KeptDirectory) alike() [2]string { return [2]string{filepath.Dir(k.Path), k.Why} }

// WriteKept writes which directories were to be removed and stay.
func WriteKept(w io.Writer, kept []KeptDirectory) {
	for _, g := range groupsOf(kept, KeptDirectory.alike) {
		what := g[0].Path
		if len(g) > 1 {
			what = fmt.Sprintf("%s directories of %s", bytefmt.Digits(len(g)), filepath.Dir(g[0].Path))
		}
		fmt.Fprintf(terminal.Writer(w), "kept %s: %s\n", what, g[0].Why)
	}
}

// keysText names one directory by the beginning of its key, or says how many there are.
func keysText(n int, key string) string {
	if n == 1 {
		return key[:KeyShown]
	}
	return bytefmt.Digits(n) + " of them"
}

// Verification is what was found of some directories, and removed of what is damaged.
type Verification struct {
	mmapcache.Verification
	Removed []RemovedDirectory `json:"removed,omitempty"`
	Kept    []KeptDirectory    `json:"kept,omitempty"`
}

// Write writes what was found for people: damage and notes, a line each, or that all is whole.
func (all *Verification) Write(w io.Writer, rebuilt, complete bool) {
	w = terminal.Writer(w)
	for _, d := range all.Damages {
		fmt.Fprintf(w, "damaged %s: %s\n", d.File, d.Reason)
	}
	for _, r := range all.Removed {
		fmt.Fprintf(w, "removed %s\n", r.Path)
	}
	for _, k := range all.Kept {
		fmt.Fprintf(w, "kept %s: %s\n", k.Path, k.Why)
	}
	for _, n := range all.Notes {
		fmt.Fprintf(w, "note: %s\n", n)
	}
	if len(all.Damages) > 0 || !complete {
		return
	}
	fmt.Fprintf(w, "whole: %d files, %s", all.Files, bytefmt.Format(all.Bytes))
	if rebuilt {
		fmt.Fprint(w, "; built once more, it is the same")
	}
	fmt.Fprintln(w)
}

// Add verifies a directory, and then removes the parts that are damaged, if asked to. It notes a dataset as in use, so that GC does not
// remove it meanwhile, but does not record a use. whole: nothing is wrong.
func (all *Verification) Add(ctx context.Context, root, kind, key string, remove bool, o RemoveOptions) (whole bool, err error) {
	end := func() {}
	if kind == mmapcache.DatasetKind {
		end = NoteDataset(ctx, root, key).Close
	}
	v, err := mmapcache.VerifyPart(ctx, root, kind, key)
	end() // before anything is removed
	if v == nil {
		return false, err
	}
	all.Files += v.Files
	all.Bytes += v.Bytes
	all.Damages = append(all.Damages, v.Damages...)
	all.Notes = append(all.Notes, v.Notes...)
	if !remove || len(v.Damages) == 0 {
		return err == nil && len(v.Damages) == 0, err
	}
	var parts []mmapcache.Reference
	for _, d := range v.Damages {
		below, err := filepath.Rel(root, d.File) // kind/key, and mostly a file
		if err != nil {
			return false, err
		}
		if names := strings.Split(below, string(filepath.Separator)); len(names) > 1 {
			parts = append(parts, mmapcache.Reference{Kind: names[0], Part: manifest.Part{Key: names[1]}})
		}
	}
	r, removeErr := removeDamaged(ctx, root, parts, o)
	all.Removed = append(all.Removed, r.Removed...)
	all.Kept = append(all.Kept, r.Kept...)
	return false, errors.Join(err, removeErr)
}

// dateText writes a time for people.
func dateText(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04")
}

// CopyReport is what was copied, or built in its place.
type CopyReport struct {
	Built  bool               `json:"built"`
	Bytes  int64              `json:"bytes"` // on disk, all parts
	Copied int64              `json:"bytes_copied"`
	Hit    bool               `json:"hit"`
	Key    string             `json:"key"`
	Parts  map[string]PartHit `json:"parts"` // by kind; of shards see below
	Path   string             `json:"path"`
	Shards *ShardCount        `json:"shards,omitempty"` // nil for a dataset that is no list of shards
	Wall   float64            `json:"wall"`
}

// Write writes the report for people, with a hint before its last line, the path.
func (r *CopyReport) Write(w io.Writer, hint string) {
	what, shards := "copied and verified", ""
	switch {
	case r.Hit:
		what = "hit: there before, nothing copied"
	case r.Built:
		what = "built and verified"
	}
	if n := r.Shards; n != nil {
		shards = fmt.Sprintf(", %s shards (%s found)", bytefmt.Digits(n.Total), bytefmt.Digits(n.Found))
	}
	fmt.Fprintf(w, "%s%s\n%s on disk, %s copied%s\n%s\n%s%s\n", what, FoundText(r.Parts, r.Hit), bytefmt.Format(r.Bytes), bytefmt.Format(r.Copied), shards,
		bytefmt.Seconds(time.Duration(r.Wall*1e9)), hint, r.Path)
}

// FoundText lists the kinds of directory that existed before, " (found: KIND, ...)", or returns "", also where all did.
func FoundText(parts map[string]PartHit, all bool) string {
	kinds := slices.DeleteFunc(mmapcache.Kinds(), func(kind string) bool { return all || !parts[kind].Hit })
	if len(kinds) == 0 {
		return ""
	}
	return " (found: " + strings.Join(kinds, ", ") + ")"
}
