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
// A claim on NAME is a directory .staging/NAME.GENERATION, made by mkdir, which only one can. The holder keeps a file in
// it, beat.OWNER.COUNT, and renames it to the next count at every heartbeat. Others wait: they list the claim, and when
// its names have not changed for three heartbeats of their own clock, or the holder is a dead process of their own
// machine, one of them makes the claim of the next generation and renames the old one away. The clocks of two machines
// are never compared.
//
// What is being made lies inside the claim, and the old claim is removed for good before the new holder begins. So one
// who was taken over, and may only have been slow, can neither publish nor put anything aside any more: the directory from
// which, or to which, it would rename is gone, by name and on NFS by handle. That is the fence; it needs no agreement and
// no check before the rename.

// DefaultBeat is the time between two heartbeats.
const DefaultBeat = 5 * time.Second

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
	path       string // the claim
	beat       string // prefix of the beat file
	opts       Options

	mu    sync.Mutex
	count int // of the last heartbeat

	ctx  context.Context
	lose context.CancelCauseFunc
	stop chan struct{}
	done sync.WaitGroup
}

// Acquire returns a lease on name, a plain file name, below root; or nil when made reports that what others were waited
// for is there: it is asked before every look at who is at it, and once more after the lease was got. The caller passes
// the lease on in Options, so that what it makes lies under it, works under the lease's Context, and ends it with Release.
func Acquire(ctx context.Context, root, name string, made func() (bool, error), w Waiting, opts Options) (*Lease, error) {
	if opts.Beat <= 0 {
		opts.Beat = DefaultBeat
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
		if err := sleep(ctx, opts.Beat/looks); err != nil {
			return nil, err
		}
	}
	l := &a.Lease
	l.ctx, l.lose = context.WithCancelCause(ctx)
	l.stop = make(chan struct{})
	l.done.Go(l.keep)
	there, err := made()
	if err != nil || there {
		return nil, errors.Join(err, l.Release())
	}
	return l, nil
}

// looks is how often per heartbeat a waiting process looks.
const looks = 10

func sleep(ctx context.Context, d time.Duration) error {
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
	seen   claim     // the claim as last seen
	since  time.Time // it has not changed
	holder string    // for people
}

// claim is what a look at the claims on a name shows: usually one, more while a dead one is being put away.
type claim struct {
	generation int    // the highest; 0: none
	entries    string // names in all of them
}

func claimPath(root, name string, generation int) string {
	return filepath.Join(root, StagingDir, fmt.Sprintf("%s.%06d", name, generation))
}

// look lists the claims on the name. One that goes away meanwhile has no entries.
func (a *acquisition) look() (c claim, owners []owner, all []int, err error) {
	list, err := os.ReadDir(filepath.Join(a.root, StagingDir))
	if err != nil {
		return c, nil, nil, err
	}
	for _, e := range list {
		number, ours := strings.CutPrefix(e.Name(), a.name+".")
		g, err := strconv.Atoi(number)
		if !ours || err != nil || g <= 0 {
			continue
		}
		inside, err := os.ReadDir(claimPath(a.root, a.name, g))
		if err != nil && !gone(err) {
			return c, nil, nil, err
		}
		c.entries += e.Name() + "\n"
		names := ""
		for _, f := range inside {
			names += f.Name() + "\n"
		}
		c.entries += names
		who, _ := holderOf(names)
		all, owners = append(all, g), append(owners, who)
		c.generation = max(c.generation, g)
	}
	return c, owners, all, nil
}

// gone reports whether an error says that a file or directory is no more: on NFS also by the name of a handle.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESTALE) }

// try looks once, and claims the name if nobody holds it, or nobody alive.
func (a *acquisition) try() (got bool, err error) {
	begin := time.Now()
	if err := a.opts.mkdirAll(a.root, filepath.Join(a.root, StagingDir)); err != nil {
		return false, err
	}
	c, owners, all, err := a.look()
	if err != nil {
		return false, err
	}
	now := time.Now()
	if c != a.seen || now.Sub(begin) > a.opts.Beat { // a server that did not answer us did not answer the holder either
		a.seen, a.since = c, now
	}
	if c.generation > 0 {
		dead := true // of this machine, and known to be so
		for _, o := range owners {
			if dead = dead && o.dead(); o.pid != 0 {
				a.holder = o.text()
			}
		}
		silent := now.Sub(a.since) >= 3*a.opts.Beat-a.opts.Beat/looks
		if !silent && !dead {
			return false, nil
		}
	}
	a.path = claimPath(a.root, a.name, c.generation+1)
	if err := a.opts.step("claim", a.path); err != nil {
		return false, err
	}
	if err := os.Mkdir(a.path, 0o777); errors.Is(err, fs.ErrExist) {
		return false, nil // another one was faster
	} else if err != nil {
		return false, err
	}
	openLike(filepath.Dir(a.path), a.path)
	err = a.settle(c, all)
	if errors.Is(err, errAlive) || gone(err) { // gone: this one was so slow that another has cleared its claim away
		if err := os.Remove(a.path); err != nil && !gone(err) && !errors.Is(err, fs.ErrExist) { // or is in it by now
			return false, err
		}
		return false, nil
	}
	if err != nil {
		return false, errors.Join(err, os.RemoveAll(a.path))
	}
	return true, nil
}

