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
	"syscall"
	"time"
)

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
