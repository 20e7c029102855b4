// Package hub brings datasets from the Hugging Face hub to disk: pinned to a commit, verified, resumed, in the layout of
// the hub's own cache, so that the Python tools find them and what they have fetched is not fetched again.
//
// Fetch is all of it. ref.go reads what is asked for (meant.go guesses, where it cannot be read); env.go the variables that the Python tools have, too; client.go makes
// requests (pace.go when); metadata.go asks for commits, listings and addresses; select.go decides which files are the data;
// store.go is the cache on disk; download.go brings one file.
//
// No byte counts before its digest is right: sha256 for what lies in LFS, git's own digest for the rest. What the server
// names, be it a path, a digest or an address, is hostile until it was checked.
package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentx/agentx/internal/durable"
)

// Options are what Fetch needs besides the reference. The zero value works.
type Options struct {
	// CacheRoot is the cache root of agentx: hub/ below it is used where the hub's own cache cannot be written. It may be "".
	CacheRoot string
	// TrustCached leaves LFS files that are there unread and unopened, but for their size: who reads them holds what they give
	// against SHA256. Otherwise every file is read.
	TrustCached bool
	// ExportDir is where LayOut is to put copies, if it is not "": what is in their way there is found before the download.
	ExportDir string
	// Version of the program, for the User-Agent.
	Version string

	// Progress is called as bytes arrive or are found, from several goroutines, with their number and that of all; may be nil.
	Progress func(n, total int64)
	// OnResolved is called once, when the commit is known; may be nil.
	OnResolved func(*Snapshot)
	// Logf is called with what a person should know: waits, copies that are not used; may be nil.
	Logf func(format string, args ...any)
	// Wait limits how long to wait for another process that downloads the same file. 0 waits as long as that process is
	// alive; below 0 does not wait.
	Wait time.Duration
	// OnWait is called several times per heartbeat while Fetch waits for another process; may be nil.
	OnWait func(holder string, waited time.Duration)

	// Env finds variables of the environment; nil is os.LookupEnv.
	Env LookupEnv
	// Transport carries requests; nil is the network.
	Transport http.RoundTripper

	// rand gives numbers in [0, 1) for the spread of waits; nil is math/rand.
	rand func() float64
	// durable replaces parts of the disk in tests.
	durable durable.Options
}

const (
	deadline = 24 * time.Hour // ends a job, whatever it waits for
	workers  = 4              // files that are downloaded at a time
)

// Source says where the content of a file came from.
type Source string

// The sources of a file.
const (
	FromNetwork      Source = "network" // downloaded now
	FromCache        Source = "cache"   // was there, fetched by agentx before
	FromOtherProgram Source = "adopted" // was there, fetched by another program
)

// File is one file of a snapshot, on disk.
type File struct {
	Path      string // in the repository
	LocalPath string // on disk
	Size      int64  // bytes
	SHA256    string // hex, of the content; "" for a file that git holds and that was not read
	ETag      string // what the hub calls it: SHA256, or git's digest
	Source    Source

	open func() (*os.File, error)
	kept *os.File // the descriptor that was hashed
}

// FileReader is an open file, which can be read in any order.
type FileReader interface {
	io.ReadCloser
	io.ReaderAt
}

// section is the content of a descriptor that stays open.
type section struct{ *io.SectionReader }

func (section) Close() error { return nil }

// Open returns the content: of the very descriptor that was hashed, where one was. It is valid until Snapshot.Close.
func (f *File) Open() (FileReader, error) {
	if f.kept != nil {
		return section{io.NewSectionReader(f.kept, 0, f.Size)}, nil
	}
	return f.open()
}

// Resolution says how a revision was resolved to a commit.
type Resolution string

// The ways to resolve a revision.
const (
	ResolvedByHub      Resolution = "resolved now"
	ResolvedByLocalRef Resolution = "from the local ref"
	ResolvedByCommit   Resolution = "pinned" // it is a commit
)

