package hub

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// writable returns the cache for downloads: the hub's, or if that cannot be written the one below the cache root.
func (j *job) writable() (*store, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.writeTo != nil {
		return j.writeTo, nil
	}
	var errs []error
	for k, st := range j.stores {
		err := st.prepare()
		if err == nil {
			if k > 0 {
				j.Logf("nothing can be written in %s (%v): downloads go to %s", j.stores[0].dir, errs[0], st.dir)
			}
			j.writeTo = st
			st.sweep()
			return st, j.recordCommit(st)
		}
		errs = append(errs, fmt.Errorf("%s cannot be written: %w", st.dir, err))
		if !isReadOnly(err) {
			break
		}
	}
	return nil, &Error{Class: ClassLocalDisk, Text: "no cache for the download", Err: errors.Join(errs...), Hint: "HF_HUB_CACHE=DIR, or --cache DIR, of a directory that you may write to"}
}

// recordCommit writes the reference, the snapshot directory and the listing, in this order and before the first file:
// "hf cache prune" removes commits to which no reference points, at any time.
func (j *job) recordCommit(st *store) error {
	s := j.snapshot
	if s.Resolution == ResolvedByHub {
		if err := st.setRef(s.Revision, s.Commit); err != nil { // only offline work needs it
			j.Logf("%s: the commit of %s cannot be recorded: %v", st.dir, s.Revision, err)
		}
	}
	if err := st.mkdir(st.in("snapshots", s.Commit)); err != nil {
		return diskError("the snapshot", err)
	}
	if _, ok := st.tree(s.Commit); ok {
		return nil
	}
	if data, ok := j.tree.encode(); ok {
		if err := st.write(data, "trees", s.Commit+".json"); err != nil {
			return diskError("the listing", err)
		}
	}
	return nil
}

// record links files that were already in the cache into the snapshot directory, unless a cache has recorded all of them.
func (j *job) record() error {
	if j.offline != "" || j.tree == nil || j.writeTo == nil && slices.ContainsFunc(j.stores, j.isRecorded) {
		return nil
	}
	st, err := j.writable()
	if err != nil {
		j.Logf("the files cannot be recorded in the cache: %v", err)
		return nil // all of them are there and verified
	}
	for _, f := range j.usedFiles() {
		if info, ok := st.stat(f.ETag); ok && info.Size() == f.Size {
			if err := st.link(j.snapshot.Commit, f.Path, f.ETag); err != nil {
				return diskError("the snapshot", err)
			}
			f.LocalPath = st.pathOf(j.snapshot.Commit, f.Path, f.ETag)
		}
	}
	return nil
}

// usedFiles returns the files of the snapshot, and the card.
func (j *job) usedFiles() (list []*File) {
	if j.card != nil {
		list = append(list, j.card)
	}
	for k := range j.snapshot.Files {
		list = append(list, &j.snapshot.Files[k])
	}
	return list
}

// isRecorded reports whether a cache has the listing, the links of all files, and a reference to the commit. It marks the
// reference as still correct.
func (j *job) isRecorded(st *store) bool {
	s := j.snapshot
	if _, ok := st.tree(s.Commit); !ok {
		return false
	}
	for _, f := range j.usedFiles() {
		etag, ok := st.linked(s.Commit, f.Path)
		isCopy := strings.HasPrefix(f.LocalPath, st.path("snapshots")+string(filepath.Separator)) // in place of a link
		if !isCopy && (!ok || etag != f.ETag) {
			return false
		}
	}
	if s.Resolution != ResolvedByHub {
		return true
	}
	commit, _, ok := st.ref(s.Revision)
	if !ok || commit != s.Commit {
		return false
	}
	st.touch(s.Revision) // best effort
	return true
}
