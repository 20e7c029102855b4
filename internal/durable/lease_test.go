package durable

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// never says that the name does not exist.
func never() (bool, error) { return false, nil }

// kill ends the heartbeats of a lease and nothing else, as kill -9 would. It renames the holder to a process of another
// machine, so that only its silence tells this one.
func (l *Lease) kill(t *testing.T) {
	close(l.stop)
	l.done.Wait()
	far := owner{host: "far", boot: "b", pidNamespace: "1", pid: 1, random: newOwner().random}
	l.become(t, far)
	l.stop = make(chan struct{})
}

// become renames the holder of a lease to another owner.
func (l *Lease) become(t *testing.T, other owner) {
	path := filepath.Join(filepath.Dir(l.path), other.fileName())
	require.NoError(t, os.Rename(l.path, path))
	l.path = path
}

// hold makes the claim of an owner that has never beaten.
func hold(t *testing.T, root string, generation int, who owner) {
	require.NoError(t, os.MkdirAll(filepath.Join(claimPath(root, "thing", generation), who.fileName()), 0o777))
	require.NoError(t, os.WriteFile(heartbeatPath(filepath.Join(claimPath(root, "thing", generation), who.fileName()), 0), nil, 0o666))
}

func far() owner { return as(func(o *owner) { o.host, o.boot = "h", "b" }) }

// revive lets a killed lease beat again, as if its process had only been slow.
func (l *Lease) revive() { l.done.Go(l.keepBeating) }

func acquire(t *testing.T, root string, w Waiting) *Lease {
	t.Helper()
	l, err := Acquire(t.Context(), root, "thing", never, w)
	require.NoError(t, err)
	return l
}

func TestOneHolderAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		var holders, most, got atomic.Int32
		for range 8 {
			go func() {
				l := acquire(t, root, Waiting{})
				most.Store(max(most.Load(), holders.Add(1)))
				time.Sleep(20 * time.Second) // four heartbeats: nobody takes it for dead
				holders.Add(-1)
				got.Add(1)
				assert.NoError(t, l.Context().Err())
				assert.NoError(t, l.Release())
			}()
		}
		synctest.Wait()
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		assert.EqualValues(t, 8, got.Load())
		assert.EqualValues(t, 1, most.Load())
		assert.Empty(t, staging(t, root))
	})
}

// A waiting process learns which process it waits for, and uses what that one made.
func TestWaitingEndsWhenItIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		first := acquire(t, root, Waiting{})
		var made atomic.Bool
		reports := 0
		go func() {
			time.Sleep(10 * time.Minute)
			made.Store(true)
		}()
		begin := time.Now()
		l, err := Acquire(t.Context(), root, "thing", func() (bool, error) { return made.Load(), nil }, Waiting{Report: func(holder string, waited time.Duration) {
			reports++
			assert.Equal(t, thisProcess().describe(), holder)
			assert.Equal(t, time.Since(begin), waited)
		}})
		require.NoError(t, err)
		assert.Nil(t, l)
		assert.InDelta(t, 600, time.Since(begin).Seconds(), 0.6)
		assert.InDelta(t, 1200, reports, 2)
		require.NoError(t, first.Release())
		l, err = Acquire(t.Context(), root, "thing", func() (bool, error) { return true, nil }, Waiting{})
		require.NoError(t, err)
		assert.Nil(t, l)
		assert.Empty(t, staging(t, root))
	})
}

// A name that was made between the last look and the claim is found after the claim.
func TestMadeIsAskedOnceMoreAfterTheClaim(t *testing.T) {
	root, asked := t.TempDir(), 0
	l, err := Acquire(t.Context(), root, "thing", func() (bool, error) { asked++; return asked == 2, nil }, Waiting{})
	require.NoError(t, err)
	assert.Nil(t, l)
	assert.Equal(t, 2, asked)
	assert.Empty(t, staging(t, root))

	broken := errors.New("broken")
	asked = 0
	_, err = Acquire(t.Context(), root, "thing", func() (bool, error) {
		if asked++; asked == 2 {
			return false, broken
		}
		return false, nil
	}, Waiting{})
	require.ErrorIs(t, err, broken)
	assert.Empty(t, staging(t, root))
}