// Snapshot is a dataset at a commit.
type Snapshot struct {
	Repo       string    // as asked for
	RenamedTo  string    // what the hub calls it now, if that is another name
	Revision   string    // as asked for; "main" where nothing was
	Commit     string    // 40 hex digits
	ResolvedAt time.Time // when the hub named the commit, or the local ref was written
	Resolution Resolution
	Files      []File // the data, in order
	// BytesNetwork is what arrived of the content of Files, what arrived twice twice.
	BytesNetwork int64

	stores []*store
}

// DisplayName is the shown name of a file: hf://datasets/REPO@<12 hex digits>/PATH.
func (s *Snapshot) DisplayName(path string) string {
	return prefix + s.Repo + "@" + s.Commit[:12] + "/" + path
}

// Summary is the line that says what is used.
func (s *Snapshot) Summary() string {
	how := string(s.Resolution)
	if s.Resolution == ResolvedByLocalRef {
		how += ", age " + ago(time.Since(s.ResolvedAt))
	}
	name := s.Repo
	if s.RenamedTo != "" {
		name += " (now " + s.RenamedTo + ")"
	}
	return fmt.Sprintf("dataset %s @ %s -> %s (%s)", name, s.Revision, s.Commit[:12], how)
}

// Close gives descriptors back.
func (s *Snapshot) Close() error {
	var errs []error
	for k := range s.Files {
		if f := s.Files[k].kept; f != nil {
			errs = append(errs, f.Close())
			s.Files[k].kept = nil
		}
	}
	for _, st := range s.stores {
		st.close()
	}
	s.stores = nil
	return errors.Join(errs...)
}

// job is one call of Fetch.
type job struct {
	Options
	settings
	ref    Ref
	c      *client
	stores []*store // where to look, in order
	snap   *Snapshot
	tree   *tree // nil where only single files are known
	known  bool  // the listing was there before, and ours
	card   *File // README.md, if it was read
	asked  string
	total  int64 // bytes of the files

	mu    sync.Mutex
	write *store // where to write; nil as long as nothing was
}

// Fetch brings the data files of a dataset to disk, or the one file that the reference names, and returns them verified.
// Everything is of one commit, to which the revision is resolved once. Its errors are *Error, or those of the context.
func Fetch(ctx context.Context, r Ref, o Options) (*Snapshot, error) {
	j := &job{Options: o, ref: r, asked: r.asked(), snap: &Snapshot{Repo: r.Repo, Revision: r.asked()}}
	ctx, cancel := context.WithTimeoutCause(ctx, deadline, &Error{Class: ClassUnavailable, Text: fmt.Sprintf("not done within %s", deadline), Hint: "the same again: it goes on from there"})
	defer cancel()
	if err := j.setUp(); err != nil {
		return nil, j.explain(err, "")
	}
	defer j.c.close()
	j.snap.stores = j.stores
	if err := j.run(ctx); err != nil {
		return nil, errors.Join(err, j.snap.Close())
	}
	return j.snap, nil
}

func (j *job) setUp() (err error) {
	if j.ExportDir != "" {
		if err := checkExportDir(j.ExportDir, nil); err != nil {
			return err
		}
	}
	if j.Env == nil {
		j.Env = os.LookupEnv
	}
	if j.rand == nil {
		j.rand = rand.Float64
	}
	if j.Logf == nil {
		j.Logf = func(string, ...any) {}
	}
	if j.Progress == nil {
		j.Progress = func(int64, int64) {}
	}
	if j.settings, err = j.Env.settings(); err != nil {
		return err
	}
	notice := j.Logf
	j.Logf = func(format string, args ...any) { notice("%s", hide(fmt.Sprintf(format, args...), j.settings.token)) }
	if j.Transport == nil {
		j.Transport = newTransport()
	}
	if j.offline != "" {
		j.Transport = closed{}
	}
	j.c = newClient(j.settings, j.Options)
	var dirs []string
	if j.cache != "" {
		dirs = append(dirs, j.cache)
	}
	if j.CacheRoot != "" {
		dirs = append(dirs, filepath.Join(j.CacheRoot, "hub"))
	}
	for _, dir := range slices.Compact(dirs) {
		j.stores = append(j.stores, openStore(dir, j.ref.Repo, j.durable))
	}
	if len(j.stores) == 0 {
		return &Error{Class: ClassLocalDisk, Text: "there is no place for downloads: no HF_HUB_CACHE, no HF_HOME, no home directory", Hint: "HF_HUB_CACHE=DIR"}
	}
	return nil
}

