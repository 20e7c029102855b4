package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/agentx/agentx/internal/durable"
)

const (
	maxDuration = 24 * time.Hour // of one Fetch, whatever it waits for
	workers     = 4              // files that are downloaded at a time
)

// Fetch returns the data files of a dataset, or the one file that the reference names, or the files of the tokenizer of a model, on disk and verified (but see
// Options.TrustCached). It resolves the revision to a commit once, and all files are of that commit. Its errors are *Error,
// or those of the context.
func Fetch(ctx context.Context, r Ref, o Options) (*Snapshot, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	j := &job{Options: o.withDefaults(), ref: r, snapshot: &Snapshot{Model: r.Model, Repo: r.Repo, Revision: r.revision()}}
	ctx, cancel := context.WithTimeoutCause(ctx, maxDuration, &Error{Class: ClassUnavailable, Text: fmt.Sprintf("not done within %s", maxDuration), Hint: resumeHint})
	defer cancel()
	if err := j.setUp(ctx); err != nil {
		return nil, j.explain(err, "")
	}
	defer j.client.close()
	if err := j.run(ctx); err != nil {
		return nil, errors.Join(j.explain(err, ""), j.snapshot.Close())
	}
	return j.snapshot, nil
}

const resumeHint = "the same command again: it continues from there"

// job is one call of Fetch.
type job struct {
	Options
	settings
	ref      Ref
	client   *client
	stores   []*store // the caches, in the order in which they are searched
	snapshot *Snapshot

	tree    *tree // listing of the commit; nil where only single files are known
	ownTree bool  // agentx wrote the listing to the cache before this call
	card    *File // README.md, if it was read
	total   int64 // bytes of all files

	mu      sync.Mutex
	writeTo *store // the cache for downloads; nil until the first
}

// run takes the steps of a fetch, from the reference to files on disk.
func (j *job) run(ctx context.Context) error {
	if err := j.resolveCommit(ctx); err != nil {
		return err
	}
	j.OnResolved(j.snapshot)
	if err := j.loadTree(ctx); err != nil {
		return err
	}
	paths, err := selectFiles(ctx, j.ref, &jobContents{ctx, j})
	if err != nil {
		return err
	}
	if err := checkExportDir(j.ExportDir, paths); err != nil {
		return err
	}
	if j.ref.Model {
		if err := j.checkTokenizerSizes(paths); err != nil {
			return err
		}
	}
	if err := j.obtainAll(ctx, paths); err != nil {
		return err
	}
	return j.record()
}

// setUp reads the environment and opens the caches.
func (j *job) setUp(ctx context.Context) (err error) {
	if err := checkExportDir(j.ExportDir, nil); err != nil {
		return err
	}
	if j.settings, err = j.Env.settings(j.ref.kind()); err != nil {
		return err
	}
	logf := j.Logf
	j.Logf = func(format string, args ...any) { logf("%s", redactToken(fmt.Sprintf(format, args...), j.token)) }
	for _, note := range j.notes {
		if note != "" {
			j.Logf("%s", note)
		}
	}
	switch {
	case j.offline != "":
		j.Transport = noNetwork{}
	case j.Transport == nil:
		j.Transport = newTransport(j.authorities)
	}
	var dirs []string
	if j.cacheDir != "" {
		dirs = append(dirs, j.cacheDir)
	}
	if j.CacheRoot != "" {
		dirs = append(dirs, filepath.Join(j.CacheRoot, "hub"))
	}
	if len(dirs) == 0 {
		return &Error{Class: ClassLocalDisk, Text: "there is no directory for downloads: no HF_HUB_CACHE, no HF_HOME, no home directory", Hint: "HF_HUB_CACHE=DIR"}
	}
	for _, dir := range slices.Compact(dirs) {
		j.stores = append(j.stores, openStore(dir, j.ref.kind(), j.ref.Repo, durable.OptionsOf(ctx)))
	}
	j.snapshot.stores = j.stores
	j.client = newClient(j.settings, j.ref.kind(), j.Options)
	return nil
}

// noNetwork is the transport of offline work.
type noNetwork struct{}

func (noNetwork) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("offline")
}

// resolveCommit finds the commit of the revision, which may itself be one. Otherwise it asks the hub. Offline, and when the
// hub fails, it uses the commit that the cache recorded last.
func (j *job) resolveCommit(ctx context.Context) error {
	s := j.snapshot
	if commitForm().MatchString(j.ref.Revision) {
		s.Commit, s.Resolution, s.ResolvedAt = j.ref.Revision, ResolvedByCommit, time.Now()
		return nil
	}
	if j.offline != "" {
		if j.readRefs() {
			return nil
		}
		return &Error{Class: ClassNotCached, Text: "the cache does not say which commit that is", Hint: "once without " + j.offline + ", or @COMMIT"}
	}
	commit, repo, err := j.client.revision(ctx, s.Repo, s.Revision)
	if err == nil {
		s.Commit, s.Resolution, s.ResolvedAt = commit, ResolvedByHub, time.Now()
		j.noteRename(repo)
		return nil
	}
	if hubFailed(err) && ctx.Err() == nil && j.readRefs() {
		j.Logf("%s @ %s: %v: using the last known commit, %s", s.Repo, s.Revision, err, s.Commit[:12])
		return nil
	}
	return err
}