// A killed holder of another machine is replaced within three heartbeats: nothing but its silence is known.
//
// Covers F9.
func TestKilledHolderIsReplacedWithinThreeHeartbeats(t *testing.T) {
	for _, into := range []time.Duration{0, time.Second, DefaultHeartbeat - 1, DefaultHeartbeat} {
		synctest.Test(t, func(t *testing.T) {
			root := t.TempDir()
			first := acquire(t, root, Waiting{})
			result := make(chan *Lease)
			go func() { result <- acquire(t, root, Waiting{}) }() // it is waiting already
			time.Sleep(2*time.Minute + into)
			synctest.Wait()
			first.kill(t)
			killed := time.Now()
			second := <-result
			assert.LessOrEqual(t, time.Since(killed), 3*DefaultHeartbeat)
			assert.Greater(t, time.Since(killed), 2*DefaultHeartbeat, "a late heartbeat is not death")
			third := time.Now()
			second.kill(t)
			last := acquire(t, root, Waiting{}) // it comes after the death
			assert.LessOrEqual(t, time.Since(third), 3*DefaultHeartbeat)
			require.NoError(t, last.Release())
			assert.Empty(t, staging(t, root))
		})
	}
}

// On the machine of the dead holder no process has to wait for three heartbeats.
func TestDeadProcessOfThisMachineIsReplacedAtOnce(t *testing.T) {
	posix(t, "it knows no dead processes")
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		l := acquire(t, root, Waiting{})
		l.kill(t)
		l.become(t, as(func(o *owner) { o.pid = deadPid }))
		begin := time.Now()
		next := acquire(t, root, Waiting{Limit: -1})
		assert.Zero(t, time.Since(begin))
		require.NoError(t, next.Release())
	})
}

// A claim without a holder was left by a process that was killed while it released it: no process waits for it.
func TestEmptyClaimHasNoHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		require.NoError(t, os.MkdirAll(claimPath(root, "thing", 7), 0o777))
		begin := time.Now()
		l := acquire(t, root, Waiting{})
		assert.Zero(t, time.Since(begin))
		require.NoError(t, l.Release())
		assert.Empty(t, staging(t, root))
	})
}

// A file that has the name of a claim keeps no process from the lease, and is swept after an hour.
func TestFilesInThePlaceOfAClaim(t *testing.T) {
	posix(t, "it has no pipes among files, and links for few")
	for what, put := range map[string]func(path string) error{
		"file": func(path string) error { return os.WriteFile(path, nil, 0o666) },
		"pipe": func(path string) error { return mkfifo(t, path) },
		"link": func(path string) error { return os.Symlink("nowhere", path) },
	} {
		t.Run(what, func(t *testing.T) {
			root := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(root, StagingDir), 0o777))
			path := claimPath(root, "thing", 1)
			require.NoError(t, put(path))
			l := acquire(t, root, Waiting{Limit: -1})
			require.NoError(t, build(root, Options{Lease: l}, publish))
			require.NoError(t, l.Release())
			assert.Len(t, staging(t, root), 1)
			for _, later := range []time.Duration{0, 2 * time.Hour} {
				list, err := Sweep(root, time.Now().Add(later), false)
				require.NoError(t, err)
				assert.Len(t, list, map[time.Duration]int{2 * time.Hour: 1}[later])
			}
			assert.Empty(t, staging(t, root))
		})
	}
}

// A claim that its holder could not remove is swept when the holder is dead.
func TestReleaseThatFails(t *testing.T) {
	posix(t, "it knows no dead processes")
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		opts := Options{Step: func(name, _ string) error {
			if name == "release" {
				return syscall.EIO
			}
			return nil
		}}
		l, err := Acquire(WithOptions(t.Context(), opts), root, "thing", never, Waiting{})
		require.NoError(t, err)
		require.ErrorIs(t, l.Release(), syscall.EIO)
		list, err := Sweep(root, time.Now(), false)
		require.NoError(t, err)
		assert.Empty(t, list, "its holder is alive")
		dead := as(func(o *owner) { o.pid = deadPid })
		l.become(t, dead)
		list, err = Sweep(root, time.Now(), false)
		require.NoError(t, err)
		require.Len(t, list, 1)
		assert.Equal(t, claimPath(root, "thing", 1), list[0].Path)
		assert.Equal(t, dead.describe(), list[0].Owner)
		assert.Empty(t, staging(t, root))
	})
}