// closed is the transport of offline work: it opens nothing.
type closed struct{}

func (closed) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("offline")
}

// explain completes an error with repository, revision and file.
func (j *job) explain(err error, file string) error {
	var e *Error
	if err == nil || !errors.As(err, &e) {
		if err == nil || errors.Is(err, context.Canceled) {
			return err
		}
		e = &Error{Class: ClassLocalDisk, Text: "it cannot be fetched", Err: err}
		if errors.Is(err, durable.ErrBusy) {
			e.Text, e.Hint = "it is being downloaded", "wait for that one: without --no-wait, or with a longer --wait"
		}
	}
	c := *e
	c.secret = j.settings.token
	if c.Repo == "" {
		c.Repo, c.Revision = j.ref.Repo, j.asked
		if j.snap.Commit != "" && j.snap.Resolution != ResolvedByCommit {
			c.Revision += " (" + j.snap.Commit[:12] + ")"
		}
		if c.Class == ClassNotCached && j.snap.Commit != "" {
			c.Text += ": commit " + j.snap.Commit
		}
		if c.Class == ClassNotCached && j.offline != "" {
			c.Text, c.Hint = "offline, and "+c.Text, cmp.Or(c.Hint, "once without "+j.offline+": that downloads it")
		}
	}
	if c.File == "" {
		c.File = file
	}
	c.Hint = strings.ReplaceAll(c.Hint, "/datasets/REPO", "/datasets/"+j.name())
	c.Hint = strings.ReplaceAll(c.Hint, "OWNER/NAME", j.ref.Repo)
	return &c
}

// name is what the hub calls the repository, as far as that is known.
func (j *job) name() string {
	if j.snap.RenamedTo != "" {
		return j.snap.RenamedTo
	}
	return j.ref.Repo
}

func (j *job) run(ctx context.Context) error {
	if err := j.resolve(ctx); err != nil {
		return j.explain(err, "")
	}
	if j.OnResolved != nil {
		j.OnResolved(j.snap)
	}
	if err := j.list(ctx); err != nil {
		return j.explain(err, "")
	}
	paths, err := choose(ctx, j.ref, &listing{ctx, j})
	if err != nil {
		return j.explain(err, "")
	}
	if j.ExportDir != "" {
		if err := checkExportDir(j.ExportDir, paths); err != nil {
			return j.explain(err, "")
		}
	}
	if err := j.obtainAll(ctx, paths); err != nil {
		return err
	}
	return j.explain(j.settle(), "")
}

// resolve finds the commit.
func (j *job) resolve(ctx context.Context) error {
	s := j.snap
	if commitForm.MatchString(j.ref.Revision) {
		s.Commit, s.Resolution, s.ResolvedAt = j.ref.Revision, ResolvedByCommit, time.Now()
		return nil
	}
	if j.offline != "" {
		if j.localRef() {
			return nil
		}
		return &Error{Class: ClassNotCached, Text: "the cache does not say which commit that is", Hint: "once without " + j.offline + ", or @COMMIT"}
	}
	commit, repo, err := j.c.revision(ctx, j.ref.Repo, j.asked)
	if err == nil {
		s.Commit, s.Resolution, s.ResolvedAt = commit, ResolvedByHub, time.Now()
		j.rename(repo)
		return nil
	}
	if class := classOf(err); (class == ClassUnavailable || class == ClassNotHub) && ctx.Err() == nil && j.localRef() {
		j.Logf("%s @ %s: %v: the commit that it was at last is used", j.ref.Repo, j.asked, err)
		return nil
	}
	return err
}

