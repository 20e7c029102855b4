package durable

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A lease says who may make a name. No lock of the file system is in it, for on some network file systems everybody gets
// those.
//
// A claim on NAME is a directory .staging/NAME.GENERATION, which appears by one rename with its holder in it: only one can
// make it. In it lies a directory called by the holder, OWNER, whose name never comes back. That holds a file beat.COUNT,
// which the holder renames to the next count at every heartbeat. Others wait: they list the claim, and when its names have
// not changed for three heartbeats of their own clock, or the holder is a dead process of their own machine, one of them
// makes the claim of the next generation and takes the old holder's directory away. The clocks of two machines are never
// compared. Generations begin at 1 again after a release. So nothing is ever done by the name of a claim alone, but to
// remove it when it is empty: whatever is moved or removed has the name of its owner in its path.
//
// What is being made lies inside the holder's directory, and that is removed for good before a new holder begins. So one
// who was taken over, and may only have been slow, can neither publish nor put anything aside any more: the directory from
// which, or to which, it would rename is gone, by name and on NFS by handle. That is the fence; it needs no agreement and
// no check before the rename.

// DefaultHeartbeat is the time between two heartbeats.
const DefaultHeartbeat = 5 * time.Second

// ErrLost is wrapped by errors of who made something under a lease that another process has taken over.
var ErrLost = errors.New("taken over by another process, which saw no heartbeat of this one")

// ErrBusy is wrapped by the error of Acquire when it may not wait, or not longer.
var ErrBusy = errors.New("being made by another process")

// Waiting says how to wait for a lease that another process holds.
type Waiting struct {
	Limit  time.Duration                             // 0: as long as somebody is at it; below 0: not at all
	Report func(holder string, waited time.Duration) // called several times per heartbeat while it waits; may be nil
}

// Lease is the right to make one name.
type Lease struct {
	root, name string
	path       string // of the holder in the claim
	opts       Options

	mu    sync.Mutex
	count int // of the last heartbeat

	ctx  context.Context
	lose context.CancelCauseFunc
	stop chan struct{}
	done sync.WaitGroup
}

// Acquire returns a lease on name, a plain file name, below root; or nil when made reports that what others were waited
// for is there: it is asked before every look at who is at it, and once more after the lease was got. The caller
// works under the lease's Context, so that what it makes lies under the lease, and ends it with Release.
func Acquire(ctx context.Context, root, name string, made func() (bool, error), w Waiting) (*Lease, error) {
	opts := OptionsOf(ctx)
	opts.Lease = nil // of another name
	if opts.Heartbeat <= 0 {
		opts.Heartbeat = DefaultHeartbeat
	}
	a := acquisition{Lease: Lease{root: filepath.Clean(root), name: name, opts: opts}, begun: time.Now(), holder: "unknown process"}
	for {
		there, err := made()
		if err != nil || there {
			return nil, err
		}
		got, err := a.try()
		if err != nil {
			return nil, fmt.Errorf("lease on %s in %s: %w", name, root, err)
		}
		if got {
			break
		}
		if waited := time.Since(a.begun); w.Limit < 0 || w.Limit > 0 && waited >= w.Limit {
			return nil, fmt.Errorf("%s in %s: %w (%s)", name, root, ErrBusy, a.holder)
		} else if w.Report != nil {
			w.Report(a.holder, waited)
		}
		if err := Sleep(ctx, opts.Heartbeat/looksPerHeartbeat); err != nil {
			return nil, err
		}
	}
	l := &a.Lease
	opts.Lease = l
	l.ctx, l.lose = context.WithCancelCause(WithOptions(ctx, opts))
	l.stop = make(chan struct{})
	l.done.Go(l.keepBeating)
	there, err := made()
	if err != nil || there {
		return nil, errors.Join(err, l.Release())
	}
	return l, nil
}

// looksPerHeartbeat is how often per heartbeat a waiting process looksPerHeartbeat.
const looksPerHeartbeat = 10

// Sleep waits for d. The error is that of a context that ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// acquisition is a lease that is being waited for.
type acquisition struct {
	Lease
	begun  time.Time
	seen   string    // the entries of the claims as last seen
	since  time.Time // they have not changed
	holder string    // for people
}

// claims is what a look at the claims on a name shows: usually one, more while a dead one is being put away.
type claims struct {
	generation int      // the highest; 0: none
	holders    []string // their directories, by path
	entries    string   // all names in them
}

func claimPath(root, name string, generation int) string {
	return filepath.Join(root, StagingDir, fmt.Sprintf("%s.%06d", name, generation))
}