// The fence: a holder that was only slow can no longer publish, create or replace anything, and the error says why.
func TestSlowHolderCannotPublishAfterItWasReplaced(t *testing.T) {
	for name, end := range map[string]func(*Dir) error{
		"publish": publish,
		"replace": func(d *Dir) error { return d.Replace("kind/name") },
		"write":   func(d *Dir) error { return d.Write("c", nil) },
		"new":     func(d *Dir) error { _, err := NewDir(d.root, d.opts); return err },
		"remove":  func(d *Dir) error { return d.opts.Remove(d.root, "kind/name", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				root := t.TempDir()
				slow := acquire(t, root, Waiting{})
				opts := Options{Lease: slow}
				d, err := NewDir(root, opts)
				require.NoError(t, err)
				require.NoError(t, d.Write("a", []byte("slow")))
				slow.kill(t)
				next := acquire(t, root, Waiting{})
				require.NoError(t, build(root, Options{Lease: next}, publish))
				if name == "new" || name == "remove" {
					require.NoError(t, next.Release())
					next = acquire(t, root, Waiting{}) // of the same generation as the slow one's
					require.Equal(t, filepath.Dir(slow.path), filepath.Dir(next.path))
					_, err := NewDir(root, Options{Lease: next})
					require.NoError(t, err)
				}
				require.ErrorIs(t, end(d), ErrLost)
				slow.revive()
				<-slow.Context().Done()
				require.ErrorIs(t, context.Cause(slow.Context()), ErrLost)
				require.NoError(t, slow.Release())
				assert.Equal(t, content, files(t, filepath.Join(root, "kind", "name")), "what the other one made")
				require.NoError(t, next.Context().Err())
				require.NoError(t, next.Release())
				assert.Empty(t, staging(t, root))
			})
		})
	}
}

// Of several processes that find a dead holder one takes over.
func TestOneProcessTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		acquire(t, root, Waiting{}).kill(t)
		var holders atomic.Int32
		for range 10 {
			go func() {
				l := acquire(t, root, Waiting{})
				assert.EqualValues(t, 1, holders.Add(1))
				time.Sleep(time.Second)
				holders.Add(-1)
				assert.NoError(t, l.Release())
			}()
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		assert.Empty(t, staging(t, root))
	})
}

// A look may be outdated by the time the claim is made: a process that has claimed the name since keeps its claim.
func TestClaimOnOutdatedLookIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		var second *Lease
		slow := Options{Step: func(name, _ string) error {
			if name == "claim" && second == nil { // it has seen nobody
				first := acquire(t, root, Waiting{})
				first.kill(t)
				second = acquire(t, root, Waiting{})
				require.Equal(t, claimPath(root, "thing", 2), filepath.Dir(second.path))
			}
			return nil
		}}
		_, err := Acquire(WithOptions(t.Context(), slow), root, "thing", never, Waiting{Limit: -1})
		require.ErrorIs(t, err, ErrBusy)
		require.NoError(t, second.Context().Err())
		require.NoError(t, second.Release())
		assert.Empty(t, staging(t, root))
	})
}

// A process that is slow to make its claim waits for one that was faster.
func TestSlowClaimantWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		var other *Lease
		slow := Options{Step: func(name, _ string) error {
			if name == "create" && other == nil {
				other = acquire(t, root, Waiting{})
			}
			return nil
		}}
		_, err := Acquire(WithOptions(t.Context(), slow), root, "thing", never, Waiting{Limit: time.Minute})
		require.ErrorIs(t, err, ErrBusy)
		require.NoError(t, other.Context().Err())
		require.NoError(t, other.Release())
		assert.Empty(t, staging(t, root))
	})
}