// rename notes that the hub calls the repository by another name.
func (j *job) rename(repo string) {
	if repo != "" && repo != j.ref.Repo {
		j.snap.RenamedTo = repo
	}
}

// localRef takes the commit that a revision was at when it was last asked: the latest of all places.
func (j *job) localRef() bool {
	s := j.snap
	for _, st := range j.stores {
		if commit, at, ok := st.ref(j.asked); ok && (s.Commit == "" || at.After(s.ResolvedAt)) {
			s.Commit, s.Resolution, s.ResolvedAt = commit, ResolvedByLocalRef, at
		}
	}
	return s.Commit != ""
}

// list finds the files of the commit: the listing on disk, or the hub's. Where there is neither, single files can still be
// found by their links.
func (j *job) list(ctx context.Context) error {
	for _, st := range j.stores {
		if t, ok := st.tree(j.snap.Commit); ok {
			j.tree = t
			if j.known = t.Writer == treeWriter; j.known {
				break
			}
		}
	}
	if j.tree != nil || j.offline != "" {
		return nil
	}
	t, repo, err := j.c.tree(ctx, j.name(), j.snap.Commit)
	if err == nil {
		j.tree = t
		j.rename(repo)
		return nil
	}
	if class := classOf(err); (class == ClassUnavailable || class == ClassNotHub) && ctx.Err() == nil {
		if _, chooseErr := choose(ctx, j.ref, &listing{ctx, j}); chooseErr == nil { // all that is asked for is linked
			j.Logf("%s: %v: the files of commit %s that are here are used", j.ref.Repo, err, j.snap.Commit[:12])
			return nil
		}
	}
	return err
}

// entry returns what is known of a file before it is opened.
func (j *job) entry(path string) (entry, error) {
	if j.tree != nil {
		e := j.tree.Files[path]
		if err := e.check(); err != nil {
			return e, &Error{Class: ClassNotHub, File: path, Text: "the listing gives it " + err.Error(), Hint: "look for a proxy in between, and at HF_ENDPOINT"}
		}
		return e, nil
	}
	for _, st := range j.stores {
		etag, ok := st.linked(j.snap.Commit, path)
		if !ok {
			continue
		}
		if info, ok := st.size(etag); ok {
			if len(etag) == 64 {
				return entry{SHA256: etag, Size: info.Size()}, nil
			}
			return entry{BlobID: etag, Size: info.Size()}, nil
		}
	}
	return entry{}, &Error{Class: ClassNotCached, File: path, Text: notHere}
}

const notHere = "it is not in the cache"

// listing is what choose sees of a job.
type listing struct {
	ctx context.Context
	*job
}

func (l *listing) complete() (*tree, bool) { return l.tree, l.tree != nil }

func (l *listing) has(path string) bool {
	if l.tree != nil {
		_, ok := l.tree.Files[path]
		return ok
	}
	if checkPath(path) != nil {
		return false
	}
	_, err := l.entry(path)
	return err == nil
}

