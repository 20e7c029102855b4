package durable

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// FullError says in one line that a disk has no room left, and what to try.
type FullError struct {
	Text, Hint string
	Err        error
}

func (e *FullError) Error() string { return e.Text }

func (e *FullError) Unwrap() error { return e.Err }