// look lists the claims on the name but one's own. An empty one is of a holder that is ending, or was killed at that, and
// is removed. What is no directory nobody holds; its generation is passed over.
func (a *acquisition) look() (c claims, err error) {
	list, err := os.ReadDir(filepath.Join(a.root, StagingDir))
	if err != nil {
		return c, err
	}
	for _, e := range list {
		number, ours := strings.CutPrefix(e.Name(), a.name+".")
		g, err := strconv.Atoi(number)
		if !ours || err != nil || g <= 0 {
			continue
		}
		if e.IsDir() {
			var held bool
			if held, err = a.lookAtClaim(&c, claimPath(a.root, a.name, g)); err != nil {
				return c, err
			} else if !held {
				continue
			}
		}
		c.generation = max(c.generation, g)
	}
	return c, nil
}

// lookAtClaim adds a claim, if somebody holds it. One that goes away meanwhile has no holder.
func (a *acquisition) lookAtClaim(c *claims, claim string) (held bool, err error) {
	inside, err := os.ReadDir(claim)
	if err != nil && !isGone(err) {
		return false, err
	}
	if len(inside) == 0 {
		_ = os.Remove(claim) // it is not empty any more, or gone: all the same
	}
	for _, e := range inside {
		path := filepath.Join(claim, e.Name())
		if held = true; path == a.path {
			continue
		}
		beats, err := os.ReadDir(path)
		if err != nil && !isGone(err) && !errors.Is(err, syscall.ENOTDIR) {
			return held, err
		}
		c.holders = append(c.holders, path)
		c.entries += path + "\n"
		for _, b := range beats {
			c.entries += b.Name() + "\n"
		}
	}
	return held, nil
}

// isGone reports whether an error says that a file or directory is no more: on NFS also by the name of a handle.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESTALE) }

// try looks once, and claims the name if nobody holds it, or nobody alive.
func (a *acquisition) try() (got bool, err error) {
	begin := time.Now()
	if err := a.opts.mkdirAll(a.root, filepath.Join(a.root, StagingDir)); err != nil {
		return false, err
	}
	a.path = ""
	c, err := a.look()
	if err != nil {
		return false, err
	}
	now := time.Now()
	if c.entries != a.seen || now.Sub(begin) > a.opts.Heartbeat { // a server that did not answer us did not answer the holder either
		a.seen, a.since = c.entries, now
	}
	if len(c.holders) > 0 {
		silent := now.Sub(a.since) >= 3*a.opts.Heartbeat-a.opts.Heartbeat/looksPerHeartbeat
		if dead := a.allDead(c); !silent && !dead {
			return false, nil
		}
	}
	if err := a.claim(c.generation + 1); errors.Is(err, fs.ErrExist) {
		return false, nil // another one was faster
	} else if err != nil {
		return false, err
	}
	err = a.removeDead(c)
	if err == nil {
		return true, nil
	}
	if failed := a.removeClaim(); !errors.Is(err, errAlive) {
		return false, errors.Join(err, failed)
	} else if failed != nil {
		return false, failed
	}
	return false, nil
}

// allDead reports whether all holders are processes of this machine that are known to be dead.
func (a *acquisition) allDead(c claims) bool {
	dead := true
	for _, path := range c.holders {
		who, known := parseOwner(filepath.Base(path))
		if dead = dead && known && who.dead(); known {
			a.holder = who.describe()
		}
	}
	return dead
}

// claim makes the claim of a generation. It is made whole under another name, so that nobody finds one without a holder.
func (a *acquisition) claim(generation int) error {
	claim := claimPath(a.root, a.name, generation)
	if err := a.opts.step("claim", claim); err != nil {
		return err
	}
	made, me := filepath.Join(a.root, StagingDir, newOwner().fileName()), newOwner().fileName()
	err := os.MkdirAll(filepath.Join(made, me), 0o777)
	if err == nil {
		matchMode(filepath.Dir(made), made)
		matchMode(made, filepath.Join(made, me))
		err = a.writeFirstHeartbeat(filepath.Join(made, me))
	}
	if err == nil {
		err = rename(made, claim)
	}
	if err != nil {
		return errors.Join(err, removeAll(made))
	}
	a.path = filepath.Join(claim, me)
	return nil
}