func (l *listing) card() ([]byte, bool, error) {
	if !l.has(card) {
		return nil, false, nil
	}
	e, err := l.entry(card)
	if err != nil {
		return nil, false, err
	}
	if e.Size > maxCard {
		return nil, false, &Error{Class: ClassInvalid, File: card, Text: fmt.Sprintf("it has more than %d bytes", maxCard), Hint: "name the file: hf://datasets/OWNER/NAME/PATH"}
	}
	f, err := l.obtain(l.ctx, card, true)
	if err != nil {
		return nil, false, l.explain(err, card)
	}
	defer func() { _ = f.kept.Close() }()
	l.job.card = f
	r, err := f.Open()
	if err != nil {
		return nil, false, local(card, err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, false, local(card, err)
	}
	return text, true, nil
}

// obtainAll brings the files. Those whose content another one has come after that, and from where it did.
func (j *job) obtainAll(ctx context.Context, paths []string) error {
	j.snap.Files = make([]File, len(paths))
	first := map[string]int{} // by etag
	var firsts, twins []int
	for k, path := range paths {
		e, err := j.entry(path)
		if err != nil {
			return j.explain(err, path)
		}
		if _, twin := first[e.etag()]; twin {
			twins = append(twins, k)
		} else {
			first[e.etag()] = k
			firsts = append(firsts, k)
		}
		j.total += e.Size
	}
	for _, list := range [][]int{firsts, twins} {
		if err := j.obtainThese(ctx, paths, list); err != nil {
			return err
		}
	}
	for _, k := range twins {
		f := &j.snap.Files[k]
		f.Source = j.snap.Files[first[f.ETag]].Source
	}
	return nil
}

// obtainThese brings the files of a list of numbers, several at a time. The first failure ends it for all.
func (j *job) obtainThese(ctx context.Context, paths []string, list []int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var running sync.WaitGroup
	for range min(workers, len(list)) {
		running.Go(func() {
			for n := int(next.Add(1)); n <= len(list) && ctx.Err() == nil; n = int(next.Add(1)) {
				k := list[n-1]
				f, err := j.obtain(ctx, paths[k], false)
				if err != nil {
					cancel(j.explain(err, paths[k]))
					return
				}
				j.snap.Files[k] = *f
			}
		})
	}
	running.Wait()
	return j.explain(context.Cause(ctx), "")
}

// progress tells how much of one file is there, whatever was lost on the way.
type progress struct {
	j    *job
	size int64
	told int64
}

func (p *progress) at(n int64) {
	if n = min(n, p.size); n > p.told {
		p.j.Progress(n-p.told, p.j.total)
		p.told = n
	}
}

// watch looks how far another one's download is.
func (p *progress) watch(st *store, e entry) {
	if info, err := st.root().Lstat(st.in("blobs", e.etag()+incomplete)); err == nil {
		p.at(min(info.Size(), e.Size-1))
	}
}

// obtain returns one file: what is there if its content is right, else a download.
func (j *job) obtain(ctx context.Context, path string, plain bool) (*File, error) {
	e, err := j.entry(path)
	if err != nil {
		return nil, err
	}
	p := &progress{j: j, size: e.Size}
	if plain {
		p.size = 0
	}
	var bad []fs.FileInfo // blobs that are there and are not what their name says
	for again := range 3 {
		f, found, err := j.adopt(ctx, path, e, p, plain)
		if f != nil && again > 0 {
			f.Source = FromCache // another process has brought it
		}
		if f != nil || err != nil {
			return f, err
		}
		bad = append(bad, found...)
		if j.offline != "" || j.tree == nil {
			text := notHere
			if len(bad) > 0 {
				text = "what the cache has of it is damaged: it is not what the hub names"
			}
			return nil, &Error{Class: ClassNotCached, Text: text}
		}
		if f, err = j.download(ctx, path, e, p, plain, bad); f != nil || err != nil {
			return f, err
		}
	}
	return nil, &Error{Class: ClassMismatch, Text: "others are downloading it, and what they leave is not what the hub names: " + e.etag(), Hint: "again, when no other process is at it"}
}

// adopt takes a file that is there, in the first place that has it whole. Bad lists what is there and is wrong.
func (j *job) adopt(ctx context.Context, path string, e entry, p *progress, plain bool) (f *File, bad []fs.FileInfo, err error) {
	for _, st := range j.stores {
		if j.TrustCached && e.SHA256 != "" && !plain {
			if info, ok := st.size(e.etag()); ok && info.Size() == e.Size {
				p.at(e.Size)
				return &File{Path: path, LocalPath: st.place(j.snap.Commit, path, e.etag()), Size: e.Size, SHA256: e.SHA256, ETag: e.etag(), Source: j.found(st),
					open: func() (*os.File, error) {
						f, _, err := st.open("blobs", e.etag())
						return f, err
					}}, nil, nil
			}
		}
		file, at, err := st.blob(j.snap.Commit, path, e.etag())
		if err != nil {
			if !absent(err) {
				j.Logf("%s: the copy in %s is not used: %v", path, st.dir, err)
			}
			continue
		}
		sum, err := verify(ctx, file, e, p)
		if err == nil {
			return &File{Path: path, LocalPath: at, Size: e.Size, SHA256: sum, ETag: e.etag(), Source: j.found(st), kept: file}, nil, nil
		}
		if info, err := file.Stat(); err == nil {
			bad = append(bad, info)
		}
		_ = file.Close()
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		j.Logf("%s: the copy %s is not used: %v", path, at, err)
	}
	return nil, bad, nil
}

// found tells who has fetched what was there.
func (j *job) found(st *store) Source {
	if j.known || st != j.stores[0] {
		return FromCache
	}
	return FromOtherProgram
}

// verify reads a file, holds it against its digest, and returns its sha256.
func verify(ctx context.Context, f *os.File, e entry, p *progress) (sum string, err error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if info.Size() != e.Size {
		return "", fmt.Errorf("hash mismatch: it has %d bytes, the hub names %d", info.Size(), e.Size)
	}
	sums, at := newSums(e), int64(0)
	told := counting(func(n int64) { at += n; p.at(at) })
	_, err = io.CopyBuffer(io.MultiWriter(sums, told), ended{ctx, io.NewSectionReader(f, 0, e.Size)}, make([]byte, 1<<20))
	if err == nil && sums.etag() != e.etag() {
		err = fmt.Errorf("hash mismatch: its digest is %s, the hub names %s", sums.etag(), e.etag())
	}
	return sums.content(), err
}

// writable returns the place to write to: the hub's cache, or if nothing can be written there the one below the cache root.
func (j *job) writable() (*store, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.write != nil {
		return j.write, nil
	}
	var errs []error
	for k, st := range j.stores {
		err := st.prepare()
		if err == nil {
			if k > 0 {
				j.Logf("nothing can be written in %s (%v): downloads go to %s", j.stores[0].dir, errs[0], st.dir)
			}
			j.write = st
			st.sweep()
			return st, j.begin(st)
		}
		errs = append(errs, fmt.Errorf("%s cannot be written: %w", st.dir, err))
		if !unwritable(err) {
			break
		}
	}
	return nil, &Error{Class: ClassLocalDisk, Text: "no cache for the download", Err: errors.Join(errs...), Hint: "HF_HUB_CACHE=DIR, or --cache DIR, of a directory that you may write to"}
}

// begin notes, before the first file, which commit is being brought: the reference, so that "hf cache prune" meanwhile sees
// that the commit is in use, the directory that it refers to, and the listing.
func (j *job) begin(st *store) error {
	if j.snap.Resolution == ResolvedByHub {
		if err := st.setRef(j.asked, j.snap.Commit); err != nil { // only work without the network needs it
			j.Logf("that %s is at commit %s cannot be noted: %v", j.asked, j.snap.Commit, err)
		}
	}
	if err := st.mkdir(st.in("snapshots", j.snap.Commit)); err != nil {
		return local("the snapshot", err)
	}
	if _, ok := st.tree(j.snap.Commit); ok {
		return nil
	}
	if data, ok := j.tree.encode(); ok {
		if err := st.write(data, "trees", j.snap.Commit+".json"); err != nil {
			return local("the listing", err)
		}
	}
	return nil
}

// download brings a file that is not there. One job does it, of this process or another; for the others f is nil, and they
// look again.
func (j *job) download(ctx context.Context, path string, e entry, p *progress, plain bool, bad []fs.FileInfo) (*File, error) {
	st, err := j.writable()
	if err != nil {
		return nil, err
	}
	f, err := j.lease(ctx, st, path, e, p, plain, bad)
	if errors.Is(err, durable.ErrLost) {
		j.Logf("%s: the download was taken over by another process", path)
		return nil, nil
	}
	return f, err
}

// lease downloads a file under the lease on its blob; f is nil when another one has done so.
func (j *job) lease(ctx context.Context, st *store, path string, e entry, p *progress, plain bool, bad []fs.FileInfo) (f *File, err error) {
	waited := false
	waiting := durable.Waiting{Limit: j.Wait, Report: func(holder string, d time.Duration) {
		waited = true
		p.watch(st, e)
		if j.OnWait != nil {
			j.OnWait(holder, d)
		}
	}}
	made := func() (bool, error) {
		info, ok := st.size(e.etag())
		return ok && info.Size() == e.Size && !slices.ContainsFunc(bad, func(b fs.FileInfo) bool { return os.SameFile(info, b) }), nil
	}
	lease, err := durable.Acquire(durable.WithOptions(ctx, j.durable), st.locks(), e.etag(), made, waiting)
	if err != nil || lease == nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lease.Release()) }()
	if _, there := st.size(e.etag()); there {
		j.Logf("%s: %s is replaced by what the hub has", path, st.path("blobs", e.etag()))
	}
	d := &download{c: j.c, s: st, repo: j.name(), commit: j.snap.Commit, path: path, want: e, plain: plain, lease: lease,
		suspect: waited, at: p.at, arrived: func(n int64) {
			if !plain {
				j.mu.Lock()
				j.snap.BytesNetwork += n
				j.mu.Unlock()
			}
		}}
	file, sum, err := d.run(lease.Context())
	if err != nil {
		if cause := context.Cause(lease.Context()); cause != nil && ctx.Err() == nil {
			err = cause // the lease was lost
		}
		return nil, err
	}
	if err := st.link(j.snap.Commit, path, e.etag()); err != nil {
		return nil, errors.Join(local("the snapshot", err), file.Close())
	}
	return &File{Path: path, LocalPath: st.place(j.snap.Commit, path, e.etag()), Size: e.Size, SHA256: sum, ETag: e.etag(), Source: FromNetwork, kept: file}, nil
}

