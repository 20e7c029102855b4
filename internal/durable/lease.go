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

// A lease says which process may make a name. It uses no lock of the file system: some network file systems grant
// such a lock to every process that asks.
//
// A claim on NAME is a directory .staging/NAME.GENERATION. It appears by one rename with its holder in it, so that only
// one process can make it. The holder is a directory OWNER, whose name is never used again. It contains a file beat.COUNT,
// which the holder renames to the next count at every heartbeat. Waiting processes list the claim. When its names have not
// changed for three heartbeats of their own clock, or the holder is a dead process of their own machine, one of them makes
// the claim of the next generation and takes the old holder's directory away. Clocks of two machines are never compared.
// Generations begin at 1 again after a release. So no process ever acts on the name of a claim alone, except to remove an
// empty one: whatever it moves or removes has the name of its owner in its path.
//
// What the holder makes lies inside its directory, which is removed for good before a new holder begins. A holder that was
// taken over, and may only have been slow, can then neither publish nor put anything aside: the directory from which, or
// to which, it would rename is gone, by name and on NFS by handle. This is the fence. It needs no agreement, and no check
// before the rename.

// DefaultHeartbeat is the time between two heartbeats.
const DefaultHeartbeat = 5 * time.Second

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

// Context ends when the lease is lost, with a cause that wraps ErrLost, or when the context given to Acquire does. Its
// options hold the lease: what is made under it can be published only while the lease is held.
func (l *Lease) Context() context.Context { return l.ctx }

// Release ends the lease and removes what was left under it. If the lease was lost, it leaves the new holder's directory
// alone. After an error the claim stays until it expires, or Sweep finds its holder dead.
func (l *Lease) Release() error {
	close(l.stop)
	l.done.Wait()
	defer l.lose(nil)
	if err := l.opts.step("release", l.path); err != nil {
		return err
	}
	return l.removeClaim()
}

// removeClaim removes the holder's directory from the claim, and the claim.
func (l *Lease) removeClaim() error {
	if err := removeThrough(l.path, filepath.Join(l.root, StagingDir), Options{}); err != nil {
		return err
	}
	_ = os.Remove(filepath.Dir(l.path)) // if this fails, the next process that looks at it does
	return nil
}

// asLost makes an error about a missing path wrap ErrLost if the lease is lost. It returns any other error as it is. A nil
// lease cannot be lost.
func (l *Lease) asLost(err error) error {
	if l == nil || !isGone(err) || l.renew() {
		return err
	}
	return fmt.Errorf("%s in %s: %w: %w", l.name, l.root, ErrLost, err)
}

func heartbeatPath(dir string, count int) string {
	return filepath.Join(dir, fmt.Sprintf("beat.%06d", count))
}

// keepBeating beats until Release, or until the lease is lost.
func (l *Lease) keepBeating() {
	every(l.opts.Heartbeat, l.stop, func() bool {
		held := l.renew()
		if !held {
			l.lose(fmt.Errorf("%s in %s: %w", l.name, l.root, ErrLost))
		}
		return held
	})
}

// every calls do at every beat until stop is closed, or do reports false.
func every(beat time.Duration, stop <-chan struct{}, do func() bool) {
	t := time.NewTicker(beat)
	defer t.Stop()
	for goOn := true; goOn; {
		select {
		case <-stop:
			return
		case <-t.C:
			goOn = do()
		}
	}
}

// renew beats once. It reports false when the claim is another's or no longer exists. After any other error it reports
// true, and the next heartbeat tries again.
func (l *Lease) renew() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.opts.step("beat", l.path) != nil {
		return true
	}
	from, to := heartbeatPath(l.path, l.count), heartbeatPath(l.path, l.count+1)
	err := move(from, to)
	if errors.Is(err, syscall.ESTALE) { // of a handle that this machine remembers: the name may still exist
		err = move(from, to)
	}
	if isGone(err) { // the lease is lost, or the answer to an earlier rename was
		_, err = os.Lstat(to)
	}
	if err == nil {
		l.count++
	}
	return !isGone(err)
}

// Holder is the process that holds a lease.
type Holder struct {
	Who  string // in words
	Dead bool   // it is a process of this machine that has ended; of another machine that is unknown
}

// Holders returns the holders of all leases of a root, by the name of the lease. It takes no lease and waits for none.
func Holders(root string) (map[string]Holder, error) {
	holders := map[string]Holder{}
	staging := filepath.Join(root, StagingDir)
	claims, err := os.ReadDir(staging) // sorted: of two generations the newer one is last
	if err != nil {
		if isGone(err) {
			err = nil
		}
		return holders, err
	}
	for _, claim := range claims {
		if !isClaim(claim.Name()) || !claim.IsDir() {
			continue
		}
		inside, err := os.ReadDir(filepath.Join(staging, claim.Name()))
		if err != nil && !isGone(err) {
			return holders, err
		}
		for _, e := range inside {
			if who, ok := parseOwner(e.Name()); ok {
				holders[claim.Name()[:strings.LastIndexByte(claim.Name(), '.')]] = Holder{who.describe(), who.dead()}
			}
		}
	}
	return holders, nil
}

// Errors that a caller may act on. They are wrapped: use errors.Is.
var (
	// ErrLost is wrapped by errors of a process whose lease another process has taken over.
	ErrLost = errors.New("taken over by another process, which saw no heartbeat of this one")

	// ErrBusy is wrapped by the error of Acquire when the wait is over, or not allowed.
	ErrBusy = errors.New("being made by another process")
)