// writeFirstHeartbeat leaves the first beat.
func (a *acquisition) writeFirstHeartbeat(dir string) error {
	beat := beatPath(dir, 0)
	if err := a.opts.step("create", beat); err != nil {
		return err
	}
	f, err := os.OpenFile(beat, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	return f.Close()
}

var errAlive = errors.New("the holder is alive")

// removeDead puts the dead ones away, if those that were judged are still as they were, and nobody has come since: what was
// seen may be old news by the time that the claim is made. They are put into one's own, so that who takes over from this
// process, should it be killed meanwhile, removes them before it begins.
func (a *acquisition) removeDead(judged claims) error {
	now, err := a.look()
	if err != nil {
		return err
	}
	if now.entries != judged.entries {
		return errAlive
	}
	for _, path := range judged.holders {
		if err := removeThrough(path, a.path, a.opts); err != nil {
			return fmt.Errorf("claim of %s cannot be put away: %w", a.holder, err)
		}
		_ = os.Remove(filepath.Dir(path)) // if it is empty
	}
	return nil
}

// removeClaim removes one's own from the claim, and the claim.
func (l *Lease) removeClaim() error {
	if err := removeThrough(l.path, filepath.Join(l.root, StagingDir), Options{}); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(l.path)) // by whoever looks at it next, if not
	return nil
}

// removeThrough removes a directory from sight by one rename into another one, and then for good. One that is gone is fine.
func removeThrough(path, into string, opts Options) error {
	trash := filepath.Join(into, newOwner().fileName())
	if err := opts.step("rename", path); err != nil {
		return err
	}
	if err := rename(path, trash); err != nil {
		if isGone(err) {
			return nil
		}
		return err
	}
	return removeAll(trash)
}

// removeAll removes a directory for good. Into the claim of one who is only slow, that one may still be writing, so it is
// tried some times. What an NFS client keeps under another name, .nfs*, because a process on it has the file open, is
// nobody's any more, and swept when that process is gone.
func removeAll(path string) (err error) {
	for range 10 {
		if err = os.RemoveAll(path); err == nil || onlyKept(path) {
			return nil
		}
		if !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return err
}

// onlyKept reports whether a directory holds files that an NFS client keeps, and no others.
func onlyKept(path string) bool {
	files := 0
	err := filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			if files++; !strings.HasPrefix(e.Name(), ".nfs") {
				return fs.ErrExist
			}
		}
		return err
	})
	return err == nil && files > 0
}

// rename is os.Rename for a file system whose answer can be lost: what was done already is not there to be done again.
func rename(from, to string) error {
	was, lost := os.Lstat(from)
	err := move(from, to)
	if err != nil && isGone(err) && lost == nil {
		if now, statErr := os.Lstat(to); statErr == nil && os.SameFile(was, now) {
			return nil
		}
	}
	return err
}

func beatPath(dir string, count int) string {
	return filepath.Join(dir, fmt.Sprintf("beat.%06d", count))
}

// keepBeating beats until Release, or until the lease is lost.
func (l *Lease) keepBeating() {
	t := time.NewTicker(l.opts.Heartbeat)
	defer t.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-t.C:
		}
		if !l.renew() {
			l.lose(fmt.Errorf("%s in %s: %w", l.name, l.root, ErrLost))
			return
		}
	}
}

// renew beats once. It reports false when the claim is another's or no more; an error that leaves that open is tried
// again at the next beat.
func (l *Lease) renew() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opts.step("beat", l.path) != nil {
		return true
	}
	from, to := beatPath(l.path, l.count), beatPath(l.path, l.count+1)
	err := move(from, to)
	if errors.Is(err, syscall.ESTALE) { // of a handle that this machine remembers: by name it may be there
		err = move(from, to)
	}
	if isGone(err) { // lost, or the answer to an earlier rename was
		_, err = os.Lstat(to)
	}
	if err == nil {
		l.count++
	}
	return !isGone(err)
}

// Context ends when the lease is lost, with a cause that wraps ErrLost, or when the context given to Acquire does. Its
// options hold the lease: what is made under it can be published only while the lease is held.
func (l *Lease) Context() context.Context { return l.ctx }

// asLost turns the error of a path under the claim that is no more into one that wraps ErrLost, and returns any other
// as it is. A nil lease has nothing to lose.
func (l *Lease) asLost(err error) error {
	if l == nil || !isGone(err) || l.renew() {
		return err
	}
	return fmt.Errorf("%s in %s: %w: %w", l.name, l.root, ErrLost, err)
}

// Release ends the lease and removes what was left under it. One that was lost leaves what the new holder has alone.
// After an error the claim stays until it expires, or Sweep finds its holder dead.
func (l *Lease) Release() error {
	close(l.stop)
	l.done.Wait()
	defer l.lose(nil)
	if err := l.opts.step("release", l.path); err != nil {
		return err
	}
	return l.removeClaim()
}