// settle links what was there already.
func (j *job) settle() error {
	if j.offline != "" || j.tree == nil || j.write == nil && slices.ContainsFunc(j.stores, j.noted) {
		return nil
	}
	st, err := j.writable()
	if err != nil {
		j.Logf("what was found cannot be noted: %v", err)
		return nil // all is there and verified
	}
	for _, f := range j.used() {
		if info, ok := st.size(f.ETag); ok && info.Size() == f.Size {
			if err := st.link(j.snap.Commit, f.Path, f.ETag); err != nil {
				return local("the snapshot", err)
			}
			f.LocalPath = st.place(j.snap.Commit, f.Path, f.ETag)
		}
	}
	return nil
}

// used lists the files of the snapshot, and the card.
func (j *job) used() (list []*File) {
	if j.card != nil {
		list = append(list, j.card)
	}
	for k := range j.snap.Files {
		list = append(list, &j.snap.Files[k])
	}
	return list
}

// noted reports whether a place has the listing and links to all files, and refers to the commit.
func (j *job) noted(st *store) bool {
	if _, ok := st.tree(j.snap.Commit); !ok {
		return false
	}
	for _, f := range j.used() {
		etag, ok := st.linked(j.snap.Commit, f.Path)
		copied := strings.HasPrefix(f.LocalPath, st.path("snapshots")+string(filepath.Separator)) // in place of a link
		if !copied && (!ok || etag != f.ETag) {
			return false
		}
	}
	if j.snap.Resolution != ResolvedByHub {
		return true
	}
	commit, _, ok := st.ref(j.asked)
	if !ok || commit != j.snap.Commit {
		return false
	}
	st.touch(j.asked) // best effort
	return true
}