var errAlive = errors.New("the holder is alive")

// settle makes a new claim one's own and puts the dead ones away, if those that were judged are still as they were, and
// nobody has come since: what was seen may be old news by the time that the claim is made.
func (a *acquisition) settle(judged claim, dead []int) error {
	a.beat = "beat." + newOwner().String() + "."
	if err := a.opts.step("create", a.beatPath(0)); err != nil {
		return err
	}
	f, err := os.OpenFile(a.beatPath(0), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	now, _, _, err := a.look()
	if err != nil {
		return err
	}
	mine := filepath.Base(a.path) + "\n" + filepath.Base(a.beatPath(0)) + "\n"
	if rest, ok := strings.CutSuffix(now.entries, mine); !ok || rest != judged.entries { // generations are listed in order
		if err := os.Remove(a.beatPath(0)); err != nil && !gone(err) {
			return err
		}
		return errAlive
	}
	for _, g := range dead {
		if err := discard(a.root, claimPath(a.root, a.name, g), a.opts); err != nil {
			return fmt.Errorf("claim of %s cannot be put away: %w", a.holder, err)
		}
	}
	return nil
}

// discard removes a directory from sight by one rename, and then for good. One that is gone is fine.
func discard(root, path string, opts Options) error {
	trash := filepath.Join(root, StagingDir, newOwner().String())
	if err := opts.step("rename", path); err != nil {
		return err
	}
	if err := rename(path, trash); err != nil {
		if gone(err) {
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
	err := os.Rename(from, to)
	if err != nil && gone(err) && lost == nil {
		if now, statErr := os.Lstat(to); statErr == nil && os.SameFile(was, now) {
			return nil
		}
	}
	return err
}

// holderOf finds the owner of a claim among the names in it.
func holderOf(entries string) (owner, bool) {
	for name := range strings.Lines(entries) {
		if rest, ok := strings.CutPrefix(strings.TrimSuffix(name, "\n"), "beat."); ok {
			if dot := strings.LastIndexByte(rest, '.'); dot >= 0 {
				return parseOwner(rest[:dot])
			}
		}
	}
	return owner{}, false
}

func (l *Lease) beatPath(count int) string {
	return filepath.Join(l.path, fmt.Sprintf("%s%06d", l.beat, count))
}

// keep beats until Release, or until the lease is lost.
func (l *Lease) keep() {
	t := time.NewTicker(l.opts.Beat)
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
	err := os.Rename(l.beatPath(l.count), l.beatPath(l.count+1))
	if errors.Is(err, syscall.ESTALE) { // of a handle that this machine remembers: by name it may be there
		err = os.Rename(l.beatPath(l.count), l.beatPath(l.count+1))
	}
	if gone(err) { // lost, or the answer to an earlier rename was
		_, err = os.Lstat(l.beatPath(l.count + 1))
	}
	if err == nil {
		l.count++
	}
	return !gone(err)
}

// Context ends when the lease is lost, with a cause that wraps ErrLost, or when the context given to Acquire does.
func (l *Lease) Context() context.Context { return l.ctx }

// explain turns the error of a path under the claim that is no more into one that wraps ErrLost, and returns any other
// as it is. A nil lease has nothing to lose.
func (l *Lease) explain(err error) error {
	if l == nil || !gone(err) || l.renew() {
		return err
	}
	return fmt.Errorf("%s in %s: %w: %w", l.name, l.root, ErrLost, err)
}

// Release ends the lease and removes what was left under it. One that was lost leaves what the new holder has alone.
func (l *Lease) Release() error {
	close(l.stop)
	l.done.Wait()
	defer l.lose(nil)
	if err := os.Remove(l.beatPath(l.count)); err != nil {
		if gone(err) {
			return nil // lost
		}
		return err
	}
	return discard(l.root, l.path, Options{})
}