// A process that stops during a takeover, and goes on after another has taken over and released, removes nothing of the
// present holder, which may have a claim of the generation that it was about to remove.
func TestSlowTakeoverRemovesNoOtherHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		hold(t, root, 1, far())
		var last *Lease
		slow := Options{Step: func(name, path string) error {
			if name == "rename" && last == nil { // it is about to put the dead one away
				next := acquire(t, root, Waiting{}) // and is silent for so long that it is taken over itself
				require.NoError(t, next.Release())
				last = acquire(t, root, Waiting{})
				require.Equal(t, claimPath(root, "thing", 1), filepath.Dir(last.path))
			}
			return nil
		}}
		l, err := Acquire(WithOptions(t.Context(), slow), root, "thing", never, Waiting{})
		require.NoError(t, err)
		require.NoError(t, last.Context().Err())
		require.DirExists(t, last.path)
		require.NoError(t, build(root, Options{Lease: last}, publish))
		require.ErrorIs(t, build(root, Options{Lease: l}, publish), ErrLost)
		require.NoError(t, l.Release())
		require.NoError(t, last.Release())
		assert.Empty(t, staging(t, root))
	})
}

// A process killed between making the claim of the next generation and removing the old one says nothing about the old
// holder, which may still beat: neither when its death is known, nor when it is not.
func TestDeadClaimAboveLiveOneIsNotTakenOver(t *testing.T) {
	posix(t, "it knows no dead processes")
	for _, dead := range []owner{far(), as(func(o *owner) { o.pid = deadPid })} {
		synctest.Test(t, func(t *testing.T) {
			root := t.TempDir()
			first := acquire(t, root, Waiting{})
			hold(t, root, 2, dead)
			_, err := Acquire(t.Context(), root, "thing", never, Waiting{Limit: 10 * time.Minute})
			require.ErrorIs(t, err, ErrBusy)
			require.NoError(t, first.Context().Err())
			require.NoError(t, first.Release())
			begin := time.Now()
			next := acquire(t, root, Waiting{})
			if dead.pid == deadPid {
				assert.Zero(t, time.Since(begin))
			}
			require.NoError(t, next.Release())
			assert.Empty(t, staging(t, root))
		})
	}
}

// A file that an NFS client keeps, because a process has it open, is no error.
func TestRemoveAllLeavesNFSFiles(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o777))
	assert.False(t, hasOnlyNFSFiles(dir), "nothing is kept")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a", ".nfs0001"), nil, 0o666))
	assert.True(t, hasOnlyNFSFiles(dir))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a", "b", "f"), nil, 0o666))
	assert.False(t, hasOnlyNFSFiles(dir))
	assert.False(t, hasOnlyNFSFiles(filepath.Join(dir, "nothing")))
}

// The answer to a rename may be lost after the server has done it.
func TestRenameWhoseAnswerWasLost(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	require.NoError(t, os.Mkdir(a, 0o777))
	require.NoError(t, rename(a, b))
	require.ErrorIs(t, rename(a, b), os.ErrNotExist)
}

// A holder that beats between the judgement and the takeover keeps its claim.
func TestTakeoverStopsWhereTheHolderIsAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		first := acquire(t, root, Waiting{})
		first.kill(t)
		begin := time.Now()
		opts := Options{Step: func(name, path string) error {
			if name == "claim" && time.Since(begin) < 4*DefaultHeartbeat {
				require.NotEmpty(t, path)
				require.True(t, first.renew())
			}
			return nil
		}}
		l, err := Acquire(WithOptions(t.Context(), opts), root, "thing", never, Waiting{})
		require.NoError(t, err)
		assert.Greater(t, time.Since(begin), 5*DefaultHeartbeat, "the silence was counted anew")
		require.NoError(t, l.Release())
	})
}

// While the server is slow to answer, the holder does not count as silent.
func TestSlowServerIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		first := acquire(t, root, Waiting{})
		first.kill(t)
		looked := 0
		var answered time.Time
		hang := Options{Step: func(name, path string) error {
			if looked++; name == "mkdir" && looked <= 10 {
				time.Sleep(2 * DefaultHeartbeat)
				answered = time.Now()
			}
			return nil
		}}
		l, err := Acquire(WithOptions(t.Context(), hang), root, "thing", never, Waiting{})
		require.NoError(t, err)
		assert.Greater(t, time.Since(answered), 2*DefaultHeartbeat)
		require.NoError(t, l.Release())
	})
}

func TestLimitsOfWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		first := acquire(t, root, Waiting{})
		begin := time.Now()
		_, err := Acquire(t.Context(), root, "thing", never, Waiting{Limit: -1})
		require.ErrorIs(t, err, ErrBusy)
		assert.ErrorContains(t, err, fmt.Sprint("process ", os.Getpid()))
		assert.Zero(t, time.Since(begin))
		_, err = Acquire(t.Context(), root, "thing", never, Waiting{Limit: time.Minute})
		require.ErrorIs(t, err, ErrBusy)
		assert.InDelta(t, 60, time.Since(begin).Seconds(), 0.6)

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		_, err = Acquire(ctx, root, "thing", never, Waiting{})
		require.ErrorIs(t, err, context.Canceled)
		other, err := Acquire(t.Context(), root, "another", never, Waiting{Limit: -1})
		require.NoError(t, err, "names do not disturb each other")
		require.NoError(t, other.Release())
		require.NoError(t, first.Release())
	})
}

// Every step of a lease fails in turn: an error, and nothing is left that would keep a process waiting.
func TestEveryFailingStepOfALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, dead := range []bool{false, true} {
			for fail := 1; ; fail++ {
				root := t.TempDir()
				if dead {
					hold(t, root, 1, far())
				}
				w := &world{}
				opts := w.options()
				step := opts.Step
				opts.Step = func(name, path string) error {
					if err := step(name, path); err != nil {
						return err
					}
					steps := 0
					for _, s := range w.steps {
						if s != "mkdir "+StagingDir {
							steps++
						}
					}
					if name != "mkdir" && steps == fail {
						return errFull
					}
					return nil
				}
				l, err := Acquire(WithOptions(t.Context(), opts), root, "thing", never, Waiting{})
				if err == nil {
					if err = l.Release(); err == nil {
						assert.Greater(t, fail, 2)
						break
					}
					require.ErrorIs(t, err, errFull) // and its claim stays
					continue
				}
				require.ErrorIs(t, err, errFull)
				left := staging(t, root)
				if dead {
					left = left[1:]
				}
				assert.Empty(t, left, "step %d of %v", fail, w.steps)
			}
		}
	})
}

// One failing heartbeat does not lose the lease: the next one may succeed.
func TestFailingHeartbeatIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		beats := 0
		opts := Options{Step: func(name, _ string) error {
			if name == "beat" {
				if beats++; beats%2 == 0 {
					return syscall.EIO
				}
			}
			return nil
		}}
		l, err := Acquire(WithOptions(t.Context(), opts), t.TempDir(), "thing", never, Waiting{})
		require.NoError(t, err)
		time.Sleep(10*DefaultHeartbeat + 1)
		synctest.Wait()
		assert.Equal(t, 10, beats)
		assert.NoError(t, l.Context().Err())
		assert.Equal(t, 5, l.count)
		require.NoError(t, l.Release())
	})
}

// The answer to a heartbeat may be lost after the server has done it.
func TestHeartbeatWhoseAnswerWasLost(t *testing.T) {
	l := acquire(t, t.TempDir(), Waiting{})
	require.NoError(t, os.Rename(heartbeatPath(l.path, 0), heartbeatPath(l.path, 1)))
	assert.True(t, l.renew())
	assert.Equal(t, 1, l.count)
	require.NoError(t, l.Release())
}

// What is made under a lease's context lies under the lease, and only below its root.
func TestLeaseTravelsInItsContext(t *testing.T) {
	root := t.TempDir()
	l := acquire(t, root, Waiting{})
	opts := OptionsOf(l.Context())
	d, err := NewDir(root, opts)
	require.NoError(t, err)
	assert.Equal(t, l.path, filepath.Dir(d.path))
	other := t.TempDir()
	_, err = NewDir(other, opts)
	require.ErrorContains(t, err, other+": the lease on thing is for "+root)
	require.NoError(t, l.Release())
	assert.Equal(t, Options{}, OptionsOf(t.Context()))
}