// FullError says in one line that a disk has no room left.
type FullError struct {
	Text string
	Hint string // what to try; "" where it is the disk of a cache root
	Err  error
}

func (e *FullError) Error() string { return e.Text }

func (e *FullError) Unwrap() error { return e.Err }

// Waiting says how to wait for a lease that another process holds.
type Waiting struct {
	Limit  time.Duration                             // 0: as long as a process holds it; below 0: not at all
	Report func(holder string, waited time.Duration) // called several times per heartbeat of the wait; may be nil
}

// Acquire returns a lease on name, a plain file name, below root; or nil when made reports that the name exists. It calls
// made before every look at the claims, and once more after it got the lease. The caller works under the lease's Context,
// so that what it makes lies under the lease, and ends it with Release.
func Acquire(ctx context.Context, root, name string, made func() (bool, error), w Waiting) (*Lease, error) {
	opts := OptionsOf(ctx)
	opts.Lease = nil // of another name
	if opts.Heartbeat <= 0 {
		opts.Heartbeat = DefaultHeartbeat
	}
	a := acquisition{Lease: Lease{root: filepath.Clean(root), name: name, opts: opts}, begun: time.Now(), holder: "unknown process"}
	for {
		exists, err := made()
		if err != nil || exists {
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
	exists, err := made()
	if err != nil || exists {
		return nil, errors.Join(err, l.Release())
	}
	return l, nil
}

// looksPerHeartbeat is how often a waiting process looks at the claims.
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

// acquisition is a lease that this process waits for.
type acquisition struct {
	Lease
	begun  time.Time
	seen   string    // the entries of the claims at the last look
	since  time.Time // they have not changed
	holder string    // for messages
}

// claims is what a look at the claims on a name shows: usually one, several while a dead holder is being removed.
type claims struct {
	generation int      // the highest; 0: none
	holders    []string // paths of their directories
	entries    string   // all names in them
}

func claimPath(root, name string, generation int) string {
	return filepath.Join(root, StagingDir, fmt.Sprintf("%s.%06d", name, generation))
}

// look lists the claims on the name, without this process's own. It removes an empty claim, whose holder is ending or was
// killed while it ended. It passes over the generation of anything that is no directory.
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

// lookAtClaim adds a claim that has a holder. One that disappears meanwhile has none.
func (a *acquisition) lookAtClaim(c *claims, claim string) (held bool, err error) {
	inside, err := os.ReadDir(claim)
	if err != nil && !isGone(err) {
		return false, err
	}
	if len(inside) == 0 {
		_ = os.Remove(claim) // it fails if the claim is no longer empty, or gone: both are fine
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

// try looks once, and claims the name if it has no holder, or a dead one.
func (a *acquisition) try() (got bool, err error) {
	begin := time.Now()
	if err := a.opts.mkdirShared(a.root, filepath.Join(a.root, StagingDir)); err != nil {
		return false, err
	}
	a.path = ""
	c, err := a.look()
	if err != nil {
		return false, err
	}
	now := time.Now()
	if c.entries != a.seen || now.Sub(begin) > a.opts.Heartbeat { // a server this slow did not answer the holder either
		a.seen, a.since = c.entries, now
	}
	if len(c.holders) > 0 {
		silent := now.Sub(a.since) >= 3*a.opts.Heartbeat-a.opts.Heartbeat/looksPerHeartbeat
		if dead := a.allDead(c); !silent && !dead {
			return false, nil
		}
	}
	if err := a.claim(c.generation + 1); errors.Is(err, fs.ErrExist) {
		return false, nil // another process was faster
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

// claim makes the claim of a generation. It makes it whole under another name, so that no claim is ever seen without a
// holder.
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

// writeFirstHeartbeat creates the file of the holder that heartbeats rename.
func (a *acquisition) writeFirstHeartbeat(dir string) error {
	beat := heartbeatPath(dir, 0)
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

// removeDead removes the holders that were judged dead, if a new look shows the same entries: by the time the claim is
// made, the first look may be outdated. It moves them into this process's directory, so that a process that takes over
// from this one, should it be killed meanwhile, removes them before it begins. What it may not remove, because it belongs to
// another user, stays if its process is gone for good: that can publish nothing.
func (a *acquisition) removeDead(judged claims) error {
	now, err := a.look()
	if err != nil {
		return err
	}
	if now.entries != judged.entries {
		return errAlive
	}
	for _, path := range judged.holders {
		err := removeThrough(path, a.path, a.opts)
		if foreign := (*ForeignError)(nil); errors.As(err, &foreign) && a.isGoneForGood(path) {
			continue
		}
		if err != nil {
			return fmt.Errorf("claim of %s cannot be removed: %w", a.holder, err)
		}
		_ = os.Remove(filepath.Dir(path)) // if it is empty
	}
	return nil
}

// isGoneForGood reports whether the process of a holder has ended. What it has just written itself tells the time by the clock of the
// file system.
func (a *acquisition) isGoneForGood(holder string) bool {
	who, ok := parseOwner(filepath.Base(holder))
	was, err := os.Lstat(holder)
	now, nowErr := os.Lstat(a.path)
	return ok && err == nil && nowErr == nil && who.leftBehind(now.ModTime().Sub(was.ModTime()), a.opts.Heartbeat)
}