// noteRename notes the name that the hub has for the repository now, if it differs from the one asked for.
func (j *job) noteRename(repo string) {
	if repo != "" && repo != j.ref.Repo {
		j.snapshot.RenamedTo = repo
	}
}

// currentRepo returns the repository as the hub calls it, as far as that is known.
func (j *job) currentRepo() string { return cmp.Or(j.snapshot.RenamedTo, j.snapshot.Repo) }

// readRefs sets the commit to that of the newest reference in the caches. It reports whether there is one.
func (j *job) readRefs() bool {
	s := j.snapshot
	for _, st := range j.stores {
		if commit, at, ok := st.ref(s.Revision); ok && (s.Commit == "" || at.After(s.ResolvedAt)) {
			s.Commit, s.Resolution, s.ResolvedAt = commit, ResolvedByLocalRef, at
		}
	}
	return s.Commit != ""
}

// loadTree takes the listing of the commit from a cache or from the hub. Without one, single files may still be found by
// their links.
func (j *job) loadTree(ctx context.Context) error {
	for _, st := range j.stores {
		if t, ok := st.tree(j.snapshot.Commit); ok {
			j.tree = t
			if j.ownTree = t.Writer == treeWriter; j.ownTree {
				break
			}
		}
	}
	if j.tree != nil || j.offline != "" {
		return nil
	}
	t, repo, err := j.client.listTree(ctx, j.currentRepo(), j.snapshot.Commit)
	if err == nil {
		j.tree = t
		j.noteRename(repo)
		return nil
	}
	if hubFailed(err) && ctx.Err() == nil {
		if _, selectErr := selectFiles(ctx, j.ref, &jobContents{ctx, j}); selectErr == nil { // every selected file is linked
			j.Logf("%s: %v: using the files of commit %s in the cache", j.ref.Repo, err, j.snapshot.Commit[:12])
			return nil
		}
	}
	return err
}

// obtainAll obtains the selected files. Of files with the same content, it obtains the first before the others, which it then
// finds in the cache. They report the source of the first.
func (j *job) obtainAll(ctx context.Context, paths []string) error {
	j.snapshot.Files = make([]File, len(paths))
	first := map[string]int{} // by etag
	var firsts, duplicates []int
	for k, path := range paths {
		e, err := j.entry(path)
		if err != nil {
			return j.explain(err, path)
		}
		if _, ok := first[e.etag()]; ok {
			duplicates = append(duplicates, k)
		} else {
			first[e.etag()] = k
			firsts = append(firsts, k)
		}
		j.total += e.Size
	}
	for _, numbers := range [][]int{firsts, duplicates} {
		if err := j.obtainEach(ctx, paths, numbers); err != nil {
			return err
		}
	}
	for _, k := range duplicates {
		f := &j.snapshot.Files[k]
		f.Source = j.snapshot.Files[first[f.ETag]].Source
	}
	return nil
}

// obtainEach obtains the files with the given indexes, several at a time. The first error cancels the others.
func (j *job) obtainEach(ctx context.Context, paths []string, numbers []int) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for _, k := range numbers {
		group.Go(func() error {
			if inner.Err() != nil {
				return context.Cause(inner)
			}
			f, err := j.obtain(inner, paths[k], false)
			if err != nil {
				return j.explain(err, paths[k])
			}
			j.snapshot.Files[k] = *f
			return nil
		})
	}
	return group.Wait()
}

// explain completes an error with the repository, the revision and a file.
func (j *job) explain(err error, file string) error {
	var e *Error
	if err == nil || !errors.As(err, &e) {
		if err == nil || errors.Is(err, context.Canceled) {
			return err
		}
		e = &Error{Class: ClassLocalDisk, Text: "it cannot be fetched", Err: err}
		if errors.Is(err, ErrBusy) {
			e.Text, e.Hint = "another process is downloading it", "wait longer for that process"
		}
	}
	c := *e
	c.secret = j.token
	if c.Repo == "" {
		j.explainRepo(&c)
	}
	c.File = cmp.Or(c.File, file)
	c.Hint = strings.ReplaceAll(c.Hint, j.ref.kind().page+"REPO", j.ref.kind().page+j.currentRepo())
	c.Hint = strings.ReplaceAll(c.Hint, "OWNER/NAME", j.ref.Repo)
	return &c
}

// explainRepo adds the repository and its revision to an error, and that the fetch was offline.
func (j *job) explainRepo(e *Error) {
	s := j.snapshot
	e.kind = j.ref.kind().word
	e.Repo, e.Revision = s.Repo, s.Revision
	if s.Commit != "" && s.Resolution != ResolvedByCommit {
		e.Revision += " (" + s.Commit[:12] + ")"
	}
	if e.Class == ClassNotCached && s.Commit != "" {
		e.Text += ": commit " + s.Commit
	}
	if e.Class == ClassNotCached && j.offline != "" {
		e.Text, e.Hint = "offline, and "+e.Text, cmp.Or(e.Hint, "once without "+j.offline+": that downloads it"+j.ref.kind().instead)
	}
}
